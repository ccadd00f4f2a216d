package fakeprovider

func responsesUsage(u *Usage) any {
	if u == nil {
		return nil
	}
	return obj{
		"input_tokens": u.prompt(), "output_tokens": u.Output, "total_tokens": u.prompt() + u.Output,
		"input_tokens_details":  obj{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite + u.CacheWriteHour},
		"output_tokens_details": obj{"reasoning_tokens": u.Reasoning},
	}
}

// response is the object at a stage of its life.
func (w *render1) response(status string, output list, usage any) obj {
	o := obj{"id": "resp_" + w.id, "object": "response", "created_at": created, "model": w.r.Model, "status": status, "output": output, "usage": usage,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": obj{}, "parallel_tool_calls": true, "temperature": 1, "top_p": 1,
		"tool_choice": "auto", "tools": list{}, "max_output_tokens": nil, "previous_response_id": nil, "store": false, "text": obj{"format": obj{"type": "text"}}, "truncation": "disabled"}
	if output == nil {
		o["output"] = list{}
	}
	if status == "incomplete" {
		reason := "max_output_tokens"
		if f := w.ans.finish(); f == "content_filter" || f == "refusal" {
			reason = "content_filter"
		}
		o["incomplete_details"] = obj{"reason": reason}
	}
	return o
}

func (w *render1) responsesStatus() string {
	switch w.ans.finish() {
	case "length", "content_filter", "context":
		return "incomplete"
	}
	return "completed"
}

// items are the finished output items, with the parts they were made from.
func (w *render1) items() (out list, parts []Part) {
	calls := 0
	for i, p := range w.ans.Parts {
		switch {
		case p.Reasoning != "" || p.Redacted != "" || p.Signature != "":
			it := obj{"id": w.itemID("rs", i), "type": "reasoning", "summary": list{}}
			if p.Reasoning != "" {
				it["summary"] = list{obj{"type": "summary_text", "text": p.Reasoning}}
			}
			if p.Redacted != "" || p.Signature != "" {
				it["encrypted_content"] = p.Redacted + p.Signature
			}
			out = append(out, it)
		case p.Tool != nil:
			out = append(out, obj{"id": w.itemID("fc", i), "type": "function_call", "status": "completed", "call_id": w.callID(p.Tool, calls), "name": p.Tool.Name, "arguments": p.Tool.Args})
			calls++
		case p.Refusal != "":
			out = append(out, w.message(i, "completed", list{obj{"type": "refusal", "refusal": p.Refusal}}))
		default:
			out = append(out, w.message(i, "completed", list{outputText(p.Text)}))
		}
		parts = append(parts, p)
	}
	return out, parts
}

func (w *render1) message(i int, status string, content list) obj {
	return obj{"id": w.itemID("msg", i), "type": "message", "role": "assistant", "status": status, "content": content}
}

func outputText(s string) obj {
	return obj{"type": "output_text", "text": s, "annotations": list{}, "logprobs": list{}}
}

// responses writes /responses.
func (w *render1) responses(stream bool) {
	items, parts := w.items()
	status := w.responsesStatus()
	usage := responsesUsage(w.ans.stated())
	if !stream {
		w.whole(w.response(status, items, usage))
		return
	}
	w.streaming(sseType)
	seq := 0
	event := func(kind string, o obj, tokens int) {
		o["type"], o["sequence_number"] = kind, seq
		seq++
		w.event(kind, o, tokens)
	}
	event("response.created", obj{"response": w.response("in_progress", nil, nil)}, 0)
	event("response.in_progress", obj{"response": w.response("in_progress", nil, nil)}, 0)
	for i, p := range parts {
		w.responsesItem(i, &p, items[i].(obj), event)
	}
	if w.ans.quirk("unknown_events") {
		event("response.weather.updated", obj{"weather": "fine"}, 0)
	}
	o := obj{"type": "response." + status, "sequence_number": seq, "response": w.response(status, items, usage)}
	w.closing("response."+status, o)
}

// responsesItem streams one output item.
func (w *render1) responsesItem(i int, p *Part, done obj, event func(string, obj, int)) {
	id := done["id"]
	at := func(o obj) obj {
		o["output_index"], o["item_id"] = i, id
		return o
	}
	added := obj{}
	for k, v := range done {
		added[k] = v
	}
	switch done["type"] {
	case "message":
		added["status"], added["content"] = "in_progress", list{}
	case "function_call":
		added["status"], added["arguments"] = "in_progress", ""
	case "reasoning":
		added["summary"] = list{}
		delete(added, "encrypted_content")
	}
	event("response.output_item.added", obj{"output_index": i, "item": added}, 0)
	switch {
	case done["type"] == "reasoning" && p.Reasoning != "":
		part := obj{"type": "summary_text", "text": ""}
		event("response.reasoning_summary_part.added", at(obj{"summary_index": 0, "part": part}), 0)
		for _, s := range w.ans.pieces(p.Reasoning) {
			event("response.reasoning_summary_text.delta", at(obj{"summary_index": 0, "delta": s}), 1)
		}
		event("response.reasoning_summary_text.done", at(obj{"summary_index": 0, "text": p.Reasoning}), 0)
		event("response.reasoning_summary_part.done", at(obj{"summary_index": 0, "part": obj{"type": "summary_text", "text": p.Reasoning}}), 0)
	case p.Tool != nil:
		if p.Tool.Args != "" {
			for _, s := range w.ans.pieces(p.Tool.Args) {
				event("response.function_call_arguments.delta", at(obj{"delta": s}), 1)
			}
		}
		event("response.function_call_arguments.done", at(obj{"arguments": p.Tool.Args, "name": p.Tool.Name}), 0)
	case p.Refusal != "":
		event("response.content_part.added", at(obj{"content_index": 0, "part": obj{"type": "refusal", "refusal": ""}}), 0)
		for _, s := range w.ans.pieces(p.Refusal) {
			event("response.refusal.delta", at(obj{"content_index": 0, "delta": s}), 1)
		}
		event("response.refusal.done", at(obj{"content_index": 0, "refusal": p.Refusal}), 0)
		event("response.content_part.done", at(obj{"content_index": 0, "part": obj{"type": "refusal", "refusal": p.Refusal}}), 0)
	case done["type"] == "message":
		event("response.content_part.added", at(obj{"content_index": 0, "part": outputText("")}), 0)
		if p.Text != "" {
			for _, s := range w.ans.pieces(p.Text) {
				event("response.output_text.delta", at(obj{"content_index": 0, "delta": s, "logprobs": list{}}), 1)
			}
		}
		event("response.output_text.done", at(obj{"content_index": 0, "text": p.Text, "logprobs": list{}}), 0)
		event("response.content_part.done", at(obj{"content_index": 0, "part": outputText(p.Text)}), 0)
	}
	event("response.output_item.done", obj{"output_index": i, "item": done}, 0)
}
