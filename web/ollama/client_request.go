package ollama

import (
	"encoding/base64"
	"slices"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// appendChat writes a chat request from its typed fields.
func appendChat(r *infer.Request, t wire.Target) []byte {
	dst := jsonwrite.String(append(make([]byte, 0, 1024), `{"model":`...), t.Model)
	dst = append(dst, `,"messages":[`...)
	names := map[string]string{} // of calls, by id
	for i := range r.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMessage(dst, &r.Messages[i], names)
	}
	dst = append(dst, ']')
	dst = appendTools(dst, r)
	return append(appendShared(dst, r), '}')
}

// appendGenerate writes a request that continues a prompt as it is. With a suffix
// the model's template must put the two in place, so it is not raw then.
func appendGenerate(r *infer.Request, t wire.Target) []byte {
	dst := jsonwrite.String(append(make([]byte, 0, 1024), `{"model":`...), t.Model)
	dst = jsonwrite.String(append(dst, `,"prompt":`...), r.Prompts[0].Text)
	if r.Suffix != "" {
		dst = jsonwrite.String(append(dst, `,"suffix":`...), r.Suffix)
	} else {
		dst = append(dst, `,"raw":true`...)
	}
	return append(appendShared(dst, r), '}')
}

func appendMessage(dst []byte, m *infer.Message, names map[string]string) []byte {
	role := m.Role
	if role == infer.RoleDeveloper {
		role = infer.RoleSystem
	}
	text := m.Text()
	if m.ToolError {
		text = "The tool failed: " + text
	}
	dst = jsonwrite.String(append(dst, `{"role":`...), string(role))
	dst = jsonwrite.String(append(dst, `,"content":`...), text)
	if m.Reasoning != "" && role == infer.RoleAssistant {
		dst = jsonwrite.String(append(dst, `,"thinking":`...), m.Reasoning)
	}
	n := 0
	for i := range m.Content {
		p := &m.Content[i]
		if p.Type != "image" || p.Data == nil {
			continue
		}
		if n++; n == 1 {
			dst = append(dst, `,"images":["`...)
		} else {
			dst = append(dst, `,"`...)
		}
		dst = append(base64.StdEncoding.AppendEncode(dst, p.Data), '"')
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		names[c.ID] = c.Name
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, i, c)
	}
	if len(m.ToolCalls) > 0 {
		dst = append(dst, ']')
	}
	if role == infer.RoleTool {
		name := names[m.ToolCallID]
		if name == "" {
			name = m.Name
		}
		if name != "" {
			dst = jsonwrite.String(append(dst, `,"tool_name":`...), name)
		}
		if m.ToolCallID != "" {
			dst = jsonwrite.String(append(dst, `,"tool_call_id":`...), m.ToolCallID)
		}
	}
	return append(dst, '}')
}

func appendCall(dst []byte, i int, c *infer.ToolCall) []byte {
	dst = append(dst, '{')
	if c.ID != "" {
		dst = append(jsonwrite.String(append(dst, `"id":`...), c.ID), ',')
	}
	dst = jsonwrite.Int(append(dst, `"function":{"index":`...), int64(i))
	dst = jsonwrite.String(append(dst, `,"name":`...), c.Name)
	dst = append(dst, `,"arguments":`...)
	switch {
	case c.Arguments == "":
		dst = append(dst, "{}"...)
	case isObject(c.Arguments):
		dst = append(dst, c.Arguments...)
	default: // what a model once wrote that is no object
		dst = append(jsonwrite.String(append(dst, `{"arguments":`...), c.Arguments), '}')
	}
	return append(dst, "}}"...)
}

// appendTools writes the tools that may be called: a choice is known to this
// wire only by what is offered.
func appendTools(dst []byte, r *infer.Request) []byte {
	if r.ToolChoice.Mode == "none" {
		return dst
	}
	n := 0
	for i := range r.Tools {
		t := &r.Tools[i]
		if a := r.ToolChoice.Allowed; len(a) > 0 && !slices.Contains(a, t.Name) {
			continue
		}
		if n++; n == 1 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(append(dst, `{"type":"function","function":{"name":`...), t.Name)
		if t.Description != "" {
			dst = jsonwrite.String(append(dst, `,"description":`...), t.Description)
		}
		dst = append(dst, `,"parameters":`...)
		if t.Parameters != nil {
			dst = append(dst, t.Parameters...)
		} else {
			dst = append(dst, `{"type":"object","properties":{}}`...)
		}
		dst = append(dst, "}}"...)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendShared writes what chat and generate have in common.
func appendShared(dst []byte, r *infer.Request) []byte {
	dst = strconv.AppendBool(append(dst, `,"stream":`...), r.Stream)
	switch r.Format.Kind {
	case infer.FormatJSONObject:
		dst = append(dst, `,"format":"json"`...)
	case infer.FormatJSONSchema:
		dst = append(append(dst, `,"format":`...), r.Format.Schema...)
	}
	dst = appendThink(dst, r.Thinking)
	if k := r.Hints.KeepAlive; k != "" {
		if _, err := strconv.ParseFloat(k, 64); err == nil {
			dst = append(append(dst, `,"keep_alive":`...), k...)
		} else {
			dst = jsonwrite.String(append(dst, `,"keep_alive":`...), k)
		}
	}
	if r.Sampling.Logprobs {
		dst = append(dst, `,"logprobs":true`...)
		if n := r.Sampling.TopLogprobs; n > 0 {
			dst = jsonwrite.Int(append(dst, `,"top_logprobs":`...), int64(n))
		}
	}
	if o := appendOptions(nil, r); len(o) > 0 {
		dst = append(append(append(dst, `,"options":{`...), o[1:]...), '}')
	}
	return dst
}

// appendThink writes how much is thought. Models that cannot think refuse the
// wish, so it is written only where there is one.
func appendThink(dst []byte, t infer.Thinking) []byte {
	switch {
	case t.Switch == "off" || t.Effort == "none":
		return append(dst, `,"think":false`...)
	case t.Effort == "minimal" || t.Effort == "low":
		return append(dst, `,"think":"low"`...)
	case t.Effort == "medium" || t.Effort == "high" || t.Effort == "max":
		return jsonwrite.String(append(dst, `,"think":`...), t.Effort)
	case t.Effort == "xhigh":
		return append(dst, `,"think":"high"`...)
	case t.Switch != "" || t.Budget > 0:
		return append(dst, `,"think":true`...)
	}
	return dst
}

// appendOptions writes options, each with a comma before it. Ollama's defaults
// are not ours, so that what the caller wrote is written even where it equals
// them.
func appendOptions(out []byte, r *infer.Request) []byte {
	s := &r.Sampling
	asked := func(f infer.Feature) bool {
		return slices.ContainsFunc(r.Uses, func(u infer.Use) bool { return u.Feature == f })
	}
	num := func(name string, v float64) {
		out = append(append(append(out, `,"`...), name...), `":`...)
		out = jsonwrite.Float(out, v)
	}
	if s.Temperature != 1 || asked(infer.FeatureTemperature) {
		num("temperature", s.Temperature)
	}
	if s.TopP != 1 || asked(infer.FeatureTopP) {
		num("top_p", s.TopP)
	}
	if s.TopK > 0 {
		num("top_k", float64(s.TopK))
	}
	if s.MinP > 0 {
		num("min_p", s.MinP)
	}
	if s.RepetitionPenalty != 1 || asked(infer.FeatureRepetitionPenalty) {
		num("repeat_penalty", s.RepetitionPenalty)
	}
	if s.PresencePenalty != 0 {
		num("presence_penalty", s.PresencePenalty)
	}
	if s.FrequencyPenalty != 0 {
		num("frequency_penalty", s.FrequencyPenalty)
	}
	if s.Seed != nil {
		out = jsonwrite.Int(append(out, `,"seed":`...), *s.Seed)
	}
	if n := s.MaxTokens; n > 0 { // else as long as the model wants
		num("num_predict", float64(n))
	}
	for i, stop := range s.Stop {
		if i == 0 {
			out = append(out, `,"stop":[`...)
		} else {
			out = append(out, ',')
		}
		out = jsonwrite.String(out, stop)
	}
	if len(s.Stop) > 0 {
		out = append(out, ']')
	}
	return out
}
