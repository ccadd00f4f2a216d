package ollama

import (
	"regexp"
	"testing"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

var index = regexp.MustCompile(`\[\d+\]`)

// TestFields holds every row of the tables against the decoders: its body notes
// the row's feature at the row's path, and a field without a feature notes
// nothing.
func TestFields(t *testing.T) {
	for _, f := range ChatFields() {
		r, _, err := Chat{}.DecodeRequest(nil, []byte(f.Base))
		if err != nil {
			t.Errorf("%s: cannot decode %s: %v", f.Path, f.Base, err)
			continue
		}
		checkField(t, f, r.Uses)
	}
	for _, f := range GenerateFields() {
		r, _, err := Generate{}.DecodeRequest(nil, []byte(f.Base))
		if err != nil {
			t.Errorf("%s: cannot decode %s: %v", f.Path, f.Base, err)
			continue
		}
		checkField(t, f, r.Uses)
	}
	for _, f := range EmbedFields() {
		r, _, err := DecodeEmbed([]byte(f.Base), false)
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
		if len(uses) > 0 {
			t.Errorf("%s notes %v, want nothing", f.Path, uses)
		}
		return
	}
	for _, u := range uses {
		if u.Feature == f.Feature && index.ReplaceAllString(u.Path, "[]") == f.Path {
			return
		}
	}
	t.Errorf("%s: %s notes %v, want %s", f.Path, f.Base, uses, f.Feature)
}

// TestClasses holds the table of classes complete.
func TestClasses(t *testing.T) {
	for _, f := range infer.Features {
		if _, ok := classes[f]; !ok {
			t.Errorf("feature %s has no class", f)
		}
	}
}
