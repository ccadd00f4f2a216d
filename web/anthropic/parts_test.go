package anthropic

import (
	"slices"
	"testing"

	"hearth/engine/infer"
)

// TestDocumentUses holds that a document is noted by how it comes: few targets
// take one by its address, and none a file of the provider's own.
func TestDocumentUses(t *testing.T) {
	for source, want := range map[string]infer.Use{
		`{"type":"base64","media_type":"application/pdf","data":"JVBERg=="}`: {Feature: infer.FeatureFile, Path: "messages[0].content[0].document"},
		`{"type":"text","media_type":"text/plain","data":"a"}`:               {Feature: infer.FeatureFile, Path: "messages[0].content[0].document"},
		`{"type":"url","url":"https://example.org/a.pdf"}`:                   {Feature: infer.FeatureFileURL, Path: "messages[0].content[0].document"},
		`{"type":"file","file_id":"file_1"}`:                                 {Feature: infer.FeatureUnknown, Path: "messages[0].content[0].document.source"},
	} {
		body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":` + source + `},{"type":"text","text":"a"}]}]}`
		r, _, err := Messages{}.DecodeRequest(nil, []byte(body))
		if err != nil || !slices.Contains(r.Uses, want) {
			t.Errorf("%s: got %v, %v, want %v", source, r.Uses, err, want)
		}
	}
}
