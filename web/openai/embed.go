package openai

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// EmbedOptions are the parts of an embedding request that only the wire cares
// about.
type EmbedOptions struct {
	Base64 bool // little-endian float32, as the Python SDK asks for
}

// DecodeEmbed reads the body of POST /v1/embeddings.
func DecodeEmbed(body []byte) (*infer.EmbedRequest, EmbedOptions, error) {
	var o EmbedOptions
	v, err := root(body)
	if err != nil {
		return nil, o, err
	}
	r := &infer.EmbedRequest{Wire: &infer.Wire{Dialect: DialectEmbeddings, Body: body}}
	seen := false
	d := newDecoder(infer.Completion)
	err = v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "model":
			return d.setModel(m)
		case "input":
			seen = true
			r.Inputs, err = inputs(m)
			if len(r.Inputs) > 1 {
				d.use(infer.FeatureManyPrompts, m)
			}
			if len(r.Inputs) > 0 && r.Inputs[0].Tokens != nil {
				d.use(infer.FeatureTokenPrompt, m)
			}
			return err
		case "encoding_format":
			if m.IsNull() {
				return nil
			}
			f, err := m.Enum("float", "base64")
			o.Base64 = f == "base64"
			return err
		case "dimensions":
			return d.int(infer.FeatureDimensions, &r.Dimensions, m, 1, 1<<20)
		case "user":
			_, err = d.side(key, m)
			return err
		case "priority":
			var p int // an embedding runs in one step; there is nothing to order
			return setInt(&p, m, math.MinInt32, math.MaxInt32)
		case "truncate_prompt_tokens", "add_special_tokens", "normalize", "embd_normalize":
			if m.IsNull() || key != "truncate_prompt_tokens" && (string(m.Raw()) == "true" || string(m.Raw()) == "2") {
				return nil
			}
			return d.lost(infer.FeatureUnknown, m, m.Unsupported("cannot use %s: it is not offered", key))
		}
		return d.unknownMember(key, m)
	})
	switch {
	case err != nil:
	case !d.model:
		err = infer.Invalid("model", "cannot route the request: got no model, wanted its name")
	case !seen:
		err = infer.Invalid("input", "cannot embed: got no input")
	}
	r.Model, r.Uses, r.Hints = d.r.Model, d.r.Uses, d.r.Hints
	return r, o, err
}

// inputs reads what prompts reads, and refuses empty texts: they have no vector.
func inputs(v jsonread.Value) ([]infer.Prompt, error) {
	in, err := prompts(v, maxInputs)
	if err != nil {
		return nil, err
	}
	for i, p := range in {
		if p.Tokens == nil && p.Text == "" {
			param := v.Path()
			if v.Kind() == jsonread.Array {
				param += "[" + strconv.Itoa(i) + "]"
			}
			return nil, infer.Invalid(param, "cannot embed %s: got an empty string", param)
		}
	}
	return in, nil
}

// EncodeEmbed is the body of an answer to r.
func EncodeEmbed(r *infer.EmbedRequest, o EmbedOptions, res *infer.EmbedResult) ([]byte, error) {
	if res.Frame != nil { // a provider of this dialect has written it already
		return res.Frame.Data, nil
	}
	if len(res.Vectors) != len(r.Inputs) {
		return nil, fmt.Errorf("BUG: %d vectors for %d inputs", len(res.Vectors), len(r.Inputs))
	}
	dst := []byte(`{"object":"list","data":[`)
	var raw []byte
	for i, vec := range res.Vectors {
		dst = append(comma(dst, i), `{"object":"embedding","index":`...)
		dst = jsonwrite.Int(dst, int64(i))
		dst = append(dst, `,"embedding":`...)
		if o.Base64 {
			raw = raw[:0]
			for _, x := range vec {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			dst = append(dst, '"')
			dst = base64.StdEncoding.AppendEncode(dst, raw)
			dst = append(dst, `"}`...)
			continue
		}
		dst = append(dst, '[')
		for k, x := range vec {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("BUG: vector %d is not finite at %d", i, k)
			}
			dst = strconv.AppendFloat(comma(dst, k), float64(x), 'g', -1, 32)
		}
		dst = append(dst, "]}"...)
	}
	name := res.Model
	if name == "" {
		name = r.Model
	}
	dst = jsonwrite.String(append(dst, `],"model":`...), name)
	dst = jsonwrite.Int(append(dst, `,"usage":{"prompt_tokens":`...), int64(res.Usage.PromptTokens))
	dst = jsonwrite.Int(append(dst, `,"total_tokens":`...), int64(res.Usage.PromptTokens))
	return append(dst, "}}\n"...), nil
}
