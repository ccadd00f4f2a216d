package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// PersonalKinds lists the kinds of personal data that a rule of kind pii finds.
func PersonalKinds() []string { return detectorNames() }

// PrivateHost says that a host is this machine or in a private network.
func PrivateHost(host string) bool { return privateHost(host) }

// FindsText says that the rule looks for something in text.
func (r *RuleConfig) FindsText() bool {
	return r.Kind == ruleKeyword || r.Kind == ruleRegex || r.Kind == rulePII
}

// Redactor takes out of texts what rules find in them, whatever those rules do
// to requests. The nil Redactor finds nothing. Safe for concurrent use.
type Redactor struct{ rules []*textRule }

// Redactor compiles the rules of c with the given names, and one for kinds of
// personal data. Both may be empty.
func (c *Config) Redactor(names, personal []string) (*Redactor, error) {
	var rules []RuleConfig
	if len(personal) > 0 {
		rules = append(rules, RuleConfig{Name: rulePII, Kind: rulePII, Detect: personal, Replacement: "[redacted]"})
	}
	for i := range c.Rules {
		if r := &c.Rules[i]; slices.Contains(names, r.Name) && r.FindsText() {
			rules = append(rules, *r)
		}
	}
	out := &Redactor{}
	for i := range rules {
		f, err := rules[i].finder()
		if err != nil {
			return nil, fmt.Errorf("cannot compile rule %q: %w", rules[i].Name, err)
		}
		out.rules = append(out.rules, &textRule{rules[i].Name, actionRedact, f, rules[i].Replacement})
	}
	return out, nil
}

// Text gives s with every match replaced, and how many there were.
func (r *Redactor) Text(s string) (string, int) {
	if r == nil {
		return s, 0
	}
	found := 0
	for _, rule := range r.rules {
		var n int
		s, n = rule.find(s)
		found += n
	}
	return s, found
}

// maxRedactDepth bounds the nesting of JSON that is looked through by value.
const maxRedactDepth = 100

// JSON is Text for a JSON document: its strings, names and numbers are looked
// at as what they say, not as they are escaped. What is no JSON is a text.
func (r *Redactor) JSON(s string) (string, int) {
	if r == nil || len(r.rules) == 0 {
		return s, 0
	}
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return r.Text(s)
	}
	found := 0
	v = r.value(v, &found, 0)
	if found == 0 {
		return s, 0
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "", found
	}
	return string(bytes.TrimSpace(b.Bytes())), found
}

func (r *Redactor) value(v any, found *int, depth int) any {
	text := func(s string) string {
		out, n := r.Text(s)
		*found += n
		return out
	}
	if depth > maxRedactDepth {
		*found++
		return "[too deep]"
	}
	switch x := v.(type) {
	case string:
		return text(x)
	case json.Number:
		if out := text(x.String()); out != x.String() {
			return out
		}
	case []any:
		for i := range x {
			x[i] = r.value(x[i], found, depth+1)
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[text(k)] = r.value(e, found, depth+1)
		}
		return out
	}
	return v
}
