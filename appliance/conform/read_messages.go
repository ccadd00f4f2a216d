package conform

import "encoding/json"

type messagesUsage struct {
	Input  *int `json:"input_tokens"`
	Output *int `json:"output_tokens"`
	Read   *int `json:"cache_read_input_tokens"`
	Write  *int `json:"cache_creation_input_tokens"`
}

func deref(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

func (u *messagesUsage) tally(s *Seen) *Tally {
	if u == nil {
		return nil
	}
	if u.Input == nil || u.Output == nil {
		s.fault("usage without input or output tokens")
		return nil
	}
	return &Tally{*u.Input + deref(u.Read) + deref(u.Write), deref(u.Read), *u.Output, -1}
}

func messagesFinish(s string) string {
	switch s {
	case "end_turn":
		return "stop"
	case "max_tokens":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "pause_turn":
		return "pause"
	case "model_context_window_exceeded":
		return "context"
	}
	return s // refusal, stop_sequence
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Thinking  *string         `json:"thinking"`
	Signature *string         `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// wholeMessages reads a message (Anthropic Messages API).
func wholeMessages(s *Seen, body []byte) {
	var o struct {
		ID      string           `json:"id"`
		Type    string           `json:"type"`
		Role    string           `json:"role"`
		Model   string           `json:"model"`
		Content *[]messagesBlock `json:"content"`
		Stop    *string          `json:"stop_reason"`
		Usage   *messagesUsage   `json:"usage"`
	}
	if !s.decode(body, &o) {
		return
	}
	if o.ID == "" || o.Type != "message" || o.Role != "assistant" || o.Model == "" || o.Content == nil || o.Stop == nil {
		s.fault("an answer that lacks a member: %.160s", body)
		return
	}
	s.Usage, s.Finish = o.Usage.tally(s), messagesFinish(*o.Stop)
	for i, b := range *o.Content {
		switch b.Type {
		case "text":
			if b.Text == nil {
				s.fault("text block %d without text", i)
				continue
			}
			s.Text += *b.Text
		case "thinking":
			if b.Thinking == nil || b.Signature == nil {
				s.fault("thinking block %d without thinking or signature", i)
				continue
			}
			s.Thought += *b.Thinking
		case "redacted_thinking":
		case "tool_use":
			if b.ID == "" || b.Name == "" || len(b.Input) == 0 || b.Input[0] != '{' {
				s.fault("tool block %d lacks a member: %.80s", i, b.Input)
			}
			s.Calls = append(s.Calls, Call{b.ID, b.Name, string(b.Input)})
		default:
			s.fault("a block of type %q", b.Type)
		}
	}
}

// messagesReader holds the stream to the order of Anthropic's events:
// message_start, blocks one after the other with dense indices, message_delta,
// message_stop.
type messagesReader struct {
	s       *Seen
	started bool
	delta   bool
	next    int // index of the next block
	open    int // index of the open block, -1: none
	kind    string
	usage   messagesUsage
}

func (r *messagesReader) event(name string, data []byte) {
	s := r.s
	var o struct {
		Type    string `json:"type"`
		Index   *int   `json:"index"`
		Message *struct {
			ID    string         `json:"id"`
			Role  string         `json:"role"`
			Usage *messagesUsage `json:"usage"`
		} `json:"message"`
		Block *messagesBlock `json:"content_block"`
		Delta *struct {
			Type      string  `json:"type"`
			Text      string  `json:"text"`
			Thinking  string  `json:"thinking"`
			Signature string  `json:"signature"`
			JSON      string  `json:"partial_json"`
			Stop      *string `json:"stop_reason"`
		} `json:"delta"`
		Usage *messagesUsage `json:"usage"`
	}
	if !s.decode(data, &o) {
		return
	}
	if s.End != "" {
		s.fault("an event after the end: %.80s", data)
		return
	}
	if name != o.Type {
		s.fault("event %q of type %q", name, o.Type)
	}
	if !r.started && o.Type != "message_start" && o.Type != "ping" && o.Type != "error" {
		s.fault("%s before message_start", o.Type)
	}
	switch o.Type {
	case "message_start":
		if r.started || o.Message == nil || o.Message.Usage == nil || o.Message.Usage.Input == nil || o.Message.ID == "" {
			s.fault("message_start twice or without its members: %.120s", data)
		} else {
			r.usage = *o.Message.Usage
		}
		r.started = true
	case "content_block_start":
		r.start(o.Index, o.Block)
	case "content_block_delta":
		if o.Index == nil || *o.Index != r.open || o.Delta == nil {
			s.fault("a delta for a block that is not open: %.80s", data)
			return
		}
		switch o.Delta.Type {
		case "text_delta":
			r.want("text", o.Delta.Type)
			s.Text += o.Delta.Text
		case "thinking_delta":
			r.want("thinking", o.Delta.Type)
			s.Thought += o.Delta.Thinking
		case "signature_delta":
			r.want("thinking", o.Delta.Type)
		case "input_json_delta":
			r.want("tool_use", o.Delta.Type)
			if n := len(s.Calls); n > 0 {
				s.Calls[n-1].Args += o.Delta.JSON
			}
		case "citations_delta":
		default:
			s.fault("a delta of type %q", o.Delta.Type)
		}
	case "content_block_stop":
		if o.Index == nil || *o.Index != r.open {
			s.fault("the end of a block that is not open")
		}
		r.open = -1
	case "message_delta":
		r.messageDelta(o.Usage)
		if o.Delta != nil && o.Delta.Stop != nil {
			s.Finish = messagesFinish(*o.Delta.Stop)
		}
	case "message_stop":
		if !r.delta || s.Finish == "" {
			s.fault("message_stop without a stop_reason")
		}
		s.End = "done"
	case "error":
		s.failure(Messages, data)
		s.End = "error"
	case "ping":
	case "weather": // what a provider of the same dialect sent is passed on
	default:
		s.fault("an event of type %q", o.Type)
	}
}

func (r *messagesReader) want(kind, delta string) {
	if r.kind != kind {
		r.s.fault("%s in a block of type %s", delta, r.kind)
	}
}

func (r *messagesReader) start(index *int, b *messagesBlock) {
	s := r.s
	if index == nil || *index != r.next || r.open >= 0 || b == nil {
		s.fault("a block that begins out of turn: %v, wanted %d, open %d", deref(index), r.next, r.open)
		return
	}
	r.open, r.next, r.kind = *index, *index+1, b.Type
	switch b.Type {
	case "text":
		if b.Text != nil {
			s.Text += *b.Text
		}
	case "tool_use":
		if b.ID == "" || b.Name == "" {
			s.fault("a call without id or name")
		}
		s.Calls = append(s.Calls, Call{ID: b.ID, Name: b.Name})
	}
}

// messageDelta takes totals that replace the early counts.
func (r *messagesReader) messageDelta(u *messagesUsage) {
	if r.open >= 0 {
		r.s.fault("message_delta within a block")
	}
	r.delta = true
	if u == nil || u.Output == nil {
		r.s.fault("message_delta without output tokens")
		return
	}
	r.usage.Output = u.Output
	if u.Input != nil {
		r.usage.Input = u.Input
	}
	if u.Read != nil {
		r.usage.Read = u.Read
	}
	if u.Write != nil {
		r.usage.Write = u.Write
	}
	r.s.Usage = r.usage.tally(r.s)
}

func (r *messagesReader) end() {}
