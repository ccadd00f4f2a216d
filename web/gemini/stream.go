package gemini

import (
	"fmt"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// stream encodes streamGenerateContent. Each chunk is a whole
// GenerateContentResponse with what is new. Calls of functions are whole on this
// wire, so their pieces are kept until the choice ends; and the chunk that ends
// the candidates is held back until the usage is known, since nothing follows
// it that could mark the end.
type stream struct {
	r       *infer.Request
	o       wire.Options
	array   bool
	n       int // chunks sent
	served  infer.Served
	tail    []byte
	choices []choice
	closed  bool
}

// choice is what waits for a later chunk of one candidate.
type choice struct {
	lps      []infer.TokenLogprob
	calls    []call
	pending  string // seal for the next part
	finish   infer.FinishReason
	broken   bool
	finished bool
}

type call struct {
	id, name string
	args     []byte
}

var _ wire.Framed = (*stream)(nil)

// NewStream implements wire.Dialect.
func (g Generate) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return &stream{r: r, o: o, array: g.Array, choices: make([]choice, wire.Choices(r))}
}

// ContentType implements wire.Framed: Google's own clients know no comments in a
// stream of events.
func (s *stream) ContentType() string {
	if s.array {
		return "application/json"
	}
	return "text/event-stream; charset=utf-8"
}

// Frame implements wire.Framed.
func (s *stream) Frame(dst []byte, f *infer.Frame) []byte {
	if !s.array {
		return wire.AppendSSE(dst, f)
	}
	return append(s.begin(dst), f.Data...)
}

// begin opens a chunk.
func (s *stream) begin(dst []byte) []byte {
	s.n++
	switch {
	case !s.array:
		return append(dst, "data: "...)
	case s.n == 1:
		return append(dst, '[')
	}
	return append(dst, ",\r\n"...)
}

// end closes a chunk.
func (s *stream) end(dst []byte) []byte {
	if s.array {
		return dst
	}
	return append(dst, "\n\n"...)
}

// Event implements wire.StreamEncoder.
func (s *stream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if ev.Choice < 0 || ev.Choice >= len(s.choices) {
		return dst, fmt.Errorf("BUG: an event of choice %d where there are %d", ev.Choice, len(s.choices))
	}
	c := &s.choices[ev.Choice]
	if s.closed || c.finished && ev.Kind != infer.EventUsage && ev.Kind != infer.EventStart {
		return dst, fmt.Errorf("BUG: an event of kind %d after the end of choice %d", ev.Kind, ev.Choice)
	}
	c.lps = append(c.lps, ev.Logprobs...)
	switch ev.Kind {
	case infer.EventStart:
		if ev.Model != nil {
			s.served = *ev.Model
		}
		return dst, nil
	case infer.EventText:
		if ev.Text == "" {
			return dst, nil
		}
		dst = s.open(dst)
		dst = jsonwrite.String(append(dst, `{"text":`...), ev.Text)
		dst = append(appendSeal(dst, &c.pending), '}')
		return s.close(dst, ev.Choice), nil
	case infer.EventReasoning:
		return s.reasoning(dst, c, ev), nil
	case infer.EventTool:
		return dst, c.tool(ev.Tool)
	case infer.EventFinish:
		c.finish, c.finished = ev.Finish, true
		return s.calls(dst, ev.Choice), nil
	case infer.EventUsage:
		if ev.Usage == nil {
			return dst, fmt.Errorf("BUG: a usage event without usage")
		}
		s.closed = true
		return s.last(dst, *ev.Usage), nil
	}
	return dst, fmt.Errorf("BUG: an event of unknown kind %d", ev.Kind)
}

// open begins a chunk with one candidate and its parts.
func (s *stream) open(dst []byte) []byte {
	return append(s.begin(dst), `{"candidates":[{"content":{"parts":[`...)
}

// close ends the parts, the candidate and the chunk.
func (s *stream) close(dst []byte, i int) []byte {
	dst = append(dst, `],"role":"model"}`...)
	dst = s.index(dst, i)
	return s.end(append(s.name(append(dst, "}]"...)), '}'))
}

// index ends a candidate's members.
func (s *stream) index(dst []byte, i int) []byte {
	dst = jsonwrite.Int(append(dst, `,"index":`...), int64(i))
	if c := &s.choices[i]; s.r.Sampling.Logprobs && len(c.lps) > 0 {
		dst = appendLogprobs(dst, c.lps)
		c.lps = c.lps[:0]
	}
	return dst
}

// name appends what is the same in every chunk.
func (s *stream) name(dst []byte) []byte {
	if s.tail == nil {
		if s.served.Name == "" {
			s.served.Name = s.r.Model
		}
		s.tail = appendTail(nil, s.r, s.served)
	}
	return append(dst, s.tail...)
}

func (s *stream) reasoning(dst []byte, c *choice, ev infer.Event) []byte {
	if s.o.HideReasoning {
		if strings.HasPrefix(ev.Signature, native) {
			c.pending = ev.Signature
		}
		c.lps = c.lps[:0]
		return dst
	}
	if ev.Text == "" && ev.Signature == "" && ev.Redacted == "" {
		return dst
	}
	return s.close(appendThought(s.open(dst), ev.Text, ev.Signature, ev.Redacted), ev.Choice)
}

// tool keeps a piece of a call.
func (c *choice) tool(t *infer.ToolDelta) error {
	switch {
	case t == nil:
		return fmt.Errorf("BUG: a tool event without a tool")
	case t.Index == len(c.calls) && t.ID != "":
		c.calls = append(c.calls, call{id: t.ID, name: t.Name})
	case t.Index < 0 || t.Index >= len(c.calls):
		return fmt.Errorf("BUG: a piece of tool call %d where %d have begun", t.Index, len(c.calls))
	}
	c.calls[t.Index].args = append(c.calls[t.Index].args, t.Arguments...)
	return nil
}

// calls sends the calls of a choice that has ended.
func (s *stream) calls(dst []byte, i int) []byte {
	c := &s.choices[i]
	c.broken = slices.ContainsFunc(c.calls, func(k call) bool { return !isObject(string(k.args)) })
	n := 0
	for _, k := range c.calls {
		args := string(k.args)
		if !isObject(args) {
			continue
		}
		if n++; n == 1 {
			dst = s.open(dst)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, k.id, k.name, args, &c.pending)
	}
	if c.calls = nil; n > 0 {
		dst = s.close(dst, i)
	}
	return dst
}

// last sends the chunk that ends every candidate.
func (s *stream) last(dst []byte, u infer.Usage) []byte {
	dst = append(s.begin(dst), `{"candidates":[`...)
	for i := range s.choices {
		c := &s.choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"content":{"parts":[{"text":""`...)
		dst = append(appendSeal(dst, &c.pending), `}],"role":"model"}`...)
		dst = s.index(appendFinish(dst, c.finish, c.broken), i)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"usageMetadata":`...)
	dst = s.name(appendUsage(dst, u))
	return s.end(append(dst, '}'))
}

// Error implements wire.StreamEncoder. The clients raise from a chunk that
// begins with the member error.
func (s *stream) Error(dst []byte, e *infer.Error) []byte {
	dst = s.end(appendError(s.begin(dst), e, s.r.ID))
	if s.array {
		dst = append(dst, "]\n"...)
	}
	return dst
}

// End implements wire.StreamEncoder.
func (s *stream) End(dst []byte) []byte {
	switch {
	case !s.array:
		return dst
	case s.n == 0:
		return append(dst, "[]\n"...)
	}
	return append(dst, "]\n"...)
}
