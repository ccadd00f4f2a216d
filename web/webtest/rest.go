package webtest

import (
	"context"

	"hearth/engine/infer"
	"hearth/web"
)

// Embed gives each input a vector of unit length.
func (s *Service) Embed(_ context.Context, _ *web.Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	out := &infer.EmbedResult{Model: r.Model}
	for i := range r.Inputs {
		v := make([]float32, max(4, r.Dimensions))
		v[i%len(v)] = 1
		out.Vectors = append(out.Vectors, v)
		out.Usage.PromptTokens += 2
	}
	return out, nil
}

// Models lists the parrot.
func (s *Service) Models(context.Context, *web.Grant) ([]infer.Model, error) {
	return []infer.Model{{Name: "parrot", ContextLength: 2048, Created: 1_700_000_000, Architecture: "llama", Quantization: "Q8_0", Device: "cpu", ParameterSize: 1_500_000, FileBytes: 2_000_000}}, nil
}

// Count counts words.
func (s *Service) Count(_ context.Context, _ *web.Grant, r *infer.Request) (infer.Count, error) {
	return infer.Count{PromptTokens: len(words(Asked(r))), MaxOutputTokens: r.Sampling.MaxTokens}, nil
}

// Tokenize gives every byte an id, behind a 1 for the beginning.
func (s *Service) Tokenize(_ context.Context, _ *web.Grant, r *infer.TokenizeRequest) ([]int32, error) {
	text, out := r.Text, []int32{}
	if r.Chat != nil {
		text = Asked(r.Chat)
	}
	if r.AddSpecial {
		out = append(out, 1)
	}
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out, nil
}

// Detokenize is the inverse of Tokenize.
func (s *Service) Detokenize(_ context.Context, _ *web.Grant, _ string, ids []int32) ([]byte, error) {
	var out []byte
	for _, id := range ids {
		if id > 255 {
			return nil, infer.Invalid("tokens", "the id %d is not in the vocabulary", id)
		}
		if id != 1 {
			out = append(out, byte(id))
		}
	}
	return out, nil
}

// Ready follows Down.
func (s *Service) Ready() (bool, string) {
	why, _ := s.Down.Load().(string)
	return why == "", why
}
