package ollama

import (
	"bytes"
	"encoding/json"
	"math"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// EncodeEmbed implements wire.EmbedClient.
func (ChatClient) EncodeEmbed(r *infer.EmbedRequest, t wire.Target) (*wire.Outgoing, error) {
	if r.Wire != nil && r.Wire.Dialect == NameChat {
		return nativeEmbed(r.Wire, t)
	}
	dst := jsonwrite.String([]byte(`{"model":`), t.Model)
	dst = append(dst, `,"input":[`...)
	for i := range r.Inputs {
		if r.Inputs[i].Tokens != nil {
			return nil, infer.Unsupported("input", "the provider of this model embeds text, not token ids")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(dst, r.Inputs[i].Text)
	}
	dst = append(dst, `],"truncate":false`...) // too long is an error, as everywhere
	if r.Dimensions > 0 {
		dst = jsonwrite.Int(append(dst, `,"dimensions":`...), int64(r.Dimensions))
	}
	return &wire.Outgoing{Path: "/api/embed", Body: append(dst, '}')}, nil
}

// nativeEmbed passes a body on. The older route has a prompt in place of input.
func nativeEmbed(w *infer.Wire, t wire.Target) (*wire.Outgoing, error) {
	name, err := json.Marshal(t.Model)
	if err != nil {
		return nil, err
	}
	o := &wire.Outgoing{Path: "/api/embeddings", Native: true}
	var c jsonread.Cursor
	c.Reset(w.Body)
	for ok := c.Object(); ok && c.More(); {
		if jsonread.Unescape(c.Key()) == "input" {
			o.Path = "/api/embed"
		}
		c.Skip()
	}
	var ok bool
	if o.Body, ok = wire.Splice(w.Body, append(wire.Members(w.Set), wire.Member{Name: "model", Value: name}), nil); !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is no JSON object")
	}
	return o, nil
}

// DecodeEmbed implements wire.EmbedClient.
func (ChatClient) DecodeEmbed(r *infer.EmbedRequest, o *wire.Outgoing, body []byte) (*infer.EmbedResult, error) {
	var c jsonread.Cursor
	c.Reset(body)
	res := &infer.EmbedResult{Model: r.Model}
	prompt := -1
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "embeddings":
			for ok := c.Array(); ok && c.More(); {
				res.Vectors = append(res.Vectors, readVector(&c))
			}
		case "embedding":
			res.Vectors = append(res.Vectors, readVector(&c))
		case "prompt_eval_count":
			count(&c, &prompt)
		default:
			c.Skip()
		}
	}
	if !c.End() || len(res.Vectors) != len(r.Inputs) {
		return nil, wire.Malformed(nil)
	}
	if res.Usage.PromptTokens = prompt; prompt < 0 {
		res.Usage = infer.Usage{Estimated: true}
		for i := range r.Inputs {
			res.Usage.PromptTokens += wire.EstimateTokens(len(r.Inputs[i].Text))
		}
	}
	if o.Native {
		res.Frame = &infer.Frame{Data: bytes.Clone(body)}
		return res, nil
	}
	for _, v := range res.Vectors {
		if len(v) == 0 {
			return nil, wire.Malformed(nil)
		}
		unit(v)
	}
	return res, nil
}

func readVector(c *jsonread.Cursor) []float32 {
	var v []float32
	for ok := c.Array(); ok && c.More(); {
		f, _ := c.Float()
		v = append(v, float32(f))
	}
	return v
}

// unit scales to length one, which not every model's vectors have.
func unit(v []float32) {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 || math.Abs(sum-1) < 1e-6 {
		return
	}
	k := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= k
	}
}
