package openai

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// sideField says what becomes of a request field that has no counterpart in
// infer.Request. Every other field is either decoded or unknown, and an unknown
// one is refused: nothing is accepted and then forgotten.
type sideField struct {
	kinds []jsonread.Kind // accepted types; null is always accepted
	// neutral lists the only JSON texts that are accepted, because they ask for
	// what happens anyway. Nil accepts any value of the right type.
	neutral []string
	// why is the reason: for a field without neutral values, why it cannot
	// change the answer; for the others, what is not offered.
	why string
	// feature is what any other value asks for; empty stands for what only a
	// provider of this dialect can know.
	feature infer.Feature
	// own is a name that nothing is written under; see infer.Use.
	own bool
}

var (
	aString  = []jsonread.Kind{jsonread.String}
	aNumber  = []jsonread.Kind{jsonread.Number}
	aBool    = []jsonread.Kind{jsonread.Bool}
	anObject = []jsonread.Kind{jsonread.Object}
	anArray  = []jsonread.Kind{jsonread.Array}
	nothing  = []string{} // only null is neutral
	off      = []string{"false"}
	on       = []string{"true"}
	zero     = []string{"0", "0.0"}
	one      = []string{"1", "1.0"}
	empty    = []string{"[]", "{}", `""`}
)

// sideFields is the table of tolerated fields, one for chat and completions.
// The first group are labels and hints: they may hold anything, since no value
// could change the tokens. The second are features of OpenAI's service, the
// third settings of vLLM, llama.cpp and others, each refused unless it asks for
// what is done anyway.
var sideFields = map[string]sideField{
	"user":                   {kinds: aString, why: "a label for the caller's own records", feature: infer.FeatureUser},
	"metadata":               {kinds: anObject, why: "labels for the caller's own records", feature: infer.FeatureMetadata},
	"safety_identifier":      {kinds: aString, why: "a label for the caller's own records", feature: infer.FeatureUser},
	"prompt_cache_key":       {kinds: aString, why: "a hint for cache routing; prefixes are found by their content here", feature: infer.FeatureCacheKey},
	"prompt_cache_retention": {kinds: aString, why: "a hint for how long to cache", feature: infer.FeatureCacheKey},
	"prediction":             {kinds: anObject, why: "a hint for speed: predicted output never changes the answer", feature: infer.FeaturePrediction},
	"cache_prompt":           {kinds: aBool, neutral: on, why: "a prompt that is left out of the cache", feature: infer.FeatureCacheKey, own: true},
	"request_id":             {kinds: aString, why: "a label; the server's own id is in x-request-id", feature: infer.FeatureMetadata, own: true},
	"timings_per_token":      {kinds: aBool, neutral: off, why: "timings in the answer"},

	"store":              {kinds: aBool, neutral: off, why: "stored completions", feature: infer.FeatureStore},
	"service_tier":       {kinds: aString, neutral: []string{`"auto"`, `"default"`, `"standard"`}, why: "other service tiers", feature: infer.FeatureServiceTier},
	"verbosity":          {kinds: aString, neutral: []string{`"medium"`}, why: "verbosity", feature: infer.FeatureVerbosity},
	"web_search_options": {kinds: anObject, neutral: nothing, why: "web search", feature: infer.FeatureToolHosted},
	"modalities":         {kinds: anArray, neutral: []string{`["text"]`}, why: "output other than text", feature: infer.FeatureModalities},
	"audio":              {kinds: anObject, neutral: nothing, why: "audio output", feature: infer.FeatureModalities},
	"moderation":         {kinds: anObject, neutral: nothing, why: "moderation", feature: infer.FeatureSafety},

	"chat_template":                 {kinds: aString, neutral: nothing, why: "a template from the request"},
	"documents":                     {kinds: anArray, neutral: empty, why: "documents beside the messages"},
	"mm_processor_kwargs":           {kinds: anObject, neutral: empty, why: "processor settings"},
	"logits_processors":             {kinds: anArray, neutral: empty, why: "logits processors", feature: infer.FeatureSampler},
	"bad_words":                     {kinds: anArray, neutral: empty, why: "forbidden words (logit_bias forbids tokens)", feature: infer.FeatureSampler},
	"allowed_token_ids":             {kinds: anArray, neutral: nothing, why: "a list of allowed tokens", feature: infer.FeatureSampler},
	"use_beam_search":               {kinds: aBool, neutral: off, why: "beam search", feature: infer.FeatureSampler},
	"length_penalty":                {kinds: aNumber, neutral: one, why: "beam search", feature: infer.FeatureSampler},
	"early_stopping":                {kinds: aBool, neutral: off, why: "beam search", feature: infer.FeatureSampler},
	"skip_special_tokens":           {kinds: aBool, neutral: on, why: "special tokens in the text", feature: infer.FeatureSampler},
	"spaces_between_special_tokens": {kinds: aBool, neutral: on, why: "special tokens in the text", feature: infer.FeatureSampler},
	"truncate_prompt_tokens":        {kinds: aNumber, neutral: nothing, why: "cutting the prompt", feature: infer.FeatureTruncation},
	"truncation":                    {kinds: aString, neutral: []string{`"disabled"`}, why: "cutting the prompt", feature: infer.FeatureTruncation},
	"prompt_logprobs":               {kinds: aNumber, neutral: nothing, why: "log-probabilities of the prompt in this form (use echo with logprobs on /v1/completions)"},
	"guided_decoding_backend":       {kinds: aString, neutral: []string{`"auto"`}, why: "a choice of backend"},
	"guided_whitespace_pattern":     {kinds: aString, neutral: nothing, why: "a whitespace pattern"},
	"structural_tag":                {kinds: []jsonread.Kind{jsonread.String, jsonread.Object}, neutral: nothing, why: "structural tags"},
	"kv_transfer_params":            {kinds: anObject, neutral: nothing, why: "transfer of caches"},
	"vllm_xargs":                    {kinds: anObject, neutral: empty, why: "extra arguments"},
	"thinking_token_budget":         {kinds: aNumber, neutral: nothing, why: "a budget for reasoning", feature: infer.FeatureReasoningBudget},
	"repetition_detection":          {kinds: anObject, neutral: nothing, why: "detection of repetition", feature: infer.FeatureSampler},

	"repeat_penalty":       {kinds: aNumber, neutral: one, why: "a penalty over a window (repetition_penalty covers the whole text)", feature: infer.FeatureSampler},
	"repeat_last_n":        {kinds: aNumber, neutral: []string{"64", "0"}, why: "a penalty window", feature: infer.FeatureSampler},
	"typical_p":            {kinds: aNumber, neutral: one, why: "typical sampling", feature: infer.FeatureSampler},
	"tfs_z":                {kinds: aNumber, neutral: one, why: "tail-free sampling", feature: infer.FeatureSampler},
	"mirostat":             {kinds: aNumber, neutral: zero, why: "mirostat sampling", feature: infer.FeatureSampler},
	"mirostat_tau":         {kinds: aNumber, neutral: []string{"5", "5.0"}, why: "mirostat sampling", feature: infer.FeatureSampler},
	"mirostat_eta":         {kinds: aNumber, neutral: []string{"0.1"}, why: "mirostat sampling", feature: infer.FeatureSampler},
	"dynatemp_range":       {kinds: aNumber, neutral: zero, why: "dynamic temperature", feature: infer.FeatureSampler},
	"dynatemp_exponent":    {kinds: aNumber, neutral: one, why: "dynamic temperature", feature: infer.FeatureSampler},
	"dry_multiplier":       {kinds: aNumber, neutral: zero, why: "DRY sampling", feature: infer.FeatureSampler},
	"xtc_probability":      {kinds: aNumber, neutral: zero, why: "XTC sampling", feature: infer.FeatureSampler},
	"samplers":             {kinds: anArray, neutral: nothing, why: "an order of samplers", feature: infer.FeatureSampler},
	"n_probs":              {kinds: aNumber, neutral: zero, why: "n_probs (use logprobs and top_logprobs)"},
	"min_keep":             {kinds: aNumber, neutral: zero, why: "a least number of candidates", feature: infer.FeatureSampler},
	"n_keep":               {kinds: aNumber, neutral: zero, why: "shifting of the context", feature: infer.FeatureTruncation},
	"id_slot":              {kinds: aNumber, neutral: []string{"-1"}, why: "a choice of slot"},
	"thinking_forced_open": {kinds: aBool, neutral: off, why: "forced reasoning"},
	"reasoning_format":     {kinds: aString, neutral: []string{`"auto"`, `"deepseek"`}, why: "another form of reasoning"},
	"parse_tool_calls":     {kinds: aBool, neutral: on, why: "tool calls left in the text"},
}

// side applies the table; known is false for a field that is not in it. A value
// that asks for more than is done anyway is noted: what serves the request says
// whether it can have it.
func (d *decoder) side(key string, v jsonread.Value) (known bool, err error) {
	f, known := sideFields[key]
	if !known || v.IsNull() {
		return known, nil
	}
	if !slices.Contains(f.kinds, v.Kind()) {
		return true, v.Wrong(f.kinds[0].String())
	}
	raw := string(bytes.Join(bytes.Fields(v.Raw()), nil))
	if f.neutral == nil {
		if err := d.hint(key, v); err != nil {
			return true, err
		}
		return true, d.note(infer.Use{Feature: f.feature, Path: v.Path(), Own: f.own})
	}
	if slices.Contains(f.neutral, raw) {
		return true, nil
	}
	wanted := "null or nothing"
	if len(f.neutral) > 0 {
		wanted = "nothing or " + f.neutral[0]
	}
	if err := d.hint(key, v); err != nil {
		return true, err
	}
	note := d.lost
	if f.own {
		note = d.own
	}
	return true, note(f.feature, v, v.Unsupported("cannot use %s: %s is not offered, wanted %s", key, f.why, strings.TrimSpace(wanted)))
}

// hint keeps what other dialects have a place for.
func (d *decoder) hint(key string, v jsonread.Value) error {
	h := &d.r.Hints
	switch key {
	case "user":
		return setString(&h.User, v, maxLabel)
	case "safety_identifier":
		if h.User == "" {
			return setString(&h.User, v, maxLabel)
		}
	case "metadata":
		h.Metadata = v.Clone()
	case "service_tier":
		return setString(&h.ServiceTier, v, maxLabel)
	case "prompt_cache_key":
		return setString(&h.CacheKey, v, maxLabel)
	case "prompt_cache_retention":
		return setString(&h.CacheRetention, v, maxLabel)
	case "verbosity":
		return setString(&h.Verbosity, v, maxLabel)
	case "thinking_token_budget":
		return setInt(&d.r.Thinking.Budget, v, 1, maxTokens)
	}
	return nil
}

// maxUses bounds what a request may note: a body of millions of fields that nobody
// knows is no request.
const maxUses = 4096

// note adds a use.
func (d *decoder) note(u infer.Use) error {
	if len(d.r.Uses) == maxUses {
		return infer.Invalid(u.Path, "cannot use the request: more than %d of its fields ask for something", maxUses)
	}
	if u.Feature == "" {
		u.Feature = infer.FeatureUnknown
	}
	d.r.Uses = append(d.r.Uses, u)
	return nil
}

// use notes that a field asks for something that is represented.
func (d *decoder) use(f infer.Feature, v jsonread.Value) {
	if f == "" {
		return
	}
	_ = d.note(infer.Use{Feature: f, Path: v.Path()})
}

// lost notes a field that has no counterpart in infer.Request. why is what a
// target that cannot have it says.
func (d *decoder) lost(f infer.Feature, v jsonread.Value, why *infer.Error) error {
	if d.strict {
		return why
	}
	return d.note(infer.Use{Feature: f, Path: v.Path(), Why: why.Message})
}

// own is lost for a field whose feature has other fields that are carried.
func (d *decoder) own(f infer.Feature, v jsonread.Value, why *infer.Error) error {
	if d.strict {
		return why
	}
	return d.note(infer.Use{Feature: f, Path: v.Path(), Why: why.Message, Own: true})
}

// unknown notes a field that nobody here knows.
func (d *decoder) unknown(v jsonread.Value) error {
	return d.lost(infer.FeatureUnknown, v, v.Unknown())
}

// beyond notes a value out of the range that is served here, where err tells the
// range. A value of the wrong type stays an error: no provider takes it.
func (d *decoder) beyond(v jsonread.Value, err error) error {
	e := infer.AsError(err)
	switch v.Kind() {
	case jsonread.Object, jsonread.Number, jsonread.String:
		return d.lost(infer.FeatureUnknown, v, e)
	}
	return e
}

// number is d.beyond for a value that must be a number.
func (d *decoder) number(v jsonread.Value, err error) error {
	if v.Kind() != jsonread.Number {
		return err
	}
	return d.beyond(v, err)
}

// float, above, int and flag set a field and note it, unless it holds its
// default.
func (d *decoder) float(f infer.Feature, dst *float64, v jsonread.Value, lo, hi float64) error {
	was := *dst
	if err := setFloat(dst, v, lo, hi); err != nil {
		return d.number(v, err)
	}
	if *dst != was {
		d.use(f, v)
	}
	return nil
}

func (d *decoder) above(f infer.Feature, dst *float64, v jsonread.Value, lo, hi float64) error {
	was := *dst
	if err := setAbove(dst, v, lo, hi); err != nil {
		return d.number(v, err)
	}
	if *dst != was {
		d.use(f, v)
	}
	return nil
}

// int sets a whole number. One that is too high for here is noted; one that is
// too low is low everywhere.
func (d *decoder) int(f infer.Feature, dst *int, v jsonread.Value, lo, hi int64) error {
	was := *dst
	if err := setInt(dst, v, lo, hi); err != nil {
		if n, any := v.Int(lo, math.MaxInt32); any == nil {
			if f == infer.FeatureChoices {
				if n > maxForeignN {
					return v.Errorf("cannot use n: got %d, wanted at most %d", n, maxForeignN)
				}
				*dst = int(n) // it is held against the budget as it is
			}
			return d.beyond(v, err)
		}
		return err
	}
	if *dst != was {
		d.use(f, v)
	}
	return nil
}

func (d *decoder) flag(f infer.Feature, dst *bool, v jsonread.Value) error {
	was := *dst
	err := setBool(dst, v)
	if err == nil && *dst != was {
		d.use(f, v)
	}
	return err
}

// The setters below take null for the default, which is what clients mean by
// it, and leave dst alone then.

func setInt(dst *int, v jsonread.Value, lo, hi int64) error {
	if v.IsNull() {
		return nil
	}
	n, err := v.Int(lo, hi)
	if err == nil {
		*dst = int(n)
	}
	return err
}

func setFloat(dst *float64, v jsonread.Value, lo, hi float64) error {
	if v.IsNull() {
		return nil
	}
	f, err := v.Float(lo, hi)
	if err == nil {
		*dst = f
	}
	return err
}

// setAbove is setFloat for a range that excludes its lower end.
func setAbove(dst *float64, v jsonread.Value, lo, hi float64) error {
	if v.IsNull() {
		return nil
	}
	f, err := v.Float(math.Nextafter(lo, math.Inf(1)), hi)
	if err != nil {
		return v.Wrong(numberAbove(lo, hi))
	}
	*dst = f
	return nil
}

func setBool(dst *bool, v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	b, err := v.Bool()
	if err == nil {
		*dst = b
	}
	return err
}

func setString(dst *string, v jsonread.Value, max int) error {
	if v.IsNull() {
		return nil
	}
	s, err := v.Str()
	if err == nil && len(s) > max {
		return v.Errorf("cannot use %s: got %d bytes, wanted at most %d", v.Path(), len(s), max)
	}
	if err == nil {
		*dst = s
	}
	return err
}
