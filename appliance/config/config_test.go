package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func sample(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../appliance.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var commentedKey = regexp.MustCompile(`(?m)^#(\[\[?[a-z_.]+\]\]?|[a-z_]+ = .*)$`)

// The sample must parse as it is, and with every commented default switched on
// it must say the same: the comments tell the truth.
func TestSampleShowsDefaults(t *testing.T) {
	plain, err := Parse("appliance.toml", []byte(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	all := commentedKey.ReplaceAllString(sample(t), "$1")
	full, err := Parse("appliance.toml", []byte(all))
	if err != nil {
		t.Fatalf("with all comments removed: %v", err)
	}
	if len(full.Routes) != 2 || len(full.Tenants[0].KeyBudgets) != 1 {
		t.Fatalf("got %d routes and %d key budgets with all comments removed, wanted 2 and 1",
			len(full.Routes), len(full.Tenants[0].KeyBudgets))
	}
	if got := full.Routes[0].Candidates; len(got) != 2 || len(full.Upstreams) != 2 || len(full.Rules) != 8 {
		t.Fatalf("got %d candidates, %d upstreams and %d rules with all comments removed, wanted 2, 2 and 8", len(got), len(full.Upstreams), len(full.Rules))
	}
	checkExampleDefaults(t, full)
	if kept := NewRetention("support", "default"); len(full.Retention) != 1 || !reflect.DeepEqual(full.Retention[0], kept) {
		t.Errorf("the example of retention is %+v, the defaults are %+v", full.Retention, kept)
	}
	full.Retention = nil
	if len(full.Admin.ClientCertificate.Users) != 1 {
		t.Errorf("got %d users with a certificate with all comments removed, wanted 1", len(full.Admin.ClientCertificate.Users))
	}
	full.Admin.ClientCertificate = SignInCertificate{}
	who := NewIdentity("staff", IdentityJWT)
	who.Issuer, who.Audiences, who.Tenant = "https://login.example.com", []string{"hearth"}, "default"
	who.Grants = []IdentityGrant{{Match: []string{"groups=ml-*"}}}
	if got, want := fmt.Sprintf("%+v", full.Identities), fmt.Sprintf("%+v", []Identity{who}); got != want {
		t.Errorf("the example of an identity is %s, the defaults are %s", got, want)
	}
	full.Identities = nil
	full.Routes, full.Upstreams, full.Rules, full.Tenants[0].KeyBudgets = nil, nil, nil, nil
	show := func(c *Config) string { return fmt.Sprintf("%+v", *c) }
	full.Prices[0].CacheWriteUSDPerM, plain.Prices[0].CacheWriteUSDPerM = nil, nil
	full.Prices[0].CachedUSDPerM, plain.Prices[0].CachedUSDPerM = nil, nil
	full.Prices[0].CacheWriteHourUSDPerM, plain.Prices[0].CacheWriteHourUSDPerM = nil, nil
	full.Tenants[0].Tools, full.Tenants[0].DataClasses, full.Tenants[0].Regions, full.Tenants[0].Effects = nil, nil, nil, nil
	if show(plain) != show(full) {
		t.Errorf("the commented defaults differ from the real ones:\nreal      %s\ncommented %s", show(plain), show(full))
	}
}

// checkExampleDefaults compares the worked example, which writes out every
// default, with the same example that writes none.
func checkExampleDefaults(t *testing.T, full *Config) {
	t.Helper()
	short, err := Parse("short.toml", []byte(`
[[upstream]]
name = "openai"
kind = "openai"
credential = "env:OPENAI_API_KEY"
[[upstream]]
name = "claude"
kind = "anthropic"
credential = "systemd:anthropic-key"
[[route]]
model = "assistant"
[[route.candidate]]
upstream = "openai"
model = "gpt-4.1"
[[route.candidate]]
upstream = "claude"
model = "claude-sonnet-4-5"
[[route]]
model = "summaries"
effect = "read-only"
[[route.candidate]]
upstream = "openai"
model = "gpt-4.1"
[[route.shadow]]
upstream = "claude"
model = "claude-sonnet-4-5"
tenant = "default"
`))
	if err != nil {
		t.Fatal(err)
	}
	sides := [2]string{}
	for i, c := range []*Config{short, full} {
		text := c.Text()
		from, to := strings.Index(text, "[[upstream]]"), strings.Index(text, "[[rule]]")
		if to < 0 {
			to = strings.Index(text, "[[price]]")
		}
		if to < from {
			to = len(text)
		}
		sides[i] = strings.TrimSpace(text[from:to])
	}
	if sides[0] != sides[1] {
		t.Errorf("the example's defaults differ from the real ones:\nreal      %s\ncommented %s", sides[0], sides[1])
	}
}

// Every field of every table stands in the sample.
func TestSampleIsComplete(t *testing.T) {
	var walk func(typ reflect.Type, path, section string)
	text := sample(t)
	walk = func(typ reflect.Type, path, section string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := f.Tag.Get("toml")
			ft := f.Type
			switch {
			case f.Anonymous:
				walk(ft, path, section)
				continue
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
				header := "[[" + join(path, key) + "]]"
				if _, sub, ok := strings.Cut(text, header); ok {
					walk(ft.Elem(), join(path, key), sub)
				} else {
					t.Errorf("the sample has no %s", header)
				}
			case ft.Kind() == reflect.Struct:
				header := "[" + join(path, key) + "]"
				if _, sub, ok := strings.Cut(text, header); ok {
					walk(ft, join(path, key), sub)
				} else {
					t.Errorf("the sample has no %s", header)
				}
			case !regexp.MustCompile(`(?m)^#?` + key + ` = `).MatchString(section):
				t.Errorf("the sample has no %s in %s", key, path)
			}
		}
	}
	walk(reflect.TypeOf(Config{}), "", text)
}

func TestFaultsAllAtOnce(t *testing.T) {
	const doc = `[server]
listn = "localhost:8443"
max_body = 5
idle_timeout = "soon"

[tls]
mode = "interal"

[[model]]
name = "a"
[[model]]
name = "a"
threads = -1
colour = "red"

[[tenant]]
name = "t"
[[tenant.budget]]
period = 7
cap = "1.00"
[tenant.limits]
tokens_per_minute = "many"

[[model]]
name = "b"
device = "cpu"
kv_type = "fp8"

[[model]]
name = "c"
device = "cuda"
activations = "bf16"
[[model]]
name = "d"
activations = "int4"
`
	_, err := Parse("x.toml", []byte(doc))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, wanted *Faults", err)
	}
	want := []struct {
		line int
		key  string
		text string
	}{
		{2, "server.listn", `did you mean "listen"?`},
		{3, "server.max_body", "got a whole number, wanted text"},
		{4, "server.idle_timeout", `cannot read "soon" as a duration`},
		{7, "tls.mode", `did you mean "internal"?`},
		{12, "model[1].name", "already taken by model[0].name"},
		{13, "model[1].threads", "got -1"},
		{14, "model[1].colour", "unknown key"},
		{19, "tenant[0].budget[0].period", "got a whole number, wanted text"},
		{20, "tenant[0].budget[0].cap", `did you mean "cap_usd"?`},
		{22, "tenant[0].limits.tokens_per_minute", "got text, wanted a whole number"},
		{27, "model[2].kv_type", `got "fp8", which a CPU does not keep`},
		{32, "model[3].activations", `on a GPU "fast" rounds`},
		{35, "model[4].activations", `"bf16"`},
	}
	for _, w := range want {
		found := false
		for _, f := range faults.List {
			if f.Line == w.line && f.Key == w.key && strings.Contains(f.Message, w.text) {
				found = true
			}
		}
		if !found {
			t.Errorf("no fault at line %d, %s, saying %q", w.line, w.key, w.text)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// Faults in the tables of the gateway stand at their lines, and no secret that was
// pasted into the file is repeated.
func TestGatewayFaults(t *testing.T) {
	const canary = "sk-canary-0123456789"
	doc := `[[upstream]]
name = "a"
kind = "opnai"
credential = "` + canary + `"
api_key = "` + canary + `"
[upstream.headers]
authorization = "Bearer ` + canary + `"
[[upstream]]
name = "a"
kind = "vllm"
base_url = "http://example.com/?key=` + canary + `"
[upstream.health]
eject_after = -1

[[route]]
model = "m"
[route.retry]
on = ["always"]
[[route.candidate]]
upstream = "local"
[[route.candidate]]
upstream = "b"
weigth = 2
`
	_, err := Parse("x.toml", []byte(doc))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, wanted *Faults", err)
	}
	for _, w := range []struct {
		line int
		key  string
		text string
	}{
		{3, "upstream[0].kind", `want one of "openai"`},
		{4, "upstream[0].credential", "want a reference"},
		{5, "upstream[0].api_key", "credential wants a reference"},
		{7, "upstream[0].headers.authorization", "put a reference into credential"},
		{9, "upstream[1].name", `cannot have upstream "a" twice`},
		{11, "upstream[1].base_url", "cannot hold a query"},
		{13, "upstream[1].health.eject_after", "cannot use -1"},
		{18, "route[0].retry.on[0]", "cannot use"},
		{22, "route[0].candidate[1].upstream", `cannot find upstream "b"`},
		{23, "route[0].candidate[1].weigth", `did you mean "weight"?`},
	} {
		if !slices.ContainsFunc(faults.List, func(f Fault) bool { return f.Line == w.line && f.Key == w.key && strings.Contains(f.Message, w.text) }) {
			t.Errorf("no fault at line %d, %s, saying %q", w.line, w.key, w.text)
		}
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret is repeated: %v", err)
	}
	if t.Failed() || len(faults.List) != 10 {
		t.Error(err)
	}
}

// What config show writes is read back as the same.
func TestShowIsReadBack(t *testing.T) {
	doc := commentedKey.ReplaceAllString(sample(t), "$1")
	doc = strings.Replace(doc, "headers = {}", `headers = { X-Team = "a \"b\"" }`, 1)
	c, err := Parse("appliance.toml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse("shown.toml", []byte(c.Text()))
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Text())
	}
	if back.Text() != c.Text() || c.Upstreams[0].Headers["X-Team"] != `a "b"` {
		t.Errorf("shown\n%s\nread back\n%s", c.Text(), back.Text())
	}
}

// The configuration of the black-box suite is a valid one.
func TestSuiteConfig(t *testing.T) {
	c, err := Load("../../testdata/wire.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Upstreams) < 5 || len(c.Routes) < 8 || *c.Upstreams[0].Health.EjectAfter != 0 {
		t.Errorf("got %d upstreams and %d routes", len(c.Upstreams), len(c.Routes))
	}
}

func TestSyntaxFaultHasLine(t *testing.T) {
	_, err := Parse("x.toml", []byte("[server]\nlisten = \n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Fatalf("got %v, wanted a fault at line 2", err)
	}
}

func TestLinesPassOddValues(t *testing.T) {
	doc := "a = \"\"\"one\n\\\"\"\" # two\nb = 1\n\"\"\"\nc = [ # [\n '#', \"]\",\n]\n\"d\".e = { f = 1 }\n[[g]]\nh = '''\n'\n'''\n[g.i]\nj=1\n[[g]]\nk = 2\n"
	got := keyLines([]byte(doc))
	want := map[string]int{"a": 1, "c": 5, "d.e": 8, "g[0]": 9, "g[0].h": 10, "g[0].i": 13, "g[0].i.j": 14, "g[1]": 15, "g[1].k": 16}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestValues(t *testing.T) {
	var z Size
	var d Duration
	if err := z.UnmarshalText([]byte("20MiB")); err != nil || z != 20<<20 || z.String() != "20MiB" {
		t.Errorf("got %d, %v", z, err)
	}
	if err := d.UnmarshalText([]byte("90s")); err != nil || d.Std() != 90*time.Second {
		t.Errorf("got %s, %v", d, err)
	}
	for _, bad := range []string{"", "MiB", "-1MiB", "1.5MiB", "9000000000GiB", "20mib"} {
		if z.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("size %q was accepted", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[server]\nlisten = \"a:1\"\n[[model]]\nname='x'\n")
	f.Add("a.b.\"c d\" = {e = [1, {f = '''x'''}]}")
	f.Add("[[model]]\n[model.x]\n[[model]]\n")
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := Parse("fuzz", []byte(doc))
		if (c == nil) == (err == nil) {
			t.Fatal("wanted exactly one of a value and an error")
		}
		if err != nil && err.Error() == "" {
			t.Fatal("an error without text")
		}
	})
}
