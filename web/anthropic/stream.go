package anthropic

import (
	"fmt"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// block is the kind of a content block in a stream.
type block uint8

const (
	blockNone block = iota
	blockText
	blockThinking
	blockTool
)

// stream encodes one answer as the events of the API ("Streaming messages"):
//
//	message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop
//
// Clients index the content by the blocks' numbers, so these are dense and one
// block is open at a time. Targets do not keep to that: pieces of several calls
// may alternate, and text may come between them. What does not belong to the
// open block waits: a call until the one before it is complete, text until no
// call is half told.
type stream struct {
	r       *infer.Request
	o       wire.Options
	started bool
	native  bool
	closed  bool // the usage event has come
	n       int  // blocks begun
	open    block
	calls   []call
	at      int // the call that is told next, or is open
	later   []infer.Event
	usage   infer.Usage
	finish  infer.FinishReason
	stop    string
}

// call is one tool call on its way.
type call struct {
	id, name string
	args     []byte // not yet sent
	shape    shape
	begun    bool
}

func newStream(r *infer.Request, o wire.Options) *stream { return &stream{r: r, o: o} }

// Event implements wire.StreamEncoder.
func (s *stream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if ev.Kind == infer.EventStart && ev.Model != nil && ev.Model.Native {
		s.native = true
	}
	if s.native {
		s.started = true
		if ev.Frame != nil {
			dst = wire.AppendSSE(dst, ev.Frame)
		}
		return dst, nil
	}
	if err := s.check(&ev); err != nil {
		return dst, err
	}
	if ev.Kind == infer.EventStart {
		return s.start(dst, &ev), nil
	}
	if !s.started {
		dst = s.start(dst, &infer.Event{})
	}
	switch ev.Kind {
	case infer.EventText, infer.EventReasoning:
		return s.speak(dst, ev), nil
	case infer.EventTool:
		return s.tool(dst, ev.Tool)
	case infer.EventFinish:
		s.finish, s.stop = ev.Finish, ev.Stop
		return s.flush(dst), nil
	case infer.EventUsage:
		s.closed = true
		s.usage = *ev.Usage
		return s.delta(dst), nil
	case infer.EventFrame:
		return dst, nil
	}
	return dst, fmt.Errorf("BUG: an event of unknown kind %d", ev.Kind)
}

// check holds an event against the rules of infer.Event.
func (s *stream) check(ev *infer.Event) error {
	switch {
	case ev.Choice != 0:
		return fmt.Errorf("BUG: an event of choice %d where there is one", ev.Choice)
	case s.closed:
		return fmt.Errorf("BUG: an event of kind %d after the usage", ev.Kind)
	case ev.Kind == infer.EventStart && s.started:
		return fmt.Errorf("BUG: two starts of one stream")
	case s.finish != "" && ev.Kind != infer.EventUsage && ev.Kind != infer.EventFrame:
		return fmt.Errorf("BUG: an event of kind %d after the end of the answer", ev.Kind)
	case ev.Kind == infer.EventUsage && (ev.Usage == nil || s.finish == ""):
		return fmt.Errorf("BUG: a usage event without usage or before the end of the answer")
	case ev.Kind == infer.EventFinish && ev.Finish == "":
		return fmt.Errorf("BUG: an end without a reason")
	}
	return nil
}

// start appends message_start, which holds what is known of the usage: clients
// read it there and fail where it is missing.
func (s *stream) start(dst []byte, ev *infer.Event) []byte {
	s.started = true
	model := s.r.Model
	if ev.Model != nil {
		model = ev.Model.Name
	}
	u := infer.Usage{}
	if ev.Usage != nil {
		u = *ev.Usage
	}
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	dst = appendHead(dst, answerID(s.r), model)
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null,"usage":`...)
	dst = appendUsage(dst, &u)
	return append(dst, "}}\n\n"...)
}

// speak appends text or reasoning, or lets it wait behind a call that is half
// told.
func (s *stream) speak(dst []byte, ev infer.Event) []byte {
	if ev.Text == "" && ev.Signature == "" && ev.Redacted == "" {
		return dst
	}
	if s.at < len(s.calls) {
		if dst = s.promote(dst); s.at < len(s.calls) {
			if n := len(s.later); n > 0 && s.later[n-1].Kind == ev.Kind && ev.Signature == "" && ev.Redacted == "" && s.later[n-1].Signature == "" && s.later[n-1].Redacted == "" {
				s.later[n-1].Text += ev.Text
			} else {
				s.later = append(s.later, ev)
			}
			return dst
		}
	}
	return s.say(s.drain(dst), ev)
}

// say appends text or reasoning to its block, and opens one where none is open.
func (s *stream) say(dst []byte, ev infer.Event) []byte {
	if ev.Kind == infer.EventText {
		if s.open != blockText {
			dst = s.begin(dst, blockText, `{"type":"text","text":""}`)
		}
		dst = s.piece(dst, `{"type":"text_delta","text":`)
		return append(jsonwrite.String(dst, ev.Text), "}}\n\n"...)
	}
	if ev.Text != "" && !s.o.HideReasoning {
		dst = s.think(dst)
		dst = s.piece(dst, `{"type":"thinking_delta","thinking":`)
		dst = append(jsonwrite.String(dst, ev.Text), "}}\n\n"...)
	}
	if ev.Signature != "" { // the last delta of its block
		dst = s.think(dst)
		dst = s.piece(dst, `{"type":"signature_delta","signature":`)
		dst = append(jsonwrite.String(dst, ev.Signature), "}}\n\n"...)
		dst = s.end(dst)
	}
	if ev.Redacted != "" {
		dst = s.begin(dst, blockThinking, "")
		dst = append(appendRedacted(dst, ev.Redacted), "}\n\n"...)
		dst = s.end(dst)
	}
	return dst
}

// think opens a block of thinking, if none is open.
func (s *stream) think(dst []byte) []byte {
	if s.open == blockThinking {
		return dst
	}
	return s.begin(dst, blockThinking, `{"type":"thinking","thinking":"","signature":""}`)
}

// begin closes what is open and appends content_block_start. Without content
// the event is left for the caller to fill and end.
func (s *stream) begin(dst []byte, b block, content string) []byte {
	dst = s.end(dst)
	s.open = b
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = jsonwrite.Int(dst, int64(s.n))
	s.n++
	dst = append(dst, `,"content_block":`...)
	if content == "" {
		return dst
	}
	return append(append(dst, content...), "}\n\n"...)
}

// piece opens a content_block_delta and its delta.
func (s *stream) piece(dst []byte, delta string) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = jsonwrite.Int(dst, int64(s.n-1))
	dst = append(dst, `,"delta":`...)
	return append(dst, delta...)
}

// end appends content_block_stop, if a block is open.
func (s *stream) end(dst []byte) []byte {
	if s.open == blockNone {
		return dst
	}
	s.open = blockNone
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = jsonwrite.Int(dst, int64(s.n-1))
	return append(dst, "}\n\n"...)
}

// delta appends message_delta: why the answer ended, and the whole usage.
func (s *stream) delta(dst []byte) []byte {
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	dst = appendStop(dst, s.finish, s.stop, len(s.calls) > 0)
	dst = append(dst, `},"usage":`...)
	dst = appendUsage(dst, &s.usage)
	return append(dst, "}\n\n"...)
}

// Error implements wire.StreamEncoder: an error event, which nothing follows. A
// block that is open stays open: to close it would say that it is whole.
func (s *stream) Error(dst []byte, e *infer.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	dst = appendError(dst, e, s.r.ID)
	return append(dst, "\n\n"...)
}

// End implements wire.StreamEncoder.
func (s *stream) End(dst []byte) []byte {
	if s.native {
		return dst
	}
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// Ping implements wire.Pinger. Until message_start, which must be the first
// event, it is a comment.
func (s *stream) Ping(dst []byte) []byte {
	if !s.started {
		return append(dst, ": ping\n\n"...)
	}
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

// Watch sees the events of an answer whose frames are passed on in place of
// what this encoder would write.
func (s *stream) Watch(ev *infer.Event) { s.started = s.started || ev.Frame != nil }
