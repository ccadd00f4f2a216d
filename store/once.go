package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// OnceState is how far the first request under an Idempotency-Key has come.
type OnceState uint8

const (
	OnceOpen OnceState = 1 // claimed; no answer was kept so far
	OnceKept OnceState = 2 // the answer is there
	OnceLost OnceState = 3 // it ended, and its answer was too large to keep
)

// Once is a claim to an Idempotency-Key: the first request that came with it.
type Once struct {
	ID        [32]byte // OnceID of the API key and the value
	State     OnceState
	RequestID string // of the first request
	Route     string
	Body      [32]byte // SHA-256 of what was asked
	Created   time.Time
	Expires   time.Time
	Answer    *OnceAnswer // of OnceKept
}

// OnceAnswer is an answer as it was sent.
type OnceAnswer struct {
	Status      int
	ContentType string
	Header      [][2]string
	Cut         bool // it broke off after Body
	Body        []byte
}

// Bounds of what is kept for repeats.
const (
	MaxOnceAnswer  = 8 << 20 // bytes of one body
	maxOnceHeaders = 64
	maxOnce        = 1_000_000 // claims at once
	onceLayout     = 1
	onceSweep      = 1000 // claims that one transaction of a sweep drops
)

// OnceID is the place of a caller's Idempotency-Key. The value itself is not
// kept: callers put what they like into it.
func OnceID(keyID, value string) [32]byte {
	h := sha256.New()
	h.Write([]byte("hearth idempotency key 1\x00" + keyID + "\x00" + value))
	return [32]byte(h.Sum(nil))
}

// IdempotencyMark is what a row says of the Idempotency-Key of an API key's
// request: the same for every repeat; empty if there was none.
func IdempotencyMark(keyID, value string) string {
	if value == "" {
		return ""
	}
	sum := OnceID(keyID, value)
	return hex.EncodeToString(sum[:16])
}

func (o *Once) encode() []byte {
	b := []byte{onceLayout, byte(o.State)}
	b = appendString(b, o.RequestID)
	b = appendString(b, o.Route)
	b = append(b, o.Body[:]...)
	b = appendTime(b, o.Created)
	b = appendTime(b, o.Expires)
	if o.State == OnceKept {
		a := o.Answer
		b = binary.AppendUvarint(b, uint64(a.Status))
		b = appendString(b, a.ContentType)
		b = binary.AppendUvarint(b, uint64(len(a.Header)))
		for _, h := range a.Header {
			b = appendString(appendString(b, h[0]), h[1])
		}
		b = appendBool(b, a.Cut)
		b = binary.AppendUvarint(b, uint64(len(a.Body)))
		b = append(b, a.Body...)
	}
	return seal(o.ID[:], b)
}

func onceName(id []byte) string { return fmt.Sprintf("idempotency claim %.16x", id) }

// decodeOnce reads a claim. Of the result only Answer.Body aliases v.
func decodeOnce(id, v []byte) (*Once, error) {
	name := onceName(id)
	v, err := unseal(name, id, v)
	if err != nil {
		return nil, err
	}
	d := &decoder{b: v}
	if layout := d.byte(); layout != onceLayout {
		d.fail("layout is %d, want %d", layout, onceLayout)
	}
	o := &Once{State: OnceState(d.byte())}
	if d.err == nil && (len(id) != len(o.ID) || o.State < OnceOpen || o.State > OnceLost) {
		d.fail("its id has %d bytes, its state is %d", len(id), o.State)
	}
	copy(o.ID[:], id)
	o.RequestID, o.Route = d.string(), d.string()
	copy(o.Body[:], d.bytes(len(o.Body)))
	o.Created, o.Expires = d.time(), d.time()
	if o.State == OnceKept {
		a := &OnceAnswer{Status: d.count(maxStatus), ContentType: d.string()}
		if n := d.count(maxOnceHeaders); n > 0 && d.err == nil {
			a.Header = make([][2]string, n)
			for i := range a.Header {
				a.Header[i] = [2]string{d.string(), d.string()}
			}
		}
		a.Cut = d.bool()
		a.Body = d.bytes(d.count(MaxOnceAnswer))
		o.Answer = a
	}
	if err := d.end(); err != nil {
		return nil, &DamageError{name, err}
	}
	return o, nil
}

// dueKey orders claims by their end.
func (o *Once) dueKey() []byte {
	return append(be64(uint64(o.Expires.UnixNano())), o.ID[:]...)
}

// onceTotals is what the claims come to; guarded by Store.mu.
type onceTotals struct {
	n     int
	bytes int64
}

// loadOnce sums the claims up, without reading their answers.
func loadOnce(tx *bolt.Tx) (onceTotals, error) {
	var t onceTotals
	err := tx.Bucket(bucketOnceDue).ForEach(func(k, v []byte) error {
		if len(k) != 40 || len(v) != 8 {
			return &DamageError{"the list of idempotency claims", fmt.Errorf("it has an entry of %d and %d bytes", len(k), len(v))}
		}
		t.n++
		t.bytes += int64(binary.BigEndian.Uint64(v))
		return nil
	})
	return t, err
}

// putOnce writes a claim and counts it.
func (w *writer) putOnce(o *Once) {
	data := o.encode()
	w.mark(w.tx.Bucket(bucketOnce).Put(o.ID[:], data))
	w.mark(w.tx.Bucket(bucketOnceDue).Put(o.dueKey(), be64(uint64(len(data)))))
	w.s.once.n++
	w.s.once.bytes += int64(len(data))
}

// dropOnce removes a claim and what it counts.
func (w *writer) dropOnce(o *Once) {
	due := w.tx.Bucket(bucketOnceDue)
	if v := due.Get(o.dueKey()); len(v) == 8 {
		w.s.once.n--
		w.s.once.bytes -= int64(binary.BigEndian.Uint64(v))
	}
	w.mark(due.Delete(o.dueKey()))
	w.mark(w.tx.Bucket(bucketOnce).Delete(o.ID[:]))
}

// ClaimOnce claims an Idempotency-Key for a request, durably, until o.Expires.
// If another request has it, that claim is returned and nothing changes, unless
// it has expired or is still open for the request called dead. maxBytes bounds
// what all claims together may take; beyond it the error is CodeOverloaded.
func (s *Store) ClaimOnce(ctx context.Context, o Once, dead string, maxBytes int64) (*Once, error) {
	if !plain(o.RequestID, maxRequestID) || len(o.Route) > maxString || !o.Expires.After(s.now()) {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot claim an idempotency key for this request")
	}
	o.State, o.Answer, o.Created, o.Expires = OnceOpen, nil, stamp(s.now()), stamp(o.Expires)
	var first *Once
	err := s.do(ctx, newOp(opOther, func(w *writer) error {
		old, err := w.onceAt(o.ID)
		if err != nil {
			return readError(err)
		}
		gone := old == nil || !old.Expires.After(w.now) || old.State == OnceOpen && old.RequestID == dead
		if !gone {
			first = old
			if a := old.Answer; a != nil {
				a.Body = bytes.Clone(a.Body)
			}
			return nil
		}
		if w.s.once.n >= maxOnce || maxBytes > 0 && w.s.once.bytes >= maxBytes {
			return &infer.Error{Code: infer.CodeOverloaded, RetryAfter: time.Minute,
				Message: "no more answers can be kept for idempotency keys now"}
		}
		if old != nil {
			w.dropOnce(old)
		}
		w.putOnce(&o)
		return nil
	}))
	return first, err
}

func (w *writer) onceAt(id [32]byte) (*Once, error) {
	v := w.tx.Bucket(bucketOnce).Get(id[:])
	if v == nil {
		return nil, nil
	}
	return decodeOnce(id[:], v)
}

// KeepOnce keeps the answer to a claimed request, durably. An answer that is
// nil, too large, or more than fits below maxBytes leaves the claim in state
// OnceLost. The error is CodeNotFound wrapping fs.ErrNotExist if the claim is
// not open for that request.
func (s *Store) KeepOnce(id [32]byte, requestID string, a *OnceAnswer, maxBytes int64) error {
	if a != nil && (len(a.Body) > MaxOnceAnswer || len(a.Header) > maxOnceHeaders || a.Status < 0 || a.Status > maxStatus) {
		a = nil
	}
	if a != nil {
		kept := *a
		kept.ContentType = clip(a.ContentType, maxString)
		kept.Header = slices.Clone(a.Header)
		for i, h := range kept.Header {
			kept.Header[i] = [2]string{clip(h[0], maxString), clip(h[1], maxString)}
		}
		a = &kept
	}
	return s.changeOnce(id, requestID, func(w *writer, o *Once) {
		w.dropOnce(o)
		if o.State, o.Answer = OnceKept, a; a == nil || maxBytes > 0 && w.s.once.bytes+int64(len(a.Body)) > maxBytes {
			o.State, o.Answer = OnceLost, nil
		}
		w.putOnce(o)
	})
}

// ForgetOnce gives a claim up. Errors as of KeepOnce.
func (s *Store) ForgetOnce(id [32]byte, requestID string) error {
	return s.changeOnce(id, requestID, func(w *writer, o *Once) { w.dropOnce(o) })
}

func (s *Store) changeOnce(id [32]byte, requestID string, change func(*writer, *Once)) error {
	return s.do(context.Background(), newOp(opOther, func(w *writer) error {
		o, err := w.onceAt(id)
		if err != nil {
			return readError(err)
		}
		if o == nil || o.State != OnceOpen || o.RequestID != requestID {
			return &infer.Error{Code: infer.CodeNotFound, Message: "the idempotency key is not claimed by this request", Cause: fs.ErrNotExist}
		}
		change(w, o)
		return nil
	}))
}

// SweepOnce drops claims that have expired, and gives their number.
func (s *Store) SweepOnce(ctx context.Context) (int, error) {
	total := 0
	for {
		n := 0
		err := s.do(ctx, newOp(opOther, func(w *writer) error {
			var ids [][]byte
			c := w.tx.Bucket(bucketOnceDue).Cursor()
			now := be64(uint64(w.now.UnixNano()))
			for k, _ := c.First(); k != nil && len(ids) < onceSweep && bytes.Compare(k[:8], now) <= 0; k, _ = c.Next() {
				ids = append(ids, bytes.Clone(k))
			}
			for _, k := range ids {
				o := &Once{Expires: time.Unix(0, int64(binary.BigEndian.Uint64(k)))}
				copy(o.ID[:], k[8:])
				w.dropOnce(o)
			}
			n = len(ids)
			return nil
		}))
		if total += n; err != nil || n < onceSweep {
			return total, err
		}
	}
}

// once compares the claims with the list that orders them.
func (c *checker) once(tx *bolt.Tx) {
	due := tx.Bucket(bucketOnceDue)
	n, listed := 0, 0
	err := tx.Bucket(bucketOnce).ForEach(func(id, v []byte) error {
		n++
		o, err := decodeOnce(id, v)
		if err != nil {
			c.fault(0, "", "%v", err)
			return nil
		}
		if got := due.Get(o.dueKey()); len(got) != 8 || binary.BigEndian.Uint64(got) != uint64(len(v)) {
			c.fault(0, o.RequestID, "its idempotency claim is not listed with its size")
		}
		return nil
	})
	err = errors.Join(err, due.ForEach(func(_, _ []byte) error { listed++; return nil }))
	if err != nil || n != listed {
		c.fault(0, "", "%d idempotency claims are listed, there are %d (%v)", listed, n, err)
	}
	c.rep.Once = n
}
