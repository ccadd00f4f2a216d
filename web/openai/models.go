package openai

import (
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// AppendModel appends one model object. It satisfies the list formats of both
// OpenAI and Anthropic: each SDK takes the members it knows.
func AppendModel(dst []byte, m *infer.Model) []byte {
	created := time.Unix(m.Created, 0).UTC()
	dst = jsonwrite.String(append(dst, `{"id":`...), m.Name)
	dst = jsonwrite.Int(append(dst, `,"object":"model","created":`...), created.Unix())
	dst = append(dst, `,"owned_by":"hearth","root":`...)
	dst = jsonwrite.String(dst, m.Name)
	dst = append(dst, `,"parent":null,"type":"model","display_name":`...)
	dst = jsonwrite.String(dst, m.Name)
	dst = append(dst, `,"created_at":"`...)
	dst = created.AppendFormat(dst, time.RFC3339)
	dst = append(dst, `","lifecycle":"active"`...)
	if m.ContextLength > 0 {
		dst = jsonwrite.Int(append(dst, `,"max_input_tokens":`...), int64(m.ContextLength))
		dst = jsonwrite.Int(append(dst, `,"max_model_len":`...), int64(m.ContextLength))
		dst = jsonwrite.Int(append(dst, `,"context_length":`...), int64(m.ContextLength))
	}
	return append(dst, '}')
}

// EncodeModels is the body of GET /v1/models. The list has one page.
func EncodeModels(models []infer.Model) []byte {
	dst := []byte(`{"object":"list","data":[`)
	for i := range models {
		dst = AppendModel(comma(dst, i), &models[i])
	}
	dst = append(dst, `],"has_more":false,"first_id":`...)
	if len(models) == 0 {
		return append(dst, `null,"last_id":null}`+"\n"...)
	}
	dst = jsonwrite.String(dst, models[0].Name)
	dst = append(dst, `,"last_id":`...)
	dst = jsonwrite.String(dst, models[len(models)-1].Name)
	return append(dst, "}\n"...)
}
