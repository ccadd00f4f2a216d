package openai

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

var index = regexp.MustCompile(`\[\d+\]`)

// TestFields holds every row of the tables against the decoders: its body notes
// exactly the use that the row says, at its path, once, and nothing that no row
// speaks of.
func TestFields(t *testing.T) {
	for name, table := range map[string]struct {
		rows   []wire.Field
		decode func(*http.Request, []byte) (*infer.Request, wire.Options, error)
	}{
		"chat":        {ChatFields(), Chat{}.DecodeRequest},
		"completions": {CompletionFields(), Completion{}.DecodeRequest},
		"embeddings": {EmbedFields(), func(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
			r, _, err := DecodeEmbed(body)
			return &infer.Request{Uses: r.Uses}, wire.Options{}, err
		}},
	} {
		known := map[string]bool{}
		for _, f := range table.rows {
			known[f.Path+string(f.Feature)] = true
		}
		for _, f := range table.rows {
			t.Run(name+"/"+f.Path+"/"+string(f.Feature), func(t *testing.T) {
				if !strings.Contains(f.Base, f.Example) {
					t.Errorf("the example %s is not in the body %s", f.Example, f.Base)
				}
				r, _, err := table.decode(nil, []byte(f.Base))
				if err != nil {
					t.Fatalf("%s: %v", f.Base, err)
				}
				n := 0
				for _, u := range r.Uses {
					path := index.ReplaceAllString(u.Path, "[]")
					if path == f.Path && u.Feature == f.Feature {
						n++
					} else if !known[path+string(u.Feature)] || u.Feature == infer.FeatureUnknown {
						t.Errorf("unexpected use %+v of %s", u, f.Base)
					}
				}
				want := 1
				if f.Feature == "" {
					want = 0
				}
				if n != want {
					t.Errorf("got %d uses of %q, wanted %d: %+v of %s", n, f.Feature, want, r.Uses, f.Base)
				}
			})
		}
	}
}
