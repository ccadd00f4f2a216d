package config

import (
	"reflect"
	"testing"

	"hearth/appliance/config/edit"
)

func TestPathsByName(t *testing.T) {
	doc := "[[tenant]]\nname = \"a.b\"\n[[tenant.budget]]\nperiod = \"month\"\n[[tenant]]\nname = \"c\"\n[[price]]\nmodel = \"*\"\n"
	d, err := edit.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]string{
		"tenant[a.b].budget[month].cap_usd": "tenant[0].budget[0].cap_usd", "tenant[c].limits": "tenant[1].limits", "tenant[1].name": "tenant[1].name",
		"price[*].model": "price[0].model", "server.listen": "server.listen",
	} {
		if p, err := ResolvePath(d, s); err != nil || p.String() != want {
			t.Errorf("%s became %v, %v", s, p, err)
		}
	}
	for _, bad := range []string{"tenant[x].name", "tenant[", "nothing[a]", ""} {
		if p, err := ResolvePath(d, bad); err == nil {
			t.Errorf("%q became %v", bad, p)
		}
	}
	c, err := Parse("x", []byte("[[tenant]]\nname = \"a.b\"\nmodels = [\"m\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]any{"tenant[a.b].models[0]": "m", "tenant[0].name": "a.b", "server.listen": "localhost:8443", "tenant[a.b].limits.concurrency": 0} {
		if v, ok := Lookup(c.Tree(), s); !ok || v != want {
			t.Errorf("%s is %v (%T), %v", s, v, v, ok)
		}
	}
	for _, bad := range []string{"tenant[x]", "tenant[9]", "server.x", "server.listen.x", "tenant[", "tenant]", "[0]"} {
		if v, ok := Lookup(c.Tree(), bad); ok {
			t.Errorf("%s is %v", bad, v)
		}
	}
}

func TestValueFor(t *testing.T) {
	for _, c := range []struct {
		path string
		in   any
		want any
	}{
		{"server.max_requests", "12", int64(12)}, {"server.max_requests", 12.0, int64(12)}, {"server.listen", "12", "12"}, {"log.access", "false", false},
		{"tenant[0].models", "a, b", []any{"a", "b"}}, {"tenant[0].models", "a\nb\n", []any{"a", "b"}}, {"tenant[0].models", `["a"]`, []any{"a"}},
		{"tenant[0].models", "", []any{}}, {"tenant[0].budget[0].cap_usd", "25.00", "25.00"}, {"upstream[0].headers", `{ X-A = "b" }`, map[string]any{"X-A": "b"}},
		{"upstream[0].bytes_per_token", "3", 3.0}, {"upstream[0].health.eject_after", "0", int64(0)}, {"no.such", "7", "7"}, {"zone", "UTC", "UTC"},
	} {
		p, err := edit.ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ValueFor(p, c.in); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %v became %#v, %v", c.path, c.in, got, err)
		}
	}
	for path, in := range map[string]string{"server.max_requests": "many", "log.access": "perhaps", "upstream[0].headers": "x", "upstream[0].bytes_per_token": "x", "tenant[0].models": "[1"} {
		p, _ := edit.ParsePath(path)
		if v, err := ValueFor(p, in); err == nil {
			t.Errorf("%s = %q became %v", path, in, v)
		}
	}
}
