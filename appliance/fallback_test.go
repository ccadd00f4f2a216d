package appliance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/internal/fakeprovider"
	"hearth/store"
)

// gatewayConfig routes "both" to a and then b, "first" to a alone, and "careful",
// whose requests have effects, to a and then b.
func gatewayConfig(kind, a, b string) string {
	var s strings.Builder
	s.WriteString(`price_version = "p1"
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "1000"
[[price]]
model = "up"
input_usd_per_m = "3"
cached_usd_per_m = "0.3"
cache_write_usd_per_m = "3.75"
output_usd_per_m = "15"
`)
	for name, url := range map[string]string{"a": a, "b": b} {
		fmt.Fprintf(&s, "[[upstream]]\nname = %q\nkind = %q\nbase_url = %q\n[upstream.health]\neject_after = 0\n", name, kind, url)
	}
	for _, route := range []struct{ name, effect, ups string }{{"both", "read-only", "a b"}, {"first", "read-only", "a"}, {"careful", "effectful", "a b"}} {
		fmt.Fprintf(&s, "[[route]]\nmodel = %q\neffect = %q\ndeadline = \"20s\"\n", route.name, route.effect)
		for _, u := range strings.Fields(route.ups) {
			fmt.Fprintf(&s, "[[route.candidate]]\nupstream = %q\nmodel = \"up\"\nmax_output_tokens = 64\n", u)
		}
		s.WriteString("[route.retry]\nattempts = 3\nbackoff = \"5ms\"\n")
	}
	return s.String()
}

var fakePrices = fakeprovider.Prices{Fresh: 3000, Cached: 300, CacheWrite: 3750, CacheWriteHour: 3750, Output: 15000}

// provider is a fake one that may be closed before its test ends.
type provider struct {
	*fakeprovider.Server
	close func()
}

func newProvider(t *testing.T) provider {
	t.Helper()
	p, err := fakeprovider.New(fakeprovider.Options{Prices: fakePrices})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { p.Close() })
	t.Cleanup(end)
	return provider{p, end}
}

// answer is one of eight tokens, four bytes each.
func answer() *fakeprovider.Answer {
	return &fakeprovider.Answer{
		Parts: []fakeprovider.Part{{Text: "one two tri for fiv six sev eig "}}, Piece: 4,
		Usage: fakeprovider.Usage{Fresh: 20, Cached: 5, Output: 8},
	}
}

// Two providers under load, the first of which dies in every way, and then for
// good. Before the first word everybody is served by the second; after it the
// failure is seen; nobody asks more often than allowed; and what the ledger
// charges is what the providers bill, to the nano-dollar.
func TestFallbackUnderLoad(t *testing.T) {
	for _, kind := range []string{"anthropic", "vllm"} {
		t.Run(kind, func(t *testing.T) {
			first, second := newProvider(t), newProvider(t)
			var n atomic.Int64
			first.Handle(func(r *fakeprovider.Request) *fakeprovider.Script {
				s := &fakeprovider.Script{Answer: answer(), GapMS: 1}
				s.Answer.UsageWhen = "early"
				switch n.Add(1) % 5 {
				case 0:
					s.Die, s.Free = "before_headers", true
				case 1:
					s.Die, s.Free = "after_headers", true
				case 2:
					s.Die, s.Event = "event", 5 // some words have left
				case 3:
					s = &fakeprovider.Script{Error: &fakeprovider.Error{Kind: "overloaded"}}
				}
				return s
			})
			second.Handle(func(*fakeprovider.Request) *fakeprovider.Script {
				s := &fakeprovider.Script{Answer: answer(), GapMS: 1}
				s.Answer.UsageWhen = "early"
				return s
			})
			base := map[string]string{"anthropic": "", "vllm": "/v1"}[kind]
			b := newTestbedWith(t, gatewayConfig(kind, first.URL()+base, second.URL()+base))
			const requests, workers = 240, 16
			var charged, whole, partial, repeated, unknown atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range requests / workers {
						if w == 0 && i == requests/workers/2 {
							first.close() // for good
						}
						tokens, row, err := b.stream("both")
						charged.Add(row.ChargeNano)
						if len(row.Attempts) > 3 {
							t.Errorf("%d attempts", len(row.Attempts))
						}
						if len(row.Attempts) > 1 {
							repeated.Add(1)
						}
						for _, a := range row.Attempts {
							if a.Outcome == store.OutcomeAmbiguous {
								unknown.Add(1)
							}
						}
						switch {
						case err == nil && row.Outcome == store.OutcomeComplete && tokens == 8:
							whole.Add(1)
						case err != nil && row.Outcome == store.OutcomePartial && tokens > 0:
							partial.Add(1)
							if e := infer.AsError(err); !e.NoRetry || e.Code != infer.CodeUpstream {
								t.Errorf("a broken answer was told as %v, NoRetry %t", e, e.NoRetry)
							}
						default:
							t.Errorf("%s after %d tokens, error %v, attempts %+v", row.Outcome, tokens, err, row.Attempts)
						}
					}
				})
			}
			wg.Wait()
			// A request that died with its provider before the first word was served by
			// the other; what the first bills for it nobody here can know, and the row
			// says so of that attempt.
			billed, unseen := int64(0), int64(0)
			for _, p := range []provider{first, second} {
				lines, _ := p.Bill()
				for _, l := range lines {
					if l.Complete || l.Usage.Output > 0 {
						billed += l.Nano
					} else {
						unseen++
					}
				}
			}
			if unseen > unknown.Load() {
				t.Errorf("%d requests that nobody saw an answer of are billed, and %d attempts are marked as unknown", unseen, unknown.Load())
			}
			t.Logf("%d whole, %d of them by a second attempt, %d broken in sight", whole.Load(), repeated.Load(), partial.Load())
			if partial.Load() == 0 || repeated.Load() == 0 {
				t.Error("not everything has happened")
			}
			if charged.Load() != billed {
				t.Errorf("the ledger charged %d nano-dollars, the providers bill %d", charged.Load(), billed)
			}
		})
	}
}

// stream asks a route and counts what comes.
func (b *testbed) stream(model string) (tokens int, row store.Row, err error) {
	r := chat(model)
	r.Stream = true
	g := b.admit()
	for ev, e := range b.Call(context.Background(), g, r) {
		if e != nil {
			err = e
			break
		}
		tokens += ev.Tokens
	}
	g.Release()
	for range 100 {
		d, e := b.store.Show(context.Background(), g.RequestID)
		if e != nil {
			b.t.Errorf("no row: %v", e)
			return tokens, row, err
		}
		if row = d.Row; row.Outcome != store.OutcomeOpen {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return tokens, row, err
}

// A request with effects is not sent again once a provider has had it: its
// outcome stays unknown, is charged at the hold, and says so. One that was proven
// not to have begun goes on to the next.
func TestUnknownOutcomeStaysUnknown(t *testing.T) {
	first, second := newProvider(t), newProvider(t)
	b := newTestbedWith(t, gatewayConfig("anthropic", first.URL(), second.URL()))
	second.Play(fakeprovider.Script{Answer: answer()})

	first.Play(fakeprovider.Script{Answer: answer(), Die: "after_headers"})
	_, row, err := b.stream("careful")
	if e := infer.AsError(err); err == nil || !e.NoRetry {
		t.Errorf("told %v", err)
	}
	if row.Outcome != store.OutcomeAmbiguous || row.ChargeNano != row.HoldNano || row.HoldNano == 0 || len(row.Attempts) != 1 {
		t.Errorf("%s, charged %d of %d held, %d attempts", row.Outcome, row.ChargeNano, row.HoldNano, len(row.Attempts))
	}
	if len(second.Requests()) != 0 {
		t.Error("the second provider was asked")
	}

	first.Play(fakeprovider.Script{Error: &fakeprovider.Error{Kind: "overloaded"}})
	tokens, row, err := b.stream("careful")
	if err != nil || tokens != 8 || row.Outcome != store.OutcomeComplete || len(row.Attempts) != 2 {
		t.Errorf("after an overload: %s, %d tokens, %v", row.Outcome, tokens, err)
	}

	first.close()
	tokens, row, err = b.stream("careful")
	if err != nil || tokens != 8 || row.Backend != "b" {
		t.Errorf("after a refused connection: %s by %s, %d tokens, %v", row.Outcome, row.Backend, tokens, err)
	}
}
