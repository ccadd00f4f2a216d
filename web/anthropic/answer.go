package anthropic

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// answerID is the id of an answer, made from the id of its request so that one
// can be found by the other.
func answerID(r *infer.Request) string { return "msg_" + strings.TrimPrefix(r.ID, "req_") }

// stopReason is the word for the end of an answer. Targets differ in what they
// call the end of a turn that calls tools; on this wire the calls decide.
func stopReason(f infer.FinishReason, stop string, calls bool) string {
	switch f {
	case infer.FinishLength:
		return "max_tokens"
	case infer.FinishContentFilter, infer.FinishRefusal:
		return "refusal"
	case infer.FinishPause:
		return "pause_turn"
	case infer.FinishContext:
		return "model_context_window_exceeded"
	}
	switch {
	case calls:
		return "tool_use"
	case stop != "":
		return "stop_sequence"
	}
	return "end_turn"
}

// appendStop appends stop_reason and stop_sequence.
func appendStop(dst []byte, f infer.FinishReason, stop string, calls bool) []byte {
	reason := stopReason(f, stop, calls)
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, `","stop_sequence":`...)
	if reason != "stop_sequence" {
		return append(dst, "null"...)
	}
	return jsonwrite.String(dst, stop)
}

// appendUsage appends the usage object. Its prompt buckets are disjoint:
// input_tokens are those that neither came from a cache nor went into one.
func appendUsage(dst []byte, u *infer.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = jsonwrite.Int(dst, int64(max(0, u.PromptTokens-u.CachedTokens-u.CacheWriteTokens)))
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.CacheWriteTokens))
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.CachedTokens))
	if u.CacheWriteTokens > 0 {
		hour := min(u.CacheWriteHourTokens, u.CacheWriteTokens)
		dst = append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
		dst = jsonwrite.Int(dst, int64(u.CacheWriteTokens-hour))
		dst = append(dst, `,"ephemeral_1h_input_tokens":`...)
		dst = jsonwrite.Int(dst, int64(hour))
		dst = append(dst, '}')
	}
	dst = append(dst, `,"output_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.CompletionTokens))
	if u.ReasoningTokens > 0 {
		dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
		dst = jsonwrite.Int(dst, int64(u.ReasoningTokens))
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendHead appends a message object up to its content, and leaves it open.
func appendHead(dst []byte, id, model string) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwrite.String(dst, id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = jsonwrite.String(dst, model)
	return append(dst, `,"content":[`...)
}

// appendMessage appends a whole answer.
func appendMessage(dst []byte, r *infer.Request, o wire.Options, a *wire.Answer) []byte {
	c := &a.Choices[0]
	dst = appendHead(dst, answerID(r), a.Model.Name)
	from := len(dst)
	dst = appendThoughts(dst, o, c)
	if text := c.Text + c.Refusal; text != "" { // a refusal has no form of its own
		dst = appendText(comma(dst, from), text)
	}
	for _, call := range c.ToolCalls {
		dst = appendToolUse(comma(dst, from), call)
	}
	dst = append(dst, `],`...)
	dst = appendStop(dst, c.Finish, c.Stop, len(c.ToolCalls) > 0)
	dst = append(dst, `,"usage":`...)
	dst = appendUsage(dst, &a.Usage)
	return append(dst, "}\n"...)
}

// comma appends a comma unless nothing was appended since from.
func comma(dst []byte, from int) []byte {
	if len(dst) > from {
		return append(dst, ',')
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	dst = append(dst, `{"type":"text","text":`...)
	return append(jsonwrite.String(dst, text), '}')
}

func appendThinking(dst []byte, text, signature string) []byte {
	dst = append(dst, `{"type":"thinking","thinking":`...)
	dst = jsonwrite.String(dst, text)
	dst = append(dst, `,"signature":`...)
	return append(jsonwrite.String(dst, signature), '}')
}

func appendRedacted(dst []byte, data string) []byte {
	dst = append(dst, `{"type":"redacted_thinking","data":`...)
	return append(jsonwrite.String(dst, data), '}')
}

// appendToolUse appends a call. Its input is an object on this wire; arguments
// that are none, be it that they were cut, are shown as they are in a member.
func appendToolUse(dst []byte, c infer.ToolCall) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = jsonwrite.String(dst, c.ID)
	dst = append(dst, `,"name":`...)
	dst = jsonwrite.String(dst, c.Name)
	dst = append(dst, `,"input":`...)
	return append(appendInput(dst, c.Arguments), '}')
}

// invalidInput is the member that holds arguments which are no JSON object.
const invalidInput = "invalid_json"

func appendInput(dst []byte, args string) []byte {
	args = strings.TrimSpace(args)
	if args == "" {
		return append(dst, "{}"...)
	}
	if isObject(args) {
		return append(dst, args...)
	}
	dst = append(dst, `{"`+invalidInput+`":`...)
	return append(jsonwrite.String(dst, args), '}')
}

// isObject tells whether s is the text of one JSON object.
func isObject(s string) bool {
	if s == "{}" {
		return true
	}
	v, err := jsonread.Parse([]byte(s), jsonread.Limits{Depth: 128})
	return err == nil && v.Kind() == jsonread.Object
}

// appendThoughts appends the reasoning of an answer as blocks, in front of its
// text. A signature is shown where there is one and never made up.
func appendThoughts(dst []byte, o wire.Options, c *wire.Choice) []byte {
	from := len(dst)
	for _, t := range c.Thoughts {
		switch {
		case t.Redacted != "":
			dst = appendRedacted(comma(dst, from), t.Redacted)
		case o.HideReasoning && t.Signature == "":
		case o.HideReasoning:
			dst = appendThinking(comma(dst, from), "", t.Signature)
		default:
			dst = appendThinking(comma(dst, from), t.Text, t.Signature)
		}
	}
	return dst
}
