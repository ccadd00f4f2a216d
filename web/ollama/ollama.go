// Package ollama speaks Ollama's own API in both directions: as a server (chat,
// generate, embed and the lists of models), and as a client of an Ollama server.
//
// Streams are lines of JSON and are the default. Requests are decoded leniently:
// what infer.Request has no place for is noted as a Use and is for the route to
// judge.
//
// Source: api/types.go and docs/api.md of github.com/ollama/ollama.
package ollama

import (
	"encoding/base64"
	"math"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// The dialects as infer.Wire names them. Requests for embeddings go by the first.
const (
	NameChat     = "ollama-chat"
	NameGenerate = "ollama-generate"
)

// ContentType is the media type of a stream.
const ContentType = "application/x-ndjson"

// APIVersion is the version of Ollama whose API is spoken. Clients look at it
// before they use what is newer.
const APIVersion = "0.24.0"

// Bounds of one request; see package openai for their reasons.
const (
	maxMessages  = 4096
	maxImages    = 256 // of one message
	maxTools     = 256
	maxToolCalls = 256
	maxToolName  = 128
	maxStops     = 64
	maxStopBytes = 1024
	maxTokens    = 1 << 20
	maxLogprobs  = 20
	maxInputs    = 2048
	maxText      = 64 << 20
	maxShort     = 4096
	maxUses      = 1 << 14
	maxOpen      = maxToolCalls // calls whose results are looked for
)

// decoder collects one request.
type decoder struct {
	r     *infer.Request
	model bool
	// stream is on unless the request says otherwise.
	stream bool
	top    *jsonread.Value // top_logprobs
	open   []infer.ToolCall
	calls  int
}

func newDecoder(kind infer.Kind) *decoder {
	d := &decoder{r: infer.NewRequest(), stream: true}
	d.r.Kind = kind
	return d
}

// root parses a body that must be an object.
func root(body []byte) (jsonread.Value, error) {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err == nil && v.Kind() != jsonread.Object {
		err = v.Wrong("an object")
	}
	return v, err
}

// members calls f for each member that is not null, which is as good as absent.
func members(v jsonread.Value, f func(key string, m jsonread.Value) error) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		return f(key, m)
	})
}

// use notes a field.
func (d *decoder) use(f infer.Feature, v jsonread.Value) {
	switch n := len(d.r.Uses); {
	case n < maxUses:
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: f, Path: v.Path()})
	case n == maxUses: // what is not noted from here on must not pass for harmless
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeatureUnknown, Path: v.Path()})
	}
}

func (d *decoder) unknown(v jsonread.Value) error {
	d.use(infer.FeatureUnknown, v)
	return nil
}

// shared takes the members that chat and generate have in common.
func (d *decoder) shared(key string, v jsonread.Value) error {
	switch key {
	case "model":
		return d.setModel(v)
	case "stream":
		on, err := v.Bool()
		d.stream = on
		return err
	case "options":
		return members(v, d.option)
	case "format":
		return d.format(v)
	case "think":
		return d.think(v)
	case "keep_alive":
		return d.keepAlive(v)
	case "logprobs":
		on, err := v.Bool()
		if d.r.Sampling.Logprobs = on; on {
			d.use(infer.FeatureLogprobs, v)
		}
		return err
	case "top_logprobs":
		n, err := v.Int(0, maxLogprobs)
		if d.r.Sampling.TopLogprobs = int(n); n > 0 {
			d.top = &v
			d.use(infer.FeatureLogprobs, v)
		}
		return err
	case "truncate", "shift":
		// What is too long is refused by whatever serves the request; to cut it is
		// a default that few know of.
		_, err := v.Bool()
		return err
	}
	if err := wire.Guard(key, v); err != nil {
		return err
	}
	return d.unknown(v)
}

func (d *decoder) setModel(v jsonread.Value) error {
	m, err := v.Str()
	if err != nil {
		return err
	}
	if m == "" || len(m) > 512 {
		return v.Errorf("cannot use model: got %d bytes, wanted a name of 1 to 512", len(m))
	}
	d.r.Model, d.model = m, true
	return nil
}

// option takes one member of options. Those for loading a model change where and
// how it runs, not what it says.
func (d *decoder) option(key string, v jsonread.Value) error {
	s := &d.r.Sampling
	switch key {
	case "temperature":
		return d.float(&s.Temperature, v, 0, 100, infer.FeatureTemperature)
	case "top_p":
		return d.float(&s.TopP, v, 0, 1, infer.FeatureTopP)
	case "min_p":
		return d.float(&s.MinP, v, 0, 1, infer.FeatureMinP)
	case "repeat_penalty":
		return d.float(&s.RepetitionPenalty, v, 0, 10, infer.FeatureRepetitionPenalty)
	case "presence_penalty":
		return d.float(&s.PresencePenalty, v, -2, 2, infer.FeaturePresencePenalty)
	case "frequency_penalty":
		return d.float(&s.FrequencyPenalty, v, -2, 2, infer.FeatureFrequencyPenalty)
	case "top_k":
		n, err := v.Int(-1, math.MaxInt32)
		if s.TopK = max(0, int(n)); s.TopK > 0 {
			d.use(infer.FeatureTopK, v)
		}
		return err
	case "seed":
		n, err := v.Int(math.MinInt64, math.MaxInt64)
		if err == nil && n >= 0 { // -1 is a new one for each request
			s.Seed = &n
			d.use(infer.FeatureSeed, v)
		}
		return err
	case "num_predict": // -1 is without limit, -2 as much as the context holds
		n, err := v.Int(-2, maxTokens)
		if err == nil && n > 0 {
			s.MaxTokens = int(n)
			d.use(infer.FeatureMaxTokens, v)
		}
		return err
	case "stop":
		return d.stops(v)
	case "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mmap", "use_mlock",
		"embedding_only", "draft_num_predict":
		d.use(infer.FeatureBeta, v)
		return nil
	case "num_keep", "tfs_z", "typical_p", "repeat_last_n", "mirostat", "mirostat_tau", "mirostat_eta", "penalize_newline":
		d.use(infer.FeatureSampler, v)
		return nil
	}
	return d.unknown(v)
}

func (d *decoder) float(dst *float64, v jsonread.Value, lo, hi float64, f infer.Feature) error {
	x, err := v.Float(lo, hi)
	if err != nil {
		return err
	}
	if f == infer.FeatureTemperature {
		x = min(x, 2) // beyond it is noise on every engine
	}
	switch {
	case x != 0 || f == infer.FeatureTemperature:
	case f == infer.FeatureTopP:
		x = 1e-9 // the likeliest token alone
	case f == infer.FeatureRepetitionPenalty:
		x = 1 // off
	default:
		return nil // as without it
	}
	*dst = x
	d.use(f, v)
	return nil
}

// stops takes a string or strings.
func (d *decoder) stops(v jsonread.Value) error {
	one := func(m jsonread.Value) error {
		s, err := m.Str()
		if err != nil || s == "" {
			return err
		}
		if len(s) > maxStopBytes {
			return m.Errorf("cannot use %s: got %d bytes, wanted a stop string of at most %d", m.Path(), len(s), maxStopBytes)
		}
		if len(d.r.Sampling.Stop) == 0 {
			d.use(infer.FeatureStop, v)
		}
		d.r.Sampling.Stop = append(d.r.Sampling.Stop, s)
		return nil
	}
	if v.Kind() == jsonread.String {
		return one(v)
	}
	return v.Items(maxStops, func(_ int, m jsonread.Value) error { return one(m) })
}

// format takes "json", a JSON schema, or nothing.
func (d *decoder) format(v jsonread.Value) error {
	f := &d.r.Format
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Enum("", "json")
		if s == "json" {
			f.Kind = infer.FormatJSONObject
			d.use(infer.FeatureJSONObject, v)
		}
		return err
	case jsonread.Object:
		f.Kind, f.Schema, f.Strict = infer.FormatJSONSchema, v.Clone(), true
		d.use(infer.FeatureJSONSchema, v)
		return nil
	}
	return v.Wrong(`"json" or a JSON schema`)
}

// think takes true, false or how much.
func (d *decoder) think(v jsonread.Value) error {
	t := &d.r.Thinking
	if v.Kind() == jsonread.Bool {
		on, err := v.Bool()
		if t.Switch = "off"; on {
			t.Switch = "on"
		}
		d.use(infer.FeatureReasoningSwitch, v)
		return err
	}
	s, err := v.Enum("low", "medium", "high", "max")
	t.Switch, t.Effort = "on", s
	d.use(infer.FeatureReasoningEffort, v)
	return err
}

// keepAlive takes seconds or a duration such as 5m.
func (d *decoder) keepAlive(v jsonread.Value) error {
	switch v.Kind() {
	case jsonread.Number:
		d.r.Hints.KeepAlive = string(v.Raw())
	case jsonread.String:
		s, err := v.Str()
		if err != nil || len(s) > 64 {
			return v.Wrong("a duration")
		}
		d.r.Hints.KeepAlive = s
	default:
		return v.Wrong("a number of seconds or a duration such as 5m")
	}
	d.use(infer.FeatureKeepAlive, v)
	return nil
}

// images reads base64 pictures as parts. A data: URL is what some clients write.
func (d *decoder) images(v jsonread.Value) ([]infer.Part, error) {
	var out []infer.Part
	err := v.Items(maxImages, func(_ int, m jsonread.Value) error {
		s, err := m.Str()
		if err != nil {
			return err
		}
		if head, rest, ok := strings.Cut(s, ","); ok && strings.HasPrefix(head, "data:") {
			s = rest
		}
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(data) == 0 {
			return m.Errorf("cannot use %s: its base64 is broken or empty", m.Path())
		}
		d.use(infer.FeatureImageData, m)
		out = append(out, infer.Part{Type: "image", Data: data, MIME: imageType(data)})
		return nil
	})
	return out, err
}

// imageType tells the type of an image by its first bytes, which is all there is
// to go by on this wire.
func imageType(b []byte) string {
	s := string(b[:min(len(b), 12)])
	switch {
	case strings.HasPrefix(s, "\x89PNG"):
		return "image/png"
	case strings.HasPrefix(s, "GIF8"):
		return "image/gif"
	case strings.HasPrefix(s, "RIFF") && strings.HasSuffix(s, "WEBP"):
		return "image/webp"
	}
	return "image/jpeg"
}

// str reads a string of at most most bytes.
func str(dst *string, v jsonread.Value, most int) error {
	s, err := v.Str()
	if err == nil && len(s) > most {
		return v.Errorf("cannot use %s: got %d bytes, wanted at most %d", v.Path(), len(s), most)
	}
	if err == nil {
		*dst = s
	}
	return err
}

// finish settles what several members decide together.
func (d *decoder) finish() error {
	if !d.model {
		return infer.Invalid("model", "cannot route the request: got no model, wanted its name")
	}
	if d.top != nil && !d.r.Sampling.Logprobs {
		return d.top.Errorf("cannot use top_logprobs without logprobs: true")
	}
	d.r.Stream = d.stream
	return nil
}
