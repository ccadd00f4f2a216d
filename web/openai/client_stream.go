package openai

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

var (
	nan       = math.NaN()
	doneFrame = &infer.Frame{Data: []byte("[DONE]")}
)

// choiceState is one choice of an answer under way.
type choiceState struct {
	calls   calls
	seen    bool
	refused bool // refusal text has come
	finish  infer.FinishReason
	stop    string
}

// decoder of one answer, streamed or whole, of chat or completions. Providers end
// a choice and still send something of it, and send the count after the end, so
// that the ends are told last, with the count.
type answerDecoder struct {
	r *infer.Request
	o *wire.Outgoing

	native  bool
	plain   bool // completions: text, and no messages
	whole   bool // not a stream
	started bool
	done    bool
	data    []byte // that is being read
	mend    mender
	held    [][]byte // chunks from before the answer; see early
	c       jsonread.Cursor
	piece   choicePiece
	choices []choiceState
	first   [1]choiceState // room for the usual one choice
	usage   counted
	tokens  int  // estimated, of the whole answer
	spoken  bool // a chunk with choices has come
	from    int  // where the events of the present chunk begin

	frames []infer.Frame
	kept   []byte
}

func newAnswerDecoder(r *infer.Request, o *wire.Outgoing, native bool) *answerDecoder {
	d := &answerDecoder{r: r, o: o, native: native, usage: noCount()}
	if n := wire.Choices(r); n > 1 {
		d.choices = make([]choiceState, n)
	} else {
		d.choices = d.first[:]
	}
	return d
}

// Frame implements wire.StreamDecoder.
func (d *answerDecoder) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	data = bytes.TrimSpace(data)
	switch {
	case d.done || len(data) == 0:
		return dst, nil
	case string(data) == "[DONE]":
		return d.end(dst)
	}
	if name == "error" {
		t, ok := readErrorBody(data)
		if !ok {
			t.message = ""
		}
		return dst, t.inBand()
	}
	mark := len(dst)
	dst, hide, err := d.chunk(dst, data)
	if err != nil {
		return dst[:mark], err
	}
	if !d.native || hide {
		return dst, nil
	}
	if len(d.mend.edits) > 0 {
		data = d.mend.apply(data)
	}
	f := d.keep(data)
	for ; mark < len(dst) && dst[mark].Frame != nil; mark++ { // of chunks that were held
	}
	if len(dst) == mark {
		dst = append(dst, infer.Event{Kind: infer.EventFrame})
	}
	dst[mark].Frame = f
	return dst, nil
}

// keep copies a frame, without a name: the dialect has none. Many share one piece of memory: a frame is small and
// lives until it is written.
func (d *answerDecoder) keep(data []byte) *infer.Frame {
	if cap(d.kept)-len(d.kept) < len(data) {
		d.kept = make([]byte, 0, max(1<<10, len(data)))
	}
	at := len(d.kept)
	d.kept = append(d.kept, data...)
	if len(d.frames) == cap(d.frames) {
		d.frames = make([]infer.Frame, 0, 8)
	}
	d.frames = append(d.frames, infer.Frame{Data: d.kept[at:len(d.kept):len(d.kept)]})
	return &d.frames[len(d.frames)-1]
}

// chunk reads one object of a stream. hide marks one that is not passed on: it
// carries nothing but the count, which the caller did not ask for, or nothing at
// all, on which clients fail that look at the first choice unseen; or it waits.
func (d *answerDecoder) chunk(dst []infer.Event, data []byte) (_ []infer.Event, hide bool, err error) {
	c := &d.c
	c.Reset(data)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return dst, false, wire.Malformed(errors.New("a chunk that is no JSON object"))
	}
	var served *infer.Served
	start := len(dst)
	d.from = start
	if !d.started {
		d.started = true
		served = &infer.Served{Name: d.r.Model, Native: d.native}
		ev := infer.Event{Kind: infer.EventStart, Model: served}
		if !d.native {
			ev.Usage = &infer.Usage{PromptTokens: wire.EstimatePrompt(d.r), Estimated: true}
		}
		dst = append(dst, ev)
	}
	n, counted, flat := 0, false, told{}
	var h headSpans
	d.data, d.mend.edits = data, d.mend.edits[:0]
	c.Object()
	for h.inside = c.Offset(); c.More(); h.some = true {
		switch key := c.Key(); string(key) {
		case "choices":
			for ok := c.Array(); ok && c.More(); {
				readChoice(c, &d.piece, d.wantsLogprobs())
				if !c.OK() {
					break
				}
				if dst, err = d.take(dst, n); err != nil {
					return dst, false, err
				}
				n++
			}
		case "usage":
			counted = d.count(c) || counted
		case "x_groq": // Groq's place for it
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "usage" {
					counted = d.count(c) || counted
				} else {
					c.Skip()
				}
			}
		case "model":
			h.model = spanOf(c, func() { d.model(c, served) })
		case "id":
			h.id = spanOf(c, func() { h.idEmpty = string(c.Raw()) == `""` })
		case "created":
			h.created = spanOf(c, c.Skip)
		case "system_fingerprint", "service_tier", "obfuscation", "prompt_token_ids":
			c.Skip()
		case "error":
			if truthy(c) {
				t := readTold(c)
				return dst, false, t.inBand()
			}
			c.Skip()
		case "object":
			h.object = spanOf(c, func() {
				if string(c.Raw()) == `"error"` { // vLLM's older form is flat
					flat.kind = "error"
				}
			})
		case "message", "type", "code":
			flat.member(c, string(key))
		default:
			h.more = true
			c.Skip()
		}
	}
	if !c.End() {
		return dst, false, wire.Malformed(errors.New("a chunk that is no JSON"))
	}
	if flat.kind != "" && n == 0 && flat.message != "" {
		return dst, false, flat.inBand()
	}
	if served != nil && d.usage.prompt >= 0 { // counted from the start, as vLLM's continuous_usage_stats does
		u := d.usage.usage()
		u.CompletionTokens, u.ReasoningTokens = 0, 0
		dst[start].Usage = &u
	}
	if !d.native || d.whole {
		return dst, n == 0 && counted && d.o.Usage, nil
	}
	if n == 0 {
		switch {
		case counted:
			hide = d.o.Usage
		case !h.more:
			hide = true
		case h.idEmpty && !d.spoken && len(d.held) < maxHeld:
			d.held = append(d.held, bytes.Clone(data))
			hide = true
		}
	}
	if !hide {
		d.mendHead(&h)
		if len(d.held) > 0 && n > 0 {
			held := d.early(nil, data, &h)
			dst = slices.Insert(dst, d.from, held...)
		}
	}
	d.spoken = d.spoken || n > 0
	return dst, hide, nil
}

// maxHeld bounds the chunks that wait for the answer.
const maxHeld = 8

func (d *answerDecoder) wantsLogprobs() bool { return !d.native && d.r.Sampling.Logprobs }

func (d *answerDecoder) model(c *jsonread.Cursor, served *infer.Served) {
	if served == nil {
		c.Skip()
		return
	}
	if s := c.Str(); s != "" && len(s) <= 512 {
		served.Name = s
	}
}

func (d *answerDecoder) count(c *jsonread.Cursor) bool {
	u := readUsage(c)
	if u.stated() {
		d.usage = u
		return true
	}
	return false
}

// take makes events of the choice in d.piece, which stands at place at.
func (d *answerDecoder) take(dst []infer.Event, at int) ([]infer.Event, error) {
	p := &d.piece
	i := p.index
	if i < 0 {
		i = at
	}
	if p.fault != nil {
		return dst, p.fault.inBand()
	}
	if p.usage.stated() {
		d.usage = p.usage
	}
	if i >= len(d.choices) {
		if d.native {
			d.tokens += estimate(len(p.text) + len(p.mind))
			return dst, nil // more than was asked for: it is passed on, and paid by the count
		}
		return dst, wire.Malformed(errors.New("a choice beyond those asked for"))
	}
	s := &d.choices[i]
	if d.native {
		s.refused = s.refused || p.refusal != ""
		d.mendChoice(s, i)
	}
	s.seen = true
	mark := len(dst)
	if p.mind != "" {
		dst = append(dst, infer.Event{Kind: infer.EventReasoning, Choice: i, Text: p.mind, Tokens: estimate(len(p.mind))})
	}
	if p.refusal != "" {
		s.refused = true
		dst = append(dst, infer.Event{Kind: infer.EventText, Choice: i, Text: p.refusal, Refusal: true, Tokens: estimate(len(p.refusal))})
	}
	if p.text != "" || len(p.lps) > 0 {
		dst = append(dst, infer.Event{Kind: infer.EventText, Choice: i, Text: p.text, Logprobs: p.lps, Tokens: estimate(len(p.text))})
	}
	for k := range p.calls {
		piece := &p.calls[k]
		var call int
		var first bool
		if dst, call, first = s.calls.add(dst, d.r, i, *piece, k, len(p.calls)); call < 0 {
			return dst, wire.Malformed(errors.New("more tool calls than an answer may have"))
		}
		if d.native && !piece.legacy {
			id := s.calls.list[call].id
			if id == "" {
				id = inventedID(d.r, i, call)
			}
			d.mendCall(piece, call, first, id)
		}
	}
	d.exact(dst[mark:])
	for k := mark; k < len(dst); k++ {
		d.tokens += dst[k].Tokens
	}
	if p.stop != "" {
		s.stop = p.stop
	}
	if p.finish == "" {
		return dst, nil
	}
	f, bad := finishWord(p.finish)
	if bad {
		t := told{}
		return dst, t.inBand()
	}
	s.finish = f
	return dst, nil
}

// exact replaces the estimate by the number of tokens where the provider lists
// them.
func (d *answerDecoder) exact(evs []infer.Event) {
	if d.piece.tokens == 0 || len(evs) != 1 {
		return
	}
	evs[0].Tokens = d.piece.tokens
}

// end tells the ends of the choices and the count. A choice that never ended is
// not given a reason: the answer is incomplete.
func (d *answerDecoder) end(dst []infer.Event) ([]infer.Event, error) {
	if !d.started {
		return dst, wire.Lost(errors.New("an end mark without an answer"))
	}
	for i := range d.choices {
		s := &d.choices[i]
		switch {
		case s.finish != "" && !s.calls.named():
			return dst, wire.Malformed(errors.New("a tool call without a name"))
		case s.finish != "":
			dst = append(dst, infer.Event{Kind: infer.EventFinish, Choice: i, Finish: s.reason(), Stop: s.stop})
		case d.native && !s.seen: // fewer than were asked for: what there is has been passed on
			dst = append(dst, infer.Event{Kind: infer.EventFinish, Choice: i, Finish: infer.FinishStop})
		default:
			return dst, wire.Lost(errors.New("an end mark before the end of every choice"))
		}
	}
	d.done = true
	u := d.counts()
	ev := infer.Event{Kind: infer.EventUsage, Usage: &u}
	if d.native {
		ev.Frame = doneFrame
	}
	return append(dst, ev), nil
}

// reason is why a choice ended. A model that was made to call a tool has "stop"
// for it, and so have servers that know no other word; a refusal has "stop" too.
func (s *choiceState) reason() infer.FinishReason {
	switch {
	case s.finish == infer.FinishStop && len(s.calls.list) > 0:
		return infer.FinishToolCalls
	case s.finish == infer.FinishStop && s.refused:
		return infer.FinishRefusal
	}
	return s.finish
}

// counts is the usage as the provider stated it, or our estimate. What it left
// out is estimated alone.
func (d *answerDecoder) counts() infer.Usage {
	u := d.usage.usage()
	if d.usage.prompt < 0 {
		u.PromptTokens, u.Estimated = wire.EstimatePrompt(d.r), true
	}
	if d.usage.completion < 0 {
		u.CompletionTokens, u.Estimated = d.tokens, true
	}
	return u
}

// End implements wire.StreamDecoder. Not every server sends an end mark; an
// answer is complete if every choice has said why it ended.
func (d *answerDecoder) End(dst []infer.Event) ([]infer.Event, error) {
	if d.done {
		return dst, nil
	}
	seen := 0
	for i := range d.choices {
		if s := &d.choices[i]; s.seen && s.finish == "" {
			return dst, wire.Lost(nil)
		} else if s.seen {
			seen++
		}
	}
	if seen == 0 {
		return dst, wire.Lost(nil)
	}
	return d.end(dst)
}

// answer reads a whole answer.
func (d *answerDecoder) answer(body []byte) ([]infer.Event, error) {
	d.whole = true
	dst, _, err := d.chunk(make([]infer.Event, 0, 4), body)
	if err != nil {
		return nil, err
	}
	seen := false
	for i := range d.choices {
		s := &d.choices[i]
		seen = seen || s.seen
		if s.seen && s.finish == "" {
			s.finish = infer.FinishStop // nothing can follow a body that is whole
		}
	}
	if !seen {
		return nil, wire.Malformed(errors.New("an answer without choices"))
	}
	if dst, err = d.end(dst); err != nil {
		return nil, err
	}
	if d.native {
		out := bytes.Clone(body)
		if len(d.mend.edits) > 0 {
			out = d.mend.apply(body)
		}
		dst[len(dst)-1].Frame = &infer.Frame{Data: out}
	}
	return dst, nil
}
