package gemini

import (
	"regexp"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

var index = regexp.MustCompile(`\[\d+\]`)

// TestFields holds every row of the table against the decoder: its body notes
// the row's feature at the row's path, and a field without a feature notes
// nothing.
func TestFields(t *testing.T) {
	for _, f := range Fields() {
		r, _, err := Generate{Model: "m"}.DecodeRequest(nil, []byte(f.Base))
		if err != nil {
			t.Errorf("%s: cannot decode %s: %v", f.Path, f.Base, err)
			continue
		}
		checkField(t, f, r.Uses)
	}
	for _, f := range EmbedFields() {
		r, _, err := DecodeEmbed([]byte(f.Base), "m", false)
		if err != nil {
			t.Errorf("%s: cannot decode %s: %v", f.Path, f.Base, err)
			continue
		}
		checkField(t, f, r.Uses)
	}
}

func checkField(t *testing.T, f wire.Field, uses []infer.Use) {
	t.Helper()
	if _, err := jsonread.Parse([]byte(f.Example), jsonread.Limits{}); err != nil {
		t.Errorf("%s: the example %s is no JSON", f.Path, f.Example)
	}
	if f.Feature == "" {
		if len(uses) > 0 && uses[0].Feature != infer.FeatureToolResultError {
			t.Errorf("%s notes %v, want nothing", f.Path, uses)
		}
		return
	}
	for _, u := range uses {
		path := index.ReplaceAllString(u.Path, "[]")
		if u.Feature == f.Feature && (path == f.Path || f.Feature == infer.FeatureTools && strings.HasPrefix(f.Path, path)) {
			return
		}
	}
	t.Errorf("%s: %s notes %v, want %s", f.Path, f.Base, uses, f.Feature)
}

// TestSnakeCase decodes every body again with its names as the .proto file has
// them.
func TestSnakeCase(t *testing.T) {
	name := regexp.MustCompile(`"[a-z]+[A-Z][A-Za-z]*":`)
	up := regexp.MustCompile(`[A-Z]`)
	for _, f := range Fields() {
		body := name.ReplaceAllStringFunc(f.Base, func(s string) string {
			return up.ReplaceAllStringFunc(s, func(c string) string { return "_" + strings.ToLower(c) })
		})
		a, _, err := Generate{Model: "m"}.DecodeRequest(nil, []byte(f.Base))
		b, _, err2 := Generate{Model: "m"}.DecodeRequest(nil, []byte(body))
		if err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", body, err, err2)
			continue
		}
		if len(a.Uses) != len(b.Uses) {
			t.Errorf("%s notes %v, want %v", body, b.Uses, a.Uses)
		}
	}
}

// TestClasses holds the table of classes complete.
func TestClasses(t *testing.T) {
	for _, f := range infer.Features {
		if _, ok := classes[f]; !ok {
			t.Errorf("feature %s has no class", f)
		}
	}
	for f := range classes {
		if Client.Class(Client{}, f) == "" {
			t.Errorf("feature %s has an empty class", f)
		}
	}
}
