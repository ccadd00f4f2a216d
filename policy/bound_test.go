package policy

import (
	"testing"

	"hearth/engine/infer"
)

func TestBound(t *testing.T) {
	for _, c := range []struct {
		dialect, body, kind string
		has                 int
		member, value       string
	}{
		{dialectChat, `{"model":"m"}`, "openai", 0, "max_completion_tokens", "64"},
		{dialectChat, `{"model":"m"}`, "vllm", 0, "max_tokens", "64"},
		{dialectAnthropic, `{"model":"m"}`, "anthropic", 0, "max_tokens", "64"},
		{dialectGemini, `{"generationConfig":{"topK":3}}`, "gemini", 0, "generationConfig", `{"maxOutputTokens":64,"topK":3}`},
		{dialectChat, `{"model":"m","max_tokens":7}`, "openai", 7, "", ""},
		{dialectChat, `{"model":"m","max_tokens":null}`, "vllm", 0, "max_tokens", "64"},
	} {
		r := infer.NewRequest()
		r.Sampling.MaxTokens = c.has
		r.Wire = &infer.Wire{Dialect: c.dialect, Body: []byte(c.body)}
		got := Bound(r, 64, c.kind)
		if c.member == "" {
			if got != r {
				t.Errorf("%s: a request with a maximum was changed", c.body)
			}
			continue
		}
		if got.Sampling.MaxTokens != 64 || len(got.Wire.Set) != 1 || string(got.Wire.Set[c.member]) != c.value {
			t.Errorf("%s to %s: %d, %s", c.body, c.kind, got.Sampling.MaxTokens, got.Wire.Set)
		}
		if r.Sampling.MaxTokens != 0 || r.Wire.Set != nil {
			t.Error("the caller's request was changed")
		}
	}
}

// n_predict wins at llama.cpp and is nothing elsewhere: both bounds are set.
func TestClampPredict(t *testing.T) {
	for _, c := range []struct{ dialect, body, other string }{
		{dialectChat, `{"n_predict":9999}`, "max_completion_tokens"},
		{dialectChat, `{"n_predict":-1,"max_tokens":5}`, "max_tokens"},
		{dialectCompletions, `{"n_predict":9999}`, "max_tokens"},
	} {
		w := clampWire(&infer.Wire{Dialect: c.dialect, Body: []byte(c.body)}, 64)
		if w == nil || len(w.Set) != 2 || string(w.Set["n_predict"]) != "64" || string(w.Set[c.other]) != "64" {
			t.Errorf("%s: %+v", c.body, w)
		}
	}
}
