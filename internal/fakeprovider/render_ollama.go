package fakeprovider

func ollamaFinish(f string) string {
	if f == "length" || f == "context" {
		return "length"
	}
	return "stop"
}

const ollamaTime = "2026-06-01T10:00:00.000000Z"

// ollama writes /api/chat and /api/generate: lines of JSON, or one.
func (w *render1) ollama(stream bool) {
	chat := w.r.Dialect == OllamaChat
	line := func(text, thinking string, calls list) obj {
		o := obj{"model": w.r.Model, "created_at": ollamaTime, "done": false}
		if !chat {
			o["response"] = text
			if thinking != "" {
				o["thinking"] = thinking
			}
			return o
		}
		m := obj{"role": "assistant", "content": text}
		if thinking != "" {
			m["thinking"] = thinking
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		o["message"] = m
		return o
	}
	end := func(o obj) obj {
		o["done"], o["done_reason"] = true, ollamaFinish(w.ans.finish())
		o["total_duration"], o["load_duration"], o["prompt_eval_duration"], o["eval_duration"] = 5000000, 1000000, 2000000, 2000000
		if u := w.ans.stated(); u != nil {
			o["prompt_eval_count"], o["eval_count"] = u.prompt(), u.Output
		}
		return o
	}
	if !stream {
		text, thinking, refusal, tools := w.ans.joined()
		var calls list
		for i, c := range tools {
			calls = append(calls, w.ollamaCall(c, i))
		}
		w.whole(end(line(text+refusal, thinking, calls)))
		return
	}
	w.streaming("application/x-ndjson")
	put := func(o obj, tokens int) { w.frame(append(enc(o), '\n'), tokens, false) }
	if pad := w.padding(); pad != "" {
		o := line("", "", nil)
		o["padding"] = pad
		put(o, 0)
	}
	calls := 0
	for _, p := range w.ans.Parts {
		if p.Reasoning != "" {
			for _, s := range w.ans.pieces(p.Reasoning) {
				put(line("", s, nil), 1)
			}
		}
		if s := p.Text + p.Refusal; s != "" {
			for _, s := range w.ans.pieces(s) {
				put(line(s, "", nil), 1)
			}
		}
		if p.Tool != nil {
			put(line("", "", list{w.ollamaCall(p.Tool, calls)}), 1)
			calls++
		}
	}
	w.close(append(enc(end(line("", "", nil))), '\n'))
}

func (w *render1) ollamaCall(c *Tool, i int) obj {
	f := obj{"index": i, "name": c.Name, "arguments": raw(c.Args)}
	o := obj{"function": f}
	if c.ID != "" && !w.ans.quirk("no_call_id") {
		o["id"] = w.callID(c, i)
	}
	return o
}
