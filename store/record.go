package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Kind of a ledger record.
type Kind uint8

const (
	KindHold      Kind = 1 // held += amount
	KindSettle    Kind = 2 // held -= amount, spent += charge up to the amount
	KindRelease   Kind = 3 // held -= amount
	KindExpire    Kind = 4 // held -= amount, spent += amount
	KindOverdraft Kind = 5 // spent += charge beyond the amount
	KindNote      Kind = 6 // a row without a hold
	KindCorrect   Kind = 7 // spent += change of the charge; replaces the row of an ended request
	KindAudit     Kind = 8 // somebody changed something other than money
)

var kindNames = [...]string{KindHold: "hold", KindSettle: "settle", KindRelease: "release",
	KindExpire: "expire", KindOverdraft: "overdraft", KindNote: "note", KindCorrect: "correct", KindAudit: "audit"}

func (k Kind) valid() bool { return k >= KindHold && k <= KindAudit }

// hasRow says whether a record of this kind carries a row.
func (k Kind) hasRow() bool { return k != KindOverdraft && k != KindAudit }

// hasAudit says whether a record of this kind says who made it.
func (k Kind) hasAudit() bool { return k == KindCorrect || k == KindAudit }

// ends says that a record of this kind ends a hold.
func (k Kind) ends() bool { return k == KindSettle || k == KindRelease || k == KindExpire }

func (k Kind) String() string {
	if !k.valid() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// MarshalText makes kinds words in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(b []byte) error {
	for i := KindHold; i <= KindAudit; i++ {
		if kindNames[i] == string(b) {
			*k = i
			return nil
		}
	}
	return fmt.Errorf("cannot read record kind %q", b)
}

// Posting is the effect of a record on one budget window, in nano-USD.
type Posting struct {
	Budget    string `json:"budget"`
	Window    string `json:"window"`
	CapNano   int64  `json:"cap_nano"`   // in force when the hold was made
	HeldNano  int64  `json:"held_nano"`  // change of held
	SpentNano int64  `json:"spent_nano"` // change of spent
}

// Record is one link of the ledger's chain.
type Record struct {
	Seq       uint64    `json:"seq"`
	Kind      Kind      `json:"kind"`
	At        time.Time `json:"at"`         // wall clock when written; may run backwards
	Prev      [32]byte  `json:"-"`          // SHA-256 of the predecessor's bytes
	RequestID string    `json:"request_id"` // empty in an audit
	Postings  []Posting `json:"postings,omitempty"`
	Row       *Row      `json:"row,omitempty"`   // opening half in a hold, whole at the end, nil in an overdraft
	Audit     *Audit    `json:"audit,omitempty"` // of a correction or an audit
}

// Audit says who changed what, and why.
type Audit struct {
	Actor   string `json:"actor"`   // "command line", "admin socket"…
	Action  string `json:"action"`  // "key/create", "ledger/resolve"…
	Subject string `json:"subject"` // id of what was changed
	Detail  string `json:"detail,omitempty"`
}

// Layout of a record, little endian:
//
//	0   1  layout version; 1 is still read
//	1   1  kind
//	2   2  zero
//	4   4  n, the length of the payload
//	8   8  seq
//	16  8  at, Unix nanoseconds
//	24  32 prev
//	56  n  payload
//	56+n 4 CRC-32C of all before it
//
// The hash that the next record carries is SHA-256 over all of these bytes.
const (
	recordLayout  = 2
	recordHeader  = 56
	recordTrailer = 4
	maxPayload    = 1 << 20
)

// DamageError names a stored item that does not match its checksum or its
// place. Nothing in it is used.
type DamageError struct {
	What string // "ledger record 17", "balance tenant/a/day 2026-01-01"
	Why  error
}

func (e *DamageError) Error() string { return e.What + " is damaged: " + e.Why.Error() }
func (e *DamageError) Unwrap() error { return e.Why }

// appendRecord encodes r. It panics on a record that its own decoder would
// refuse: the callers check before.
func appendRecord(b []byte, r *Record) []byte {
	start := len(b)
	b = append(b, recordLayout, byte(r.Kind), 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.Seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.At.UnixNano()))
	b = append(b, r.Prev[:]...)
	b = appendPayload(b, r)
	n := len(b) - start - recordHeader
	if n > maxPayload || !r.Kind.valid() || r.Kind.hasAudit() != (r.Audit != nil) || r.Kind.hasRow() != (r.Row != nil) {
		panic(fmt.Sprintf("BUG: a %s record with %d bytes of payload", r.Kind, n))
	}
	binary.LittleEndian.PutUint32(b[start+4:], uint32(n))
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// decodeRecord reads one whole record and checks everything that can be checked
// without its neighbours.
func decodeRecord(b []byte) (*Record, error) {
	if len(b) < recordHeader+recordTrailer {
		return nil, errShort
	}
	body, sum := b[:len(b)-recordTrailer], binary.LittleEndian.Uint32(b[len(b)-recordTrailer:])
	if got := checksum(body); got != sum {
		return nil, fmt.Errorf("checksum is %08x, want %08x", got, sum)
	}
	if b[0] == 0 || b[0] > recordLayout {
		return nil, fmt.Errorf("layout is %d, want 1 to %d", b[0], recordLayout)
	}
	if n := binary.LittleEndian.Uint32(b[4:]); uint64(n) != uint64(len(body)-recordHeader) {
		return nil, fmt.Errorf("payload length is %d, want %d", n, len(body)-recordHeader)
	}
	if b[2] != 0 || b[3] != 0 {
		return nil, errors.New("reserved bytes are not zero")
	}
	r := &Record{
		Kind: Kind(b[1]),
		Seq:  binary.LittleEndian.Uint64(b[8:]),
		At:   time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:]))).UTC(),
		Prev: [32]byte(b[24:56]),
	}
	if !r.Kind.valid() {
		return nil, fmt.Errorf("unknown %s", r.Kind)
	}
	if err := decodePayload(body[recordHeader:], b[0], r); err != nil {
		return nil, err
	}
	return r, nil
}

func recordHash(b []byte) [32]byte { return sha256.Sum256(b) }

func appendPayload(b []byte, r *Record) []byte {
	b = appendString(b, r.RequestID)
	b = binary.AppendUvarint(b, uint64(len(r.Postings)))
	for _, p := range r.Postings {
		b = appendString(b, p.Budget)
		b = appendString(b, p.Window)
		b = binary.AppendVarint(b, p.CapNano)
		b = binary.AppendVarint(b, p.HeldNano)
		b = binary.AppendVarint(b, p.SpentNano)
	}
	b = appendBool(b, r.Row != nil)
	if r.Row != nil {
		b = appendRow(b, r.Row)
	}
	if a := r.Audit; a != nil {
		for _, s := range [...]string{a.Actor, a.Action, a.Subject, a.Detail} {
			b = appendString(b, s)
		}
	}
	return b
}

func decodePayload(b []byte, layout byte, r *Record) error {
	if layout == 1 && r.Kind > KindNote {
		return fmt.Errorf("layout 1 has no %s", r.Kind)
	}
	d := &decoder{b: b}
	r.RequestID = d.string()
	if d.err == nil && (r.RequestID == "") != (r.Kind == KindAudit) || len(r.RequestID) > maxRequestID {
		d.fail("request id of a %s has %d bytes, want at most %d", r.Kind, len(r.RequestID), maxRequestID)
	}
	if n := d.count(maxPostings); n > 0 {
		r.Postings = make([]Posting, n)
		for i := range r.Postings {
			r.Postings[i] = Posting{d.string(), d.string(), d.varint(), d.varint(), d.varint()}
		}
	}
	if hasRow := d.bool(); hasRow != r.Kind.hasRow() && d.err == nil {
		d.fail("a %s record with row = %t", r.Kind, hasRow)
	} else if hasRow {
		r.Row = decodeRow(d, layout)
		r.Row.RequestID = r.RequestID
		r.Row.Seq = r.Seq
		r.Row.Budgets = r.Postings
		if r.Kind == KindHold {
			r.Row.HoldSeq = r.Seq
		}
	}
	if r.Kind.hasAudit() {
		r.Audit = &Audit{d.string(), d.string(), d.string(), d.string()}
	}
	return d.end()
}
