package responses

import (
	"fmt"
	"math/rand/v2"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// Stream encodes the events of one answer as the events of this API. It is not
// safe for concurrent use.
//
// Items are numbered in the order in which they begin. A message or a piece of
// reasoning ends where another begins; calls stay open to the end of the answer,
// since providers may send the pieces of several in turns.
type Stream struct {
	r   *infer.Request
	o   wire.Options
	t   *Turn
	id  string
	now func() time.Time

	model string
	seq   int
	items []*output
	talk  *output   // the open message or reasoning
	calls []*output // by the index of the call
	usage *infer.Usage
	fin   infer.FinishReason
	head  []byte // of the delta of the open part, up to the number
	tail  []byte // of the same, from there to the text
	begun bool
	ended bool
	body  []byte // the final response object
}

var _ wire.StreamEncoder = (*Stream)(nil)

// NewStream returns the encoder of one answer.
func (Dialect) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder { return NewStream(r, o) }

// NewStream returns the encoder of one answer.
func NewStream(r *infer.Request, o wire.Options) *Stream {
	return &Stream{r: r, o: o, t: turnOf(o.Own), id: ResponseID(r.ID), model: r.Model, now: time.Now}
}

// Body is the final response object; nil before the end.
func (s *Stream) Body() []byte { return s.body }

// ID is the id of the response.
func (s *Stream) ID() string { return s.id }

// open appends the head of one event, up to its own members.
func (s *Stream) open(dst []byte, name string) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: {\"type\":\""...)
	dst = jsonwrite.Int(append(append(dst, name...), `","sequence_number":`...), int64(s.seq))
	s.seq++
	return dst
}

const end = "}\n\n"

// object is the response as it stands.
func (s *Stream) object(status string) *object {
	o := &object{id: s.id, created: s.o.Created, model: s.model, status: status, usage: s.usage, store: s.t.Store, turn: s.t, r: s.r}
	for i, it := range s.items {
		if i > 0 {
			o.output = append(o.output, ',')
		}
		o.output = it.append(o.output, s.t, s.r.Sampling.Logprobs)
	}
	return o
}

// begin appends the two events that open every stream.
func (s *Stream) begin(dst []byte) []byte {
	if s.begun {
		return dst
	}
	s.begun = true
	obj := s.object(statusInProgress).append(nil)
	for _, name := range []string{"response.created", "response.in_progress"} {
		dst = append(s.open(dst, name), `,"response":`...)
		dst = append(append(dst, obj...), end...)
	}
	return dst
}

// Event implements wire.StreamEncoder.
func (s *Stream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if ev.Choice != 0 {
		return dst, fmt.Errorf("BUG: an event of choice %d where there is one", ev.Choice)
	}
	if s.ended {
		return dst, fmt.Errorf("BUG: an event of kind %d after the end", ev.Kind)
	}
	if ev.Kind == infer.EventStart && ev.Model != nil && ev.Model.Name != "" {
		s.model = ev.Model.Name
	}
	dst = s.begin(dst)
	switch ev.Kind {
	case infer.EventStart, infer.EventFrame:
		return dst, nil
	case infer.EventText:
		return s.say(dst, &ev), nil
	case infer.EventReasoning:
		return s.think(dst, &ev), nil
	case infer.EventTool:
		return s.call(dst, ev.Tool)
	case infer.EventFinish:
		s.fin = ev.Finish
		if ev.Finish == infer.FinishRefusal && s.refused() {
			s.fin = infer.FinishStop
		}
		return s.closeAll(dst, s.incomplete() == ""), nil
	case infer.EventUsage:
		if ev.Usage == nil {
			return dst, fmt.Errorf("BUG: a usage event without usage")
		}
		u := *ev.Usage
		s.usage = &u
		return s.finish(dst), nil
	}
	return dst, fmt.Errorf("BUG: an event of unknown kind %d", ev.Kind)
}

// refused tells whether the answer holds the words of a refusal.
func (s *Stream) refused() bool {
	for _, it := range s.items {
		for i := range it.parts {
			if it.parts[i].refusal {
				return true
			}
		}
	}
	return false
}

// incomplete is the reason why the answer is not whole, empty if it is.
func (s *Stream) incomplete() string {
	switch s.fin {
	case infer.FinishLength, infer.FinishContext:
		return "max_output_tokens"
	case infer.FinishContentFilter, infer.FinishRefusal:
		return "content_filter"
	case infer.FinishPause:
		return "pause_turn"
	}
	return ""
}

// finish appends the last event. It carries the usage, so that it waits for it.
func (s *Stream) finish(dst []byte) []byte {
	s.ended = true
	o := s.object(statusCompleted)
	if o.why = s.incomplete(); o.why != "" {
		o.status = statusIncomplete
	} else {
		o.done = s.now()
	}
	return s.last(dst, o)
}

func (s *Stream) last(dst []byte, o *object) []byte {
	s.body = o.append(nil)
	dst = append(s.open(dst, "response."+o.status), `,"response":`...)
	return append(append(dst, s.body...), end...)
}

// Error appends response.failed, the end of a stream that broke off.
func (s *Stream) Error(dst []byte, e *infer.Error) []byte {
	if s.ended {
		return dst
	}
	dst = s.begin(dst)
	s.ended = true
	for _, it := range s.items {
		if it.status == "" {
			it.status = statusIncomplete
		}
	}
	o := s.object(statusFailed)
	o.err = e
	return s.last(dst, o)
}

// End implements wire.StreamEncoder: the last event has said it all.
func (s *Stream) End(dst []byte) []byte { return dst }

// add begins an item.
func (s *Stream) add(dst []byte, kind itemKind) ([]byte, *output) {
	it := &output{kind: kind, index: len(s.items)}
	it.id = itemID(kindNames[kind], s.id, it.index, false)
	s.items = append(s.items, it)
	return dst, it
}

// added appends the event that an item has begun.
func (s *Stream) added(dst []byte, it *output) []byte {
	return s.itemEvent(dst, "response.output_item.added", it)
}

func (s *Stream) itemEvent(dst []byte, name string, it *output) []byte {
	dst = jsonwrite.Int(append(s.open(dst, name), `,"output_index":`...), int64(it.index))
	dst = it.append(append(dst, `,"item":`...), s.t, s.r.Sampling.Logprobs)
	return append(dst, end...)
}

// place opens an event about part n of an item.
func (s *Stream) place(dst []byte, name string, it *output, index string, n int) []byte {
	return appendPlace(s.open(dst, name), it, index, n)
}

func appendPlace(dst []byte, it *output, index string, n int) []byte {
	dst = jsonwrite.String(append(dst, `,"item_id":`...), it.id)
	dst = jsonwrite.Int(append(dst, `,"output_index":`...), int64(it.index))
	if index == "" {
		return dst
	}
	return jsonwrite.Int(append(append(append(dst, `,"`...), index...), `":`...), int64(n))
}

// deltas prepares the head of the deltas of a part, which come by the hundred.
func (s *Stream) deltas(name string, it *output, index string, n int) {
	s.head = append(append(append(append(s.head[:0], "event: "...), name...), "\ndata: {\"type\":\""...), name...)
	s.head = append(s.head, `","sequence_number":`...)
	s.tail = append(appendPlace(s.tail[:0], it, index, n), `,"delta":`...)
}

// delta appends a piece of text.
func (s *Stream) delta(dst []byte, text string) []byte {
	dst = jsonwrite.Int(append(dst, s.head...), int64(s.seq))
	s.seq++
	return jsonwrite.String(append(dst, s.tail...), text)
}

// closeDelta ends a delta event that began at from, padded if that was asked for.
func (s *Stream) closeDelta(dst []byte, from int) []byte {
	if s.o.Obfuscate {
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
		dst = append(dst, `,"obfuscation":"`...)
		for n := 64 - (len(dst)-from+4)%64; n > 0; n-- {
			dst = append(dst, alphabet[rand.IntN(len(alphabet))])
		}
		dst = append(dst, '"')
	}
	return append(dst, end...)
}
