package gemini

import (
	"net/url"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// AppendModel appends one Model resource.
func AppendModel(dst []byte, m *infer.Model) []byte {
	dst = jsonwrite.String(append(dst, `{"name":`...), "models/"+m.Name)
	dst = jsonwrite.String(append(dst, `,"baseModelId":`...), m.Name)
	version := m.Fingerprint
	if version == "" {
		version = "1"
	}
	dst = jsonwrite.String(append(dst, `,"version":`...), version)
	dst = jsonwrite.String(append(dst, `,"displayName":`...), m.Name)
	if m.ContextLength > 0 {
		dst = jsonwrite.Int(append(dst, `,"inputTokenLimit":`...), int64(m.ContextLength))
		dst = jsonwrite.Int(append(dst, `,"outputTokenLimit":`...), int64(m.ContextLength))
	}
	dst = append(dst, `,"supportedGenerationMethods":["generateContent","countTokens","embedContent","batchEmbedContents"]`...)
	if m.Reasoning {
		dst = append(dst, `,"thinking":true`...)
	}
	return append(dst, '}')
}

// EncodeModels is one page of GET /v1beta/models. A page token is the place of
// its first model.
func EncodeModels(models []infer.Model, q url.Values) ([]byte, error) {
	size, from := 50, 0
	if s := q.Get("pageSize"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, infer.Invalid("pageSize", "cannot use pageSize: wanted a whole number of 0 or more")
		}
		if n > 0 {
			size = min(n, 1000)
		}
	}
	if s := q.Get("pageToken"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > len(models) {
			return nil, infer.Invalid("pageToken", "cannot use pageToken: it names no page of this list")
		}
		from = n
	}
	to := min(from+size, len(models))
	dst := []byte(`{"models":[`)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, &models[i])
	}
	dst = append(dst, ']')
	if to < len(models) {
		dst = jsonwrite.String(append(dst, `,"nextPageToken":`...), strconv.Itoa(to))
	}
	return append(dst, "}\n"...), nil
}
