package fakeprovider

import (
	"encoding/base64"
	"strings"
)

func bedrockFinish(f string) string {
	switch f {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "content_filter", "refusal":
		return "content_filtered"
	case "stop_sequence":
		return "stop_sequence"
	case "context":
		return "model_context_window_exceeded"
	}
	return "end_turn"
}

func bedrockUsage(u *Usage) obj {
	return obj{"inputTokens": u.Fresh, "outputTokens": u.Output, "totalTokens": u.prompt() + u.Output,
		"cacheReadInputTokens": u.Cached, "cacheWriteInputTokens": u.CacheWrite + u.CacheWriteHour}
}

// bedrock writes Converse and ConverseStream.
func (w *render1) bedrock(stream bool) {
	if stream {
		w.bedrockStream()
		return
	}
	content := list{}
	calls := 0
	for _, p := range w.ans.Parts {
		switch {
		case p.Redacted != "":
			content = append(content, obj{"reasoningContent": obj{"redactedContent": base64.StdEncoding.EncodeToString([]byte(p.Redacted))}})
		case p.Reasoning != "" || p.Signature != "":
			content = append(content, obj{"reasoningContent": obj{"reasoningText": obj{"text": p.Reasoning, "signature": p.Signature}}})
		case p.Tool != nil:
			content = append(content, obj{"toolUse": obj{"toolUseId": w.callID(p.Tool, calls), "name": p.Tool.Name, "input": raw(p.Tool.Args)}})
			calls++
		default:
			content = append(content, obj{"text": p.Text + p.Refusal})
		}
	}
	body := obj{"output": obj{"message": obj{"role": "assistant", "content": content}}, "stopReason": bedrockFinish(w.ans.finish()), "metrics": obj{"latencyMs": 12}}
	if w.ans.Stop != "" {
		body["additionalModelResponseFields"] = obj{"stop_sequence": w.ans.Stop}
	}
	if u := w.ans.stated(); u != nil {
		body["usage"] = bedrockUsage(u)
	}
	w.whole(body)
}

func (w *render1) bedrockStream() {
	w.streaming(eventStreamType)
	put := func(kind string, o obj, tokens int) {
		o["p"] = "abcdefgh"[:3+len(kind)%4] // padding, as the service sends it
		w.frame(bedrockEvent(kind, o), tokens, false)
	}
	put("messageStart", obj{"role": "assistant"}, 0)
	if pad := w.padding(); pad != "" {
		put("contentBlockDelta", obj{"contentBlockIndex": 0, "delta": obj{"text": ""}, "padding": strings.Clone(pad)}, 0)
	}
	calls := 0
	for i, p := range w.ans.Parts {
		delta := func(d obj, tokens int) {
			put("contentBlockDelta", obj{"contentBlockIndex": i, "delta": d}, tokens)
		}
		switch {
		case p.Redacted != "":
			delta(obj{"reasoningContent": obj{"redactedContent": base64.StdEncoding.EncodeToString([]byte(p.Redacted))}}, 0)
		case p.Reasoning != "" || p.Signature != "":
			if p.Reasoning != "" {
				for _, s := range w.ans.pieces(p.Reasoning) {
					delta(obj{"reasoningContent": obj{"text": s}}, 1)
				}
			}
			if p.Signature != "" {
				delta(obj{"reasoningContent": obj{"signature": p.Signature}}, 0)
			}
		case p.Tool != nil:
			put("contentBlockStart", obj{"contentBlockIndex": i, "start": obj{"toolUse": obj{"toolUseId": w.callID(p.Tool, calls), "name": p.Tool.Name}}}, 1)
			calls++
			if p.Tool.Args != "" {
				for _, s := range w.ans.pieces(p.Tool.Args) {
					delta(obj{"toolUse": obj{"input": s}}, 1)
				}
			}
		default:
			if s := p.Text + p.Refusal; s != "" {
				for _, s := range w.ans.pieces(s) {
					delta(obj{"text": s}, 1)
				}
			}
		}
		put("contentBlockStop", obj{"contentBlockIndex": i}, 0)
		if w.ans.quirk("unknown_events") {
			put("weatherUpdate", obj{"weather": "fine"}, 0)
		}
	}
	stop := obj{"stopReason": bedrockFinish(w.ans.finish())}
	if w.ans.Stop != "" {
		stop["additionalModelResponseFields"] = obj{"stop_sequence": w.ans.Stop}
	}
	w.close(bedrockEvent("messageStop", stop))
	if u := w.ans.stated(); u != nil {
		w.close(bedrockEvent("metadata", obj{"usage": bedrockUsage(u), "metrics": obj{"latencyMs": 12}}))
	}
}
