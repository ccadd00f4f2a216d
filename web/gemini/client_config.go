package gemini

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// tools writes the functions and the choice among them.
func (e *encoder) tools() {
	r := e.r
	if len(r.Tools) == 0 {
		return
	}
	e.raw(`,"tools":[{"functionDeclarations":[`)
	strict := false
	for i := range r.Tools {
		t := &r.Tools[i]
		strict = strict || t.Strict
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"name":`)
		e.string(t.Name)
		if t.Description != "" {
			e.raw(`,"description":`)
			e.string(t.Description)
		}
		if t.Parameters != nil {
			e.raw(`,"parametersJsonSchema":`)
			e.raw(string(t.Parameters))
		}
		e.raw("}")
	}
	e.raw("]}]")
	c := r.ToolChoice
	mode, allowed := "", c.Allowed
	switch {
	case c.Mode == "none":
		mode, allowed = "NONE", nil
	case c.Mode == "function":
		mode, allowed = "ANY", []string{c.Name}
	case c.Mode == "required":
		mode = "ANY"
	case strict || len(allowed) > 0: // AUTO knows no list, and holds no call to its schema
		mode = "VALIDATED"
	default:
		return
	}
	e.raw(`,"toolConfig":{"functionCallingConfig":{"mode":"` + mode + `"`)
	for i, name := range allowed {
		if i == 0 {
			e.raw(`,"allowedFunctionNames":[`)
		} else {
			e.raw(",")
		}
		e.string(name)
	}
	if len(allowed) > 0 {
		e.raw("]")
	}
	e.raw("}}")
}

// asked tells whether the request notes a feature: a value that equals our
// default may still be the caller's own word.
func (e *encoder) asked(f infer.Feature) bool {
	return slices.ContainsFunc(e.r.Uses, func(u infer.Use) bool { return u.Feature == f })
}

// config writes generationConfig.
func (e *encoder) config() {
	s := &e.r.Sampling
	var out []byte
	key := func(name string) {
		out = append(append(append(out, `,"`...), name...), `":`...)
	}
	num := func(name string, v float64) { key(name); out = jsonwrite.Float(out, v) }
	if n := s.MaxTokens; n > 0 { // else as long as the model wants
		num("maxOutputTokens", float64(n))
	}
	if s.Temperature != 1 || e.asked(infer.FeatureTemperature) {
		num("temperature", s.Temperature)
	}
	if s.TopP != 1 || e.asked(infer.FeatureTopP) {
		num("topP", s.TopP)
	}
	if s.TopK > 0 {
		num("topK", float64(s.TopK))
	}
	if s.PresencePenalty != 0 {
		num("presencePenalty", s.PresencePenalty)
	}
	if s.FrequencyPenalty != 0 {
		num("frequencyPenalty", s.FrequencyPenalty)
	}
	if s.N > 1 {
		num("candidateCount", float64(s.N))
	}
	if s.Seed != nil { // an int32 there
		key("seed")
		out = jsonwrite.Int(out, *s.Seed&math.MaxInt32)
	}
	for i, stop := range s.Stop {
		if i == 0 {
			key("stopSequences")
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = jsonwrite.String(out, stop)
	}
	if len(s.Stop) > 0 {
		out = append(out, ']')
	}
	if s.Logprobs {
		out = append(out, `,"responseLogprobs":true`...)
		if s.TopLogprobs > 0 {
			num("logprobs", float64(s.TopLogprobs))
		}
	}
	out = appendFormat(out, &e.r.Format)
	out = e.thinking(out)
	if len(out) > 0 {
		e.raw(`,"generationConfig":{`)
		e.dst = append(append(e.dst, out[1:]...), '}')
	}
}

func appendFormat(out []byte, f *infer.Format) []byte {
	switch f.Kind {
	case infer.FormatJSONObject:
		return append(out, `,"responseMimeType":"application/json"`...)
	case infer.FormatJSONSchema:
		out = append(out, `,"responseMimeType":"application/json","responseJsonSchema":`...)
		return append(out, f.Schema...)
	case infer.FormatChoice:
		out = append(out, `,"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":[`...)
		for i, c := range f.Choices {
			if i > 0 {
				out = append(out, ',')
			}
			out = jsonwrite.String(out, c)
		}
		return append(out, "]}"...)
	}
	return out
}

// efforts are the budgets that Google's own layer for OpenAI's dialect gives the
// words on models before version 3, which know no levels.
var efforts = map[string]int{"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// thinking appends thinkingConfig, if the caller asks for anything.
func (e *encoder) thinking(out []byte) []byte {
	t := e.r.Thinking
	if t == (infer.Thinking{}) {
		return out
	}
	levels := generation(e.t.Model) >= 3 || generation(e.t.Model) == 0
	out = append(out, `,"thinkingConfig":{`...)
	switch {
	case t.Switch == "off" || t.Effort == "none":
		if generation(e.t.Model) >= 3 { // cannot be switched off
			out = append(append(append(out, `"thinkingLevel":"`...), e.level("minimal")...), `",`...)
		} else {
			out = append(out, `"thinkingBudget":0,`...)
		}
		return append(out, `"includeThoughts":false}`...)
	case t.Budget > 0:
		out = append(jsonwrite.Int(append(out, `"thinkingBudget":`...), int64(t.Budget)), ',')
	case t.Effort != "" && levels:
		out = append(append(append(out, `"thinkingLevel":"`...), e.level(t.Effort)...), `",`...)
	case efforts[t.Effort] > 0:
		out = append(jsonwrite.Int(append(out, `"thinkingBudget":`...), int64(efforts[t.Effort])), ',')
	case t.Switch != "" && !levels:
		out = append(out, `"thinkingBudget":-1,`...) // as much as the model sees fit
	}
	show := t.Summary != "none" && t.Summary != "omitted"
	return append(strconv.AppendBool(append(out, `"includeThoughts":`...), show), '}')
}

// level is the thinkingLevel for an effort. The least is known to the small
// models alone, and nothing lies above high.
func (e *encoder) level(effort string) string {
	switch {
	case effort == "minimal" && !strings.Contains(e.t.Model, "flash"):
		return "low"
	case effort == "xhigh" || effort == "max":
		return "high"
	}
	return effort
}
