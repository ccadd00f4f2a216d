package core

import (
	"slices"

	"hearth/engine/infer"
	"hearth/engine/sampler"
)

// chosen is one thing that the loop tells the text side of a choice: a token, or
// with finish that the choice has ended.
type chosen struct {
	run    *run
	res    sampler.Result
	end    bool // an end token: it is no text
	finish infer.FinishReason
}

// texts is what is done with the tokens of a step while the device computes the
// next one: grammars move on, text is made, stop strings are looked for, events
// are pushed. It runs in a goroutine of its own; between hand and settle the loop
// touches nothing of a run that the goroutine uses. What it found is acted on
// before the next tokens are chosen, at the same place whatever was faster, so an
// answer does not depend on it; a choice that ended by its text has had one row
// too many computed, which nobody sees.
type texts struct {
	in    chan []chosen
	done  chan struct{}
	ended chan struct{}
	busy  bool // owned by the loop
	piece func(token int32) []byte

	// Written by the goroutine, read by the loop after settle.
	stopped []*run // ended by their text
	faults  []*run // their fault says why they cannot go on
}

func newTexts(piece func(token int32) []byte) *texts {
	t := &texts{in: make(chan []chosen), done: make(chan struct{}), ended: make(chan struct{}), piece: piece}
	go t.loop()
	return t
}

func (t *texts) loop() {
	for batch := range t.in {
		for i := range batch {
			t.take(&batch[i])
		}
		for i := range batch {
			if j := batch[i].run.job; j.touched {
				j.touched = false
				j.stream.signal()
			}
		}
		t.done <- struct{}{}
	}
	close(t.ended)
}

// hand gives a step's tokens away; the slice is the goroutine's until settle.
func (t *texts) hand(batch []chosen) {
	if len(batch) == 0 {
		return
	}
	t.in <- batch
	t.busy = true
}

// settle waits until what was handed is done.
func (t *texts) settle() {
	if t.busy {
		<-t.done
		t.busy = false
	}
}

// settled is settle if that needs no waiting.
func (t *texts) settled() bool {
	if !t.busy {
		return true
	}
	select {
	case <-t.done:
		t.busy = false
		return true
	default:
		return false
	}
}

// close ends the goroutine.
func (t *texts) close() {
	t.settle()
	close(t.in)
	<-t.ended
}

func (t *texts) take(c *chosen) {
	r := c.run
	if r.closed {
		return
	}
	r.job.touched = true
	if c.finish != "" {
		t.finish(r, c.finish)
		return
	}
	r.taken++
	var lp *infer.TokenLogprob
	if r.Sampling.Logprobs {
		v := logprob(t.piece, c.res.Token, c.res.Logprob, c.res.Top)
		if c.end {
			v.Bytes = []byte{}
		}
		lp = &v
	}
	if r.Matcher != nil && !c.end {
		if err := r.Matcher.Accept(c.res.Token); err != nil {
			r.closed, r.fault = true, err
			t.faults = append(t.faults, r)
			return
		}
		r.Matcher.Mask(r.mask)
		r.masked = true
	}
	events, stopped := r.Text.Push(c.res.Token, c.end, lp)
	r.emit(events)
	if stopped && !c.end {
		t.finish(r, infer.FinishStop)
		t.stopped = append(t.stopped, r)
	}
}

// finish lets go of what the text holds back, and with the job's last choice
// ends its stream.
func (t *texts) finish(r *run, reason infer.FinishReason) {
	r.closed = true
	j := r.job
	if r.Embed == nil {
		r.emit(r.Text.Finish(reason))
		j.usage.ReasoningTokens += r.Text.ReasoningTokens()
	}
	j.usage.CompletionTokens += r.taken
	if j.unsaid--; j.unsaid == 0 {
		u := j.usage
		j.stream.push(infer.Event{Kind: infer.EventUsage, Usage: &u})
		j.stream.end(nil)
	}
}

func (r *run) emit(events []infer.Event) {
	for _, ev := range events {
		ev.Choice = r.Index
		r.job.stream.push(ev)
	}
}

// heed acts on what the texts of the step before have found.
func (c *Core) heed() {
	for _, r := range c.texts.stopped {
		c.retire(r)
	}
	for _, r := range c.texts.faults {
		c.end(r.job, &infer.Error{Code: infer.CodeInternal, Message: "constrained decoding failed", Cause: r.fault})
	}
	c.texts.stopped, c.texts.faults = c.texts.stopped[:0], c.texts.faults[:0]
	clear(c.chosen) // they hold runs
	c.chosen = c.chosen[:0]
}

func logprob(piece func(int32) []byte, token int32, lp float64, top []sampler.Ranked) infer.TokenLogprob {
	out := infer.TokenLogprob{ID: token, Bytes: piece(token), Logprob: lp}
	if top != nil {
		out.Top = make([]infer.TopLogprob, len(top))
		for i, t := range top {
			out.Top[i] = infer.TopLogprob{ID: t.Token, Bytes: piece(t.Token), Logprob: t.Logprob}
		}
	}
	return out
}

// allow is the mask of the tokens that may follow in r, or nil.
func (c *Core) allow(r *run) []uint32 {
	if r.Matcher == nil {
		return nil
	}
	if !r.masked { // before the first token
		r.mask = make([]uint32, (c.cfg.Program.Vocab+31)/32)
		r.Matcher.Mask(r.mask)
	}
	r.masked = false
	return r.mask
}

// tell notes a token that was chosen for r, and whether it ends it.
func (c *Core) tell(r *run, res sampler.Result) {
	end := slices.Contains(r.ends, res.Token)
	c.chosen = append(c.chosen, chosen{run: r, res: res, end: end})
	switch {
	case end:
		c.finish(r, infer.FinishStop)
	case r.made >= r.Max:
		c.finish(r, infer.FinishLength)
	}
}
