package fakeprovider

import "encoding/json"

func anthropicFinish(f string) string {
	switch f {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "refusal", "content_filter":
		return "refusal"
	case "stop_sequence":
		return "stop_sequence"
	case "context":
		return "model_context_window_exceeded"
	case "pause":
		return "pause_turn"
	}
	return "end_turn"
}

func anthropicUsage(u *Usage, output int) obj {
	return obj{"input_tokens": u.Fresh, "output_tokens": output, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite + u.CacheWriteHour,
		"cache_creation": obj{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": u.CacheWriteHour}, "service_tier": "standard"}
}

func (a *Answer) stopSequence() any {
	if a.Stop != "" {
		return a.Stop
	}
	return nil
}

// raw is JSON text as a value; what is no JSON (cut arguments) is an empty object.
func raw(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return obj{}
}

// anthropic writes /v1/messages.
func (w *render1) anthropic(stream bool) {
	if stream {
		w.anthropicStream()
		return
	}
	var content list
	calls := 0
	for _, p := range w.ans.Parts {
		switch {
		case p.Redacted != "":
			content = append(content, obj{"type": "redacted_thinking", "data": p.Redacted})
		case p.Reasoning != "" || p.Signature != "":
			content = append(content, obj{"type": "thinking", "thinking": p.Reasoning, "signature": p.Signature})
		case p.Tool != nil:
			content = append(content, obj{"type": "tool_use", "id": w.callID(p.Tool, calls), "name": p.Tool.Name, "input": raw(p.Tool.Args)})
			calls++
		default:
			content = append(content, obj{"type": "text", "text": p.Text + p.Refusal})
		}
	}
	if content == nil {
		content = list{}
	}
	body := w.messageStart(content)
	body["stop_reason"], body["stop_sequence"] = anthropicFinish(w.ans.finish()), w.ans.stopSequence()
	if u := w.ans.stated(); u != nil {
		body["usage"] = anthropicUsage(u, u.Output)
	} else {
		delete(body, "usage")
	}
	w.whole(body)
}

func (w *render1) messageStart(content list) obj {
	u := w.ans.stated()
	m := obj{"id": "msg_" + w.id, "type": "message", "role": "assistant", "model": w.r.Model, "content": content, "stop_reason": nil, "stop_sequence": nil}
	if u != nil {
		m["usage"] = anthropicUsage(u, min(1, u.Output))
		if w.ans.UsageWhen == "finish" { // the start knows nothing yet
			m["usage"] = anthropicUsage(&Usage{}, 0)
		}
	}
	return m
}

func (w *render1) anthropicStream() {
	w.streaming(sseType)
	w.event("message_start", obj{"type": "message_start", "message": w.messageStart(list{})}, 0)
	w.event("ping", obj{"type": "ping"}, 0)
	if pad := w.padding(); pad != "" {
		w.event("ping", obj{"type": "ping", "padding": pad}, 0)
	}
	calls := 0
	for i, p := range w.ans.Parts {
		start := func(block obj) {
			w.event("content_block_start", obj{"type": "content_block_start", "index": i, "content_block": block}, 0)
		}
		delta := func(d obj, tokens int) {
			w.event("content_block_delta", obj{"type": "content_block_delta", "index": i, "delta": d}, tokens)
		}
		switch {
		case p.Redacted != "":
			start(obj{"type": "redacted_thinking", "data": p.Redacted})
		case p.Reasoning != "" || p.Signature != "":
			start(obj{"type": "thinking", "thinking": "", "signature": ""})
			if p.Reasoning != "" {
				for _, s := range w.ans.pieces(p.Reasoning) {
					delta(obj{"type": "thinking_delta", "thinking": s}, 1)
				}
			}
			if p.Signature != "" {
				delta(obj{"type": "signature_delta", "signature": p.Signature}, 0)
			}
		case p.Tool != nil:
			start(obj{"type": "tool_use", "id": w.callID(p.Tool, calls), "name": p.Tool.Name, "input": obj{}})
			calls++
			delta(obj{"type": "input_json_delta", "partial_json": ""}, 0)
			if p.Tool.Args != "" {
				for _, s := range w.ans.pieces(p.Tool.Args) {
					delta(obj{"type": "input_json_delta", "partial_json": s}, 1)
				}
			}
		default:
			start(obj{"type": "text", "text": ""})
			if s := p.Text + p.Refusal; s != "" {
				for _, s := range w.ans.pieces(s) {
					delta(obj{"type": "text_delta", "text": s}, 1)
				}
			}
		}
		w.event("content_block_stop", obj{"type": "content_block_stop", "index": i}, 0)
		if w.ans.quirk("unknown_events") {
			w.event("weather", obj{"type": "weather", "index": i}, 0)
		}
	}
	d := obj{"type": "message_delta", "delta": obj{"stop_reason": anthropicFinish(w.ans.finish()), "stop_sequence": w.ans.stopSequence()}}
	if u := w.ans.stated(); u != nil {
		d["usage"] = obj{"output_tokens": u.Output}
		if w.ans.UsageWhen == "finish" || w.ans.UsageWhen == "zero" { // totals that replace the early counts
			d["usage"] = anthropicUsage(u, u.Output)
		}
	}
	w.closing("message_delta", d)
	w.closing("message_stop", obj{"type": "message_stop"})
}
