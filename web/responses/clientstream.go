package responses

import (
	"bytes"
	"errors"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// answerDecoder reads one answer of a provider, streamed or whole.
type answerDecoder struct {
	r      *infer.Request
	o      *wire.Outgoing
	native bool

	started bool
	done    bool
	items   []readItem // by output index, as far as they matter
	calls   int
	refused bool
	tokens  int // estimated, of the frames before the one that is read
	mark    int // where the events of that one begin

	frames []infer.Frame
	kept   []byte
}

// readItem is what must be known of an output item while it is read.
type readItem struct {
	id     string
	call   int  // index of the call; -1: none
	custom bool // its input becomes the one argument
	text   bool // deltas have come
	mind   bool
}

// maxOutput bounds the items of one answer.
const maxOutput = 4096

func newDecoder(r *infer.Request, o *wire.Outgoing) *answerDecoder {
	return &answerDecoder{r: r, o: o, native: o.Native}
}

// frame is one event as far as its members matter.
type frame struct {
	kind   string
	index  int    // of the item
	part   int    // of a summary or content
	delta  string // text
	text   string // of an event that says the whole
	item   []byte // JSON
	object []byte // response
	lps    []infer.TokenLogprob
	told   told
}

// Frame implements wire.StreamDecoder.
func (d *answerDecoder) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	data = bytes.TrimSpace(data)
	if d.done || len(data) == 0 || string(data) == "[DONE]" {
		return dst, nil
	}
	f, ok := d.read(name, data)
	if !ok {
		return dst, wire.Malformed(errors.New("an event that is no JSON object"))
	}
	mark := len(dst)
	d.mark = mark
	dst, err := d.take(dst, &f)
	if err != nil {
		return dst[:mark], err
	}
	for i := mark; i < len(dst); i++ {
		d.tokens += dst[i].Tokens
	}
	if !d.native {
		return dst, nil
	}
	if len(dst) == mark {
		dst = append(dst, infer.Event{Kind: infer.EventFrame})
	}
	at := mark
	if d.done { // the end mark goes with the usage, which is settled first
		at = len(dst) - 1
	}
	dst[at].Frame = d.keep(name, data)
	return dst, nil
}

// keep copies a frame. Many share one piece of memory: a frame is small and
// lives until it is written.
func (d *answerDecoder) keep(name string, data []byte) *infer.Frame {
	if cap(d.kept)-len(d.kept) < len(data) {
		d.kept = make([]byte, 0, max(4<<10, len(data)))
	}
	at := len(d.kept)
	d.kept = append(d.kept, data...)
	if len(d.frames) == cap(d.frames) {
		d.frames = make([]infer.Frame, 0, 16)
	}
	d.frames = append(d.frames, infer.Frame{Event: name, Data: d.kept[at:len(d.kept):len(d.kept)]})
	return &d.frames[len(d.frames)-1]
}

// read reads the members of one event.
func (d *answerDecoder) read(name string, data []byte) (f frame, ok bool) {
	var c jsonread.Cursor
	c.Reset(data)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return f, false
	}
	for c.Object(); c.More(); {
		switch key := c.Key(); string(key) {
		case "type":
			f.kind = c.Str()
		case "output_index":
			f.index = smallInt(&c)
		case "summary_index", "content_index":
			f.part = smallInt(&c)
		case "delta":
			f.delta = c.Str()
		case "text", "arguments", "input", "refusal":
			f.text = c.Str()
		case "item":
			f.item = c.Raw()
		case "response":
			f.object = c.Raw()
		case "logprobs":
			if d.r.Sampling.Logprobs && !d.native {
				f.lps = readLogprobs(&c)
			} else {
				c.Skip()
			}
		case "error":
			f.told = readTold(&c)
		case "message":
			f.told.message = c.Str()
		case "code":
			f.told.code = c.Str()
		case "param":
			f.told.param = c.Str()
		default:
			c.Skip()
		}
	}
	if f.kind == "" {
		f.kind = name
	}
	return f, c.End()
}

func smallInt(c *jsonread.Cursor) int {
	n, ok := c.Int()
	if !ok || n < 0 || n > 1<<20 {
		return -1
	}
	return int(n)
}

// take makes events of one event of the provider. Events that nobody here knows
// belong to tools that the provider runs, or have not been invented yet.
func (d *answerDecoder) take(dst []infer.Event, f *frame) ([]infer.Event, error) {
	if f.kind == "" && f.told != (told{}) { // an error without a name, as gateways write it
		return dst, f.told.inBand()
	}
	switch f.kind {
	case "error":
		return dst, f.told.inBand()
	case "response.failed", "response.cancelled":
		t := responseError(f.object)
		return dst, t.inBand()
	case "response.created", "response.queued", "response.in_progress":
		return d.start(dst, f.object), nil
	}
	dst = d.start(dst, f.object)
	switch f.kind {
	case "response.output_item.added":
		return d.added(dst, f.index, f.item)
	case "response.output_item.done":
		return d.finished(dst, f.index, f.item)
	case "response.completed", "response.incomplete":
		return d.end(dst, f.object)
	}
	it := d.at(f.index)
	if it == nil {
		return dst, nil
	}
	switch f.kind {
	case "response.output_text.delta":
		it.text = true
		return append(dst, infer.Event{Kind: infer.EventText, Text: f.delta, Logprobs: f.lps, Tokens: tokensOf(f.delta, f.lps)}), nil
	case "response.refusal.delta":
		it.text, d.refused = true, true
		return append(dst, infer.Event{Kind: infer.EventText, Text: f.delta, Refusal: true, Tokens: tokensOf(f.delta, nil)}), nil
	case "response.reasoning_summary_part.added":
		if f.part > 0 {
			dst = append(dst, infer.Event{Kind: infer.EventReasoning, Text: "\n\n"})
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		it.mind = true
		return append(dst, infer.Event{Kind: infer.EventReasoning, Text: f.delta, Tokens: tokensOf(f.delta, nil)}), nil
	case "response.function_call_arguments.delta":
		if it.call >= 0 && !it.custom {
			it.text = true
			return append(dst, callPiece(it.call, f.delta)), nil
		}
	case "response.function_call_arguments.done":
		if it.call >= 0 && !it.custom && !it.text && f.text != "" {
			it.text = true
			return append(dst, callPiece(it.call, f.text)), nil
		}
	case "response.custom_tool_call_input.done":
		if it.call >= 0 && it.custom && !it.text {
			it.text = true
			return append(dst, callPiece(it.call, wrapped(f.text))), nil
		}
	}
	return dst, nil
}

func tokensOf(text string, lps []infer.TokenLogprob) int {
	if len(lps) > 0 {
		return len(lps)
	}
	return wire.EstimateTokens(len(text))
}

func callPiece(call int, args string) infer.Event {
	return infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: call, Arguments: args}, Tokens: wire.EstimateTokens(len(args))}
}

// wrapped is free text as the one argument of a function.
func wrapped(text string) string {
	return string(append(jsonwrite.String([]byte(`{"input":`), text), '}'))
}

// start appends the start event, once.
func (d *answerDecoder) start(dst []infer.Event, object []byte) []infer.Event {
	if d.started {
		return dst
	}
	d.started = true
	served := &infer.Served{Name: d.r.Model, Native: d.native}
	if m := stringMember(object, "model"); m != "" && len(m) <= 512 {
		served.Name = m
	}
	ev := infer.Event{Kind: infer.EventStart, Model: served}
	if !d.native {
		ev.Usage = &infer.Usage{PromptTokens: wire.EstimatePrompt(d.r), Estimated: true}
	}
	return append(dst, ev)
}

// at is the item of that index; nil if it was not added, or is one of too many.
func (d *answerDecoder) at(i int) *readItem {
	if i < 0 || i >= len(d.items) {
		return nil
	}
	return &d.items[i]
}

// added begins an item.
func (d *answerDecoder) added(dst []infer.Event, i int, raw []byte) ([]infer.Event, error) {
	if i < 0 || i >= maxOutput {
		return dst, wire.Malformed(errors.New("an output item beyond the bound"))
	}
	for len(d.items) <= i {
		d.items = append(d.items, readItem{call: -1})
	}
	it := readOutput(raw)
	d.items[i].id = it.id
	if it.kind != "function_call" && it.kind != "custom_tool_call" || d.items[i].call >= 0 {
		return dst, nil
	}
	if it.callID == "" {
		it.callID = it.id
	}
	if it.name == "" || it.callID == "" {
		if d.native {
			return dst, nil
		}
		return dst, wire.Malformed(errors.New("a call without a name or an id"))
	}
	d.items[i].call, d.items[i].custom = d.calls, it.kind == "custom_tool_call"
	d.calls++
	return append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: d.items[i].call, ID: it.callID, Name: it.name}}), nil
}

// finished takes from a whole item what its deltas have not told.
func (d *answerDecoder) finished(dst []infer.Event, i int, raw []byte) ([]infer.Event, error) {
	if d.at(i) == nil {
		var err error
		if dst, err = d.added(dst, i, raw); err != nil {
			return dst, err
		}
	}
	s, it := &d.items[i], readOutput(raw)
	switch {
	case s.call >= 0 && !s.text:
		s.text = true
		if s.custom {
			dst = append(dst, callPiece(s.call, wrapped(it.input)))
		} else if it.arguments != "" {
			dst = append(dst, callPiece(s.call, it.arguments))
		}
	case it.kind == "message" && !s.text:
		s.text = true
		if it.text != "" {
			dst = append(dst, infer.Event{Kind: infer.EventText, Text: it.text, Logprobs: it.lps, Tokens: tokensOf(it.text, it.lps)})
		}
		if it.refusal != "" {
			d.refused = true
			dst = append(dst, infer.Event{Kind: infer.EventText, Text: it.refusal, Refusal: true, Tokens: tokensOf(it.refusal, nil)})
		}
	case it.kind == "reasoning":
		if !s.mind && it.mind != "" {
			s.mind = true
			dst = append(dst, infer.Event{Kind: infer.EventReasoning, Text: it.mind, Tokens: tokensOf(it.mind, nil)})
		}
		if it.sealed != "" {
			dst = append(dst, infer.Event{Kind: infer.EventReasoning, Signature: sealProvider + it.sealed})
		}
	}
	return dst, nil
}

// end reads the last response object: why the answer ended, and the count.
func (d *answerDecoder) end(dst []infer.Event, object []byte) ([]infer.Event, error) {
	o, ok := readResponse(object)
	if !ok {
		return dst, wire.Malformed(errors.New("a last event without a response"))
	}
	d.done = true
	fin := infer.FinishStop
	switch {
	case o.status == statusIncomplete && o.reason == "content_filter":
		fin = infer.FinishContentFilter
	case o.status == statusIncomplete && (o.reason == "max_output_tokens" || o.reason == ""):
		fin = infer.FinishLength
	case o.status == statusIncomplete:
		fin = infer.FinishPause
	case d.calls > 0:
		fin = infer.FinishToolCalls
	case d.refused:
		fin = infer.FinishRefusal
	}
	tokens := d.tokens
	for i := d.mark; i < len(dst); i++ {
		tokens += dst[i].Tokens
	}
	u := o.usage
	if o.input < 0 {
		u.PromptTokens, u.Estimated = wire.EstimatePrompt(d.r), true
	}
	if o.output < 0 {
		u.CompletionTokens, u.Estimated = tokens, true
	}
	return append(dst, infer.Event{Kind: infer.EventFinish, Finish: fin}, infer.Event{Kind: infer.EventUsage, Usage: &u}), nil
}

// End implements wire.StreamDecoder.
func (d *answerDecoder) End(dst []infer.Event) ([]infer.Event, error) {
	if !d.done {
		return dst, wire.Lost(nil)
	}
	return dst, nil
}

// answer reads a whole response object.
func (d *answerDecoder) answer(body []byte) ([]infer.Event, error) {
	o, ok := readResponse(body)
	if !ok {
		return nil, wire.Malformed(errors.New("an answer that is no response"))
	}
	switch {
	case o.status == statusFailed || o.status == statusCancelled || o.status == "" && o.told != (told{}):
		return nil, o.told.inBand()
	case !o.listed:
		return nil, wire.Malformed(errors.New("an answer without output"))
	case o.status != statusCompleted && o.status != statusIncomplete && o.status != "":
		return nil, wire.Malformed(errors.New("an answer that has not come to its end"))
	}
	dst := d.start(nil, body)
	var err error
	for i, raw := range o.items {
		if dst, err = d.finished(dst, i, raw); err != nil {
			return nil, err
		}
	}
	if dst, err = d.end(dst, body); err != nil {
		return nil, err
	}
	if d.native {
		dst[len(dst)-1].Frame = &infer.Frame{Data: bytes.Clone(body)}
	}
	return dst, nil
}
