package policy

import (
	"strings"
	"testing"
)

func TestDoubts(t *testing.T) {
	config := func() Config {
		return Config{
			PriceVersion: "p", Tenants: []TenantConfig{{Name: "t", Budgets: []BudgetConfig{{Period: "total", CapUSD: 1}}}},
			Upstreams: []UpstreamConfig{{Name: "far", Kind: "openai"}, {Name: "idle", Kind: "openai"}},
			Routes: []RouteConfig{
				{Model: "both", Candidates: []CandidateConfig{{Upstream: "far", Model: "x"}, {Upstream: Local, Model: "tiny"}}},
				{Model: "gone"},
			},
			Prices: []PriceConfig{{Model: "tiny"}},
		}
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"as it is":       {func(*Config) {}, []string{"upstream[1].name: no route", `route[0].candidate[0]: no [[price]]`, `route[1].candidate[0]: no local model is called "gone"`, `price: none is for the local model "other"`}},
		"without budget": {func(c *Config) { c.Tenants[0].Budgets = nil }, []string{"upstream[1].name", "route[1].candidate[0]"}},
		"mended": {func(c *Config) {
			c.Upstreams, c.Routes = c.Upstreams[:1], c.Routes[:1]
			c.Prices = append(c.Prices, PriceConfig{Model: "far/x"}, PriceConfig{Model: "other"})
		}, nil},
	} {
		c := config()
		test.change(&c)
		c.Defaults()
		if faults := c.Validate(); len(faults) > 0 {
			t.Fatalf("%s: %v", name, faults)
		}
		got, err := c.Doubts([]string{"tiny", "other"})
		if err != nil || len(got) != len(test.want) {
			t.Fatalf("%s: got %v, %v, wanted %q", name, got, err, test.want)
		}
		for i, want := range test.want {
			if !strings.HasPrefix(got[i].Error(), want) {
				t.Errorf("%s: got %q, wanted %q", name, got[i].Error(), want)
			}
		}
	}
}
