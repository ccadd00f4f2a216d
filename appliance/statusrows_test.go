package appliance

import (
	"context"
	"slices"
	"testing"

	"hearth/internal/fakeprovider"
	"hearth/web"
)

// The status page tells which provider is down, who took over, and what it cost.
func TestStatusOfProviders(t *testing.T) {
	first, second := newProvider(t), newProvider(t)
	b := newTestbedWith(t, gatewayConfig("anthropic", first.URL(), second.URL())+`[[upstream]]
name = "forgotten"
kind = "anthropic"
`)
	second.Play(fakeprovider.Script{Answer: answer()})
	first.close()
	if _, _, err := b.stream("both"); err != nil {
		t.Fatal(err)
	}
	s := b.Status(context.Background())
	find := func(name string) web.UpstreamStatus {
		i := slices.IndexFunc(s.Upstreams, func(u web.UpstreamStatus) bool { return u.Name == name })
		if i < 0 {
			t.Fatalf("%s is not shown: %+v", name, s.Upstreams)
		}
		return s.Upstreams[i]
	}
	if u := find("a"); u.Failed == 0 || u.LastFailure != "connect" || u.Succeeded != 0 || !slices.Equal(u.Routes, []string{"both", "careful", "first"}) {
		t.Errorf("the one that is down: %+v", u)
	}
	if u := find("b"); u.State != "healthy" || u.Succeeded != 1 || u.Fallbacks != 1 || u.Model != "up" {
		t.Errorf("the one that took over: %+v", u)
	}
	if u := find("forgotten"); u.State != "unused" {
		t.Errorf("the one without a route: %+v", u)
	}
	if len(s.Upstreams) != 3 {
		t.Errorf("the engine in this box is shown as a provider: %+v", s.Upstreams)
	}
	if len(s.Recent) != 1 || s.Recent[0].Upstream != "b" || s.Recent[0].Attempts < 2 || s.Recent[0].Outcome != "complete" || s.Recent[0].ChargeNano == 0 {
		t.Errorf("the request: %+v", s.Recent)
	}
}
