package output

import (
	"hearth/engine/infer"
)

// Options configures the pipeline of one choice.
type Options struct {
	Choice int // goes into every event

	// Stops ends the answer at the first of these strings; nil means none. One
	// set is shared by all choices of a request.
	Stops       *StopSet
	IncludeStop bool // keep the matched stop string in the text

	// Reasoning splits reasoning off; the zero value does not look for it.
	Reasoning ReasoningFormat
	// InReasoning: the prompt left a reasoning block open.
	InReasoning bool
	// KeepReasoning leaves reasoning and its markup in the text, but still looks
	// for no tool calls in it.
	KeepReasoning bool

	// Format reads tool calls; nil leaves all text as it is.
	Format *ToolFormat
	// Tools are the request's tools: names decide doubtful calls, schemas the
	// types of untyped arguments.
	Tools []infer.Tool
	// SingleCall ends the answer after the first complete call.
	SingleCall bool
	// Forced: decoding is constrained to tool calls, behind reasoning if that is
	// split off and from the first token if it is kept; so a call that is cut
	// leaves no text.
	Forced bool
	// NewID gives the id of the next call; see CallIDs. Without it the ids of
	// different answers are alike.
	NewID func() string

	Logprobs bool // put TokenLogprob into events
	TokenIDs bool // put token ids into events
}

// Pipeline is the output side of one choice: token pieces go in, events come
// out. Bytes pass a Decoder, a StopMatcher, the reasoning splitter and the tool
// parser, each of which holds as little as it must. An event carries the tokens
// whose last byte it released, so that the sum over what was delivered is what
// was delivered; tokens that became no text go with the next event, at the
// latest with EventFinish.
//
// A Pipeline is not safe for concurrent use.
type Pipeline struct {
	o       Options
	decoder Decoder
	stop    StopMatcher
	reason  reasoning
	tools   *toolParser // or nil

	text    []byte // decoded in this push
	decoded int64  // bytes decoded in all
	free    int64  // of these, past the stop matcher
	marks   []tokenMark

	events []infer.Event
	open   bool // cur is being filled
	cur    infer.Event
	buf    []byte // its text or arguments
	curEnd int64  // offset of its last byte

	ended           bool // a stop matched or the only call is complete
	finished        bool
	matched         string
	reasoningTokens int
}

// tokenMark is a token that no event has carried yet.
type tokenMark struct {
	end int64 // offset in the decoded text behind its last byte
	id  int32
	lp  infer.TokenLogprob
}

// New makes a pipeline.
func New(o Options) *Pipeline {
	p := &Pipeline{o: o, stop: StopMatcher{set: o.Stops}}
	p.reason = reasoning{format: o.Reasoning, keep: o.KeepReasoning}
	switch {
	case o.Reasoning.Open == "" || o.Reasoning.Close == "" || o.Forced && o.KeepReasoning:
		p.reason.state = afterReasoning
	case o.InReasoning:
		p.reason.state = skipAfterOpen
	}
	if o.Format != nil {
		if p.o.NewID == nil {
			n := uint64(0)
			p.o.NewID = CallIDs(func() uint64 { n++; return n })
		}
		p.tools = newToolParser(o.Format, &p.o, p)
	}
	return p
}

// Push takes one generated token: its id, the bytes it stands for (nil for an
// end token or another control token that is not shown) and, where asked for,
// its log-probability. The events are valid until the next call. stopped is
// true once the answer has ended by itself (a stop string, or the only call
// allowed is complete): call Finish(infer.FinishStop) and generate no more.
// Tokens pushed after that are counted and their text is dropped.
func (p *Pipeline) Push(id int32, piece []byte, lp *infer.TokenLogprob) (events []infer.Event, stopped bool) {
	p.events = p.events[:0]
	if p.reason.in() {
		p.reasoningTokens++
	}
	m := tokenMark{id: id}
	if lp != nil && p.o.Logprobs {
		m.lp = *lp
	}
	if !p.ended {
		p.text = p.decoder.Append(p.text[:0], piece)
		p.decoded += int64(len(p.text))
	}
	m.end = p.decoded
	if p.decoder.Held() > 0 {
		m.end++ // it waits for the rest of its character
	}
	p.marks = append(p.marks, m)
	if !p.ended {
		p.feed(p.text)
	}
	p.close()
	return p.events, p.ended
}

// feed passes decoded text through the stop matcher.
func (p *Pipeline) feed(b []byte) {
	if p.stop.set == nil {
		p.pass(b)
		return
	}
	free, stop, ok := p.stop.Push(b, p.o.IncludeStop)
	p.pass(free)
	if ok {
		p.ended, p.matched = true, stop
	}
}

func (p *Pipeline) pass(b []byte) {
	if len(b) > 0 {
		p.free += int64(len(b))
		p.reason.write(b, p.free, p)
	}
}

func (p *Pipeline) reasoningText(b []byte, end int64) { p.emit(infer.EventReasoning, b, end) }
func (p *Pipeline) plainText(b []byte, end int64)     { p.emit(infer.EventText, b, end) }

func (p *Pipeline) content(b []byte, end int64) {
	if p.tools == nil {
		p.plainText(b, end)
		return
	}
	p.tools.write(b, end)
}

// emit adds b to the event being filled, or begins another.
func (p *Pipeline) emit(kind infer.EventKind, b []byte, end int64) {
	if len(b) == 0 {
		return
	}
	if p.open && p.cur.Kind != kind {
		p.close()
	}
	if !p.open {
		p.open, p.cur = true, infer.Event{Kind: kind, Choice: p.o.Choice}
	}
	p.buf = append(p.buf, b...)
	p.curEnd = end
}

// startCall announces a call.
func (p *Pipeline) startCall(index int, name string, end int64) {
	p.close()
	p.open = true
	p.cur = infer.Event{Kind: infer.EventTool, Choice: p.o.Choice,
		Tool: &infer.ToolDelta{Index: index, ID: p.o.NewID(), Name: name}}
	p.curEnd = end
}

// addArguments continues call index.
func (p *Pipeline) addArguments(index int, b []byte, end int64) {
	if len(b) == 0 {
		return
	}
	if p.open && (p.cur.Kind != infer.EventTool || p.cur.Tool.Index != index) {
		p.close()
	}
	if !p.open {
		p.open = true
		p.cur = infer.Event{Kind: infer.EventTool, Choice: p.o.Choice, Tool: &infer.ToolDelta{Index: index}}
	}
	p.buf = append(p.buf, b...)
	p.curEnd = end
}

// close completes the event being filled and gives it its tokens.
func (p *Pipeline) close() {
	if !p.open {
		return
	}
	if p.cur.Tool != nil {
		p.cur.Tool.Arguments = string(p.buf)
	} else {
		p.cur.Text = string(p.buf)
	}
	n := 0
	for n < len(p.marks) && p.marks[n].end <= p.curEnd {
		n++
	}
	p.charge(&p.cur, n)
	p.events = append(p.events, p.cur)
	p.open, p.buf = false, p.buf[:0]
}

// charge moves the first n waiting tokens to ev.
func (p *Pipeline) charge(ev *infer.Event, n int) {
	if n == 0 {
		return
	}
	ev.Tokens = n
	if p.o.TokenIDs {
		ev.TokenIDs = make([]int32, n)
		for i := range n {
			ev.TokenIDs[i] = p.marks[i].id
		}
	}
	if p.o.Logprobs {
		ev.Logprobs = make([]infer.TokenLogprob, n)
		for i := range n {
			ev.Logprobs[i] = p.marks[i].lp
		}
	}
	p.marks = p.marks[:copy(p.marks, p.marks[n:])]
}

// Finish ends the choice: it releases what is held and returns the last events,
// the very last being the one EventFinish. FinishStop becomes FinishToolCalls
// when the answer ends with complete calls. A second call returns nothing.
func (p *Pipeline) Finish(reason infer.FinishReason) []infer.Event {
	p.events = p.events[:0]
	if p.finished {
		return nil
	}
	p.finished = true
	if !p.ended {
		p.text = p.decoder.Flush(p.text[:0])
		p.decoded += int64(len(p.text))
		p.feed(p.text)
	}
	if !p.ended && p.stop.set != nil {
		p.pass(p.stop.Flush())
	}
	if p.o.Forced && p.reason.state == lookForOpen {
		p.reason.held = p.reason.held[:0] // half a mark, and no text could follow
	}
	p.reason.flush(p.free, p)
	if p.ended && reason == infer.FinishLength {
		reason = infer.FinishStop
	}
	if p.tools != nil {
		cut := reason != infer.FinishStop || p.matched != ""
		if p.tools.flush(p.free, cut) && reason == infer.FinishStop {
			reason = infer.FinishToolCalls
		}
	}
	p.close()
	ev := infer.Event{Kind: infer.EventFinish, Choice: p.o.Choice, Finish: reason, Stop: p.matched}
	p.charge(&ev, len(p.marks))
	p.events = append(p.events, ev)
	return p.events
}

// ReasoningTokens counts the tokens generated inside reasoning so far, the mark
// that closes it included.
func (p *Pipeline) ReasoningTokens() int { return p.reasoningTokens }
