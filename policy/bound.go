package policy

import "hearth/engine/infer"

// Bound gives r with a maximum of output tokens where it names none, so that what
// was held for it is a bound and not a guess. The maximum also stands in the bytes
// that go to a provider of the same dialect. kind is that of the provider: OpenAI's
// own chats have another name for it than most servers know.
func Bound(r *infer.Request, most int, kind string) *infer.Request {
	if r.Sampling.MaxTokens != 0 || most <= 0 {
		return r
	}
	own := *r
	own.Sampling.MaxTokens = most
	if own.Wire == nil {
		return &own
	}
	own.Wire = clampWire(own.Wire, most)
	if own.Wire == nil || own.Wire.Dialect != dialectChat || kind == "openai" || kind == "azure" {
		return &own
	}
	if set := own.Wire.Set; set["max_tokens"] == nil {
		set["max_tokens"] = set["max_completion_tokens"]
		delete(set, "max_completion_tokens")
	}
	return &own
}
