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
	str     = []jsonread.Kind{jsonread.String}
	num     = []jsonread.Kind{jsonread.Number}
	flag    = []jsonread.Kind{jsonread.Bool}
	object  = []jsonread.Kind{jsonread.Object}
	list    = []jsonread.Kind{jsonread.Array}
	nothing = []string{} // only null is neutral
	off     = []string{"false"}
	on      = []string{"true"}
	zero    = []string{"0", "0.0"}
	one     = []string{"1", "1.0"}
	empty   = []string{"[]", "{}", `""`}
)

// sideFields is the table of tolerated fields, one for chat and completions.
// The first group are labels and hints: they may hold anything, since no value
// could change the tokens. The second are features of OpenAI's service, the
// third settings of vLLM, llama.cpp and others, each refused unless it asks for
// what is done anyway.
var sideFields = map[string]sideField{
	"user":                   {kinds: str, why: "a label for the caller's own records"},
	"metadata":               {kinds: object, why: "labels for the caller's own records"},
	"safety_identifier":      {kinds: str, why: "a label for the caller's own records"},
	"prompt_cache_key":       {kinds: str, why: "a hint for cache routing; prefixes are found by their content here"},
	"prompt_cache_retention": {kinds: str, why: "a hint for how long to cache"},
	"prediction":             {kinds: object, why: "a hint for speed: predicted output never changes the answer"},
	"cache_prompt":           {kinds: flag, why: "a hint: a cached prefix never changes the answer"},
	"request_id":             {kinds: str, why: "a label; the server's own id is in x-request-id"},
	"timings_per_token":      {kinds: flag, neutral: off, why: "timings in the answer"},

	"store":              {kinds: flag, neutral: off, why: "stored completions"},
	"service_tier":       {kinds: str, neutral: []string{`"auto"`, `"default"`, `"standard"`}, why: "other service tiers"},
	"verbosity":          {kinds: str, neutral: []string{`"medium"`}, why: "verbosity"},
	"web_search_options": {kinds: object, neutral: nothing, why: "web search"},
	"modalities":         {kinds: list, neutral: []string{`["text"]`}, why: "output other than text"},
	"audio":              {kinds: object, neutral: nothing, why: "audio output"},
	"moderation":         {kinds: object, neutral: nothing, why: "moderation"},

	"chat_template":                 {kinds: str, neutral: nothing, why: "a template from the request"},
	"documents":                     {kinds: list, neutral: empty, why: "documents beside the messages"},
	"mm_processor_kwargs":           {kinds: object, neutral: empty, why: "processor settings"},
	"logits_processors":             {kinds: list, neutral: empty, why: "logits processors"},
	"bad_words":                     {kinds: list, neutral: empty, why: "forbidden words (logit_bias forbids tokens)"},
	"allowed_token_ids":             {kinds: list, neutral: nothing, why: "a list of allowed tokens"},
	"use_beam_search":               {kinds: flag, neutral: off, why: "beam search"},
	"length_penalty":                {kinds: num, neutral: one, why: "beam search"},
	"early_stopping":                {kinds: flag, neutral: off, why: "beam search"},
	"skip_special_tokens":           {kinds: flag, neutral: on, why: "special tokens in the text"},
	"spaces_between_special_tokens": {kinds: flag, neutral: on, why: "special tokens in the text"},
	"truncate_prompt_tokens":        {kinds: num, neutral: nothing, why: "cutting the prompt"},
	"truncation":                    {kinds: str, neutral: []string{`"disabled"`}, why: "cutting the prompt"},
	"prompt_logprobs":               {kinds: num, neutral: nothing, why: "log-probabilities of the prompt in this form (use echo with logprobs on /v1/completions)"},
	"guided_decoding_backend":       {kinds: str, neutral: []string{`"auto"`}, why: "a choice of backend"},
	"guided_whitespace_pattern":     {kinds: str, neutral: nothing, why: "a whitespace pattern"},
	"structural_tag":                {kinds: []jsonread.Kind{jsonread.String, jsonread.Object}, neutral: nothing, why: "structural tags"},
	"kv_transfer_params":            {kinds: object, neutral: nothing, why: "transfer of caches"},
	"vllm_xargs":                    {kinds: object, neutral: empty, why: "extra arguments"},
	"thinking_token_budget":         {kinds: num, neutral: nothing, why: "a budget for reasoning"},
	"repetition_detection":          {kinds: object, neutral: nothing, why: "detection of repetition"},

	"repeat_penalty":       {kinds: num, neutral: one, why: "a penalty over a window (repetition_penalty covers the whole text)"},
	"repeat_last_n":        {kinds: num, neutral: []string{"64", "0"}, why: "a penalty window"},
	"typical_p":            {kinds: num, neutral: one, why: "typical sampling"},
	"tfs_z":                {kinds: num, neutral: one, why: "tail-free sampling"},
	"mirostat":             {kinds: num, neutral: zero, why: "mirostat sampling"},
	"mirostat_tau":         {kinds: num, neutral: []string{"5", "5.0"}, why: "mirostat sampling"},
	"mirostat_eta":         {kinds: num, neutral: []string{"0.1"}, why: "mirostat sampling"},
	"dynatemp_range":       {kinds: num, neutral: zero, why: "dynamic temperature"},
	"dynatemp_exponent":    {kinds: num, neutral: one, why: "dynamic temperature"},
	"dry_multiplier":       {kinds: num, neutral: zero, why: "DRY sampling"},
	"xtc_probability":      {kinds: num, neutral: zero, why: "XTC sampling"},
	"samplers":             {kinds: list, neutral: nothing, why: "an order of samplers"},
	"n_probs":              {kinds: num, neutral: zero, why: "n_probs (use logprobs and top_logprobs)"},
	"min_keep":             {kinds: num, neutral: zero, why: "a least number of candidates"},
	"n_keep":               {kinds: num, neutral: zero, why: "shifting of the context"},
	"id_slot":              {kinds: num, neutral: []string{"-1"}, why: "a choice of slot"},
	"thinking_forced_open": {kinds: flag, neutral: off, why: "forced reasoning"},
	"reasoning_format":     {kinds: str, neutral: []string{`"auto"`, `"deepseek"`}, why: "another form of reasoning"},
	"parse_tool_calls":     {kinds: flag, neutral: on, why: "tool calls left in the text"},
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
