package responses

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// Turn is what a request says beyond infer.Request: where it stands among
// stored responses, and what its answer repeats of it. The decoder leaves it in
// wire.Options.Own for the encoders.
type Turn struct {
	Store      bool   // keep the answer; true unless the request says otherwise
	Background bool   // answer at once, go on without the caller
	Previous   string // id of the response that this turn follows
	// Items are the input items that the answer rests on, as JSON, one each:
	// earlier turns first, then this request's own with ids of ours where they
	// had none.
	Items [][]byte

	fields  map[string]jsonread.Value // members that the response object repeats
	custom  map[string]bool           // tools of free text, by flat name
	spaces  map[string]namespaced     // tools of namespaces, by flat name
	names   map[namespaced]string     // the inverse
	sealed  bool                      // encrypted reasoning was asked for
	summary bool                      // reasoning is shown as a summary
}

// namespaced is the name of a tool as the dialect has it.
type namespaced struct{ space, name string }

// ResponseID is the id of the answer to the request with that id. The letter
// after the underscore tells our ids from those of providers, which are
// hexadecimal; the rest is the request's own, so that one finds the other.
func ResponseID(requestID string) string { return "resp_h" + strings.TrimPrefix(requestID, "req_") }

// Own tells whether a response or item id was made here, and the id of the
// response that it belongs to.
func Own(id string) (response string, ok bool) {
	_, rest, ok := strings.Cut(id, "_h")
	if rest, _, _ = strings.Cut(rest, "_"); !ok || len(rest) != 32 || strings.Trim(rest, "0123456789abcdef") != "" {
		return "", false
	}
	return "resp_h" + rest, true
}

// turnOf finds what the decoder left; an answer can also be encoded without.
func turnOf(own any) *Turn {
	if t, ok := own.(*Turn); ok {
		return t
	}
	return &Turn{}
}

// State gives earlier responses of the caller.
type State interface {
	// Earlier gives the input and the output items of a stored response, in
	// order. Native says that the provider of the request knows the response
	// itself under the same id. CodeNotFound if there is none.
	Earlier(id string) (items [][]byte, native bool, err error)
	// Keeps tells whether responses are kept at all.
	Keeps() bool
}

// Thoughts that a provider of another dialect has signed travel in
// encrypted_content behind a mark of ours, so that what comes back is told from
// what OpenAI has encrypted.
const (
	sealSigned   = "hearth.1.s."
	sealRedacted = "hearth.1.r."
)

// sealThought is the encrypted_content of a piece of reasoning, empty for none.
func sealThought(signature, redacted string) string {
	switch {
	case signature != "":
		return sealSigned + signature
	case redacted != "":
		return sealRedacted + redacted
	}
	return ""
}

// openThought fills in what sealThought made; false if it is someone else's.
func openThought(t *infer.Thought, sealed string) bool {
	if s, ok := strings.CutPrefix(sealed, sealSigned); ok {
		t.Signature = s
		return true
	}
	if s, ok := strings.CutPrefix(sealed, sealRedacted); ok {
		t.Redacted = s
		return true
	}
	return false
}
