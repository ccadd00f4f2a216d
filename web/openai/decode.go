package openai

import (
	"encoding/json"
	"math"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// decoder collects the fields of one generation request. JSON members come in
// any order, so what depends on several of them is settled in finish.
type decoder struct {
	r *infer.Request
	o wire.Options

	model         bool
	maxTokens     int // -1: not given
	maxCompletion int
	predict       int // n_predict; 0: without limit
	topLogprobs   int

	formats []string // the fields that set a constraint
	choice  *jsonread.Value
	legacy  *jsonread.Value // function_call
	stream  *jsonread.Value // stream_options
	// switched is the field that turned reasoning on or off.
	switched string
	legacyT  bool // functions given
	tools    bool // tools given
	spoken   bool // a turn of another role than the system's has come
	passed   bool // a tool was noted that has no form here
	// strict refuses what would be noted: for routes that no provider serves.
	strict bool
}

func newDecoder(kind infer.Kind) *decoder {
	d := &decoder{r: infer.NewRequest(), maxTokens: -1, maxCompletion: -1, predict: -1, topLogprobs: -1}
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

// shared takes the fields that chat and completions have in common.
func (d *decoder) shared(key string, v jsonread.Value) (known bool, err error) {
	if known, err = d.sampling(key, v); known {
		return true, err
	}
	if known, err = d.length(key, v); known {
		return true, err
	}
	if known, err = d.wireOnly(key, v); known {
		return true, err
	}
	if known, err = d.setFormat(key, v); known {
		return true, err
	}
	return d.side(key, v)
}

// sampling takes what shapes the choice of each token.
func (d *decoder) sampling(key string, v jsonread.Value) (known bool, err error) {
	s := &d.r.Sampling
	switch key {
	case "temperature":
		return true, d.float(infer.FeatureTemperature, &s.Temperature, v, 0, 2)
	case "top_p":
		return true, d.above(infer.FeatureTopP, &s.TopP, v, 0, 1)
	case "top_k":
		return true, d.setTopK(v)
	case "min_p":
		return true, d.float(infer.FeatureMinP, &s.MinP, v, 0, 1)
	case "frequency_penalty":
		return true, d.float(infer.FeatureFrequencyPenalty, &s.FrequencyPenalty, v, -2, 2)
	case "presence_penalty":
		return true, d.float(infer.FeaturePresencePenalty, &s.PresencePenalty, v, -2, 2)
	case "repetition_penalty":
		return true, d.above(infer.FeatureRepetitionPenalty, &s.RepetitionPenalty, v, 0, 10)
	case "seed":
		return true, d.setSeed(v)
	case "logit_bias":
		return true, d.setBias(v)
	}
	return false, nil
}

// length takes how many answers there are and where they end.
func (d *decoder) length(key string, v jsonread.Value) (known bool, err error) {
	s := &d.r.Sampling
	switch key {
	case "n":
		return true, d.int(infer.FeatureChoices, &s.N, v, 1, maxN)
	case "max_tokens":
		return true, d.bound(&d.maxTokens, v)
	case "max_completion_tokens":
		return true, d.bound(&d.maxCompletion, v)
	case "n_predict": // llama.cpp's name; -1 is without limit
		if string(v.Raw()) == "-1" {
			d.predict = 0
			return true, nil
		}
		return true, d.bound(&d.predict, v)
	case "min_tokens":
		return true, d.int(infer.FeatureMinTokens, &s.MinTokens, v, 0, maxTokens)
	case "stop":
		return true, d.setStop(v)
	case "stop_token_ids":
		if v.IsNull() {
			return true, nil
		}
		if s.StopTokenIDs, err = v.Int32s(maxStopIDs, 0, math.MaxInt32); len(s.StopTokenIDs) > 0 {
			d.use(infer.FeatureStopTokens, v)
		}
		return true, err
	case "ignore_eos":
		return true, d.flag(infer.FeatureIgnoreEOS, &s.IgnoreEOS, v)
	case "include_stop_str_in_output":
		return true, d.flag(infer.FeatureIncludeStop, &s.IncludeStop, v)
	}
	return false, nil
}

// wireOnly takes the model's name and what changes how the answer is made or
// sent, but not its tokens.
func (d *decoder) wireOnly(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "model":
		return true, d.setModel(v)
	case "return_token_ids":
		return true, d.flag(infer.FeatureTokenIDs, &d.r.Sampling.ReturnTokenIDs, v)
	case "return_tokens_as_token_ids":
		return true, d.flag(infer.FeatureTokenIDs, &d.o.TokensAsIDs, v)
	case "cache_salt":
		if !v.IsNull() && string(v.Raw()) == `""` {
			return true, v.Wrong("a string that is not empty")
		}
		err := setString(&d.r.CacheSalt, v, maxSalt)
		if d.r.CacheSalt != "" {
			d.use(infer.FeatureCacheSalt, v)
		}
		return true, err
	case "priority":
		return true, d.int(infer.FeaturePriority, &d.r.Priority, v, math.MinInt32, math.MaxInt32)
	case "stream":
		return true, setBool(&d.o.Stream, v)
	case "stream_options":
		d.stream = &v
		return true, d.setStreamOptions(v)
	}
	return false, nil
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

// setTopK takes 0 and -1 for off, as vLLM and llama.cpp write it.
func (d *decoder) setTopK(v jsonread.Value) error {
	k := 0
	if err := setInt(&k, v, -1, math.MaxInt32); err != nil {
		return d.beyond(v, err)
	}
	if d.r.Sampling.TopK = max(0, k); k > 0 {
		d.use(infer.FeatureTopK, v)
	}
	return nil
}

func (d *decoder) setSeed(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	n, err := v.Int(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	d.r.Sampling.Seed = &n
	d.use(infer.FeatureSeed, v)
	return nil
}

// bound takes a limit of the answer's length. Other servers give a meaning to 0
// and to -1; here they have none on chats.
func (d *decoder) bound(dst *int, v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	n, err := v.Int(1, maxTokens)
	if err != nil {
		if n, any := v.Int(math.MinInt32, math.MaxInt32); any == nil && n >= -1 {
			*dst = int(max(n, 0)) // it is held against the budget as it is; 0: without limit
			return d.beyond(v, err)
		}
		return err
	}
	*dst = int(n)
	d.use(infer.FeatureMaxTokens, v)
	return nil
}

func (d *decoder) setStop(v jsonread.Value) error {
	check := func(v jsonread.Value) error {
		s, err := v.Str()
		if err != nil {
			return err
		}
		if s == "" || len(s) > maxStopBytes {
			return v.Errorf("cannot use %s: got %d bytes, wanted a stop string of 1 to %d", v.Path(), len(s), maxStopBytes)
		}
		d.r.Sampling.Stop = append(d.r.Sampling.Stop, s)
		return nil
	}
	var err error
	switch v.Kind() {
	case jsonread.Null:
		return nil
	case jsonread.String:
		err = check(v)
	case jsonread.Array:
		err = v.Items(maxStops, func(_ int, m jsonread.Value) error { return check(m) })
	default:
		return v.Wrong("a string or an array of strings")
	}
	if len(d.r.Sampling.Stop) > 0 {
		d.use(infer.FeatureStop, v)
	}
	return err
}

// setBias reads token ids as member names and biases from -100 to 100.
func (d *decoder) setBias(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	bias := map[int32]float64{}
	err := v.Members(func(key string, m jsonread.Value) error {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || key != strconv.FormatInt(id, 10) { // llama.cpp takes pieces of text too
			return d.beyond(v, v.Errorf("cannot use logit_bias: got the member %q, wanted token ids as names", jsonread.Shorten(key, 32)))
		}
		if len(bias) == maxBias {
			return v.Errorf("cannot use logit_bias: got more than %d members", maxBias)
		}
		if bias[int32(id)], err = m.Float(-100, 100); err != nil {
			delete(bias, int32(id))
			return d.beyond(m, err)
		}
		return nil
	})
	if len(bias) > 0 {
		d.r.Sampling.LogitBias = bias
		d.use(infer.FeatureLogitBias, v)
	}
	return err
}

func (d *decoder) setStreamOptions(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	return v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "include_usage":
			return setBool(&d.o.IncludeUsage, m)
		case "continuous_usage_stats":
			return setBool(&d.o.ContinuousUsage, m)
		case "include_obfuscation":
			return setBool(&d.o.Obfuscate, m)
		}
		return d.unknown(m)
	})
}

// finish settles what several fields decide together.
func (d *decoder) finish() error {
	s := &d.r.Sampling
	if !d.model {
		return infer.Invalid("model", "cannot route the request: got no model, wanted its name")
	}
	for _, m := range []struct {
		name string
		n    int
	}{{"max_completion_tokens", d.maxCompletion}, {"n_predict", d.predict}} {
		// Which of two counts differs from server to server.
		if d.maxTokens >= 0 && m.n >= 0 && d.maxTokens != m.n || d.maxCompletion >= 0 && m.n >= 0 && d.maxCompletion != m.n {
			return infer.Invalid(m.name, "cannot use several bounds (max_tokens, max_completion_tokens, n_predict): they differ, wanted one of them")
		}
	}
	if n := max(d.maxTokens, d.maxCompletion, d.predict); n > 0 {
		s.MaxTokens = n
	}
	if d.r.Wire != nil {
		d.r.Stream = d.o.Stream
	}
	if s.MaxTokens > 0 && s.MinTokens > s.MaxTokens {
		return infer.Invalid("min_tokens", "cannot use min_tokens: got %d, wanted at most max_tokens, which is %d", s.MinTokens, s.MaxTokens)
	}
	if d.stream != nil && !d.stream.IsNull() && !d.o.Stream && !d.stream.Empty() {
		// Only a true option would be lost; clients leave false ones behind.
		if d.o.IncludeUsage || d.o.ContinuousUsage || d.o.Obfuscate {
			return infer.Invalid("stream_options", "cannot use stream_options without stream: true")
		}
	}
	if len(d.formats) > 1 {
		return infer.Invalid(d.formats[1], "cannot use both %s and %s: one answer has one constraint", d.formats[0], d.formats[1])
	}
	if n := wire.Choices(d.r); n > maxChoices {
		err := infer.Invalid("n", "cannot make %d choices in one request: wanted at most %d", n, maxChoices)
		if d.strict {
			return err
		}
		return d.note(infer.Use{Feature: infer.FeatureUnknown, Path: "n", Why: err.Message})
	}
	return nil
}

// templateArg adds a template variable, once.
func (d *decoder) templateArg(v jsonread.Value, name string, value json.RawMessage) error {
	if _, ok := d.r.TemplateArgs[name]; ok {
		return v.Errorf("cannot use %s: chat_template_kwargs sets %s too", v.Path(), name)
	}
	if d.r.TemplateArgs == nil {
		d.r.TemplateArgs = map[string]json.RawMessage{}
	}
	d.r.TemplateArgs[name] = value
	return nil
}

func numberAbove(lo, hi float64) string {
	return "a number above " + strconv.FormatFloat(lo, 'g', -1, 64) + " and up to " + strconv.FormatFloat(hi, 'g', -1, 64)
}
