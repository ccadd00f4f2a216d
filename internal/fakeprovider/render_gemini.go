package fakeprovider

func geminiFinish(f string) string {
	switch f {
	case "length", "context":
		return "MAX_TOKENS"
	case "content_filter", "refusal":
		return "SAFETY"
	}
	return "STOP" // calls included
}

// geminiUsage: candidates exclude thoughts, the prompt includes what was cached.
func geminiUsage(u *Usage) obj {
	return obj{"promptTokenCount": u.prompt(), "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Output - u.Reasoning,
		"thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.prompt() + u.Output}
}

func (w *render1) geminiBody(choice int, parts list, finish any) obj {
	c := obj{"index": choice, "content": obj{"role": "model", "parts": parts}}
	if finish != nil {
		c["finishReason"] = finish
	}
	return obj{"candidates": list{c}, "modelVersion": w.r.Model, "responseId": w.id}
}

func (w *render1) geminiCall(c *Tool, k int) obj {
	call := obj{"name": c.Name, "args": raw(c.Args)}
	if !w.ans.quirk("no_call_id") {
		call["id"] = w.callID(c, k)
	}
	return obj{"functionCall": call}
}

// geminiPart is a whole part of the answer.
func (w *render1) geminiPart(p *Part, calls *int) obj {
	switch {
	case p.Tool != nil:
		o := w.geminiCall(p.Tool, *calls)
		if p.Signature != "" {
			o["thoughtSignature"] = p.Signature
		}
		*calls++
		return o
	case p.Reasoning != "":
		return obj{"text": p.Reasoning, "thought": true}
	case p.Signature != "" || p.Redacted != "":
		return obj{"text": "", "thoughtSignature": p.Signature + p.Redacted}
	}
	return obj{"text": p.Text + p.Refusal}
}

// gemini writes :generateContent and :streamGenerateContent, the latter as SSE
// where alt=sse was asked for and as one array else.
func (w *render1) gemini(stream bool) {
	calls := 0
	if !stream {
		var cands list
		for i := range max(1, w.ans.Choices) {
			var parts list
			for k := range w.ans.Parts {
				o := w.geminiPart(&w.ans.Parts[k], &calls)
				if s := w.ans.Parts[k].Signature; s != "" && w.ans.Parts[k].Reasoning != "" {
					o["thoughtSignature"] = s
				}
				parts = append(parts, o)
			}
			b := w.geminiBody(i, parts, geminiFinish(w.ans.finish()))
			cands = append(cands, b["candidates"].(list)...)
		}
		body := obj{"candidates": cands, "modelVersion": w.r.Model, "responseId": w.id}
		if u := w.ans.stated(); u != nil {
			body["usageMetadata"] = geminiUsage(u)
		}
		w.whole(body)
		return
	}
	w.streaming(sseType)
	if pad := w.padding(); pad != "" {
		b := w.geminiBody(0, list{obj{"text": ""}}, nil)
		b["padding"] = pad
		w.event("", b, 0)
	}
	for i := range max(1, w.ans.Choices) {
		w.geminiStream(i)
	}
	if w.r.Query.Get("alt") != "sse" {
		w.array()
	}
}

func (w *render1) geminiStream(choice int) {
	emit := func(o obj, tokens int) {
		b := w.geminiBody(choice, list{o}, nil)
		if u := w.ans.stated(); u != nil && w.ans.UsageWhen == "early" {
			b["usageMetadata"] = geminiUsage(&Usage{Fresh: u.Fresh, Cached: u.Cached, CacheWrite: u.CacheWrite})
		}
		w.event("", b, tokens)
	}
	calls := 0
	for i := range w.ans.Parts {
		p := &w.ans.Parts[i]
		switch {
		case p.Tool == nil && p.Reasoning != "":
			for _, s := range w.ans.pieces(p.Reasoning) {
				emit(obj{"text": s, "thought": true}, 1)
			}
			if p.Signature != "" {
				emit(obj{"text": "", "thoughtSignature": p.Signature}, 0)
			}
		case p.Tool == nil && p.Text+p.Refusal != "":
			for _, s := range w.ans.pieces(p.Text + p.Refusal) {
				emit(obj{"text": s}, 1)
			}
		default:
			emit(w.geminiPart(p, &calls), 1)
		}
	}
	b := w.geminiBody(choice, list{obj{"text": ""}}, geminiFinish(w.ans.finish()))
	if u := w.ans.stated(); u != nil {
		b["usageMetadata"] = geminiUsage(u)
	}
	w.closing("", b)
}

// array turns the events into one JSON array in pieces.
func (w *render1) array() {
	w.a.stream = false
	w.a.header.Set("Content-Type", "application/json")
	for i := range w.a.frames {
		f := &w.a.frames[i]
		b := f.bytes[len("data: ") : len(f.bytes)-2]
		lead := ",\r\n"
		if i == 0 {
			lead = "["
		}
		f.bytes = append([]byte(lead), b...)
		if i == len(w.a.frames)-1 {
			f.bytes = append(f.bytes, ']')
		}
	}
}
