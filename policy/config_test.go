package policy

import (
	"strings"
	"testing"
	"time"

	"hearth/store"
)

func TestMoneyText(t *testing.T) {
	for in, want := range map[string]NanoUSD{"0": 0, "12.50": 12_500_000_000, "0.0375": 37_500_000, "0.000000001": 1, "9223372035": 9_223_372_035_000_000_000} {
		var n NanoUSD
		if err := n.UnmarshalText([]byte(in)); err != nil || n != want {
			t.Errorf("%s: got %d, %v", in, n, err)
		}
		out, _ := n.MarshalText()
		var back NanoUSD
		if err := back.UnmarshalText(out); err != nil || back != n {
			t.Errorf("%s: wrote %s, read %d, %v", in, out, back, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "1.", ".5", "1e3", "1,5", "0x10", "1.0000000001", "9223372037", "99999999999999999999", "١", "1 "} {
		var n NanoUSD
		if err := n.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as %d", bad, n)
		}
	}
}

func FuzzMoney(f *testing.F) {
	f.Add("12.50")
	f.Add("-0.")
	f.Fuzz(func(t *testing.T, s string) {
		var n, back NanoUSD
		if n.UnmarshalText([]byte(s)) != nil {
			return
		}
		if n < 0 || back.UnmarshalText([]byte(n.String())) != nil || back != n {
			t.Errorf("%q: %d, %d", s, n, back)
		}
	})
}

func TestValidateListsAllFaults(t *testing.T) {
	neg := NanoUSD(-1)
	c := Config{
		Zone: "Local",
		Auth: AuthConfig{FailureBurst: -1},
		Tenants: []TenantConfig{
			{Name: "a", Models: []string{"a*b", ""}, Limits: store.Limits{Concurrency: -2}},
			{Name: "a", Zone: "Mars/Base", Budgets: []BudgetConfig{{"week", 1}, {store.Day, -1}, {store.Day, 1}}},
			{Name: "a/b"},
		},
		Routes: []RouteConfig{
			{Model: "m", Aliases: []string{"m", "x y"}},
			{Model: "n", Deadline: Duration(time.Millisecond)},
		},
		Prices: []PriceConfig{{Model: "m", CachedUSDPerM: &neg}, {Model: "m"}},
	}
	c.Defaults()
	var paths []string
	for _, f := range c.Validate() {
		paths = append(paths, f.Path)
	}
	want := "zone price_version auth.failure_burst tenant[0].models[0] tenant[0].models[1] tenant[0].limits.concurrency " +
		"tenant[1].name tenant[1].zone tenant[1].budget[0].period tenant[1].budget[1].cap_usd tenant[1].budget[2].period tenant[2].name " +
		"route[0].aliases[0] route[0].aliases[1] route[1].deadline price[0].cached_usd_per_m price[1].model"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("faults at\n%s\nwant\n%s", got, want)
	}
	var empty Config
	empty.Defaults()
	if f := empty.Validate(); len(f) != 0 || empty.Tenants[0].Name != "default" {
		t.Errorf("the empty configuration: %v", f)
	}
}
