package openai

import (
	"io"
	"math"
	"net/http"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Completion is the dialect of POST /v1/completions.
type Completion struct{}

var _ wire.Dialect = Completion{}

// defaultCompletionTokens is what OpenAI and vLLM take for an absent max_tokens
// on this route.
const defaultCompletionTokens = 16

// DecodeRequest implements wire.Dialect.
func (Completion) DecodeRequest(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := root(body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d := newDecoder(infer.Completion)
	d.r.Wire = &infer.Wire{Dialect: DialectCompletions, Body: body}
	seen, none, bestOf := false, false, 0
	var zero jsonread.Value
	err = v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "prompt":
			seen = true
			d.r.Prompts, err = prompts(m, maxPrompts)
			if len(d.r.Prompts) > 1 {
				d.use(infer.FeatureManyPrompts, m)
			}
			if len(d.r.Prompts) > 0 && d.r.Prompts[0].Tokens != nil {
				d.use(infer.FeatureTokenPrompt, m)
			}
			return err
		case "suffix":
			err := setString(&d.r.Suffix, m, 20<<20)
			if d.r.Suffix != "" {
				d.use(infer.FeatureSuffix, m)
			}
			return err
		case "echo":
			return d.flag(infer.FeatureEcho, &d.r.Echo, m)
		case "best_of":
			return setInt(&bestOf, m, 1, maxForeignN)
		case "max_tokens": // nothing is made of an echo that is only to be scored
			if string(m.Raw()) == "0" {
				none, zero = true, m
				return nil
			}
			return d.bound(&d.maxTokens, m)
		case "logprobs":
			return d.int(infer.FeatureLogprobs, &d.topLogprobs, m, 0, maxTopLogprob)
		case "add_special_tokens": // vLLM's; true is its default and ours
			b := true
			if err := setBool(&b, m); err != nil || b {
				return err
			}
			return d.lost(infer.FeatureUnknown, m, m.Unsupported("cannot use add_special_tokens: only true is offered (give the prompt as token ids)"))
		}
		known, err := d.shared(key, m)
		if !known && err == nil {
			err = d.unknownMember(key, m)
		}
		return err
	})
	if err == nil && !seen {
		err = infer.Invalid("prompt", "cannot complete a prompt: got none")
	}
	if err == nil && none {
		err = d.nothing(zero)
	}
	if err == nil {
		err = d.finishCompletion(bestOf)
	}
	if err == nil && none {
		d.r.Sampling.MaxTokens = -1
	}
	if err != nil {
		return nil, wire.Options{}, err
	}
	d.o.Created = time.Now()
	return d.r, d.o, nil
}

func (d *decoder) finishCompletion(bestOf int) error {
	s := &d.r.Sampling
	d.r.AddGenerationPrompt = false
	d.r.SplitReasoning = false // this route has one text and no place for another
	switch {
	case bestOf > 0 && bestOf < s.N:
		return infer.Invalid("best_of", "cannot use best_of %d: wanted at least n, which is %d", bestOf, s.N)
	case bestOf > s.N:
		err := infer.Unsupported("best_of", "cannot use best_of %d with n %d: choosing the best of several is not offered, wanted them equal", bestOf, s.N)
		s.BestOf = bestOf
		if err := d.note(infer.Use{Feature: infer.FeatureUnknown, Path: "best_of", Why: err.Message}); err != nil {
			return err
		}
	}
	if d.r.Echo && d.r.Suffix != "" {
		return infer.Invalid("suffix", "cannot use suffix with echo: what is echoed would not be the prompt")
	}
	if d.topLogprobs >= 0 {
		s.Logprobs, s.TopLogprobs = true, d.topLogprobs
		if s.PromptLogprobs = d.r.Echo; d.r.Echo {
			if err := d.note(infer.Use{Feature: infer.FeaturePromptLogprobs, Path: "logprobs"}); err != nil {
				return err
			}
		}
	}
	s.MaxTokens = defaultCompletionTokens
	if d.maxTokens < 0 && d.maxCompletion < 0 {
		s.MaxTokens = max(s.MaxTokens, s.MinTokens)
	}
	return d.finish()
}

// nothing takes a bound of no tokens. It has a meaning with an echo alone, and is
// to be had where echoes are.
func (d *decoder) nothing(bound jsonread.Value) error {
	switch {
	case !d.r.Echo:
		return d.lost(infer.FeatureUnknown, bound, bound.Wrong("a whole number from 1 to 1048576, or 0 with echo"))
	case d.r.Sampling.MinTokens > 0:
		return infer.Invalid("min_tokens", "cannot use min_tokens: got %d, wanted at most max_tokens, which is 0", d.r.Sampling.MinTokens)
	}
	return d.note(infer.Use{Feature: infer.FeatureEcho, Path: bound.Path()})
}

// prompts reads a string, token ids, or an array of either. The texts of a
// batch and the ids of a batch do not mix.
func prompts(v jsonread.Value, max int) ([]infer.Prompt, error) {
	const wanted = "a string, an array of strings, token ids, or an array of token id arrays"
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Str()
		return []infer.Prompt{{Text: s}}, err
	case jsonread.Array:
	default:
		return nil, v.Wrong(wanted)
	}
	if v.Empty() {
		return nil, v.Errorf("cannot use %s: got an empty array, wanted at least one prompt", v.Path())
	}
	var out []infer.Prompt
	switch first := v.First(); first.Kind() {
	case jsonread.Number:
		ids, err := tokenIDs(v)
		return []infer.Prompt{{Tokens: ids}}, err
	case jsonread.String:
		texts, err := v.Strings(max)
		for _, s := range texts {
			out = append(out, infer.Prompt{Text: s})
		}
		return out, err
	case jsonread.Array:
		err := v.Items(max, func(_ int, m jsonread.Value) error {
			ids, err := tokenIDs(m)
			out = append(out, infer.Prompt{Tokens: ids})
			return err
		})
		return out, err
	default:
		return nil, first.Wrong("a string, a token id or an array of token ids")
	}
}

// tokenIDs reads at least one id. Whether an id is in the vocabulary is for the
// engine to say.
func tokenIDs(v jsonread.Value) ([]int32, error) {
	ids, err := v.Int32s(maxIDs, 0, math.MaxInt32)
	if err == nil && len(ids) == 0 {
		err = v.Errorf("cannot use %s: got no token ids", v.Path())
	}
	return ids, err
}

// EncodeError implements wire.Dialect.
func (Completion) EncodeError(e *infer.Error, requestID string) (int, []byte) {
	return EncodeError(e, requestID)
}

// EncodeResponse implements wire.Dialect.
func (Completion) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	_, err := w.Write(appendCompletion(nil, r, o, a))
	return err
}

// NewStream implements wire.Dialect.
func (Completion) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return newCompletionStream(r, o)
}
