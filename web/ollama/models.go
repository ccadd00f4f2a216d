package ollama

import (
	"fmt"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// appendDetails appends the details object. A provider's model has none that we
// know.
func appendDetails(dst []byte, m *infer.Model) []byte {
	format := "gguf"
	if m.Device == "upstream" {
		format = ""
	}
	dst = jsonwrite.String(append(dst, `{"parent_model":"","format":`...), format)
	dst = jsonwrite.String(append(dst, `,"family":`...), m.Architecture)
	dst = jsonwrite.String(append(dst, `,"families":[`...), m.Architecture)
	dst = jsonwrite.String(append(dst, `],"parameter_size":`...), size(m.ParameterSize))
	dst = jsonwrite.String(append(dst, `,"quantization_level":`...), m.Quantization)
	return append(dst, '}')
}

// size writes a number of weights as Ollama does: 7.6B, 494.03M.
func size(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%.2fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2fK", float64(n)/1e3)
}

// appendCapabilities appends what a model can do.
func appendCapabilities(dst []byte, m *infer.Model) []byte {
	dst = append(dst, `["completion"`...)
	if m.Tools {
		dst = append(dst, `,"tools"`...)
	}
	if m.Reasoning {
		dst = append(dst, `,"thinking"`...)
	}
	return append(dst, ']')
}

// appendEntry appends the members that both lists have.
func appendEntry(dst []byte, m *infer.Model) []byte {
	dst = jsonwrite.String(append(dst, `{"name":`...), m.Name)
	dst = jsonwrite.String(append(dst, `,"model":`...), m.Name)
	dst = jsonwrite.Int(append(dst, `,"size":`...), m.FileBytes)
	dst = jsonwrite.String(append(dst, `,"digest":`...), m.Digest)
	return appendDetails(append(dst, `,"details":`...), m)
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}

// EncodeTags is the body of GET /api/tags.
func EncodeTags(models []infer.Model) []byte {
	dst := []byte(`{"models":[`)
	for i := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEntry(dst, &models[i])
		dst = appendTime(append(dst, `,"modified_at":`...), time.Unix(models[i].Created, 0))
		dst = append(appendCapabilities(append(dst, `,"capabilities":`...), &models[i]), '}')
	}
	return append(dst, "]}\n"...)
}

// forever is when a model is unloaded that is kept.
var forever = time.Date(2318, 1, 1, 0, 0, 0, 0, time.UTC)

// EncodeRunning is the body of GET /api/ps: the models that this machine runs.
// They stay loaded.
func EncodeRunning(models []infer.Model) []byte {
	dst := []byte(`{"models":[`)
	n := 0
	for i := range models {
		m := &models[i]
		if m.Device == "upstream" {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = appendEntry(dst, m)
		dst = appendTime(append(dst, `,"expires_at":`...), forever)
		vram := m.FileBytes
		if m.Device == "" || m.Device == "cpu" {
			vram = 0
		}
		dst = jsonwrite.Int(append(dst, `,"size_vram":`...), vram)
		dst = append(jsonwrite.Int(append(dst, `,"context_length":`...), int64(m.ContextLength)), '}')
	}
	return append(dst, "]}\n"...)
}

// DecodeShow reads the body of POST /api/show.
func DecodeShow(body []byte) (model string, err error) {
	v, err := root(body)
	if err != nil {
		return "", err
	}
	d := newDecoder(infer.Chat)
	err = members(v, func(key string, m jsonread.Value) error {
		switch key {
		case "model", "name": // the latter is older
			return d.setModel(m)
		case "verbose", "system", "template", "options":
			return nil
		}
		return m.Unknown()
	})
	if err == nil && !d.model {
		err = infer.Invalid("model", "cannot show a model: got no name")
	}
	return d.r.Model, err
}

// EncodeShow is the answer to POST /api/show.
func EncodeShow(m *infer.Model) []byte {
	dst := jsonwrite.String([]byte(`{"license":`), m.Licence)
	dst = append(dst, `,"modelfile":"","parameters":"","template":"","details":`...)
	dst = appendDetails(dst, m)
	arch := m.Architecture
	if arch == "" {
		arch = "unknown"
	}
	dst = jsonwrite.String(append(dst, `,"model_info":{"general.architecture":`...), arch)
	dst = jsonwrite.Int(append(dst, `,"general.parameter_count":`...), m.ParameterSize)
	for _, n := range []struct {
		name  string
		value int
	}{{"context_length", m.ContextLength}, {"embedding_length", m.Embedding}, {"vocab_size", m.Vocabulary}} {
		if n.value > 0 {
			dst = jsonwrite.String(append(dst, ','), arch+"."+n.name)
			dst = jsonwrite.Int(append(dst, ':'), int64(n.value))
		}
	}
	dst = appendCapabilities(append(dst, `},"capabilities":`...), m)
	dst = appendTime(append(dst, `,"modified_at":`...), time.Unix(m.Created, 0))
	return append(dst, "}\n"...)
}
