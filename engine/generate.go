package engine

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"

	"hearth/engine/core"
	"hearth/engine/grammar"
	"hearth/engine/infer"
	"hearth/engine/model"
	"hearth/engine/output"
)

// Count validates r and gives its sizes; the work is kept for Generate.
func (e *Engine) Count(ctx context.Context, r *infer.Request) (infer.Count, error) {
	p, err := e.prepare(ctx, r)
	if err != nil {
		return infer.Count{}, err
	}
	e.prepared.put(r.ID, p)
	var n infer.Count
	for i := range p.prompts {
		n.PromptTokens += len(p.prompts[i].ids)
		n.MaxOutputTokens += p.prompts[i].max * r.Sampling.N
	}
	return n, nil
}

// Generate runs r in the step loop.
func (e *Engine) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		p, err := e.prepare(ctx, r)
		if err != nil {
			yield(infer.Event{}, err)
			return
		}
		job := e.job(r, p)
		st, err := e.core.Submit(job)
		if err != nil {
			yield(infer.Event{}, err)
			return
		}
		defer e.core.Release(job)
		check := newFormatCheck(r)
		for {
			select {
			case <-st.Ready():
			case <-ctx.Done():
				yield(infer.Event{}, context.Cause(ctx))
				return
			}
			events, done, err := st.Take()
			for _, ev := range events {
				if fault := check.event(&ev); fault != nil {
					yield(infer.Event{}, fault)
					return
				}
				if !yield(ev, nil) {
					return
				}
			}
			if done {
				if err != nil {
					yield(infer.Event{}, err)
				}
				return
			}
		}
	}
}

// job makes the loop's form of a request: a choice for each prompt and draw.
func (e *Engine) job(r *infer.Request, p *prepared) *core.Job {
	seed := e.random64()
	if r.Sampling.Seed != nil {
		seed = uint64(*r.Sampling.Seed)
	}
	j := &core.Job{
		Tenant: r.Tenant, Salt: r.CacheSalt, Priority: r.Priority,
		Served: infer.Served{Name: e.info.Name, Fingerprint: e.info.Fingerprint},
	}
	newID := output.CallIDs(e.random64)
	for i := range p.prompts {
		pr := &p.prompts[i]
		for n := range r.Sampling.N {
			ch := core.Choice{
				Index: i*r.Sampling.N + n, Draw: n, Seed: seed,
				Prompt: pr.ids, Max: pr.max, Sampling: r.Sampling,
				Echo: pr.echo, HasEcho: r.Echo,
			}
			ch.Text = e.text(r, p, ch.Index, newID)
			if p.grammar != nil {
				ch.Matcher = p.grammar.NewMatcher()
			}
			j.Choices = append(j.Choices, ch)
		}
	}
	return j
}

// text adapts the output pipeline to the loop: it decides which tokens have
// text. Control tokens have none, but for the markers of the syntax in use.
type text struct {
	*output.Pipeline
	e *Engine
}

func (t text) Push(token int32, end bool, lp *infer.TokenLogprob) ([]infer.Event, bool) {
	return t.Pipeline.Push(token, t.e.piece(token, end), lp)
}

func (e *Engine) piece(token int32, end bool) []byte {
	if end {
		return nil
	}
	if e.tok.IsControl(token) {
		for _, m := range e.markers {
			if m.id == token {
				return e.tok.Piece(token)
			}
		}
		return nil
	}
	return e.tok.Piece(token)
}

func (e *Engine) text(r *infer.Request, p *prepared, index int, newID func() string) text {
	o := output.Options{
		Choice: index, Stops: p.stops, IncludeStop: r.Sampling.IncludeStop,
		Format: p.tools, Tools: r.Tools, NewID: newID,
		SingleCall: p.tools != nil && !r.ParallelToolCalls,
		Forced:     p.forced,
		Logprobs:   r.Sampling.Logprobs, TokenIDs: r.Sampling.ReturnTokenIDs,
	}
	if e.reasons && r.Kind == infer.Chat {
		o.Reasoning = e.reasoning
		o.InReasoning = p.openThink
		o.KeepReasoning = !r.SplitReasoning
	}
	return text{output.New(o), e}
}

// formatCheck validates finished answers against their schema once more: what
// claims to be complete is, or the stream fails.
type formatCheck struct {
	schema []byte
	texts  map[int]*strings.Builder
}

func newFormatCheck(r *infer.Request) *formatCheck {
	f := &formatCheck{}
	if r.Format.Kind == infer.FormatJSONSchema && len(r.Sampling.Stop) == 0 {
		f.schema, f.texts = r.Format.Schema, map[int]*strings.Builder{}
	}
	return f
}

func (f *formatCheck) event(ev *infer.Event) error {
	if f.schema == nil {
		return nil
	}
	switch ev.Kind {
	case infer.EventText:
		b := f.texts[ev.Choice]
		if b == nil {
			b = &strings.Builder{}
			f.texts[ev.Choice] = b
		}
		b.WriteString(ev.Text)
	case infer.EventFinish:
		if ev.Finish != infer.FinishStop || f.texts[ev.Choice] == nil {
			return nil
		}
		if err := grammar.Validate(f.schema, f.texts[ev.Choice].String()); err != nil {
			return &infer.Error{Code: infer.CodeInternal, NoRetry: true, Cause: err,
				Message: "the answer does not satisfy its schema"}
		}
	}
	return nil
}

// Embed computes one unit-length vector per input.
func (e *Engine) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	job, err := e.embedJob(r)
	if err != nil {
		return nil, err
	}
	st, err := e.core.Submit(job.Job)
	if err != nil {
		return nil, err
	}
	defer e.core.Release(job.Job)
	for {
		select {
		case <-st.Ready():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		events, done, err := st.Take()
		for _, ev := range events {
			if ev.Kind == infer.EventUsage {
				job.result.Usage = *ev.Usage
			}
		}
		if done {
			if err != nil {
				return nil, err
			}
			return job.finish(), nil
		}
	}
}

// embedJob is a job that collects final states instead of tokens.
type embedJob struct {
	*core.Job
	result *infer.EmbedResult
	width  int // of the vectors that are wanted
}

func (e *Engine) embedJob(r *infer.EmbedRequest) (*embedJob, error) {
	if len(r.Inputs) == 0 {
		return nil, infer.Invalid("input", "there is no input")
	}
	if r.Dimensions < 0 || r.Dimensions > e.cfg.Hidden {
		return nil, infer.Invalid("dimensions", "must be from 1 to %d for this model, got %d", e.cfg.Hidden, r.Dimensions)
	}
	j := &embedJob{
		Job:    &core.Job{Tenant: r.Tenant, Served: infer.Served{Name: e.info.Name, Fingerprint: e.info.Fingerprint}},
		result: &infer.EmbedResult{Model: e.info.Name, Vectors: make([][]float32, len(r.Inputs))},
		width:  e.cfg.Hidden,
	}
	if r.Dimensions > 0 {
		j.width = r.Dimensions
	}
	for i := range r.Inputs {
		ids, err := e.embedIDs(&r.Inputs[i])
		if err != nil {
			return nil, err
		}
		j.Choices = append(j.Choices, e.embedChoice(i, ids, j.result.Vectors))
	}
	return j, nil
}

func (e *Engine) embedIDs(in *infer.Prompt) ([]int32, error) {
	if in.Tokens == nil && in.Text == "" || in.Tokens != nil && len(in.Tokens) == 0 {
		return nil, infer.Invalid("input", "an input is empty")
	}
	ids, err := e.promptIDs("input", in)
	if err != nil {
		return nil, err
	}
	if in.Tokens == nil {
		ids = append(ids, e.tok.Suffix()...)
	}
	limit := e.cfg.ContextLength
	if capacity, ok := e.core.Fits(len(ids)); !ok {
		limit = capacity
	}
	if len(ids) > limit {
		return nil, &infer.Error{Code: infer.CodeContextLength, Param: "input", Message: fmt.Sprintf(
			"this model's maximum input is %d tokens, but one has %d tokens: shorten it", limit, len(ids))}
	}
	return ids, nil
}

func (e *Engine) embedChoice(i int, ids []int32, vectors [][]float32) core.Choice {
	sum := make([]float32, e.cfg.Hidden)
	vectors[i] = sum
	mean := e.cfg.Pooling == model.PoolMean
	seen := 0
	ch := core.Choice{Index: i, Prompt: ids, LastOnly: !mean}
	ch.Embed = func(pos int, row []float32) {
		if pos < seen { // computed again after a preemption
			return
		}
		seen = pos + 1
		for k, v := range row {
			sum[k] += v
		}
	}
	return ch
}

// finish cuts the vectors to the wanted width and makes them unit length.
func (j *embedJob) finish() *infer.EmbedResult {
	for i, v := range j.result.Vectors {
		v = v[:j.width]
		var n float64
		for _, x := range v {
			n += float64(x) * float64(x)
		}
		if n > 0 {
			scale := float32(1 / math.Sqrt(n))
			for k := range v {
				v[k] *= scale
			}
		}
		j.result.Vectors[i] = v
	}
	return j.result
}

// Tokenize gives the ids of a text or of a rendered conversation.
func (e *Engine) Tokenize(ctx context.Context, r *infer.TokenizeRequest) ([]int32, error) {
	if r.Chat != nil {
		if err := e.validate(r.Chat); err != nil {
			return nil, err
		}
		p := &prepared{}
		if err := e.prepareChat(r.Chat, p); err != nil {
			return nil, err
		}
		return p.prompts[0].ids, nil
	}
	ids := e.tok.Encode(nil, r.Text, true)
	if r.AddSpecial {
		ids = e.withPrefix(ids)
	}
	return ids, nil
}

// Detokenize joins the exact bytes of ids.
func (e *Engine) Detokenize(_ context.Context, _ string, ids []int32) ([]byte, error) {
	for _, id := range ids {
		if id < 0 || int(id) >= e.tok.Size() {
			return nil, infer.Invalid("tokens", "token %d is not in the vocabulary of %d tokens", id, e.tok.Size())
		}
	}
	return e.tok.Decode(ids), nil
}
