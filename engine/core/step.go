package core

import (
	"math"

	"hearth/engine/infer"
	"hearth/engine/sampler"
	"hearth/engine/sched"
	"hearth/kernels"
)

// fill writes the plan into the batch: tokens, spans, and which rows' logits or
// final states are wanted.
func (c *Core) fill(plan []sched.Slot) {
	b := &c.batch
	b.Tokens, b.Spans = b.Tokens[:0], b.Spans[:0]
	b.LogitRows, b.HiddenRows = b.LogitRows[:0], b.HiddenRows[:0]
	c.rows = c.rows[:0]
	for _, sl := range plan {
		q := sl.Seq
		r := q.Data.(*run)
		first := int32(len(b.Tokens))
		b.Tokens = append(b.Tokens, q.Tokens[q.NumComputed:q.NumComputed+sl.Len]...)
		b.Tokens = append(b.Tokens, q.Draft[:sl.Draft]...)
		b.Spans = append(b.Spans, kernels.Span{Row: first, Len: int32(sl.Len + sl.Draft), Context: int32(q.NumComputed), Blocks: q.Blocks})
		c.want(r, q, first, sl.Len, sl.Draft)
	}
	c.logits = grow(c.logits, c.askChoices()*c.cfg.Program.Vocab)
	c.hidden = grow(c.hidden, len(b.HiddenRows)*c.cfg.Program.Width)
	b.Logits, b.Hidden = c.logits, c.hidden
}

// askChoices asks the device to choose where it can, and returns how many rows of
// logits are wanted still.
func (c *Core) askChoices() (logits int) {
	b := &c.batch
	b.Choices, b.Picks, b.Prepare = nil, nil, nil
	if c.chooser == nil || len(b.LogitRows) == 0 {
		return len(b.LogitRows)
	}
	n := len(b.LogitRows)
	for len(c.choices) < n {
		c.choices, c.picks = append(c.choices, kernels.Choice{}), append(c.picks, kernels.Pick{})
	}
	b.Choices, b.Picks, b.Prepare = c.choices[:n], c.picks[:n], c.prepare
	i := 0
	for _, rw := range c.rows {
		if rw.run.Embed != nil {
			continue
		}
		ch := &b.Choices[i]
		*ch = kernels.Choice{Adjust: ch.Adjust[:0], Logits: !rw.sample || rw.run.Sampling.TopLogprobs > c.chooser.MaxTop()}
		if ch.Logits {
			logits++
		}
		i++
	}
	return logits
}

// choose says how the tokens of this step are chosen, while the device computes
// the logits; what the step before left to be done is done by then.
func (c *Core) choose() {
	c.texts.settle()
	c.heed()
	i := 0
	for _, rw := range c.rows {
		if rw.run.Embed != nil {
			continue
		}
		ch, r := &c.batch.Choices[i], rw.run
		i++
		if ch.Logits || r.over || r.Max == 0 {
			continue
		}
		allowed, banned := c.limits(r, r.made+rw.ahead)
		r.sampler.Choice(ch, r.made+rw.ahead, allowed, banned)
	}
}

// want notes the rows of a slot whose results are needed.
func (c *Core) want(r *run, q *sched.Sequence, first int32, n, draft int) {
	b := &c.batch
	last := q.NumComputed + n - 1
	if r.Embed != nil {
		for i := range n {
			if pos := q.NumComputed + i; !r.LastOnly || pos == q.PromptLen-1 {
				b.HiddenRows = append(b.HiddenRows, first+int32(i))
				c.rows = append(c.rows, row{run: r, pos: pos})
			}
		}
		return
	}
	if r.Sampling.PromptLogprobs {
		for i := range n {
			if pos := q.NumComputed + i; pos < q.PromptLen-1 && len(r.lps) <= pos+1 {
				b.LogitRows = append(b.LogitRows, first+int32(i))
				c.rows = append(c.rows, row{run: r, pos: pos})
			}
		}
	}
	if last == len(q.Tokens)-1 {
		for i := range 1 + draft {
			b.LogitRows = append(b.LogitRows, first+int32(n-1+i))
			c.rows = append(c.rows, row{run: r, pos: last + i, sample: true, ahead: i})
		}
	}
}

func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// harvest turns the results of a step into tokens and events.
func (c *Core) harvest(plan []sched.Slot) {
	for _, sl := range plan {
		r := sl.Seq.Data.(*run)
		c.started(r)
		q := sl.Seq // computed by now: see sched.Done
		c.prompts += uint64(max(0, min(q.NumComputed, q.PromptLen)-(q.NumComputed-sl.Len)))
	}
	logit, choice, hidden := 0, 0, 0
	v, w := c.cfg.Program.Vocab, c.cfg.Program.Width
	for _, rw := range c.rows {
		if rw.run.Embed == nil && c.batch.Choices != nil {
			choice++
			if !c.batch.Choices[choice-1].Logits {
				if c.follows(&rw) {
					c.take(rw.run, &c.batch.Picks[choice-1])
				}
				continue
			}
		}
		switch {
		case rw.run.Embed != nil:
			rw.run.Embed(rw.pos, c.hidden[hidden*w:(hidden+1)*w])
			hidden++
			if rw.pos == rw.run.seq.PromptLen-1 {
				c.finish(rw.run, infer.FinishStop)
			}
		case rw.sample:
			if c.follows(&rw) {
				c.sample(rw.run, c.logits[logit*v:(logit+1)*v])
			}
			logit++
		default:
			c.promptLogprob(rw.run, rw.pos, c.logits[logit*v:(logit+1)*v])
			logit++
		}
	}
	c.judge(plan)
}

// follows says whether the row's token is one that was chosen: it always is,
// unless it was a guess.
func (c *Core) follows(rw *row) bool {
	r := rw.run
	if rw.ahead == 0 {
		return true
	}
	right := !r.over && len(r.seq.Tokens) == rw.pos+1 && r.seq.Tokens[rw.pos] == r.seq.Draft[rw.ahead-1]
	if right {
		c.guessed++
	}
	return right
}

// judge counts the guesses of the step that were right; what they left in the
// cache is the sequence's now.
func (c *Core) judge(plan []sched.Slot) {
	for _, sl := range plan {
		if sl.Draft == 0 {
			continue
		}
		c.drafted += uint64(sl.Draft)
		r := sl.Seq.Data.(*run)
		// One token was chosen behind the last that is right.
		right := max(0, len(sl.Seq.Tokens)-sl.Seq.NumComputed-1)
		r.drafter.learn(right, sl.Draft)
		c.sched.Accept(sl.Seq, right)
	}
}

// started sends the start event and, at the right moment, the echo.
func (c *Core) started(r *run) {
	j := r.job
	if !j.begun {
		j.usage.CachedTokens = r.seq.CachedLen
		c.begin(j)
	}
	if r.HasEcho && !r.Sampling.PromptLogprobs {
		r.HasEcho = false
		if r.Echo != "" {
			c.echo(r, infer.Event{Kind: infer.EventText, Text: r.Echo})
		}
	}
}

// echo pushes from the loop what comes before all tokens.
func (c *Core) echo(r *run, ev infer.Event) {
	r.emit([]infer.Event{ev})
	r.job.stream.signal()
}

func (c *Core) promptLogprob(r *run, pos int, logits []float32) {
	if len(r.lps) == 0 {
		r.lps = append(r.lps, logprob(c.cfg.Piece, r.Prompt[0], math.NaN(), nil))
	}
	next := r.Prompt[pos+1]
	lp, top := sampler.Logprobs(logits, next, r.Sampling.TopLogprobs, &c.scratch)
	r.lps = append(r.lps, logprob(c.cfg.Piece, next, lp, top))
}

// sample chooses the next token of r from its logits and moves the choice on.
func (c *Core) sample(r *run, logits []float32) {
	if !c.ready(r) {
		return
	}
	allowed, banned := c.limits(r, r.made)
	c.accept(r, r.sampler.Pick(logits, r.made, allowed, banned, &c.scratch))
}

// take is sample for what the device has chosen.
func (c *Core) take(r *run, pick *kernels.Pick) {
	if c.ready(r) {
		c.accept(r, sampler.Picked(pick, r.Sampling.Logprobs))
	}
}

// ready says whether r is to have another token, after what comes before all.
func (c *Core) ready(r *run) bool {
	if r.over {
		return false
	}
	if r.Sampling.PromptLogprobs && r.HasEcho {
		r.HasEcho = false
		if len(r.lps) == 0 {
			r.lps = append(r.lps, logprob(c.cfg.Piece, r.Prompt[0], math.NaN(), nil))
		}
		c.echo(r, infer.Event{Kind: infer.EventText, Text: r.Echo, Logprobs: r.lps})
	}
	if r.Max == 0 {
		c.finish(r, infer.FinishLength)
		return false
	}
	return true
}

// limits are the tokens that may be chosen for r at position, and those that may
// not.
func (c *Core) limits(r *run, position int) (allowed []uint32, banned []int32) {
	if position < r.Sampling.MinTokens {
		banned = r.ends
	}
	allowed = c.allow(r)
	if allowed != nil && banned != nil && !leaves(allowed, banned) {
		banned = nil // the grammar allows nothing else: it ends early
	}
	return allowed, banned
}

func (c *Core) accept(r *run, res sampler.Result) {
	r.sampler.Accept(res.Token)
	r.made++
	c.outputs++
	r.seq.Tokens = append(r.seq.Tokens, res.Token)
	c.tell(r, res)
}

// leaves says whether mask has a bit outside of banned.
func leaves(mask []uint32, banned []int32) bool {
	n := 0
	for _, w := range mask {
		for ; w != 0; w &= w - 1 {
			n++
			if n > len(banned) {
				return true
			}
		}
	}
	for _, t := range banned {
		if mask[t/32]&(1<<(t%32)) != 0 {
			n--
		}
	}
	return n > 0
}
