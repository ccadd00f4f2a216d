package anthropic

import (
	"bytes"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// answerDecoder reads one streamed answer.
type answerDecoder struct {
	r       *infer.Request
	native  bool
	started bool
	done    bool
	c       jsonread.Cursor
	piece   piece
	blocks  []received
	calls   int
	finish  infer.FinishReason
	// held is what came from the first stop_reason on. A provider may still die
	// before message_stop, and then nobody must have been told of a stop.
	held  []infer.Event
	usage counts
	bytes int // of the answer, for an estimate

	frames []infer.Frame
	kept   []byte
}

// received is one content block of the answer.
type received struct {
	index int64
	tool  int    // the number of its call; -1: it is none
	input []byte // that came with its start, in place of pieces
	args  bool   // pieces have come
}

// NewDecoder implements wire.Client.
func (Client) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return &answerDecoder{r: r, native: o.Native, usage: noCounts()}
}

// piece is what one event of the stream may say.
type piece struct {
	kind, part       []byte // types of the event, and of its block or delta
	index            int64
	text, thinking   string
	signature, data  string
	partial          string
	id, name         string
	input            []byte
	reason, sequence string
	fault            fault
}

// Frame implements wire.StreamDecoder.
func (d *answerDecoder) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	if d.done || len(bytes.TrimSpace(data)) == 0 || string(data) == "[DONE]" {
		return dst, nil
	}
	mark := len(dst)
	d.piece = piece{}
	p := &d.piece
	d.c.Reset(data)
	if k, ok := d.c.Kind(); !ok || k != jsonread.Object {
		return dst, malformed("an event that is no JSON object")
	}
	if err := d.read(p); err != nil {
		return dst, err
	}
	if len(p.kind) == 0 {
		p.kind = []byte(name)
	}
	dst, drop, err := d.take(dst, p)
	if err != nil {
		return dst[:mark], err
	}
	if d.native && !drop {
		if len(dst) == mark {
			dst = append(dst, infer.Event{Kind: infer.EventFrame})
		}
		dst[mark].Frame = d.keep(name, data)
	}
	if d.finish == "" {
		return dst, nil
	}
	if d.held = append(d.held, dst[mark:]...); len(d.held) > maxHeld {
		return dst[:mark], malformed("too much between the stop_reason and message_stop")
	}
	dst = dst[:mark]
	if d.done {
		dst = append(dst, d.held...)
	}
	return dst, nil
}

// maxHeld bounds what may come between the first stop_reason and message_stop:
// further totals and pings.
const maxHeld = 256

// keep copies a frame. Many share one piece of memory: a frame is small and
// lives until it is written.
func (d *answerDecoder) keep(name string, data []byte) *infer.Frame {
	if name == "" { // clients of the format read the event's name
		name = string(d.piece.kind)
	}
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

// read walks the event once.
func (d *answerDecoder) read(p *piece) error {
	c := &d.c
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "type":
			p.kind = word(c)
		case "index":
			p.index, _ = c.Int()
		case "delta", "content_block":
			p.block(c)
		case "message":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "usage" {
					d.usage.merge(c)
				} else {
					c.Skip()
				}
			}
		case "usage":
			d.usage.merge(c)
		case "error":
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "type":
					p.fault.kind = c.Str()
				case "message":
					p.fault.message = c.Str()
				default:
					c.Skip()
				}
			}
		case "request_id":
			p.fault.id = c.Str()
		default:
			c.Skip()
		}
	}
	if !c.End() {
		return malformed("an event that is no JSON")
	}
	return nil
}

// word is a string without escapes, as types are; it aliases the event.
func word(c *jsonread.Cursor) []byte {
	raw := c.Raw()
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// block reads a content block or a delta; the two have names in common.
func (p *piece) block(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "type":
			p.part = word(c)
		case "text":
			p.text = c.Str()
		case "partial_json":
			p.partial = c.Str()
		case "thinking":
			p.thinking = c.Str()
		case "signature":
			p.signature = c.Str()
		case "data":
			p.data = c.Str()
		case "id":
			p.id = c.Str()
		case "name":
			p.name = c.Str()
		case "input":
			p.input = c.Raw()
		case "stop_reason":
			p.reason = c.Str()
		case "stop_sequence":
			p.sequence = c.Str()
		default:
			c.Skip()
		}
	}
}

// take turns one event of the stream into ours. drop says that the event is not
// passed on either.
func (d *answerDecoder) take(dst []infer.Event, p *piece) (_ []infer.Event, drop bool, err error) {
	switch string(p.kind) {
	case "ping":
		// Before the first event it would come before message_start.
		return dst, !d.started, nil
	case "error":
		return dst, true, p.fault.inBand()
	case "message_start":
		if d.started {
			return dst, true, nil
		}
		return d.start(dst), false, nil
	}
	if !d.started {
		if d.native {
			return dst, true, malformed("an event before message_start")
		}
		dst = d.start(dst)
	}
	switch string(p.kind) {
	case "content_block_start":
		dst, err = d.begin(dst, p)
	case "content_block_delta":
		dst = d.delta(dst, p)
	case "content_block_stop":
		dst = d.end(dst, p.index)
	case "message_delta":
		if p.reason != "" && d.finish == "" {
			d.finish = finishOf(p.reason)
			dst = append(dst, infer.Event{Kind: infer.EventFinish, Finish: d.finish, Stop: p.sequence})
		}
	case "message_stop":
		if d.finish == "" {
			return dst, true, malformed("message_stop without a stop reason")
		}
		d.done = true
		dst = append(dst, infer.Event{Kind: infer.EventUsage, Usage: d.total()})
	}
	return dst, false, err
}

func (d *answerDecoder) total() *infer.Usage {
	prompt := 0
	if d.usage.input < 0 {
		prompt = wire.EstimatePrompt(d.r)
	}
	return d.usage.usage(prompt, wire.EstimateTokens(d.bytes))
}

// start appends the start event, with what is known of the prompt.
func (d *answerDecoder) start(dst []infer.Event) []infer.Event {
	d.started = true
	u := d.total()
	u.CompletionTokens, u.ReasoningTokens = 0, 0
	u.Estimated = d.usage.input < 0
	return append(dst, infer.Event{Kind: infer.EventStart, Usage: u, Model: &infer.Served{Name: d.r.Model, Native: d.native}})
}

// finishOf is our word for a stop_reason.
func finishOf(reason string) infer.FinishReason {
	switch reason {
	case "max_tokens":
		return infer.FinishLength
	case "tool_use":
		return infer.FinishToolCalls
	case "refusal":
		return infer.FinishRefusal
	case "pause_turn":
		return infer.FinishPause
	case "model_context_window_exceeded":
		return infer.FinishContext
	}
	return infer.FinishStop // end_turn, stop_sequence
}

// begin takes a content_block_start. Some servers put the content into it.
func (d *answerDecoder) begin(dst []infer.Event, p *piece) ([]infer.Event, error) {
	b := received{index: p.index, tool: -1}
	switch string(p.part) {
	case "text":
		dst = d.say(dst, p.text)
	case "thinking":
		dst = d.think(dst, p.thinking, p.signature)
	case "redacted_thinking":
		dst = append(dst, infer.Event{Kind: infer.EventReasoning, Redacted: p.data})
	case "tool_use":
		if p.id == "" || p.name == "" || d.calls == maxCalls {
			return dst, malformed("a tool_use block without id or name, or too many")
		}
		b.tool = d.calls
		d.calls++
		if in := bytes.TrimSpace(p.input); len(in) > 0 && in[0] == '{' && !emptyObject(in) {
			b.input = bytes.Clone(in)
		}
		dst = append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: b.tool, ID: p.id, Name: p.name}})
	}
	if len(d.blocks) == maxBlocks {
		return dst, malformed("too many content blocks")
	}
	d.blocks = append(d.blocks, b)
	return dst, nil
}

func emptyObject(in []byte) bool {
	return len(in) > 1 && len(bytes.TrimSpace(in[1:len(in)-1])) == 0
}

// find is the block of an index; the last is the likeliest.
func (d *answerDecoder) find(index int64) *received {
	for i := len(d.blocks) - 1; i >= 0; i-- {
		if d.blocks[i].index == index {
			return &d.blocks[i]
		}
	}
	return nil
}

func (d *answerDecoder) delta(dst []infer.Event, p *piece) []infer.Event {
	switch string(p.part) {
	case "text_delta":
		return d.say(dst, p.text)
	case "thinking_delta":
		return d.think(dst, p.thinking, "")
	case "signature_delta":
		return d.think(dst, "", p.signature)
	case "input_json_delta":
		b := d.find(p.index)
		if b == nil || b.tool < 0 || p.partial == "" {
			return dst // of a tool that the provider runs
		}
		b.args = true
		return d.arguments(dst, b.tool, p.partial)
	}
	return dst // citations, and what comes to be: passed on natively
}

func (d *answerDecoder) say(dst []infer.Event, text string) []infer.Event {
	if text == "" {
		return dst
	}
	return append(dst, infer.Event{Kind: infer.EventText, Text: text, Tokens: d.estimate(text)})
}

func (d *answerDecoder) think(dst []infer.Event, text, signature string) []infer.Event {
	if text == "" && signature == "" {
		return dst
	}
	return append(dst, infer.Event{Kind: infer.EventReasoning, Text: text, Signature: signature, Tokens: d.estimate(text)})
}

func (d *answerDecoder) arguments(dst []infer.Event, call int, text string) []infer.Event {
	return append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: call, Arguments: text}, Tokens: d.estimate(text)})
}

// estimate is how many tokens text adds to those that came before.
func (d *answerDecoder) estimate(text string) int {
	before := wire.EstimateTokens(d.bytes)
	d.bytes += len(text)
	return wire.EstimateTokens(d.bytes) - before
}

// end takes a content_block_stop: a call whose arguments did not come in pieces
// has those of its start.
func (d *answerDecoder) end(dst []infer.Event, index int64) []infer.Event {
	b := d.find(index)
	if b == nil || b.tool < 0 || b.args {
		return dst
	}
	b.args = true
	if b.input == nil {
		return d.arguments(dst, b.tool, "{}")
	}
	return d.arguments(dst, b.tool, string(b.input))
}

// End implements wire.StreamDecoder.
func (d *answerDecoder) End(dst []infer.Event) ([]infer.Event, error) {
	if !d.done {
		return dst, wire.Lost(nil)
	}
	return dst, nil
}
