package ollama

import (
	"math"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// EmbedOptions say how an answer of embeddings looks.
type EmbedOptions struct {
	Legacy  bool // /api/embeddings: one prompt, one vector
	Created time.Time
}

// DecodeEmbed reads the body of /api/embed, or with legacy of /api/embeddings.
func DecodeEmbed(body []byte, legacy bool) (*infer.EmbedRequest, EmbedOptions, error) {
	o := EmbedOptions{Legacy: legacy, Created: time.Now()}
	v, err := root(body)
	if err != nil {
		return nil, o, err
	}
	d := newDecoder(infer.Completion)
	r := &infer.EmbedRequest{Wire: &infer.Wire{Dialect: NameChat, Body: body}}
	has := false
	text := func(m jsonread.Value) error {
		var s string
		err := str(&s, m, maxText)
		r.Inputs = append(r.Inputs, infer.Prompt{Text: s})
		return err
	}
	err = members(v, func(key string, m jsonread.Value) error {
		switch {
		case key == "input" && !legacy:
			has = true
			if m.Kind() == jsonread.String {
				return text(m)
			}
			return m.Items(maxInputs, func(_ int, s jsonread.Value) error { return text(s) })
		case key == "prompt" && legacy:
			has = true
			return text(m)
		case key == "dimensions" && !legacy:
			n, err := m.Int(0, math.MaxInt32)
			if r.Dimensions = int(n); n > 0 {
				d.use(infer.FeatureDimensions, m)
			}
			return err
		case key == "model", key == "options", key == "keep_alive", key == "truncate" && !legacy:
			return d.shared(key, m)
		}
		if err := wire.Guard(key, m); err != nil {
			return err
		}
		return d.unknown(m)
	})
	if err == nil {
		err = d.finish()
	}
	if err == nil && !has {
		err = infer.Invalid("input", "cannot embed nothing: got no input")
	}
	r.Model, r.Uses, r.Hints = d.r.Model, d.r.Uses, d.r.Hints
	return r, o, err
}

// EncodeEmbed is the answer to /api/embed or /api/embeddings.
func EncodeEmbed(o EmbedOptions, res *infer.EmbedResult) []byte {
	if res.Frame != nil {
		return res.Frame.Data
	}
	if o.Legacy {
		dst := []byte(`{"embedding":`)
		if len(res.Vectors) == 0 {
			return append(dst, "[]}\n"...)
		}
		return append(appendVector(dst, res.Vectors[0]), "}\n"...)
	}
	dst := jsonwrite.String([]byte(`{"model":`), res.Model)
	dst = append(dst, `,"embeddings":[`...)
	for i, v := range res.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendVector(dst, v)
	}
	dst = appendSpan(append(dst, ']'), "total_duration", o.Created, time.Now())
	dst = jsonwrite.Int(append(dst, `,"prompt_eval_count":`...), int64(res.Usage.PromptTokens))
	return append(dst, "}\n"...)
}

func appendVector(dst []byte, v []float32) []byte {
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonwrite.Float(dst, float64(f))
	}
	return append(dst, ']')
}
