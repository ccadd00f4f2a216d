package responses

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
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

	// Save, if set, is called with the final object before its event is made. If
	// it fails, the object says that it was not stored.
	Save func(body []byte) error
	// Final, if set, is the final object in place of ours: a provider's own.
	Final []byte
	// Cancelled makes an error mean that the caller ended the run.
	Cancelled func() bool
}

var _ wire.StreamEncoder = (*Stream)(nil)

// NewStream returns the encoder of one answer.
func (Dialect) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder { return NewStream(r, o) }

// NewStream returns the encoder of one answer.
func NewStream(r *infer.Request, o wire.Options) *Stream {
	return &Stream{r: r, o: o, t: turnOf(o.Own), id: ResponseID(r.ID), model: r.Model, now: time.Now}
}

// Opening is the response object of a run that has not begun.
func (s *Stream) Opening(status string) []byte { return s.object(status).append(nil) }

// Body is the final response object; nil before the end.
func (s *Stream) Body() []byte { return s.body }

// ID is the id of the response.
func (s *Stream) ID() string { return s.id }

// Watch takes an event whose frame is passed on as a provider sent it: the
// numbers, and what is to be kept, are read from the frame.
func (s *Stream) Watch(ev *infer.Event) {
	if ev.Frame == nil {
		return
	}
	s.begun = true
	data := ev.Frame.Data
	if at := bytes.LastIndex(data, []byte(`"sequence_number":`)); at >= 0 {
		n := 0
		for _, c := range data[at+len(`"sequence_number":`):] {
			if c >= '0' && c <= '9' && n < 1<<40 {
				n = n*10 + int(c-'0')
			} else if c != ' ' {
				break
			}
		}
		s.seq = max(s.seq, n+1)
	}
	switch kind := frameType(ev.Frame); kind {
	case "response.created":
		if id := itemIDOf(frameResponse(data)); id != "" {
			s.id = id
		}
	case "response.completed", "response.incomplete", "response.failed":
		s.ended = true
		if body := frameResponse(data); body != nil {
			s.body = body
			if id := itemIDOf(body); id != "" {
				s.id = id
			}
			if s.Save != nil && s.t.Store {
				_ = s.Save(body) // the provider has it in any case
			}
		}
	}
}

// frameType is the type of an event, by its name if it has one.
func frameType(f *infer.Frame) string {
	if f.Event != "" {
		return f.Event
	}
	var c jsonread.Cursor
	c.Reset(f.Data)
	for c.Object(); c.More(); {
		if string(c.Key()) == "type" {
			return c.Str()
		}
		c.Skip()
	}
	return ""
}

// frameResponse is the response object that an event carries.
func frameResponse(data []byte) []byte {
	var c jsonread.Cursor
	c.Reset(data)
	for c.Object(); c.More(); {
		if string(c.Key()) == "response" {
			return bytes.Clone(c.Raw())
		}
		c.Skip()
	}
	return nil
}

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
	if s.body = s.Final; s.body == nil || o.status != statusCompleted && o.status != statusIncomplete {
		s.body = o.append(nil)
	}
	if s.Save != nil && o.store {
		if err := s.Save(s.body); err != nil {
			o.store = false
			s.body = o.append(nil)
		}
	}
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
	if o.err = e; s.Cancelled != nil && s.Cancelled() {
		o.status, o.err = statusCancelled, nil
	}
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
