package gemini

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// DecodeCount reads the body of :countTokens, which holds contents, or a whole
// request in generateContentRequest. Wire holds the request in the form that
// generateContent takes.
func DecodeCount(body []byte, model string) (*infer.Request, error) {
	v, err := root(body)
	if err != nil {
		return nil, err
	}
	inner := v
	n := 0
	err = members(v, func(key string, m jsonread.Value) error {
		n++
		if key == "generateContentRequest" {
			if m.Kind() != jsonread.Object {
				return m.Wrong("an object")
			}
			inner = m
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	whole := len(inner.Raw()) != len(v.Raw())
	if whole && n > 1 {
		return nil, inner.Errorf("cannot use generateContentRequest beside other members")
	}
	d, err := decodeGenerate(inner, model)
	if err != nil {
		return nil, err
	}
	d.r.Wire = &infer.Wire{Dialect: Name, Body: inner.Raw()}
	return d.r, nil
}

// EncodeCount is the answer of :countTokens.
func EncodeCount(promptTokens int) []byte {
	return append(jsonwrite.Int([]byte(`{"totalTokens":`), int64(promptTokens)), "}\n"...)
}
