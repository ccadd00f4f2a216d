package chattmpl

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"hearth/engine/infer"
)

type jinjaFile struct {
	Vars  json.RawMessage `json:"vars"`
	Cases []struct {
		Template string  `json:"template"`
		Expected *string `json:"expected"`
		Error    string  `json:"error"`
		Syntax   bool    `json:"syntax"`
	} `json:"cases"`
}

func readJinja(t testing.TB) *jinjaFile {
	raw, err := os.ReadFile("testdata/jinja_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	f := &jinjaFile{}
	if err := json.Unmarshal(raw, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// jinjaSources are the vectors' templates, as seeds.
func jinjaSources(t testing.TB) []string {
	var out []string
	for _, c := range readJinja(t).Cases {
		out = append(out, c.Template)
	}
	return out
}

// The language agrees with Jinja itself, case by case. Where Jinja raises, we
// refuse too; the words are our own.
func TestJinja(t *testing.T) {
	f := readJinja(t)
	decoded, err := decodeJSON(f.Vars)
	if err != nil {
		t.Fatal(err)
	}
	d := decoded.(*dict)
	var vars []binding
	for i, k := range d.keys {
		vars = append(vars, binding{k.(text).s, d.vals[i]})
	}
	now := time.Date(2026, 3, 7, 15, 4, 5, 0, time.UTC)
	for _, c := range f.Cases {
		tm, err := parse(c.Template)
		if err != nil {
			if infer.AsError(err).Code != infer.CodeInvalid || c.Expected != nil {
				t.Errorf("%q: %v", c.Template, err)
			}
			continue
		}
		if c.Syntax {
			t.Errorf("%q compiles, want a syntax error", c.Template)
			continue
		}
		out, err := tm.evaluate(vars, now, limitsFor(&Input{}))
		switch {
		case c.Expected == nil && err == nil:
			t.Errorf("%q: got %q, want the error %s", c.Template, out.s, c.Error)
		case c.Expected != nil && err != nil:
			t.Errorf("%q: %v", c.Template, err)
		case c.Expected != nil && out.s != *c.Expected:
			t.Errorf("%q:\n got %q\nwant %q", c.Template, out.s, *c.Expected)
		}
	}
}
