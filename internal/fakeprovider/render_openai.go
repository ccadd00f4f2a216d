package fakeprovider

const created = 1750000000

func openAIFinish(f string) string {
	switch f {
	case "stop", "length", "tool_calls", "content_filter":
		return f
	case "refusal":
		return "content_filter"
	case "context":
		return "length"
	}
	return "stop"
}

func openAIUsage(u *Usage) obj {
	return obj{
		"prompt_tokens": u.prompt(), "completion_tokens": u.Output, "total_tokens": u.prompt() + u.Output,
		"prompt_tokens_details":     obj{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite + u.CacheWriteHour, "audio_tokens": 0},
		"completion_tokens_details": obj{"reasoning_tokens": u.Reasoning, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
}

// chat writes /chat/completions.
func (w *render1) chat(stream bool) {
	if stream {
		w.chatStream()
		return
	}
	text, reasoning, refusal, calls := w.ans.joined()
	var choices list
	for i := range max(1, w.ans.Choices) {
		m := obj{"role": "assistant", "content": text, "refusal": nil}
		if text == "" && len(calls) > 0 {
			m["content"] = nil
		}
		if reasoning != "" {
			m["reasoning_content"] = reasoning
		}
		if refusal != "" {
			m["refusal"] = refusal
		}
		if len(calls) > 0 {
			var tc list
			for k, c := range calls {
				var args any = c.Args
				tc = append(tc, obj{"id": w.callID(c, k), "type": "function", "function": obj{"name": c.Name, "arguments": args}})
			}
			m["tool_calls"] = tc
		}
		choices = append(choices, obj{"index": i, "message": m, "finish_reason": openAIFinish(w.ans.finish()), "logprobs": nil})
	}
	body := obj{"id": "chatcmpl-" + w.id, "object": "chat.completion", "created": created, "model": w.r.Model, "choices": choices, "system_fingerprint": "fp_fake", "service_tier": "default"}
	if u := w.ans.stated(); u != nil {
		body["usage"] = openAIUsage(u)
	}
	w.whole(body)
}

func (w *render1) callID(c *Tool, k int) string {
	if w.ans.quirk("duplicate_id") {
		return "call_same"
	}
	if c.ID == "" {
		return w.itemID("call", k)
	}
	return c.ID
}

func (w *render1) chunk(choices list) obj {
	return obj{"id": "chatcmpl-" + w.id, "object": "chat.completion.chunk", "created": created, "model": w.r.Model, "system_fingerprint": "fp_fake", "choices": choices}
}

func (w *render1) delta(choice int, d obj, finish any) obj {
	return w.chunk(list{obj{"index": choice, "delta": d, "finish_reason": finish, "logprobs": nil}})
}

// includeUsage says whether the request asked for usage on the stream.
func (w *render1) includeUsage() bool { return asked(w.r.Body, "stream_options", "include_usage") }

func (w *render1) chatStream() {
	w.streaming(sseType)
	a := w.ans
	if a.quirk("preamble") {
		c := w.chunk(list{})
		c["prompt_filter_results"] = list{obj{"prompt_index": 0}}
		w.event("", c, 0)
	}
	for i := range max(1, a.Choices) {
		if !a.quirk("no_role") {
			c := w.delta(i, obj{"role": "assistant", "content": "", "refusal": nil}, nil)
			if a.UsageWhen == "early" {
				c["usage"] = openAIUsage(&Usage{Fresh: a.Usage.Fresh, Cached: a.Usage.Cached})
			}
			w.event("", c, 0)
		}
	}
	if pad := w.padding(); pad != "" {
		c := w.delta(0, obj{"content": ""}, nil)
		c["padding"] = pad
		w.event("", c, 0)
	}
	for i := range max(1, a.Choices) {
		w.chatChoice(i)
	}
	if a.UsageWhen != "absent" && a.UsageWhen != "finish" && (w.includeUsage() || a.quirk("usage_unasked")) {
		c := w.chunk(list{})
		if a.quirk("null_choices_usage") {
			c["choices"] = nil
		}
		c["usage"] = openAIUsage(a.stated())
		w.closing("", c)
	}
	w.close([]byte("data: [DONE]\n\n"))
}

// chatChoice writes the deltas and the finish of one choice.
func (w *render1) chatChoice(choice int) {
	a := w.ans
	var last obj // the delta that rides in the finish chunk
	emit := func(d obj, tokens int, final bool) {
		if final {
			last = d
			return
		}
		w.event("", w.delta(choice, d, nil), tokens)
	}
	lastText := -1
	if a.quirk("content_with_finish") {
		for i, p := range a.Parts {
			if p.Text != "" {
				lastText = i
			}
		}
	}
	var calls []*Tool
	for i, p := range a.Parts {
		if p.Reasoning != "" {
			for _, s := range a.pieces(p.Reasoning) {
				emit(obj{"reasoning_content": s}, 1, false)
			}
		}
		if p.Refusal != "" {
			for _, s := range a.pieces(p.Refusal) {
				emit(obj{"refusal": s}, 1, false)
			}
		}
		if p.Text != "" {
			ps := a.pieces(p.Text)
			for k, s := range ps {
				emit(obj{"content": s}, 1, i == lastText && k == len(ps)-1)
			}
		}
		if p.Tool != nil {
			calls = append(calls, p.Tool)
			if !a.quirk("interleave") {
				w.chatCall(p.Tool, len(calls)-1, emit)
			}
		}
	}
	if a.quirk("interleave") {
		w.interleaved(calls, emit)
	}
	if a.quirk("unknown_events") {
		c := w.chunk(list{})
		c["object"] = "chat.completion.weather"
		w.event("", c, 0)
	}
	if last == nil {
		last = obj{}
	}
	c := w.delta(choice, last, openAIFinish(a.finish()))
	if a.UsageWhen == "finish" {
		c["usage"] = openAIUsage(&a.Usage)
	}
	w.closing("", c)
}

// callDelta is a piece of call k; the first has id and name.
func (w *render1) callDelta(c *Tool, k int, first bool, args string) obj {
	a := w.ans
	d := obj{"index": k, "function": obj{"arguments": args}}
	if a.quirk("no_index") {
		delete(d, "index")
	}
	if a.quirk("same_index") {
		d["index"] = 0
	}
	switch {
	case first || a.quirk("repeat_name"):
		d["id"], d["type"] = w.callID(c, k), "function"
		d["function"] = obj{"name": c.Name, "arguments": args}
	case a.quirk("null_name"):
		d["id"], d["type"] = nil, nil
		d["function"] = obj{"name": nil, "arguments": args}
	}
	return obj{"tool_calls": list{d}}
}

func (w *render1) chatCall(c *Tool, k int, emit func(obj, int, bool)) {
	ps := w.ans.pieces(c.Args)
	if c.Args == "" {
		ps = nil
	}
	emit(w.callDelta(c, k, true, ""), 1, len(ps) == 0 && w.ans.quirk("args_with_finish"))
	for i, s := range ps {
		emit(w.callDelta(c, k, false, s), 1, i == len(ps)-1 && w.ans.quirk("args_with_finish"))
	}
}

// interleaved opens all calls, then sends their pieces in turn.
func (w *render1) interleaved(calls []*Tool, emit func(obj, int, bool)) {
	most := 0
	pieces := make([][]string, len(calls))
	for k, c := range calls {
		emit(w.callDelta(c, k, true, ""), 1, false)
		pieces[k] = w.ans.pieces(c.Args)
		most = max(most, len(pieces[k]))
	}
	for i := range most {
		for k, c := range calls {
			if i < len(pieces[k]) {
				emit(w.callDelta(c, k, false, pieces[k][i]), 1, false)
			}
		}
	}
}

// completions writes the legacy /completions.
func (w *render1) completions(stream bool) {
	text, _, _, _ := w.ans.joined()
	make1 := func(choices list) obj {
		return obj{"id": "cmpl-" + w.id, "object": "text_completion", "created": created, "model": w.r.Model, "choices": choices}
	}
	if !stream {
		var choices list
		for i := range max(1, w.ans.Choices) {
			choices = append(choices, obj{"index": i, "text": text, "logprobs": nil, "finish_reason": openAIFinish(w.ans.finish())})
		}
		body := make1(choices)
		if u := w.ans.stated(); u != nil {
			body["usage"] = openAIUsage(u)
		}
		w.whole(body)
		return
	}
	w.streaming(sseType)
	for i := range max(1, w.ans.Choices) {
		for _, s := range w.ans.pieces(text) {
			w.event("", make1(list{obj{"index": i, "text": s, "logprobs": nil, "finish_reason": nil}}), share(s))
		}
		c := make1(list{obj{"index": i, "text": "", "logprobs": nil, "finish_reason": openAIFinish(w.ans.finish())}})
		if w.ans.UsageWhen == "finish" {
			c["usage"] = openAIUsage(&w.ans.Usage)
		}
		w.closing("", c)
	}
	if w.ans.UsageWhen != "absent" && w.ans.UsageWhen != "finish" && w.includeUsage() {
		c := make1(list{})
		c["usage"] = openAIUsage(w.ans.stated())
		w.closing("", c)
	}
	w.close([]byte("data: [DONE]\n\n"))
}
