package openai

import (
	"bytes"
	"math"
	"slices"
	"strings"

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
	"user":                   {kinds: aString, why: "a label for the caller's own records"},
	"metadata":               {kinds: anObject, why: "labels for the caller's own records"},
	"safety_identifier":      {kinds: aString, why: "a label for the caller's own records"},
	"prompt_cache_key":       {kinds: aString, why: "a hint for cache routing; prefixes are found by their content here"},
	"prompt_cache_retention": {kinds: aString, why: "a hint for how long to cache"},
	"prediction":             {kinds: anObject, why: "a hint for speed: predicted output never changes the answer"},
	"cache_prompt":           {kinds: aBool, why: "a hint: a cached prefix never changes the answer"},
	"request_id":             {kinds: aString, why: "a label; the server's own id is in x-request-id"},
	"timings_per_token":      {kinds: aBool, neutral: off, why: "timings in the answer"},

	"store":              {kinds: aBool, neutral: off, why: "stored completions"},
	"service_tier":       {kinds: aString, neutral: []string{`"auto"`, `"default"`, `"standard"`}, why: "other service tiers"},
	"verbosity":          {kinds: aString, neutral: []string{`"medium"`}, why: "verbosity"},
	"web_search_options": {kinds: anObject, neutral: nothing, why: "web search"},
	"modalities":         {kinds: anArray, neutral: []string{`["text"]`}, why: "output other than text"},
	"audio":              {kinds: anObject, neutral: nothing, why: "audio output"},
	"moderation":         {kinds: anObject, neutral: nothing, why: "moderation"},

	"chat_template":                 {kinds: aString, neutral: nothing, why: "a template from the request"},
	"documents":                     {kinds: anArray, neutral: empty, why: "documents beside the messages"},
	"mm_processor_kwargs":           {kinds: anObject, neutral: empty, why: "processor settings"},
	"logits_processors":             {kinds: anArray, neutral: empty, why: "logits processors"},
	"bad_words":                     {kinds: anArray, neutral: empty, why: "forbidden words (logit_bias forbids tokens)"},
	"allowed_token_ids":             {kinds: anArray, neutral: nothing, why: "a list of allowed tokens"},
	"use_beam_search":               {kinds: aBool, neutral: off, why: "beam search"},
	"length_penalty":                {kinds: aNumber, neutral: one, why: "beam search"},
	"early_stopping":                {kinds: aBool, neutral: off, why: "beam search"},
	"skip_special_tokens":           {kinds: aBool, neutral: on, why: "special tokens in the text"},
	"spaces_between_special_tokens": {kinds: aBool, neutral: on, why: "special tokens in the text"},
	"truncate_prompt_tokens":        {kinds: aNumber, neutral: nothing, why: "cutting the prompt"},
	"truncation":                    {kinds: aString, neutral: []string{`"disabled"`}, why: "cutting the prompt"},
	"prompt_logprobs":               {kinds: aNumber, neutral: nothing, why: "log-probabilities of the prompt in this form (use echo with logprobs on /v1/completions)"},
	"guided_decoding_backend":       {kinds: aString, neutral: []string{`"auto"`}, why: "a choice of backend"},
	"guided_whitespace_pattern":     {kinds: aString, neutral: nothing, why: "a whitespace pattern"},
	"structural_tag":                {kinds: []jsonread.Kind{jsonread.String, jsonread.Object}, neutral: nothing, why: "structural tags"},
	"kv_transfer_params":            {kinds: anObject, neutral: nothing, why: "transfer of caches"},
	"vllm_xargs":                    {kinds: anObject, neutral: empty, why: "extra arguments"},
	"thinking_token_budget":         {kinds: aNumber, neutral: nothing, why: "a budget for reasoning"},
	"repetition_detection":          {kinds: anObject, neutral: nothing, why: "detection of repetition"},

	"repeat_penalty":       {kinds: aNumber, neutral: one, why: "a penalty over a window (repetition_penalty covers the whole text)"},
	"repeat_last_n":        {kinds: aNumber, neutral: []string{"64", "0"}, why: "a penalty window"},
	"typical_p":            {kinds: aNumber, neutral: one, why: "typical sampling"},
	"tfs_z":                {kinds: aNumber, neutral: one, why: "tail-free sampling"},
	"mirostat":             {kinds: aNumber, neutral: zero, why: "mirostat sampling"},
	"mirostat_tau":         {kinds: aNumber, neutral: []string{"5", "5.0"}, why: "mirostat sampling"},
	"mirostat_eta":         {kinds: aNumber, neutral: []string{"0.1"}, why: "mirostat sampling"},
	"dynatemp_range":       {kinds: aNumber, neutral: zero, why: "dynamic temperature"},
	"dynatemp_exponent":    {kinds: aNumber, neutral: one, why: "dynamic temperature"},
	"dry_multiplier":       {kinds: aNumber, neutral: zero, why: "DRY sampling"},
	"xtc_probability":      {kinds: aNumber, neutral: zero, why: "XTC sampling"},
	"samplers":             {kinds: anArray, neutral: nothing, why: "an order of samplers"},
	"n_probs":              {kinds: aNumber, neutral: zero, why: "n_probs (use logprobs and top_logprobs)"},
	"min_keep":             {kinds: aNumber, neutral: zero, why: "a least number of candidates"},
	"n_keep":               {kinds: aNumber, neutral: zero, why: "shifting of the context"},
	"id_slot":              {kinds: aNumber, neutral: []string{"-1"}, why: "a choice of slot"},
	"thinking_forced_open": {kinds: aBool, neutral: off, why: "forced reasoning"},
	"reasoning_format":     {kinds: aString, neutral: []string{`"auto"`, `"deepseek"`}, why: "another form of reasoning"},
	"parse_tool_calls":     {kinds: aBool, neutral: on, why: "tool calls left in the text"},
}

// side applies the table; known is false for a field that is not in it.
func side(key string, v jsonread.Value) (known bool, err error) {
	f, known := sideFields[key]
	if !known || v.IsNull() {
		return known, nil
	}
	if !slices.Contains(f.kinds, v.Kind()) {
		return true, v.Wrong(f.kinds[0].String())
	}
	if f.neutral == nil {
		return true, nil
	}
	raw := string(bytes.Join(bytes.Fields(v.Raw()), nil))
	if slices.Contains(f.neutral, raw) {
		return true, nil
	}
	wanted := "null or nothing"
	if len(f.neutral) > 0 {
		wanted = "nothing or " + f.neutral[0]
	}
	return true, v.Unsupported("cannot use %s: %s is not offered, wanted %s", key, f.why, strings.TrimSpace(wanted))
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
