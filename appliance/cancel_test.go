package appliance

import (
	"context"
	"testing"
	"time"

	"hearth/internal/fakeprovider"
	"hearth/store"
)

// The caller leaves in each phase: the provider sees it at once, the row is
// closed with what was delivered, and nobody is asked for nobody.
func TestLeavingReachesTheProvider(t *testing.T) {
	slow := func(s fakeprovider.Script) fakeprovider.Script {
		s.Answer = answer()
		s.Answer.UsageWhen = "early"
		return s
	}
	for _, c := range []struct {
		name   string
		script fakeprovider.Script
		stream bool
		after  int // events; 0: before any
		asked  int // requests the provider sees
	}{
		{"before the first token", slow(fakeprovider.Script{DelayMS: 20_000}), true, 0, 1},
		{"after the head", slow(fakeprovider.Script{StallAfter: 2, StallMS: 20_000}), true, 0, 1},
		{"in the stream", slow(fakeprovider.Script{StallAfter: 6, StallMS: 20_000}), true, 3, 1},
		{"whole answer", slow(fakeprovider.Script{DelayMS: 20_000}), false, 0, 1},
		{"waiting for the next attempt", fakeprovider.Script{Error: &fakeprovider.Error{Kind: "rate_limit", RetryAfter: "seconds:10"}}, true, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t)
			p.Play(c.script)
			b := newTestbedWith(t, gatewayConfig("anthropic", p.URL(), p.URL()))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var left time.Time
			leave := func() {
				left = time.Now()
				cancel()
			}
			if c.after == 0 {
				timer := time.AfterFunc(150*time.Millisecond, leave)
				defer timer.Stop()
			}
			r := chat("first")
			r.Stream = c.stream
			g := b.admit()
			n, tokens := 0, int64(0)
			for ev, err := range b.Call(ctx, g, r) {
				if err != nil {
					break
				}
				tokens += int64(ev.Tokens)
				if n++; n == c.after {
					leave()
				}
			}
			took := time.Since(left)
			g.Release()
			if took > 100*time.Millisecond {
				t.Errorf("the call ended %v after the caller had left", took)
			}
			d, err := b.store.Show(context.Background(), g.RequestID)
			if err != nil {
				t.Fatal(err)
			}
			if d.Row.Outcome != store.OutcomeCancelled || d.Row.Termination != store.TermClientLeft || d.Row.Usage.Output != tokens {
				t.Errorf("the row says %s (%s) with %d tokens of %d", d.Row.Outcome, d.Row.Termination, d.Row.Usage.Output, tokens)
			}
			var seen []*fakeprovider.Request
			for range 100 {
				if seen = p.Requests(); len(seen) > 0 && (!seen[0].Closed.IsZero() || !seen[0].Ended.IsZero()) {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			if len(seen) != c.asked {
				t.Fatalf("the provider saw %d requests, want %d", len(seen), c.asked)
			}
			if c.script.Error == nil {
				if seen[0].Closed.IsZero() {
					t.Error("the provider did not see the caller leave")
				} else if d := seen[0].Closed.Sub(left); d > 100*time.Millisecond {
					t.Errorf("the provider saw it after %v", d)
				}
			}
			if len(b.policy.Health()) == 0 || b.policy.Health()[0].Outstanding != 0 {
				t.Error("a place at the provider is still taken")
			}
		})
	}
}
