package policy

import (
	"strings"
	"testing"
)

func TestRedactor(t *testing.T) {
	c := Config{Rules: []RuleConfig{
		{Name: "bird", Kind: ruleKeyword, Words: []string{"bluebird"}, Action: actionDeny, Replacement: "[bird]"},
		{Name: "other", Kind: ruleKeyword, Words: []string{"sparrow"}, Replacement: "[other]"},
	}}
	r, err := c.Redactor([]string{"bird"}, []string{"email"})
	if err != nil {
		t.Fatal(err)
	}
	if got, n := r.Text("Bluebird and sparrow, jane@example.com"); got != "[bird] and sparrow, [redacted]" || n != 2 {
		t.Errorf("got %q and %d", got, n)
	}
	in := `{"to":["jane\u0040example.com",1],"bluebird":{"x":null}}`
	got, n := r.JSON(in)
	if n != 2 || strings.Contains(got, "jane") || strings.Contains(got, "bluebird") || !strings.Contains(got, `"to":["[redacted]",1]`) {
		t.Errorf("got %s and %d", got, n)
	}
	if got, n := r.JSON(`{"a": 1}`); got != `{"a": 1}` || n != 0 {
		t.Errorf("what holds nothing is changed to %s (%d)", got, n)
	}
	if got, _ := r.JSON(`{"a": "jane@example.com"`); strings.Contains(got, "jane") {
		t.Errorf("broken JSON passes: %s", got)
	}
	var none *Redactor
	if got, n := none.Text("jane@example.com"); got != "jane@example.com" || n != 0 {
		t.Errorf("the nil redactor changes %q", got)
	}
}
