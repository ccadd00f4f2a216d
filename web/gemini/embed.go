package gemini

import (
	"math"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// EmbedOptions say how an answer of embeddings looks.
type EmbedOptions struct {
	Batch bool // batchEmbedContents
}

// DecodeEmbed reads the body of :embedContent, or with batch that of
// :batchEmbedContents.
func DecodeEmbed(body []byte, model string, batch bool) (*infer.EmbedRequest, EmbedOptions, error) {
	o := EmbedOptions{Batch: batch}
	v, err := root(body)
	if err != nil {
		return nil, o, err
	}
	d := &decoder{r: infer.NewRequest()}
	if err := d.setModel(model); err != nil {
		return nil, o, err
	}
	e := &embedDecoder{decoder: d, r: &infer.EmbedRequest{Model: model, Wire: &infer.Wire{Dialect: Name, Body: body}}, dims: -1}
	if !batch {
		err = e.one(v)
	} else {
		err = members(v, func(key string, m jsonread.Value) error {
			if key == "requests" {
				return m.Items(maxEmbeds, func(_ int, q jsonread.Value) error { return e.one(q) })
			}
			return d.unknown(m)
		})
		if err == nil && len(e.r.Inputs) == 0 {
			err = infer.Invalid("requests", "cannot embed nothing: got no requests")
		}
	}
	if err != nil {
		return nil, o, err
	}
	e.r.Dimensions = max(0, e.dims)
	e.r.Uses = d.r.Uses
	return e.r, o, nil
}

type embedDecoder struct {
	*decoder
	r    *infer.EmbedRequest
	dims int // -1: no request has been read
}

// one reads one EmbedContentRequest.
func (e *embedDecoder) one(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("an object")
	}
	text, has, dims := "", false, 0
	err := members(v, func(key string, m jsonread.Value) error {
		switch key {
		case "model":
			return e.sameModel(m)
		case "content":
			has = true
			return e.text(&text, m)
		case "outputDimensionality":
			n, err := integer(m, 1, math.MaxInt32)
			dims = int(n)
			e.use(infer.FeatureDimensions, m)
			return err
		}
		return e.unknown(m) // taskType, title: they change the vector
	})
	switch {
	case err != nil:
		return err
	case !has:
		return v.Errorf("cannot embed nothing: got no content")
	case e.dims >= 0 && e.dims != dims:
		return v.Errorf("cannot use outputDimensionality: the requests of one batch differ")
	}
	e.dims = dims
	e.r.Inputs = append(e.r.Inputs, infer.Prompt{Text: text})
	return nil
}

// text joins the text of a content; other parts are noted.
func (e *embedDecoder) text(dst *string, v jsonread.Value) error {
	t := turn{d: e.decoder, m: infer.Message{Role: infer.RoleUser}}
	err := members(v, func(key string, m jsonread.Value) error {
		switch key {
		case "role":
			return nil
		case "parts":
			return each(m, maxParts, t.part)
		}
		return e.unknown(m)
	})
	var b strings.Builder
	for _, p := range t.m.Content {
		b.WriteString(p.Text)
	}
	*dst = b.String()
	return err
}

// EncodeEmbed is the answer of :embedContent or :batchEmbedContents.
func EncodeEmbed(o EmbedOptions, res *infer.EmbedResult) []byte {
	if res.Frame != nil {
		return res.Frame.Data
	}
	dst := []byte(`{"embedding":`)
	if o.Batch {
		dst = []byte(`{"embeddings":[`)
	}
	for i, vec := range res.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"values":[`...)
		for k, f := range vec {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = jsonwrite.Float(dst, float64(f))
		}
		dst = append(dst, "]}"...)
	}
	if o.Batch {
		dst = append(dst, ']')
	}
	dst = jsonwrite.Int(append(dst, `,"usageMetadata":{"promptTokenCount":`...), int64(res.Usage.PromptTokens))
	return append(dst, "}}\n"...)
}
