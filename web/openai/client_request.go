package openai

import (
	"encoding/json"
	"slices"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// requestWriter writes the body of a request from its typed fields, without
// those that the profile drops.
type requestWriter struct {
	b []byte
	r *infer.Request
	p *profile

	model string
}

// key opens a top-level member.
func (w *requestWriter) key(name string) {
	if len(w.b) > 1 {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *requestWriter) int(name string, n int64) {
	w.key(name)
	w.b = jsonwrite.Int(w.b, n)
}

func (w *requestWriter) float(name string, f float64) {
	w.key(name)
	w.b = jsonwrite.Float(w.b, f)
}

func (w *requestWriter) str(name, s string) {
	w.key(name)
	w.b = jsonwrite.String(w.b, s)
}

func (w *requestWriter) raw(name, json string) {
	w.key(name)
	w.b = append(w.b, json...)
}

// extra gives the server's own name of a member beyond OpenAI's.
func (w *requestWriter) extra(f infer.Feature) (name string, ok bool) {
	name = w.p.extra[f]
	return name, name != ""
}

// appendChatRequest writes the body of /chat/completions.
func appendChatRequest(r *infer.Request, t wire.Target, p *profile) ([]byte, error) {
	w := &requestWriter{b: append(make([]byte, 0, 1024), '{'), r: r, p: p, model: t.Model}
	w.str("model", t.Model)
	if err := w.messages(); err != nil {
		return nil, err
	}
	w.tools()
	w.bound(p.limit, 0)
	w.sampling()
	if s := &r.Sampling; s.Logprobs {
		w.raw("logprobs", "true")
		if s.TopLogprobs > 0 {
			w.int("top_logprobs", int64(s.TopLogprobs))
		}
	}
	if err := w.format(); err != nil {
		return nil, err
	}
	w.thinking()
	w.hints()
	w.stream()
	return append(w.b, '}'), nil
}

// bound limits the answer: as the request says, or else to most tokens; 0: not at
// all. A chat without a bound is let go on as long as the provider does.
func (w *requestWriter) bound(name string, most int) {
	switch n := w.r.Sampling.MaxTokens; {
	case n > 0:
		w.int(name, int64(n))
	case n < 0:
		w.int(name, 0)
	case most > 0:
		w.int(name, int64(most))
	}
}

// sampling writes what differs from the defaults: absent stays absent, for some
// servers have defaults of the model's own.
func (w *requestWriter) sampling() {
	s := &w.r.Sampling
	if s.Temperature != 1 {
		w.float("temperature", s.Temperature)
	}
	if s.TopP != 1 {
		w.float("top_p", s.TopP)
	}
	if s.N > 1 && w.p.has(infer.FeatureChoices) {
		w.int("n", int64(s.N))
	}
	if s.FrequencyPenalty != 0 {
		w.float("frequency_penalty", s.FrequencyPenalty)
	}
	if s.PresencePenalty != 0 {
		w.float("presence_penalty", s.PresencePenalty)
	}
	if s.Seed != nil && w.p.has(infer.FeatureSeed) {
		w.int("seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		w.key("stop")
		w.b = appendStrings(w.b, s.Stop)
	}
	if len(s.LogitBias) > 0 && w.p.has(infer.FeatureLogitBias) {
		w.key("logit_bias")
		w.b = appendBias(w.b, s.LogitBias)
	}
	w.samplingExtra()
}

// samplingExtra writes what OpenAI does not have, for the servers that have it.
func (w *requestWriter) samplingExtra() {
	s := &w.r.Sampling
	if name, ok := w.extra(infer.FeatureTopK); ok && s.TopK > 0 {
		w.int(name, int64(s.TopK))
	}
	if name, ok := w.extra(infer.FeatureMinP); ok && s.MinP > 0 {
		w.float(name, s.MinP)
	}
	if name, ok := w.extra(infer.FeatureRepetitionPenalty); ok && s.RepetitionPenalty != 1 && s.RepetitionPenalty > 0 {
		w.float(name, s.RepetitionPenalty)
	}
	if name, ok := w.extra(infer.FeatureMinTokens); ok && s.MinTokens > 0 {
		w.int(name, int64(s.MinTokens))
	}
	if name, ok := w.extra(infer.FeatureStopTokens); ok && len(s.StopTokenIDs) > 0 {
		w.key(name)
		w.b = jsonwrite.Int32s(w.b, s.StopTokenIDs)
	}
	if name, ok := w.extra(infer.FeatureIgnoreEOS); ok && s.IgnoreEOS {
		w.raw(name, "true")
	}
	if name, ok := w.extra(infer.FeatureIncludeStop); ok && s.IncludeStop {
		w.raw(name, "true")
	}
	if name, ok := w.extra(infer.FeatureCacheSalt); ok && w.r.CacheSalt != "" {
		w.str(name, w.r.CacheSalt)
	}
	if name, ok := w.extra(infer.FeaturePriority); ok && w.r.Priority != 0 {
		w.int(name, int64(w.r.Priority))
	}
}

// format writes the constraint of the answer.
func (w *requestWriter) format() error {
	f := &w.r.Format
	switch f.Kind {
	case infer.FormatText:
	case infer.FormatJSONObject:
		if w.p.has(infer.FeatureJSONObject) {
			w.raw("response_format", `{"type":"json_object"}`)
		}
	case infer.FormatJSONSchema:
		if !w.p.has(infer.FeatureJSONSchema) {
			break
		}
		w.key("response_format")
		name := f.Name
		if name == "" {
			name = "answer" // OpenAI demands one
		}
		w.b = append(w.b, `{"type":"json_schema","json_schema":{"name":`...)
		w.b = jsonwrite.String(w.b, name)
		w.b = append(append(w.b, `,"schema":`...), orObject(f.Schema)...)
		if f.Strict {
			w.b = append(w.b, `,"strict":true`...)
		}
		w.b = append(w.b, "}}"...)
	case infer.FormatRegex:
		w.guided(infer.FeatureRegex, "regex", f.Pattern)
	case infer.FormatGrammar:
		w.guided(infer.FeatureGrammar, "grammar", f.Grammar)
	case infer.FormatChoice:
		if name, ok := w.extra(infer.FeatureChoice); ok {
			w.key(name)
			w.b = append(appendStrings(append(w.b, `{"choice":`...), f.Choices), '}')
		}
	}
	return nil
}

// guided writes a pattern: in vLLM's object, or as a member of its own.
func (w *requestWriter) guided(f infer.Feature, kind, text string) {
	name, ok := w.extra(f)
	switch {
	case !ok:
	case name == "structured_outputs":
		w.key(name)
		w.b = append(append(append(w.b, `{"`...), kind...), `":`...)
		w.b = append(jsonwrite.String(w.b, text), '}')
	default:
		w.str(name, text)
	}
}

// thinking writes how much the model may reason.
func (w *requestWriter) thinking() {
	t := &w.r.Thinking
	if t.Effort == "" && t.Budget == 0 && t.Switch == "" {
		w.templateArgs("")
		return
	}
	switch name, _ := w.extra(infer.FeatureReasoningBudget); name {
	case "reasoning": // OpenRouter's object
		w.openRouterThinking()
		return
	case "thinking": // Anthropic's, which LiteLLM takes
		if t.Budget > 0 {
			w.key(name)
			w.b = jsonwrite.Int(append(w.b, `{"type":"enabled","budget_tokens":`...), int64(t.Budget))
			w.b = append(w.b, '}')
			return
		}
	}
	if name, _ := w.extra(infer.FeatureReasoningSwitch); name == "enable_thinking" && (t.Switch == "on" || t.Switch == "off") {
		w.raw(name, strconv.FormatBool(t.Switch == "on"))
	}
	if name, _ := w.extra(infer.FeatureReasoningBudget); name == "thinking_budget" {
		w.templateArgs("")
		if t.Budget > 0 {
			w.int(name, int64(t.Budget))
		}
		if t.Effort != "" {
			w.str("reasoning_effort", t.Effort)
		}
		return
	}
	enable := ""
	if name, ok := w.extra(infer.FeatureReasoningSwitch); ok && name == "chat_template_kwargs" {
		switch {
		case t.Switch == "off" || t.Effort == "none":
			enable = "false"
		case t.Switch == "on":
			enable = "true"
		}
	}
	w.templateArgs(enable)
	switch effort := w.effort(); {
	case effort == "" || enable == "false" || !w.p.has(infer.FeatureReasoningEffort):
	case t.Effort == "" && (!w.p.has(infer.FeatureReasoningBudget) || !w.p.reasons(w.model)):
		// A budget or a switch alone: see profile.reasons.
	default:
		w.str("reasoning_effort", effort)
	}
}

// effort is the word for how much to reason. A budget becomes the effort that
// comes near; to be switched on says nothing about how much.
func (w *requestWriter) effort() string {
	t := &w.r.Thinking
	switch {
	case t.Switch == "off":
		return "none"
	case t.Effort == "max":
		return "xhigh" // the highest that this dialect has a word for
	case t.Effort != "":
		return t.Effort
	case t.Budget == 0:
		return ""
	case t.Budget < 4<<10:
		return "low"
	case t.Budget < 16<<10:
		return "medium"
	}
	return "high"
}

func (w *requestWriter) openRouterThinking() {
	t := &w.r.Thinking
	w.key("reasoning")
	switch {
	case t.Switch == "off":
		w.b = append(w.b, `{"enabled":false}`...)
	case t.Budget > 0:
		w.b = append(jsonwrite.Int(append(w.b, `{"max_tokens":`...), int64(t.Budget)), '}')
	case t.Effort != "":
		w.b = append(jsonwrite.String(append(w.b, `{"effort":`...), w.effort()), '}')
	default:
		w.b = append(w.b, `{"enabled":true}`...)
	}
}

// templateArgs writes the variables of the chat template; enable is the value of
// enable_thinking, empty if it is not to be set.
func (w *requestWriter) templateArgs(enable string) {
	name, ok := w.extra(infer.FeatureTemplateArgs)
	if !ok || len(w.r.TemplateArgs) == 0 && enable == "" {
		return
	}
	w.key(name)
	w.b = append(w.b, '{')
	n := 0
	for _, key := range sortedKeys(w.r.TemplateArgs) {
		if key == "enable_thinking" && enable != "" {
			continue
		}
		w.b = jsonwrite.String(comma(w.b, n), key)
		w.b = append(append(w.b, ':'), w.r.TemplateArgs[key]...)
		n++
	}
	if enable != "" {
		w.b = append(append(comma(w.b, n), `"enable_thinking":`...), enable...)
	}
	w.b = append(w.b, '}')
}

// maxUser is how long a user's id may be at OpenAI, in bytes.
const maxUser = 64

// hints writes labels and wishes.
func (w *requestWriter) hints() {
	h := &w.r.Hints
	if h.User != "" && w.p.has(infer.FeatureUser) {
		w.str("user", wire.Opaque(h.User, maxUser))
	}
	if len(h.Metadata) > 0 && w.p.has(infer.FeatureMetadata) {
		w.raw("metadata", string(h.Metadata))
	}
	if h.ServiceTier != "" && w.p.has(infer.FeatureServiceTier) {
		w.str("service_tier", h.ServiceTier)
	}
	if h.CacheKey != "" && w.p.has(infer.FeatureCacheKey) {
		w.str("prompt_cache_key", h.CacheKey)
	}
	if h.CacheRetention != "" && w.p.has(infer.FeatureCacheKey) {
		w.str("prompt_cache_retention", h.CacheRetention)
	}
	if h.Verbosity != "" && w.p.has(infer.FeatureVerbosity) {
		w.str("verbosity", h.Verbosity)
	}
}

// stream asks for a stream, and for its count where the server can give it.
func (w *requestWriter) stream() {
	if !w.r.Stream {
		return
	}
	w.raw("stream", "true")
	if w.p.usageOption {
		w.raw("stream_options", `{"include_usage":true}`)
	}
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		dst = jsonwrite.String(comma(dst, i), s)
	}
	return append(dst, ']')
}

func appendBias(dst []byte, bias map[int32]float64) []byte {
	dst = append(dst, '{')
	for i, id := range sortedKeys(bias) {
		dst = append(comma(dst, i), '"')
		dst = append(strconv.AppendInt(dst, int64(id), 10), `":`...)
		dst = jsonwrite.Float(dst, bias[id])
	}
	return append(dst, '}')
}

func sortedKeys[K string | int32, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// orObject is raw, or an empty object.
func orObject(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}
