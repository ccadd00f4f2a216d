package openai

import (
	"cmp"
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// An answer of the caller's dialect is passed on as it came. Some servers break
// the dialect in ways on which its clients fail: call pieces without an index or
// with the same one for all, an id and a name again in every piece (clients join
// them), no role, their own words for the finish. Such a frame is mended where it
// is broken, and every other byte of it stays.

// span is where a value stands in a frame; the zero span stands for none.
type span struct{ from, to int }

// spanOf is the span of the value that comes next; it is read by read.
func spanOf(c *jsonread.Cursor, read func()) span {
	c.Kind() // moves to its first byte
	s := span{from: c.Offset()}
	read()
	s.to = c.Offset()
	return s
}

// edit puts text in place of a span, or before what stands at an empty one.
type edit struct {
	span
	text []byte
	// more says that a comma follows: the text is a member and the object has others.
	more bool
}

// mender collects the edits of one frame.
type mender struct{ edits []edit }

func (m *mender) put(s span, text string) {
	m.edits = append(m.edits, edit{span: s, text: []byte(text)})
}

// into puts a member at the head of the object whose inside begins at from.
func (m *mender) into(from int, empty bool, name string, value []byte) {
	for i := range m.edits { // those before it in the same object
		if e := &m.edits[i]; e.span == (span{from, from}) {
			e.more = true
		}
	}
	m.edits = append(m.edits, edit{span{from, from}, append([]byte(`"`+name+`":`), value...), !empty})
}

// apply returns the mended frame.
func (m *mender) apply(data []byte) []byte {
	slices.SortStableFunc(m.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := make([]byte, 0, len(data)+64*len(m.edits))
	at := 0
	for _, e := range m.edits {
		if e.from < at {
			continue
		}
		out = append(append(out, data[at:e.from]...), e.text...)
		if e.more {
			out = append(out, ',')
		}
		at = e.to
	}
	return append(out, data[at:]...)
}

// finishes are the words of the dialect.
var finishes = []string{"stop", "length", "tool_calls", "content_filter", "function_call"}

// mendChoice mends the head of a choice: its index, role and finish.
func (d *answerDecoder) mendChoice(s *choiceState, i int) {
	p, m := &d.piece, &d.mend
	switch index := jsonwrite.Int(nil, int64(i)); {
	case p.index >= 0 || d.whole:
	case p.indexAt == (span{}):
		m.into(p.inside, p.empty, "index", index)
	default: // a name that stands twice is read by some as the first, by others as the last
		m.put(p.indexAt, string(index))
	}
	if !s.seen && p.body > 0 && !p.role && !d.plain {
		m.into(p.body, p.bodyEmpty, "role", []byte(`"assistant"`))
	}
	switch {
	case p.finishAt == span{}:
	case p.finish == "" && string(d.data[p.finishAt.from:p.finishAt.to]) == `""`:
		m.put(p.finishAt, "null")
	case p.finish != "" && !slices.Contains(finishes, p.finish):
		if f, bad := finishWord(p.finish); !bad {
			m.put(p.finishAt, string(jsonwrite.String(nil, finishReason(f, false, s.refused))))
		}
	}
}

// mendCall mends a piece of call k, which is the first of that call or a later
// one.
func (d *answerDecoder) mendCall(p *callPiece, k int, first bool, id string) {
	m := &d.mend
	if !d.whole && p.index != k {
		index := jsonwrite.Int(nil, int64(k))
		if p.indexAt == (span{}) {
			m.into(p.inside, p.empty, "index", index)
		} else {
			m.put(p.indexAt, string(index))
		}
	}
	if p.argsAt != (span{}) {
		m.put(p.argsAt, string(jsonwrite.String(nil, p.args)))
	}
	switch {
	case first:
		if !p.typed {
			m.into(p.inside, p.empty, "type", []byte(`"function"`))
		}
		if p.id == "" && p.idAt != (span{}) {
			m.put(p.idAt, string(jsonwrite.String(nil, id)))
		} else if p.id == "" {
			m.into(p.inside, p.empty, "id", jsonwrite.String(nil, id))
		}
	default: // clients join the strings of later pieces to the first one's
		if p.idAt != (span{}) && (p.id != "" || string(d.data[p.idAt.from:p.idAt.to]) == "null") {
			m.put(p.idAt, `""`)
		}
		if p.nameAt != (span{}) && (p.name != "" || string(d.data[p.nameAt.from:p.nameAt.to]) == "null") {
			m.put(p.nameAt, `""`)
		}
	}
}

// headSpans are the members of a chunk that the clients go by.
type headSpans struct {
	inside              int
	id, object          span
	created, model      span
	idEmpty, more, some bool // more: members that the dialect does not know
}

// object is what every object of the answer is called.
func (d *answerDecoder) object() string {
	switch {
	case d.plain:
		return `"text_completion"`
	case d.whole:
		return `"chat.completion"`
	}
	return `"chat.completion.chunk"`
}

// mendHead gives a chunk its name where it has none.
func (d *answerDecoder) mendHead(h *headSpans) {
	switch want := d.object(); {
	case h.object == (span{}):
		d.mend.into(h.inside, !h.some, "object", []byte(want))
	case string(d.data[h.object.from:h.object.to]) != want:
		d.mend.put(h.object, want)
	}
}

// early is a chunk without choices from before the answer, as Azure sends it with
// an empty head. It waits for the first chunk of the answer, whose head it gets:
// clients take chunks of different heads for different answers.
func (d *answerDecoder) early(dst []infer.Event, data []byte, h *headSpans) []infer.Event {
	for _, held := range d.held {
		set := []member{{"object", []byte(d.object())}}
		for _, m := range []struct {
			name string
			at   span
		}{{"id", h.id}, {"created", h.created}, {"model", h.model}} {
			if m.at != (span{}) {
				set = append(set, member{m.name, data[m.at.from:m.at.to]})
			}
		}
		if out, ok := splice(held, set); ok {
			dst = append(dst, infer.Event{Kind: infer.EventFrame, Frame: &infer.Frame{Data: out}})
		}
	}
	d.held = nil
	return dst
}
