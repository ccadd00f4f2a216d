package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// What goes on byte for byte must not say anything to the provider that is not
// judged here: which model, how many tokens, where.
func TestDecodeRefusesWhatOthersReadOtherwise(t *testing.T) {
	for member, ok := range map[string]bool{
		`"Model":"other"`:                            false,
		`"MAX_TOKENS":9999`:                          false,
		`"tool\u017f":[]`:                            false,
		`"max_tokens":9,"n_predict":9999`:            false,
		`"n_predict":9999,"max_tokens":9`:            false,
		`"n_predict":-1,"max_completion_tokens":9`:   false,
		`"max_tokens":-1,"max_completion_tokens":9`:  false,
		`"max_tokens":9,"max_completion_tokens":9`:   true,
		`"n_predict":9,"max_tokens":9`:               true,
		`"n_predict":-1`:                             true,
		`"max_tokens":null,"n_predict":9`:            true,
		`"models":["other"]`:                         false,
		`"models":null`:                              true,
		`"fallbacks":["other"]`:                      false,
		`"api_base":"http://169.254.169.254/"`:       false,
		`"extra_headers":{"Authorization":"Bearer"}`: false,
		`"reasoningEffort":"low"`:                    true,
		`"something":1`:                              true,
	} {
		_, _, err := Chat{}.DecodeRequest(&http.Request{}, []byte(`{"model":"m","messages":[{"role":"user","content":"a"}],`+member+`}`))
		if (err == nil) != ok {
			t.Errorf("chat with %s: %v", member, err)
		}
		_, _, err = Completion{}.DecodeRequest(&http.Request{}, []byte(`{"model":"m","prompt":"a",`+member+`}`))
		if (err == nil) != ok {
			t.Errorf("completion with %s: %v", member, err)
		}
	}
	for _, member := range []string{`"Input":["b"]`, `"MODEL":"b"`, `"models":["b"]`} {
		if _, _, err := DecodeEmbed([]byte(`{"model":"m","input":"a",` + member + `}`)); err == nil {
			t.Errorf("embeddings with %s", member)
		}
	}
}

// A bound reaches servers that know it by its old name only.
func TestNativeBoundIsKnown(t *testing.T) {
	for _, c := range []struct{ profile, body, set, want string }{
		{"ollama", `{"max_completion_tokens":7}`, "", `{"max_completion_tokens":7,"model":"m","max_tokens":7}`},
		{"ollama", `{"max_tokens":7}`, "", `{"max_tokens":7,"model":"m"}`},
		{"ollama", `{"max_completion_tokens":null}`, "", `{"max_completion_tokens":null,"model":"m"}`},
		{"vllm", `{"max_completion_tokens":7}`, "", `{"max_completion_tokens":7,"model":"m"}`},
		{"vllm", `{"max_completion_tokens":7}`, "5", `{"max_completion_tokens":5,"model":"m"}`},
		{"vllm", `{"max_tokens":null}`, "5", `{"max_tokens":5,"model":"m"}`},
		{"litellm", `{}`, "5", `{"max_tokens":5,"model":"m"}`},
		{"ollama", `{}`, "5", `{"max_tokens":5,"model":"m"}`},
		{"openai", `{}`, "5", `{"max_completion_tokens":5,"model":"m"}`},
		{"ollama", `{"max_completion_tokens":7,"max_tokens":null}`, "5", `{"max_completion_tokens":5,"max_tokens":5,"model":"m"}`},
		{"openai", `{"max_completion_tokens":7}`, "5", `{"max_completion_tokens":5,"model":"m"}`},
	} {
		w := &infer.Wire{Dialect: DialectChat, Body: []byte(c.body)}
		if c.set != "" {
			w.Set = map[string]json.RawMessage{"max_completion_tokens": json.RawMessage(c.set)}
		}
		r := infer.NewRequest()
		r.Kind, r.Wire = infer.Chat, w
		o, err := NewChatClient(c.profile).EncodeRequest(r, wire.Target{Model: "m"})
		if err != nil || strings.ReplaceAll(string(o.Body), " ", "") != c.want {
			t.Errorf("%s %s: %s, %v", c.profile, c.body, o.Body, err)
		}
	}
}

// Every choice that a provider may make is held for, and more are refused.
func TestChoicesAreHeldFor(t *testing.T) {
	for _, c := range []struct {
		members   string
		n, bestOf int
	}{
		{`"n":1024`, 1024, 0}, {`"n":1025`, 0, 0}, {`"n":10000`, 0, 0}, {`"n":2147483647`, 0, 0}, {`"n":0`, 0, 0},
		{`"n":2,"best_of":20`, 2, 20}, {`"best_of":1024`, 1, 1024}, {`"best_of":5000`, 0, 0}, {`"best_of":1`, 1, 0}, {`"best_of":null`, 1, 0},
	} {
		r, _, err := Completion{}.DecodeRequest(&http.Request{}, []byte(`{"model":"m","prompt":"a","max_tokens":3,`+c.members+`}`))
		if (err == nil) != (c.n > 0) {
			t.Errorf("%s: %v", c.members, err)
		} else if err == nil && (r.Sampling.N != c.n || r.Sampling.BestOf != c.bestOf) {
			t.Errorf("%s: %d of %d", c.members, r.Sampling.N, r.Sampling.BestOf)
		}
	}
}

// No provider can charge for more tokens than any model can make.
func TestImplausibleCounts(t *testing.T) {
	for count, stated := range map[string]bool{"5": true, "268435456": true, "268435457": false, "4000000000": false, "9223372036854775807": false, "-5": false, "1e308": false, `"5"`: false} {
		var c jsonread.Cursor
		c.Reset([]byte(`{"prompt_tokens":` + count + `,"completion_tokens":` + count + `}`))
		if u := readUsage(&c); u.stated() != stated {
			t.Errorf("%s: %+v", count, u)
		}
	}
}
