package bedrock

import (
	"errors"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Bounds of one answer.
const (
	maxBlocks = 4096
	maxCalls  = 512
)

// counts are the tokens that the provider counted; -1: not told. Fresh input,
// cache reads and cache writes are apart here.
type counts struct{ input, output, read, write, writeHour int }

func noCounts() counts { return counts{-1, -1, 0, 0, 0} }

// take reads a usage object (TokenUsage).
func (n *counts) take(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		var to *int
		switch string(c.Key()) {
		case "inputTokens":
			to = &n.input
		case "outputTokens":
			to = &n.output
		case "cacheReadInputTokens":
			to = &n.read
		case "cacheWriteInputTokens":
			to = &n.write
		case "cacheDetails":
			n.details(c)
			continue
		default:
			c.Skip()
			continue
		}
		if v, ok := c.Int(); ok && v >= 0 && v <= wire.MaxCount {
			*to = int(v)
		}
	}
}

func (n *counts) details(c *jsonread.Cursor) {
	n.writeHour = 0
	for ok := c.Array(); ok && c.More(); {
		ttl, tokens := "", 0
		for ok := c.Object(); ok && c.More(); {
			switch string(c.Key()) {
			case "ttl":
				ttl = c.Str()
			case "inputTokens":
				if v, ok := c.Int(); ok && v >= 0 && v <= wire.MaxCount {
					tokens = int(v)
				}
			default:
				c.Skip()
			}
		}
		if ttl == "1h" {
			n.writeHour += tokens
		}
	}
}

// usage gives our buckets; what was not told is estimated, and said to be.
func (n *counts) usage(r *infer.Request, bytes int) *infer.Usage {
	u := &infer.Usage{CachedTokens: n.read, CacheWriteTokens: n.write, CacheWriteHourTokens: min(n.writeHour, n.write)}
	u.PromptTokens, u.CompletionTokens = n.input+n.read+n.write, n.output
	if n.input < 0 {
		u.PromptTokens, u.Estimated = wire.EstimatePrompt(r), true
	}
	if n.output < 0 {
		u.CompletionTokens, u.Estimated = wire.EstimateTokens(bytes), true
	}
	return u
}

// finishOf is our word for a stopReason.
func finishOf(reason string) infer.FinishReason {
	switch reason {
	case "max_tokens":
		return infer.FinishLength
	case "tool_use":
		return infer.FinishToolCalls
	case "guardrail_intervened", "content_filtered":
		return infer.FinishContentFilter
	case "model_context_window_exceeded":
		return infer.FinishContext
	case "refusal":
		return infer.FinishRefusal
	case "pause_turn":
		return infer.FinishPause
	}
	return infer.FinishStop // end_turn, stop_sequence
}

// brokenStop tells of an answer that cannot be used.
func brokenStop(reason string) bool {
	return reason == "malformed_model_output" || reason == "malformed_tool_use"
}

// DecodeAnswer implements wire.Client.
func (Client) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	a := answer{r: r, usage: noCounts()}
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, malformed("an answer that is no JSON object")
	}
	reason, message := "", false
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "output":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "message" {
					message = true
					a.message(&c)
				} else {
					c.Skip()
				}
			}
		case "stopReason":
			reason = c.Str()
		case "usage":
			a.usage.take(&c)
		default:
			c.Skip()
		}
	}
	switch {
	case !c.End():
		return nil, malformed("an answer that is no JSON")
	case !message || reason == "":
		return nil, malformed("an answer without message or stopReason")
	case brokenStop(reason):
		return nil, malformed("an answer that the model made unreadable")
	case a.err != nil:
		return nil, a.err
	}
	u := a.usage.usage(r, a.bytes)
	start := *u
	start.CompletionTokens, start.ReasoningTokens = 0, 0
	events := make([]infer.Event, 0, len(a.events)+3)
	events = append(events, infer.Event{Kind: infer.EventStart, Usage: &start, Model: &infer.Served{Name: r.Model, Native: o.Native}})
	events = append(events, a.events...)
	events = append(events, infer.Event{Kind: infer.EventFinish, Finish: finishOf(reason)})
	end := infer.Event{Kind: infer.EventUsage, Usage: u}
	if o.Native {
		end.Frame = &infer.Frame{Data: body}
	}
	return append(events, end), nil
}

// answer collects the events of a whole answer.
type answer struct {
	r      *infer.Request
	events []infer.Event
	calls  int
	bytes  int
	usage  counts
	err    error
}

// estimate is how many tokens text adds to those that came before.
func (a *answer) estimate(n int) int {
	before := wire.EstimateTokens(a.bytes)
	a.bytes += n
	return wire.EstimateTokens(a.bytes) - before
}

func (a *answer) message(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) != "content" {
			c.Skip()
			continue
		}
		for ok := c.Array(); ok && c.More(); {
			a.block(c)
		}
	}
}

// block takes one ContentBlock: a union, one member.
func (a *answer) block(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "text":
			a.say(c.Str())
		case "toolUse":
			a.call(c)
		case "reasoningContent":
			a.think(c)
		case "citationsContent":
			a.cited(c)
		default:
			c.Skip()
		}
	}
}

func (a *answer) say(text string) {
	if text != "" {
		a.events = append(a.events, infer.Event{Kind: infer.EventText, Text: text, Tokens: a.estimate(len(text))})
	}
}

// cited is text with citations: its text.
func (a *answer) cited(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) != "content" {
			c.Skip()
			continue
		}
		for ok := c.Array(); ok && c.More(); {
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "text" {
					a.say(c.Str())
				} else {
					c.Skip()
				}
			}
		}
	}
}

func (a *answer) call(c *jsonread.Cursor) {
	var id, name string
	args := "{}"
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "toolUseId":
			id = c.Str()
		case "name":
			name = c.Str()
		case "input":
			args = string(c.Raw())
		default:
			c.Skip()
		}
	}
	if id == "" || name == "" || a.calls == maxCalls {
		a.err = malformed("a toolUse block without id or name, or too many")
		return
	}
	if args == "null" {
		args = "{}"
	}
	a.events = append(a.events,
		infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: a.calls, ID: id, Name: name}},
		infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: a.calls, Arguments: args}, Tokens: a.estimate(len(args))})
	a.calls++
}

func (a *answer) think(c *jsonread.Cursor) {
	var text, signature, redacted string
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "reasoningText":
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "text":
					text = c.Str()
				case "signature":
					signature = c.Str()
				default:
					c.Skip()
				}
			}
		case "redactedContent":
			redacted = c.Str()
		default:
			c.Skip()
		}
	}
	if redacted != "" {
		a.events = append(a.events, infer.Event{Kind: infer.EventReasoning, Redacted: redacted})
	}
	if text != "" || signature != "" {
		a.events = append(a.events, infer.Event{Kind: infer.EventReasoning, Text: text, Signature: signature, Tokens: a.estimate(len(text))})
	}
}

// malformed is the error for an answer that cannot be read.
func malformed(why string) *infer.Error { return wire.Malformed(errors.New(why)) }
