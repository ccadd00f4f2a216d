package bedrock

import (
	"bytes"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// decoder reads one answer of ConverseStream. Its events are named outside their
// payload; the last is metadata, which comes behind messageStop.
type decoder struct {
	r       *infer.Request
	native  bool
	started bool
	stopped bool // messageStop has come
	done    bool
	c       jsonread.Cursor
	blocks  []received
	calls   int
	bytes   int
	usage   counts
}

// received is one content block of the answer.
type received struct {
	index int64
	tool  int // the number of its call; -1: it is none
	args  bool
}

// NewDecoder implements wire.Client.
func (Client) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return &decoder{r: r, native: o.Native, usage: noCounts()}
}

// Frame implements wire.StreamDecoder. name is the event's type or that of an
// exception; "error" is a failure of the transport's own.
func (d *decoder) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	if d.done {
		return dst, nil
	}
	if name == "error" || strings.HasSuffix(name, "Exception") {
		return dst, inBand(name, data)
	}
	mark := len(dst)
	if !d.started {
		dst = d.start(dst)
	}
	d.c.Reset(data)
	if k, ok := d.c.Kind(); !ok || k != jsonread.Object {
		return dst[:mark], malformed("an event that is no JSON object")
	}
	var err error
	switch name {
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop":
		dst, err = d.block(dst, name)
	case "messageStop":
		dst, err = d.stop(dst)
	case "metadata":
		for ok := d.c.Object(); ok && d.c.More(); {
			if string(d.c.Key()) == "usage" {
				d.usage.take(&d.c)
			} else {
				d.c.Skip()
			}
		}
		if d.stopped {
			d.done = true
			dst = append(dst, infer.Event{Kind: infer.EventUsage, Usage: d.usage.usage(d.r, d.bytes)})
		}
	default: // messageStart says nothing; others are not known
		d.c.Skip()
	}
	if err == nil && !d.c.End() {
		err = malformed("an event that is no JSON")
	}
	if err != nil {
		return dst[:mark], err
	}
	if d.native {
		if len(dst) == mark {
			dst = append(dst, infer.Event{Kind: infer.EventFrame})
		}
		dst[mark].Frame = &infer.Frame{Event: name, Data: bytes.Clone(data)}
	}
	return dst, nil
}

func (d *decoder) start(dst []infer.Event) []infer.Event {
	d.started = true
	u := &infer.Usage{PromptTokens: wire.EstimatePrompt(d.r), Estimated: true} // told at the end
	return append(dst, infer.Event{Kind: infer.EventStart, Usage: u, Model: &infer.Served{Name: d.r.Model, Native: d.native}})
}

// piece is what an event about a content block may say.
type piece struct {
	index             int64
	id, name, text    string
	input             string
	reasoning, sealed string
	signature         string
	isToolUse         bool
}

func (d *decoder) block(dst []infer.Event, name string) ([]infer.Event, error) {
	p := piece{index: -1}
	c := &d.c
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "contentBlockIndex":
			p.index, _ = c.Int()
		case "start", "delta":
			p.read(c)
		default:
			c.Skip()
		}
	}
	switch name {
	case "contentBlockStart":
		return d.begin(dst, &p)
	case "contentBlockStop":
		b := d.find(p.index)
		if b != nil && b.tool >= 0 && !b.args {
			b.args = true
			dst = append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: b.tool, Arguments: "{}"}, Tokens: d.estimate(2)})
		}
		return dst, nil
	}
	return d.delta(dst, &p), nil
}

// read takes a start or a delta: a union, one member.
func (p *piece) read(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "text":
			p.text = c.Str()
		case "toolUse":
			p.isToolUse = true
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "toolUseId":
					p.id = c.Str()
				case "name":
					p.name = c.Str()
				case "input":
					p.input = c.Str()
				default:
					c.Skip()
				}
			}
		case "reasoningContent":
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "text":
					p.reasoning = c.Str()
				case "signature":
					p.signature = c.Str()
				case "redactedContent":
					p.sealed = c.Str()
				default:
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
}

// find is the block of an index; the last is the likeliest.
func (d *decoder) find(index int64) *received {
	for i := len(d.blocks) - 1; i >= 0; i-- {
		if d.blocks[i].index == index {
			return &d.blocks[i]
		}
	}
	return nil
}

// begin takes a contentBlockStart, which comes for tools only.
func (d *decoder) begin(dst []infer.Event, p *piece) ([]infer.Event, error) {
	b := received{index: p.index, tool: -1}
	if p.isToolUse {
		if p.id == "" || p.name == "" || d.calls == maxCalls {
			return dst, malformed("a toolUse block without id or name, or too many")
		}
		b.tool = d.calls
		d.calls++
		dst = append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: b.tool, ID: p.id, Name: p.name}})
	}
	if len(d.blocks) == maxBlocks {
		return dst, malformed("too many content blocks")
	}
	d.blocks = append(d.blocks, b)
	return dst, nil
}

func (d *decoder) delta(dst []infer.Event, p *piece) []infer.Event {
	if p.text != "" {
		dst = append(dst, infer.Event{Kind: infer.EventText, Text: p.text, Tokens: d.estimate(len(p.text))})
	}
	if p.sealed != "" {
		dst = append(dst, infer.Event{Kind: infer.EventReasoning, Redacted: p.sealed})
	}
	if p.reasoning != "" || p.signature != "" {
		dst = append(dst, infer.Event{Kind: infer.EventReasoning, Text: p.reasoning, Signature: p.signature, Tokens: d.estimate(len(p.reasoning))})
	}
	if b := d.find(p.index); b != nil && b.tool >= 0 && p.input != "" {
		b.args = true
		dst = append(dst, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: b.tool, Arguments: p.input}, Tokens: d.estimate(len(p.input))})
	}
	return dst
}

// estimate is how many tokens n bytes add to those that came before.
func (d *decoder) estimate(n int) int {
	before := wire.EstimateTokens(d.bytes)
	d.bytes += n
	return wire.EstimateTokens(d.bytes) - before
}

// stop takes a messageStop. A call whose input never came has an empty one.
func (d *decoder) stop(dst []infer.Event) ([]infer.Event, error) {
	reason := ""
	for ok := d.c.Object(); ok && d.c.More(); {
		if string(d.c.Key()) == "stopReason" {
			reason = d.c.Str()
		} else {
			d.c.Skip()
		}
	}
	switch {
	case reason == "":
		return dst, malformed("messageStop without a stopReason")
	case brokenStop(reason):
		return dst, malformed("an answer that the model made unreadable")
	case d.stopped:
		return dst, nil
	}
	d.stopped = true
	return append(dst, infer.Event{Kind: infer.EventFinish, Finish: finishOf(reason)}), nil
}

// End implements wire.StreamDecoder. A stream that ends behind messageStop is
// complete, although its usage is missing.
func (d *decoder) End(dst []infer.Event) ([]infer.Event, error) {
	switch {
	case d.done:
		return dst, nil
	case d.stopped && !d.native:
		d.done = true
		return append(dst, infer.Event{Kind: infer.EventUsage, Usage: d.usage.usage(d.r, d.bytes)}), nil
	}
	return dst, wire.Lost(nil)
}
