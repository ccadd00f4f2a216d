package core

import (
	"slices"
	"time"

	"hearth/engine/infer"
	"hearth/engine/sampler"
	"hearth/engine/sched"
)

// Text turns the tokens of one choice into events: detokenizing, stop strings,
// reasoning, tool calls.
type Text interface {
	// Push takes a generated token; end says that it is an end token and no
	// text. stopped says that the answer has ended by itself (a stop string).
	Push(token int32, end bool, lp *infer.TokenLogprob) (events []infer.Event, stopped bool)
	// Finish releases what was held back. The last event is the EventFinish.
	Finish(reason infer.FinishReason) []infer.Event
	// ReasoningTokens is how many of the tokens were reasoning.
	ReasoningTokens() int
}

// Matcher constrains the tokens of one choice.
type Matcher interface {
	// Mask sets the bits of the tokens that may follow and clears the others.
	Mask(bits []uint32)
	// Accept takes the chosen token.
	Accept(token int32) error
}

// Choice is one sequence to generate.
type Choice struct {
	Index    int // of the answer
	Prompt   []int32
	Sampling infer.Sampling
	Seed     uint64
	Draw     int // which draw of the seed: the number of the choice within its prompt
	Max      int // most tokens to generate; 0 computes the prompt only
	Text     Text
	Matcher  Matcher // nil: unconstrained
	Echo     string  // text put in front of the answer
	HasEcho  bool
	// Embed, if set, receives the final state of prompt rows, first row at
	// position pos; nothing is generated.
	Embed func(pos int, rows []float32)
	// LastOnly limits Embed to the last prompt position.
	LastOnly bool
}

// Job is one request in the loop.
type Job struct {
	Tenant   string
	Salt     string
	Priority int
	Choices  []Choice
	Served   infer.Served

	stream *Stream
	runs   []*run
	open   int // choices in the loop
	usage  infer.Usage
	came   time.Time // into the loop
	begun  bool
	ended  bool

	// Below: owned by the texts once a token of the job was handed over.
	unsaid  int  // choices whose text is not finished
	touched bool // events were pushed and not signalled
}

// run is a choice in the loop.
type run struct {
	Choice
	job     *Job
	seq     *sched.Sequence
	sampler *sampler.Sampler
	drafter *drafter // or nil
	made    int
	ends    []int32 // tokens that end it
	lps     []infer.TokenLogprob
	over    bool // it is not in the loop any more

	// Below: owned by the texts between hand and settle.
	taken  int  // tokens that became text
	closed bool // its text is finished
	fault  error
	mask   []uint32 // with a Matcher: what may follow
	masked bool     // mask is that of the next token
}

func (c *Core) start(j *Job) {
	root := sched.RootHash(sched.Salt{Tag: "tenant", Value: j.Tenant}, sched.Salt{Tag: "salt", Value: j.Salt})
	var leader *sched.Sequence
	for i := range j.Choices {
		ch := &j.Choices[i]
		c.nextID++
		r := &run{Choice: *ch, job: j}
		r.seq = &sched.Sequence{
			ID: c.nextID, Tenant: j.Tenant, Priority: j.Priority, Root: root,
			Tokens:    append(make([]int32, 0, len(ch.Prompt)+min(ch.Max, 64)), ch.Prompt...),
			PromptLen: len(ch.Prompt),
			NoReuse:   ch.Sampling.PromptLogprobs || (ch.Embed != nil && !ch.LastOnly),
			Data:      r,
		}
		if ch.Sampling.PromptLogprobs {
			r.seq.ChunkCap = promptLogprobRows
		}
		if ch.Draw == 0 {
			leader = r.seq
		} else if leader != nil && c.cfg.PrefixCache && !r.seq.NoReuse {
			r.seq.After = leader
		}
		if ch.Embed == nil {
			r.sampler = sampler.New(ch.Sampling, ch.Seed, ch.Draw, ch.Prompt)
			r.ends = c.endIDs(ch)
			if c.speculates(ch) {
				r.drafter = newDrafter(c.cfg.Draft)
			}
		}
		j.runs = append(j.runs, r)
		if ch.Draw == 0 {
			j.usage.PromptTokens += len(ch.Prompt)
		}
		c.sched.Add(r.seq)
	}
	j.open, j.unsaid, j.came = len(j.runs), len(j.runs), time.Now()
	c.jobs[j] = struct{}{}
}

// endIDs are the tokens that end a choice. A constrained text always ends at an
// end token: after it the grammar allows nothing.
func (c *Core) endIDs(ch *Choice) []int32 {
	ids := slices.Clone(ch.Sampling.StopTokenIDs)
	if !ch.Sampling.IgnoreEOS || ch.Matcher != nil {
		ids = append(ids, c.cfg.EndIDs...)
	}
	return ids
}

// begin sends the start event, once, when the first choice is scheduled.
func (c *Core) begin(j *Job) {
	if j.begun {
		return
	}
	j.begun = true
	u := j.usage
	if d := c.stepped.Sub(j.came); d > 0 {
		j.Served.Queued = d
	}
	j.stream.push(infer.Event{Kind: infer.EventStart, Usage: &u, Model: &j.Served})
	j.stream.signal()
}

// finish ends one choice; its text is finished behind the tokens before.
func (c *Core) finish(r *run, reason infer.FinishReason) {
	if r.over {
		return
	}
	c.chosen = append(c.chosen, chosen{run: r, finish: reason})
	c.retire(r)
}

// retire takes a choice out of the loop. The stream ends where its texts do.
func (c *Core) retire(r *run) {
	if r.over {
		return
	}
	r.over = true
	c.sched.Finish(r.seq)
	j := r.job
	if j.open--; j.open == 0 {
		j.ended = true
		delete(c.jobs, j)
	}
}

// end removes a job, whatever state its choices are in.
func (c *Core) end(j *Job, err error) {
	if j.ended {
		return
	}
	j.ended = true
	for _, r := range j.runs {
		r.over = true
		c.sched.Finish(r.seq)
	}
	delete(c.jobs, j)
	j.stream.end(err)
}
