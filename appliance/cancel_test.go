package appliance

import (
	"context"
	"strings"
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
			if took > time.Second {
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
				} else if d := seen[0].Closed.Sub(left); d > time.Second {
					t.Errorf("the provider saw it after %v", d)
				}
			}
			if len(b.policy.Health()) == 0 || b.policy.Health()[0].Outstanding != 0 {
				t.Error("a place at the provider is still taken")
			}
		})
	}
}

// A provider that is to be read on after its caller has left: the row stays at
// its hold until the count is in, and is then charged by it.
func TestReadOnForTheCount(t *testing.T) {
	for _, late := range []bool{false, true} {
		p := newProvider(t)
		s := fakeprovider.Script{Answer: answer(), GapMS: 10}
		s.Answer.UsageWhen = "early"
		if late {
			s.StallAfter, s.StallMS = 8, 20_000
		}
		p.Play(s)
		conf := strings.ReplaceAll(gatewayConfig("anthropic", p.URL(), p.URL()), "[upstream.health]", "on_cancel = \"drain\"\ndrain_timeout = \"300ms\"\n[upstream.health]")
		b := newTestbedWith(t, conf)
		r := chat("first")
		r.Stream = true
		g := b.admit()
		n := 0
		for _, err := range b.Call(context.Background(), g, r) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 4 {
				break
			}
		}
		g.Release()
		var row store.Row
		for range 300 {
			d, err := b.store.Show(context.Background(), g.RequestID)
			if err != nil {
				t.Fatal(err)
			}
			if row = d.Row; row.Corrected != nil {
				break
			}
			if row.Outcome != store.OutcomeAmbiguous || row.ChargeNano != row.HoldNano {
				t.Fatalf("before the count: %s, %d of %d", row.Outcome, row.ChargeNano, row.HoldNano)
			}
			time.Sleep(10 * time.Millisecond)
		}
		want := int64(20*3000 + 5*300 + 8*15000)
		if late { // what was delivered
			want = int64(20*3000+5*300) + row.Usage.Output*15000
		}
		if row.Outcome != store.OutcomeCancelled || row.ChargeNano != want || row.ChargeNano == 0 {
			t.Errorf("late %t: %s, charged %d, want %d", late, row.Outcome, row.ChargeNano, want)
		}
	}
}
