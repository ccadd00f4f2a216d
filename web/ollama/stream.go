package ollama

import (
	"fmt"
	"time"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// stream encodes an answer as lines of JSON. Calls of tools are whole on this
// wire, so their pieces are kept until the choice ends; the line that ends the
// answer is held back until the usage is known.
type stream struct {
	form
	r      *infer.Request
	o      wire.Options
	t      times
	model  string
	lps    []infer.TokenLogprob
	calls  []infer.ToolCall
	args   [][]byte
	finish infer.FinishReason
	closed bool
	now    func() time.Time
}

var _ wire.Framed = (*stream)(nil)

// NewStream implements wire.Dialect.
func (Chat) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return newStream(form{}, r, o)
}

// NewStream implements wire.Dialect.
func (Generate) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return newStream(form{generate: true}, r, o)
}

func newStream(f form, r *infer.Request, o wire.Options) *stream {
	return &stream{form: f, r: r, o: o, t: times{created: o.Created}, model: r.Model, now: time.Now}
}

// ContentType implements wire.Framed.
func (*stream) ContentType() string { return ContentType }

// Frame implements wire.Framed.
func (*stream) Frame(dst []byte, f *infer.Frame) []byte {
	return append(append(dst, f.Data...), '\n')
}

// Event implements wire.StreamEncoder.
func (s *stream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if ev.Choice != 0 {
		return dst, fmt.Errorf("BUG: an event of choice %d where there is one", ev.Choice)
	}
	if s.closed || s.finish != "" && ev.Kind != infer.EventUsage && ev.Kind != infer.EventStart {
		return dst, fmt.Errorf("BUG: an event of kind %d after the end", ev.Kind)
	}
	s.lps = append(s.lps, ev.Logprobs...)
	now := s.now()
	if s.t.first.IsZero() && ev.Kind != infer.EventStart {
		s.t.first = now
	}
	switch ev.Kind {
	case infer.EventStart:
		if ev.Model != nil && ev.Model.Name != "" {
			s.model = ev.Model.Name
		}
		return dst, nil
	case infer.EventText:
		if ev.Text == "" {
			return dst, nil
		}
		return s.line(dst, now, ev.Text, ""), nil
	case infer.EventReasoning:
		if ev.Text == "" || s.o.HideReasoning {
			return dst, nil
		}
		return s.line(dst, now, "", ev.Text), nil
	case infer.EventTool:
		return dst, s.tool(ev.Tool)
	case infer.EventFinish:
		s.finish = ev.Finish
		return s.told(dst, now)
	case infer.EventUsage:
		if ev.Usage == nil {
			return dst, fmt.Errorf("BUG: a usage event without usage")
		}
		s.closed, s.t.last = true, now
		dst = s.close(s.open(appendHead(dst, s.model, now), "", ""))
		dst = s.odds(dst)
		return append(appendEnd(dst, doneReason(s.finish), *ev.Usage, s.t), "}\n"...), nil
	}
	return dst, fmt.Errorf("BUG: an event of unknown kind %d", ev.Kind)
}

// line appends a line with a piece of text or of thinking.
func (s *stream) line(dst []byte, now time.Time, text, thinking string) []byte {
	dst = s.close(s.open(appendHead(dst, s.model, now), text, thinking))
	return append(s.odds(dst), `,"done":false}`+"\n"...)
}

// odds appends the log-probabilities that wait.
func (s *stream) odds(dst []byte) []byte {
	if s.r.Sampling.Logprobs && len(s.lps) > 0 {
		dst = appendLogprobs(dst, s.lps)
	}
	s.lps = s.lps[:0]
	return dst
}

// tool keeps a piece of a call.
func (s *stream) tool(t *infer.ToolDelta) error {
	switch {
	case t == nil:
		return fmt.Errorf("BUG: a tool event without a tool")
	case t.Index == len(s.calls) && t.ID != "":
		s.calls = append(s.calls, infer.ToolCall{ID: t.ID, Name: t.Name})
		s.args = append(s.args, nil)
	case t.Index < 0 || t.Index >= len(s.calls):
		return fmt.Errorf("BUG: a piece of tool call %d where %d have begun", t.Index, len(s.calls))
	}
	s.args[t.Index] = append(s.args[t.Index], t.Arguments...)
	return nil
}

// told sends the calls of an answer that has ended.
func (s *stream) told(dst []byte, now time.Time) ([]byte, error) {
	if len(s.calls) == 0 {
		return dst, nil
	}
	for i := range s.calls {
		s.calls[i].Arguments = string(s.args[i])
	}
	out, err := appendCalls(s.open(appendHead(dst, s.model, now), "", ""), s.calls)
	if err != nil {
		return dst, err
	}
	out = s.odds(s.close(out))
	return append(out, `,"done":false}`+"\n"...), nil
}

// Error implements wire.StreamEncoder.
func (s *stream) Error(dst []byte, e *infer.Error) []byte { return append(appendError(dst, e), '\n') }

// End implements wire.StreamEncoder: the line with done is the end.
func (s *stream) End(dst []byte) []byte { return dst }
