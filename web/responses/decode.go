package responses

import (
	"encoding/json"
	"net/http"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Dialect decodes requests and encodes answers. State may be nil: then no
// earlier turns are known.
type Dialect struct{ State State }

// decoder collects the fields of one request. JSON members come in any order,
// so what depends on several of them is settled in finish.
type decoder struct {
	r     *infer.Request
	o     wire.Options
	t     *Turn
	state State

	model    bool
	input    *jsonread.Value
	choice   *jsonread.Value
	previous *jsonread.Value
	instruct string
	prompt   bool
	noted    int
	loaded   int
	hosted   []hostedTool
	rewrite  bool           // the input sent to a native provider must be ours
	turn     *infer.Message // assistant turn that items are being added to
	others   bool           // a turn other than of the system has come
}

// DecodeRequest reads a body of POST /v1/responses.
func (d Dialect) DecodeRequest(h *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err == nil && v.Kind() != jsonread.Object {
		err = v.Wrong("an object")
	}
	if err != nil {
		return nil, wire.Options{}, err
	}
	dec := &decoder{r: infer.NewRequest(), state: d.State}
	dec.t = &Turn{Store: true, fields: map[string]jsonread.Value{}}
	if err := v.Members(dec.member); err != nil {
		return nil, wire.Options{}, err
	}
	dec.r.Wire = &infer.Wire{Dialect: Name, Body: body, Header: dialectHeaders(h)}
	if len(dec.r.Wire.Header) > 0 {
		dec.use(infer.FeatureBeta, "openai-beta")
	}
	if err := dec.finish(); err != nil {
		return nil, wire.Options{}, err
	}
	dec.r.Stream = dec.o.Stream
	dec.o.Own, dec.o.Created = dec.t, time.Now()
	return dec.r, dec.o, nil
}

// dialectHeaders are the request headers that a provider of the dialect reads.
func dialectHeaders(h *http.Request) map[string][]string {
	var out map[string][]string
	if h == nil {
		return nil
	}
	if v := h.Header.Values("Openai-Beta"); len(v) > 0 {
		out = map[string][]string{"Openai-Beta": v}
	}
	return out
}

// use notes a field that asks for more than plain text.
func (d *decoder) use(f infer.Feature, path string) {
	d.r.Uses = append(d.r.Uses, infer.Use{Feature: f, Path: path})
}

// own notes a field of which only providers of this dialect make something.
func (d *decoder) own(f infer.Feature, path string) {
	d.r.Uses = append(d.r.Uses, infer.Use{Feature: f, Path: path, Own: true})
}

// stateless notes a use of earlier turns that only a provider may know, with what
// any other target says of it.
func (d *decoder) stateless(path, why string) {
	d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeatureState, Path: path, Why: why})
}

// unknown notes a member that nobody here knows. A null says nothing.
func (d *decoder) unknown(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	if d.noted++; d.noted > maxUses {
		return v.Errorf("cannot use the request: it has more than %d fields that nobody knows", maxUses)
	}
	d.use(infer.FeatureUnknown, v.Path())
	return nil
}

// member takes one top-level member.
func (d *decoder) member(key string, v jsonread.Value) error {
	if v.IsNull() && key != "input" && key != "model" {
		return nil
	}
	for _, take := range []func(string, jsonread.Value) (bool, error){d.content, d.sampling, d.shape, d.service, d.label} {
		if known, err := take(key, v); known || err != nil {
			return err
		}
	}
	return d.unknown(v)
}

// content takes what the answer rests on.
func (d *decoder) content(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "model":
		m, err := v.Str()
		if err == nil && (m == "" || len(m) > 512) {
			err = v.Errorf("cannot use model: got %d bytes, wanted a name of 1 to 512", len(m))
		}
		d.r.Model, d.model = m, true
		return true, err
	case "input":
		d.input = &v
	case "instructions":
		d.t.fields[key] = v
		d.instruct, err = v.Str()
	case "previous_response_id":
		d.previous = &v
		d.t.Previous, err = label(v)
	case "conversation":
		d.stateless(v.Path(), "conversations are not kept here; previous_response_id goes on from a response")
	case "prompt":
		// A template kept at the provider: nobody else knows what it says.
		d.prompt = true
		d.stateless(v.Path(), "prompt templates are kept at OpenAI only")
	case "tools":
		d.t.fields[key] = v
		err = d.tools(v)
	case "tool_choice":
		d.t.fields[key] = v
		d.choice = &v
	case "include":
		err = d.include(v)
	default:
		return false, nil
	}
	return true, err
}

// sampling takes what shapes the choice of each token. Besides OpenAI's there
// are the names that the open servers of this API have for theirs.
func (d *decoder) sampling(key string, v jsonread.Value) (known bool, err error) {
	s := &d.r.Sampling
	switch key {
	case "temperature":
		s.Temperature, err = d.number(v, infer.FeatureTemperature, 1, 0, 2)
	case "top_p":
		s.TopP, err = d.number(v, infer.FeatureTopP, 1, 0, 1)
		if err == nil && s.TopP == 0 {
			err = v.Wrong("a number above 0 and up to 1")
		}
	case "presence_penalty":
		s.PresencePenalty, err = d.number(v, infer.FeaturePresencePenalty, 0, -2, 2)
	case "frequency_penalty":
		s.FrequencyPenalty, err = d.number(v, infer.FeatureFrequencyPenalty, 0, -2, 2)
	case "min_p":
		s.MinP, err = d.number(v, infer.FeatureMinP, 0, 0, 1)
	case "repetition_penalty":
		s.RepetitionPenalty, err = d.number(v, infer.FeatureRepetitionPenalty, 1, 0.01, 10)
	case "top_k":
		var n int64
		if n, err = v.Int(-1, 1<<31-1); err == nil && n > 0 {
			s.TopK = int(n)
			d.use(infer.FeatureTopK, key)
		}
	case "seed":
		var n int64
		if n, err = v.Int(-1<<63, 1<<63-1); err == nil {
			s.Seed = &n
			d.use(infer.FeatureSeed, key)
		}
	case "stop":
		err = d.stop(v)
	case "max_output_tokens":
		var n int64
		if n, err = v.Int(1, maxTokens); err == nil {
			s.MaxTokens = int(n)
			d.use(infer.FeatureMaxTokens, key)
		}
		d.t.fields[key] = v
	case "top_logprobs":
		var n int64
		if n, err = v.Int(0, maxTop); err == nil && n > 0 {
			s.Logprobs, s.TopLogprobs = true, int(n)
			d.use(infer.FeatureLogprobs, key)
		}
		d.t.fields[key] = v
	default:
		return false, nil
	}
	return true, err
}

// number reads a number and notes its use unless it is the default.
func (d *decoder) number(v jsonread.Value, f infer.Feature, def, lo, hi float64) (float64, error) {
	n, err := v.Float(lo, hi)
	if err != nil {
		return def, err
	}
	if n != def {
		d.use(f, v.Path())
	}
	d.t.fields[v.Path()] = v
	return n, nil
}

func (d *decoder) stop(v jsonread.Value) (err error) {
	if v.Kind() == jsonread.String {
		var s string
		if s, err = v.Str(); err == nil && s != "" {
			d.r.Sampling.Stop = []string{s}
		}
	} else {
		d.r.Sampling.Stop, err = v.Strings(maxStops)
	}
	if len(d.r.Sampling.Stop) > 0 {
		d.use(infer.FeatureStop, v.Path())
	}
	return err
}

// shape takes what changes the form of the answer.
func (d *decoder) shape(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "text":
		d.t.fields[key] = v
		err = d.text(v)
	case "reasoning":
		d.t.fields[key] = v
		err = d.reasoning(v)
	case "parallel_tool_calls":
		var b bool
		if b, err = v.Bool(); err == nil && !b {
			d.r.ParallelToolCalls = false
			d.use(infer.FeatureToolSerial, key)
		}
	case "stream":
		d.o.Stream, err = v.Bool()
	case "stream_options":
		err = v.Members(func(k string, m jsonread.Value) (err error) {
			if k == "include_obfuscation" && !m.IsNull() {
				d.o.Obfuscate, err = m.Bool()
				return err
			}
			return d.unknown(m)
		})
	case "truncation":
		var s string
		if s, err = v.Enum("auto", "disabled"); s == "auto" {
			d.use(infer.FeatureTruncation, key)
		}
		d.t.fields[key] = v
	case "context_management":
		if v.Kind() != jsonread.Array || !v.Empty() {
			d.use(infer.FeatureContextEdits, key)
		}
	default:
		return false, nil
	}
	return true, err
}

// service takes what concerns the server rather than the model.
func (d *decoder) service(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "store":
		d.t.Store, err = v.Bool()
	case "background":
		d.t.Background, err = v.Bool()
	case "background_options":
		d.use(infer.FeatureBackground, key)
	case "max_tool_calls": // of hosted tools only
		d.t.fields[key] = v
		if _, err = v.Int(1, maxTokens); err == nil {
			d.use(infer.FeatureToolHostedOptional, key)
		}
	case "moderation", "access_programs":
		d.use(infer.FeatureSafety, key)
	case "image":
		d.own(infer.FeatureImageDetail, key)
	case "service_tier":
		d.t.fields[key] = v
		var s string
		if s, err = label(v); err == nil && s != "" && s != "auto" && s != "default" {
			d.r.Hints.ServiceTier = s
			d.use(infer.FeatureServiceTier, key)
		}
	default:
		return false, nil
	}
	return true, err
}

// label takes what cannot change what the answer says.
func (d *decoder) label(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "metadata":
		d.t.fields[key] = v
		if v.Kind() != jsonread.Object {
			return true, v.Wrong("an object")
		}
		if !v.Empty() {
			d.r.Hints.Metadata = v.Clone()
			d.use(infer.FeatureMetadata, key)
		}
	case "client_metadata": // Codex's: about its own installation
		d.own(infer.FeatureMetadata, key)
	case "user", "safety_identifier":
		d.t.fields[key] = v
		var s string
		if s, err = label(v); err == nil && s != "" {
			d.r.Hints.User = s
			d.use(infer.FeatureUser, key)
		}
	case "prompt_cache_key":
		d.t.fields[key] = v
		if d.r.Hints.CacheKey, err = label(v); d.r.Hints.CacheKey != "" {
			d.use(infer.FeatureCacheKey, key)
		}
	case "prompt_cache_retention":
		if d.r.Hints.CacheRetention, err = label(v); d.r.Hints.CacheRetention != "" {
			d.use(infer.FeatureCacheKey, key)
		}
	case "prompt_cache_options":
		d.own(infer.FeatureCacheKey, key)
	default:
		return false, nil
	}
	return true, err
}

// include asks for more in the answer.
func (d *decoder) include(v jsonread.Value) error {
	return v.Items(maxInclude, func(_ int, m jsonread.Value) error {
		s, err := m.Str()
		switch s {
		case "reasoning.encrypted_content":
			d.t.sealed = true
			d.use(infer.FeatureReasoningEncrypted, m.Path())
		case "message.output_text.logprobs":
			d.r.Sampling.Logprobs = true
			d.use(infer.FeatureLogprobs, m.Path())
		case "message.input_image.image_url": // of stored items, which have it anyway
		case "web_search_call.results", "web_search_call.action.sources", "file_search_call.results",
			"code_interpreter_call.outputs", "computer_call_output.output.image_url":
			d.use(infer.FeatureToolHostedOptional, m.Path())
		default:
			if err == nil {
				d.use(infer.FeatureUnknown, m.Path())
			}
		}
		return err
	})
}

// reasoning reads {effort, summary}.
func (d *decoder) reasoning(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		s, err := label(m)
		switch key {
		case "effort":
			if s != "" && err == nil {
				d.r.Thinking.Effort = s
				d.use(infer.FeatureReasoningEffort, m.Path())
			}
		case "summary", "generate_summary":
			if s, err = m.Enum("auto", "concise", "detailed", "none"); err == nil {
				d.r.Thinking.Summary = s
				d.t.summary = s != "none"
				d.use(infer.FeatureReasoningSummary, m.Path())
			}
		case "context": // which earlier sealed reasoning is shown to the model
			if s != "auto" && err == nil {
				d.own(infer.FeatureReasoningEncrypted, m.Path())
			}
		case "mode":
			if s != "standard" && err == nil {
				d.own(infer.FeatureReasoningEffort, m.Path())
			}
		default:
			return d.unknown(m)
		}
		return err
	})
}

// finish settles what several fields decide together.
func (d *decoder) finish() error {
	if !d.model {
		return infer.Invalid("model", "cannot route the request: got no model, wanted its name")
	}
	if d.instruct != "" {
		d.r.Messages = append(d.r.Messages, infer.Message{Role: infer.RoleSystem, Content: []infer.Part{{Type: "text", Text: d.instruct}}})
	}
	if d.previous != nil && d.t.Previous != "" {
		if err := d.earlier(); err != nil {
			return err
		}
	}
	if d.input != nil && !d.input.IsNull() {
		if err := d.items(*d.input); err != nil {
			return err
		}
	}
	d.endTurn()
	if len(d.r.Messages) == 0 && !d.prompt {
		return infer.Invalid("input", "cannot answer an empty conversation: got no input, wanted a text or items")
	}
	if err := d.toolChoice(); err != nil {
		return err
	}
	if d.t.Background && !d.t.Store {
		return infer.Invalid("background", "cannot run in the background with store: false: the answer could not be fetched")
	}
	d.rewire()
	return nil
}

// rewire says what a provider of this dialect is sent in place of what came:
// earlier turns that only we know, and no background, which is ours.
func (d *decoder) rewire() {
	set := map[string]json.RawMessage{}
	if d.rewrite {
		set["input"] = joinItems(d.t.Items)
		set["previous_response_id"] = []byte("null")
	}
	if d.t.Background {
		set["background"] = []byte("false")
	}
	if len(set) > 0 {
		d.r.Wire.Set = set
	}
}

// joinItems makes an array of items.
func joinItems(items [][]byte) []byte {
	n := 2
	for _, it := range items {
		n += len(it) + 1
	}
	out := append(make([]byte, 0, n), '[')
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, it...)
	}
	return append(out, ']')
}

// label reads a short string.
func label(v jsonread.Value) (string, error) {
	s, err := v.Str()
	if err == nil && len(s) > maxID {
		err = v.Errorf("cannot use %s: got %d bytes, wanted at most %d", v.Path(), len(s), maxID)
	}
	return s, err
}
