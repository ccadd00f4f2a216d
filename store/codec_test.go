package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func fullRow() *Row {
	at := time.Unix(1_800_000_000, 123_456_789).UTC()
	return &Row{
		Opening: Opening{RequestID: "req-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Tenant: "acme", KeyID: "abcdefghijkl",
			Operation: "chat", Model: "gpt-4o", Route: "nice", Class: "batch", Stream: true, Started: at, Contract: "c0ffee",
			Revision: "r17", Idempotency: "0123456789abcdef", Price: Price{"2026-11", 1_000, 100, 1_250, 2_500, 2_000}},
		Result: Result{Outcome: OutcomePartial, Finish: "length", ErrorCode: "upstream_error", Backend: "local",
			Attempts: []Attempt{
				{"east", "openai", "tiny", at, time.Second, OutcomeError, "unavailable", "req_up", "overload", 529, false},
				{"local", "local", "tiny", at, 2 * time.Second, OutcomePartial, "", "", "", 0, true}},
			Usage: Usage{10, 20, 30, 35, 40, 5, true}, TTFT: 123 * time.Millisecond, Ended: at.Add(3 * time.Second),
			Termination: TermUpstreamLost, Losses: []string{"seed=dropped"}, Decisions: []string{"pii=redact", "size=allow"}},
		HoldNano: 500, ChargeNano: 700, OverdraftNano: 200, HoldSeq: 41,
	}
}

func fullRecord() *Record {
	return &Record{Seq: 42, Kind: KindSettle, At: time.Unix(1_800_000_003, 1).UTC(), Prev: [32]byte{1, 2, 31: 9}, RequestID: "req-1",
		Postings: []Posting{{"tenant/acme/day", "2027-01-15", 1_000, -500, 500}, {"key/abcdefghijkl/total", "total", math.MaxInt64, -500, 500}},
		Row:      fullRow()}
}

func TestRecordRoundTrip(t *testing.T) {
	r := fullRecord()
	r.Row.place(r)
	got, err := decodeRecord(appendRecord(nil, r))
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("got  %+v %+v\nwant %+v %+v\n%v", got, got.Row, r, r.Row, err)
	}
	for n := range len(appendRecord(nil, r)) {
		if _, err := decodeRecord(appendRecord(nil, r)[:n]); err == nil {
			t.Errorf("cut to %d bytes it still decodes", n)
		}
	}
}

// TestRecordLayoutIsPinned keeps files of this schema readable: the bytes of a
// record may not change without a new layout number.
func TestRecordLayoutIsPinned(t *testing.T) {
	r := fullRecord()
	r.Row.place(r)
	got := hex.EncodeToString(appendRecord(nil, r))
	const path = "testdata/record-2.hex"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; the record now is\n%s", err, got)
	}
	if got != strings.TrimSpace(string(want)) {
		t.Errorf("the layout changed:\n%s", got)
	}
}

// TestRowNamesItsFields shows that every field survives, by filling each at
// random.
func TestRowNamesItsFields(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		rec := &Record{Seq: r.Uint64(), Kind: []Kind{KindSettle, KindRelease, KindExpire, KindNote}[r.IntN(4)],
			At: time.Unix(0, r.Int64()).UTC(), RequestID: "x", Row: &Row{}}
		if r.IntN(4) == 0 {
			rec.Kind, rec.Audit = KindCorrect, &Audit{"a", "b", "c", "d"}
		}
		fill(r, reflect.ValueOf(rec.Row).Elem())
		rec.Row.ServedContract, rec.Row.ServedPrice = "", nil
		rec.Row.RequestID = rec.RequestID
		rec.Row.place(rec)
		got, err := decodeRecord(appendRecord(nil, rec))
		if err != nil || !reflect.DeepEqual(got.Row, rec.Row) {
			t.Fatalf("got  %+v\nwant %+v\n%v", got.Row, rec.Row, err)
		}
	}
}

func fill(r *rand.Rand, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(0, 1+r.Int64()).UTC()
		return
	case *Outcome:
		*x = outcomes[1+r.IntN(len(outcomes)-1)]
		return
	case *[]Posting, **Price:
		return
	case *int: // an HTTP status
		*x = r.IntN(maxStatus)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		if n := r.IntN(3); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(r, v.Index(i))
			}
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", r.IntN(8)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	default:
		panic("a field of a kind that the test does not know: " + v.Type().String())
	}
}

// recordOf is a record of each kind.
func recordOf(k Kind) *Record {
	r := fullRecord()
	r.Kind = k
	switch {
	case !k.hasRow():
		r.Row = nil
	case k == KindHold:
		r.Row.Result = Result{Outcome: OutcomeOpen}
	}
	if k == KindAudit {
		r.RequestID, r.Postings = "", nil
	}
	if k.hasAudit() {
		r.Audit = &Audit{"admin socket", "ledger/resolve", "req-1", "the provider's invoice has it"}
	}
	return r
}

// TestLayout1IsRead reads a record as it was written before rows grew.
func TestLayout1IsRead(t *testing.T) {
	old, err := os.ReadFile("testdata/record-1.hex")
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(old)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	want := fullRecord()
	r := want.Row
	r.place(want)
	r.Revision, r.Idempotency, r.Termination, r.Losses, r.Decisions = "", "", "", nil, nil
	r.Price.CacheWriteHour, r.Usage.CacheWriteHour = 0, 0
	for i := range r.Attempts {
		a := &r.Attempts[i]
		*a = Attempt{Backend: "local", Model: a.Model, Started: a.Started, Took: a.Took, Outcome: a.Outcome, ErrorCode: a.ErrorCode, Sent: true}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.Row, want, want.Row)
	}
}

// FuzzRecord decodes arbitrary payloads under a right checksum, since a wrong
// one would end each try at once. What decodes must encode to what decodes the
// same.
func FuzzRecord(f *testing.F) {
	for k := KindHold; k.valid(); k++ {
		f.Add(byte(k), byte(recordLayout), appendPayload(nil, recordOf(k)))
	}
	old, err := os.ReadFile("testdata/record-1.hex")
	if err != nil {
		f.Fatal(err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(old)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[1], b[0], b[recordHeader:len(b)-recordTrailer])
	f.Add(byte(1), byte(1), []byte("\x01x\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, kind, layout byte, payload []byte) {
		if len(payload) > maxPayload || !Kind(kind).valid() || layout == 0 || layout > recordLayout {
			return
		}
		r := &Record{Kind: Kind(kind), Seq: 7}
		if decodePayload(payload, layout, r) != nil {
			return
		}
		again, err := decodeRecord(appendRecord(nil, r))
		if err != nil {
			t.Fatalf("it does not decode again: %v", err)
		}
		if !bytes.Equal(appendRecord(nil, again), appendRecord(nil, r)) {
			t.Fatal("it encodes differently the second time")
		}
	})
}

// FuzzStored gives arbitrary bytes to every decoder of a stored value.
func FuzzStored(f *testing.F) {
	f.Add(appendRecord(nil, fullRecord()))
	f.Add((&Once{State: OnceKept, RequestID: "r", Answer: someAnswer}).encode())
	f.Add(encodePoint(1, [32]byte{2}))
	f.Add((&balance{spent: 3}).encode("k"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = decodeRecord(b)
		_, _, _ = decodePoint("x", b)
		_, _ = decodeBalance("k", b)
		_, _ = decodeKey([]byte("k"), b)
		_, _ = openBlob([]byte("b"), "k", b)
		_, _ = decodeOnce(make([]byte, 32), b)
		_, _, _ = splitCredential(string(b))
	})
}

// FuzzPages walks arbitrary bytes as a tree of pages.
func FuzzPages(f *testing.F) {
	page := make([]byte, 3*1024)
	page[2048] = 2
	page[2048+8] = leafPage
	f.Add(page)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newPageWalk(bytes.NewReader(b), 1024, uint64(len(b))/1024)
		_ = w.tree(2, nil, nil, 0)
	})
}

func TestRowAsJSON(t *testing.T) {
	r := fullRecord()
	r.Row.place(r)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	back.Prev = r.Prev
	if !reflect.DeepEqual(&back, r) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", back, back.Row, r, r.Row)
	}
}

func TestClip(t *testing.T) {
	for _, c := range [][2]string{{"abc", "abc"}, {"abcdefgh", "abcde"}, {"abcdé", "abcd"}, {"a\xffb", "a\uFFFDb"}, {"", ""}} {
		if got := clip(c[0], 5); got != c[1] {
			t.Errorf("%q: got %q, want %q", c[0], got, c[1])
		}
	}
}

func TestChargeOf(t *testing.T) {
	f := func(p Price, u Usage, want int64, fails bool) {
		t.Helper()
		got, err := ChargeOf(p, u)
		if got != want || (err != nil) != fails {
			t.Errorf("%+v %+v: got %d, %v, want %d", p, u, got, err, want)
		}
	}
	f(Price{Input: 37_500_000}, Usage{FreshInput: 1}, 38, false) // 37.5, rounded up
	f(Price{Input: 37_500_000}, Usage{FreshInput: 2}, 75, false)
	f(Price{Input: 1, Output: 1}, Usage{FreshInput: 1, Output: 1}, 1, false) // once, on the sum
	f(Price{}, Usage{FreshInput: 9}, 0, false)
	f(Price{Output: math.MaxInt64}, Usage{Output: 1_000_000}, math.MaxInt64, false)
	f(Price{Output: math.MaxInt64}, Usage{Output: 1_000_001}, 0, true)
	f(Price{Output: math.MaxInt64, Input: math.MaxInt64}, Usage{Output: math.MaxInt64, FreshInput: math.MaxInt64}, 0, true)
	f(Price{Output: -1}, Usage{Output: 1}, 0, true)
	f(Price{Output: 1}, Usage{Output: -1}, 0, true)
}
