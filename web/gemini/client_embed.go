package gemini

import (
	"encoding/json"
	"math"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// EncodeEmbed implements wire.EmbedClient: batchEmbedContents, or predict at
// Vertex AI.
func (Client) EncodeEmbed(r *infer.EmbedRequest, t wire.Target) (*wire.Outgoing, error) {
	if r.Wire != nil && r.Wire.Dialect == Name && t.Profile != ProfileVertex {
		return nativeEmbed(r.Wire, t)
	}
	for i := range r.Inputs {
		if r.Inputs[i].Tokens != nil {
			return nil, infer.Unsupported("input", "the provider of this model embeds text, not token ids")
		}
	}
	if t.Profile == ProfileVertex {
		return &wire.Outgoing{Path: path(t, "predict"), Body: predictBody(r)}, nil
	}
	dst := []byte(`{"requests":[`)
	for i := range r.Inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(append(dst, `{"model":`...), resource(t))
		dst = jsonwrite.String(append(dst, `,"content":{"parts":[{"text":`...), r.Inputs[i].Text)
		dst = append(dst, "}]}"...)
		if r.Dimensions > 0 {
			dst = jsonwrite.Int(append(dst, `,"outputDimensionality":`...), int64(r.Dimensions))
		}
		dst = append(dst, '}')
	}
	return &wire.Outgoing{Path: path(t, "batchEmbedContents"), Body: append(dst, "]}"...)}, nil
}

func predictBody(r *infer.EmbedRequest) []byte {
	dst := []byte(`{"instances":[`)
	for i := range r.Inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonwrite.String(append(dst, `{"content":`...), r.Inputs[i].Text), '}')
	}
	dst = append(dst, ']')
	if r.Dimensions > 0 {
		dst = jsonwrite.Int(append(dst, `,"parameters":{"outputDimensionality":`...), int64(r.Dimensions))
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// nativeEmbed passes a body on. Every request of a batch names the model.
func nativeEmbed(w *infer.Wire, t wire.Target) (*wire.Outgoing, error) {
	broken := infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is not what the route takes")
	name, err := json.Marshal(resource(t))
	if err != nil {
		return nil, err
	}
	model := []wire.Member{{Name: "model", Value: name}}
	var c jsonread.Cursor
	c.Reset(w.Body)
	var requests []byte
	batch := false
	for ok := c.Object(); ok && c.More(); {
		if jsonread.Unescape(c.Key()) != "requests" {
			c.Skip()
			continue
		}
		batch = true
		requests = append(requests[:0], '[')
		for ok := c.Array(); ok && c.More(); {
			one, ok := wire.Splice(c.Raw(), model, sameName)
			if !ok {
				return nil, broken
			}
			if len(requests) > 1 {
				requests = append(requests, ',')
			}
			requests = append(requests, one...)
		}
		requests = append(requests, ']')
	}
	o := &wire.Outgoing{Path: path(t, "embedContent"), Native: true}
	set := append(wire.Members(w.Set), model...)
	if batch {
		o.Path = path(t, "batchEmbedContents")
		set = append(wire.Members(w.Set), wire.Member{Name: "requests", Value: requests})
	}
	var ok bool
	if o.Body, ok = wire.Splice(w.Body, set, sameName); !ok || !c.OK() {
		return nil, broken
	}
	return o, nil
}

// DecodeEmbed implements wire.EmbedClient.
func (Client) DecodeEmbed(r *infer.EmbedRequest, o *wire.Outgoing, body []byte) (*infer.EmbedResult, error) {
	var c jsonread.Cursor
	c.Reset(body)
	res := &infer.EmbedResult{Model: r.Model}
	stated := false
	tokens := func(n int64, ok bool) {
		if ok && n >= 0 && n <= wire.MaxCount {
			res.Usage.PromptTokens += int(n)
			stated = true
		}
	}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "embedding":
			res.Vectors = append(res.Vectors, readVector(&c, tokens))
		case "embeddings":
			for ok := c.Array(); ok && c.More(); {
				res.Vectors = append(res.Vectors, readVector(&c, tokens))
			}
		case "predictions":
			for ok := c.Array(); ok && c.More(); {
				for ok := c.Object(); ok && c.More(); {
					if string(c.Key()) == "embeddings" {
						res.Vectors = append(res.Vectors, readVector(&c, tokens))
					} else {
						c.Skip()
					}
				}
			}
		case "usageMetadata":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "promptTokenCount" {
					tokens(c.Int())
				} else {
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	if !c.End() || len(res.Vectors) != len(r.Inputs) {
		return nil, wire.Malformed(nil)
	}
	for _, v := range res.Vectors {
		if len(v) == 0 {
			return nil, wire.Malformed(nil)
		}
	}
	if !stated { // the service does not count embeddings
		for i := range r.Inputs {
			res.Usage.PromptTokens += wire.EstimateTokens(len(r.Inputs[i].Text))
		}
		res.Usage.Estimated = true
	}
	if o.Native {
		res.Frame = &infer.Frame{Data: append([]byte(nil), body...)}
		return res, nil
	}
	for _, v := range res.Vectors {
		unit(v)
	}
	return res, nil
}

// readVector reads {"values", "statistics":{"token_count"}}.
func readVector(c *jsonread.Cursor, tokens func(int64, bool)) []float32 {
	var v []float32
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "values":
			for ok := c.Array(); ok && c.More(); {
				f, _ := c.Float()
				v = append(v, float32(f))
			}
		case "statistics":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "token_count" { // as Vertex AI spells it
					tokens(c.Int())
				} else {
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	return v
}

// unit scales to length one: shortened vectors come as they were cut.
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
