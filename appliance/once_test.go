package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// run serves an admitted request to its end, or until leave events have come.
func (b *testbed) run(g *web.Grant, leave int) {
	n := 0
	for _, err := range b.Call(context.Background(), g, chat("m")) {
		if n++; err != nil || n == leave {
			return
		}
	}
}

var wholeAnswer = web.Replay{Status: 200, ContentType: "text/plain", Header: map[string]string{"X-Hearth-Contract": "c"}, Body: []byte("hello")}

func (b *testbed) claim(g *web.Grant, body byte) (web.Recording, *web.Replay, *infer.Error) {
	b.t.Helper()
	rec, a, err := b.Claim(context.Background(), g, "key", "POST /x", [32]byte{body})
	if err != nil {
		return nil, nil, infer.AsError(err)
	}
	return rec, a, nil
}

func wantConflict(t *testing.T, err *infer.Error, again bool, words string) {
	t.Helper()
	if err == nil || err.Code != infer.CodeConflict || (err.RetryAfter > 0) != again || err.NoRetry == again || !strings.Contains(err.Message, words) {
		t.Errorf("got %+v, want a conflict about %q", err, words)
	}
}

// TestClaim goes through the life of an idempotency key.
func TestClaim(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	first := b.admit()
	rec, _, err := b.claim(first, 1)
	if err != nil || rec.Limit() != 1<<20 {
		t.Fatalf("first: %v", err)
	}
	second := b.admit()
	_, _, err = b.claim(second, 1)
	wantConflict(t, err, true, "still open")
	_, _, err = b.claim(second, 2)
	wantConflict(t, err, false, "another request")
	b.run(first, 0)
	if err := rec.Keep(wholeAnswer); err != nil {
		t.Fatal(err)
	}
	first.Release()
	_, a, err := b.claim(second, 1)
	if err != nil || a == nil || string(a.Body) != "hello" || a.RequestID != first.RequestID || a.Header["X-Hearth-Contract"] != "c" {
		t.Fatalf("replay: %+v, %v", a, err)
	}
	second.Release()
	if _, err := b.store.Show(context.Background(), second.RequestID); err == nil {
		t.Error("the repeat has a row")
	}
}

// TestClaimOfADeadRequest takes over where nothing was charged, and says so
// where something was.
func TestClaimOfADeadRequest(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	dead := b.admit()
	if _, _, err := b.claim(dead, 1); err != nil {
		t.Fatal(err)
	}
	dead.Release() // it never came to a hold
	next := b.admit()
	if rec, a, err := b.claim(next, 1); err != nil || rec == nil || a != nil {
		t.Fatalf("not taken over: %v", err)
	}
	b.run(next, 0) // charged, but its answer is never kept
	next.Release()
	third := b.admit()
	_, _, err := b.claim(third, 1)
	wantConflict(t, err, false, "its answer was lost: see request "+next.RequestID)
	third.Release()
}

func TestClaimOfAnUnknownOutcome(t *testing.T) {
	b := newTestbed(t)
	dead := b.admit()
	if _, _, err := b.claim(dead, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Hold(context.Background(), store.HoldRequest{Opening: store.Opening{RequestID: dead.RequestID}, AmountNano: 7}); err != nil {
		t.Fatal(err)
	}
	dead.Release()
	next := b.admit()
	_, _, err := b.claim(next, 1)
	wantConflict(t, err, true, "still open")
	if _, err := b.store.Ambiguous(dead.RequestID, store.Result{}); err != nil {
		t.Fatal(err)
	}
	_, _, err = b.claim(next, 1)
	wantConflict(t, err, false, "is not known")
	next.Release()
}

// TestClaimIsForgotten runs a request again that failed without a charge, and
// keeps what was partly delivered.
func TestClaimIsForgotten(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = then(0, infer.Errorf(infer.CodeOverloaded, "full"))
	g := b.admit()
	rec, _, err := b.claim(g, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.run(g, 0)
	if err := rec.Keep(web.Replay{Status: 503, Body: []byte("full")}); err != nil {
		t.Fatal(err)
	}
	g.Release()
	b.fake.generate = words(50)
	g = b.admit()
	if rec, _, err = b.claim(g, 1); err != nil {
		t.Fatalf("not run again: %v", err)
	}
	b.run(g, 4) // the caller leaves
	if err := rec.Keep(web.Replay{Status: 200, Body: []byte("so far"), Cut: true}); err != nil {
		t.Fatal(err)
	}
	g.Release()
	g = b.admit()
	if _, a, err := b.claim(g, 1); err != nil || a == nil || !a.Cut {
		t.Errorf("what was delivered in part: %+v, %v", a, err)
	}
	g.Release()
}

// TestRepeatOverHTTP asks twice over the wire: one row, one charge, one answer.
func TestRepeatOverHTTP(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(5)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its own authority
	defer client.CloseIdleConnections()
	var bodies [][]byte
	for i := range 3 {
		r, err := http.NewRequest("POST", b.baseURL()+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "order 66")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || (res.Header.Get("X-Hearth-Replayed") != "") != (i > 0) {
			t.Fatalf("%d: %d %v %s, %v", i, res.StatusCode, res.Header, body, err)
		}
		bodies = append(bodies, body)
	}
	if !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[0], bodies[2]) || !bytes.HasSuffix(bodies[0], []byte("data: [DONE]\n\n")) {
		t.Errorf("the answers differ: %q", bodies)
	}
	p, err := b.store.List(context.Background(), store.Filter{})
	if err != nil || len(p.Rows) != 1 || p.Rows[0].Idempotency == "" {
		t.Errorf("rows: %+v, %v", p.Rows, err)
	}
}

// TestUpkeep charges what nobody will end, and leaves alone what runs.
func TestUpkeep(t *testing.T) {
	b := newTestbed(t)
	g := b.admit()
	for _, id := range []string{g.RequestID, "req_lost"} {
		if _, err := b.store.Hold(context.Background(), store.HoldRequest{Opening: store.Opening{RequestID: id}, AmountNano: 7}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.store.ExpireOlder(-time.Second, b.runningNow()); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	b.upkeep(context.Background())
	if d, err := b.store.Show(context.Background(), g.RequestID); err != nil || d.Row.Outcome != store.OutcomeOpen {
		t.Errorf("the hold of a running request: %+v, %v", d.Row, err)
	}
	if _, err := b.store.Release(g.RequestID, store.Result{Outcome: store.OutcomeError}); err != nil {
		t.Error(err)
	}
	g.Release()
}
