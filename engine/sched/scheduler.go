package sched

import (
	"cmp"
	"slices"
)

// Config bounds a Scheduler.
type Config struct {
	MaxTokens    int // tokens of one step, over all sequences
	MaxSequences int // sequences running at once
	// MaxChunk bounds the prompt tokens that one sequence gets in a step while
	// others run or wait, so that a long prompt does not starve short ones.
	// 0: MaxTokens.
	MaxChunk int
}

// Scheduler turns waiting and running sequences into a plan for each step. There
// are no phases: every running sequence has some pending tokens (one when it
// decodes, many while its prompt is computed) and gets a share of one budget.
//
// A Scheduler belongs to one goroutine.
type Scheduler struct {
	cfg     Config
	pool    *BlockPool
	waiting []*Sequence
	running []*Sequence
	arrived uint64
	served  map[string]int64 // tokens given to a tenant while others wait
	plan    []Slot
	stats   Stats
}

// Slot is the share of one sequence in a step: its next Len pending tokens, and
// behind them the first Draft of its guesses.
type Slot struct {
	Seq   *Sequence
	Len   int
	Draft int
}

// Stats are counters since the start.
type Stats struct {
	Preemptions   uint64
	PrefixQueries uint64 // prompt tokens looked up
	PrefixHits    uint64 // prompt tokens found
}

// New makes a scheduler over pool.
func New(cfg Config, pool *BlockPool) *Scheduler {
	if cfg.MaxChunk <= 0 || cfg.MaxChunk > cfg.MaxTokens {
		cfg.MaxChunk = cfg.MaxTokens
	}
	return &Scheduler{cfg: cfg, pool: pool, served: map[string]int64{}}
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats { return s.stats }

// Waiting and Running are the current queue lengths.
func (s *Scheduler) Waiting() int { return len(s.waiting) }
func (s *Scheduler) Running() int { return len(s.running) }

// List is the running sequences, valid until the next call of any method.
func (s *Scheduler) List() []*Sequence { return s.running }

// BlocksFor is the number of blocks that tokens need.
func (s *Scheduler) BlocksFor(tokens int) int {
	return (tokens + s.pool.blockSize - 1) / s.pool.blockSize
}

// Add queues a sequence. It must be able to fit the pool alone.
func (s *Scheduler) Add(q *Sequence) {
	s.arrived++
	q.arrival = s.arrived
	q.state = stateWaiting
	s.waiting = append(s.waiting, q)
}

// Finish removes a sequence in any state and frees what it holds.
func (s *Scheduler) Finish(q *Sequence) {
	switch q.state {
	case stateWaiting:
		s.waiting = remove(s.waiting, q)
	case stateRunning:
		s.running = remove(s.running, q)
	case stateFinished:
		return
	}
	s.pool.Release(q.Blocks)
	q.Blocks = q.Blocks[:0]
	q.state = stateFinished
}

// Preempt takes a running sequence's blocks away; it will be computed again.
func (s *Scheduler) Preempt(q *Sequence) {
	if q.state != stateRunning {
		return
	}
	s.stats.Preemptions++
	q.Preempted++
	s.running = remove(s.running, q)
	s.pool.Release(q.Blocks)
	q.Blocks = q.Blocks[:0]
	q.hashes = q.hashes[:0]
	q.Draft = q.Draft[:0]
	q.NumComputed = 0
	q.state = stateWaiting
	s.waiting = append(s.waiting, q)
}

// Plan chooses the next step. The slots are in a fixed order (priority, then
// arrival) and valid until the next call. An empty plan means nothing can run.
func (s *Scheduler) Plan() []Slot {
	s.plan = s.plan[:0]
	budget := s.cfg.MaxTokens
	slices.SortStableFunc(s.running, byRank)
	preempted := false
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		n := s.share(q, budget)
		for n > 0 && !s.grow(q, q.NumComputed+n) {
			victim := s.running[len(s.running)-1]
			s.Preempt(victim)
			preempted = true
			if victim == q {
				n = 0
			}
		}
		if n > 0 {
			s.take(q, n)
			budget -= n
		}
	}
	if !preempted {
		budget = s.admit(budget)
		s.speculate(budget)
	}
	return s.plan
}

// speculate lets sequences that have one pending token compute their guesses
// along, in what is left of the budget and of the free blocks.
func (s *Scheduler) speculate(budget int) {
	for i := range s.plan {
		sl := &s.plan[i]
		n := min(len(sl.Seq.Draft), budget)
		if n == 0 || sl.Seq.Pending() != 1 || !s.grow(sl.Seq, sl.Seq.NumComputed+1+n) {
			continue
		}
		sl.Draft = n
		budget -= n
	}
}

// Accept tells that n guesses of q that the last plan computed have become its
// tokens: their keys and values are in the cache already.
func (s *Scheduler) Accept(q *Sequence, n int) {
	if q.state != stateRunning {
		return
	}
	q.NumComputed += n
	s.register(q)
}

// Done tells the scheduler that the slots of the last plan were computed:
// their full blocks become findable.
func (s *Scheduler) Done() {
	for _, sl := range s.plan {
		q := sl.Seq
		if q.state != stateRunning {
			continue
		}
		q.NumComputed += sl.Len
		s.register(q)
	}
}

// admit lets waiting sequences in while budget, slots and blocks last, and
// returns what is left of the budget.
func (s *Scheduler) admit(budget int) int {
	for budget > 0 && len(s.running) < s.cfg.MaxSequences {
		q := s.next()
		if q == nil {
			return budget
		}
		s.reuse(q)
		n := s.share(q, budget)
		if n <= 0 || !s.grow(q, q.NumComputed+n) {
			s.pool.Release(q.Blocks)
			q.Blocks = q.Blocks[:0]
			q.hashes = q.hashes[:0]
			q.NumComputed = 0
			return 0 // what waits comes before guesses
		}
		if !q.Started {
			q.Started = true
			q.CachedLen = q.NumComputed
			if !q.NoReuse {
				s.stats.PrefixQueries += uint64(q.PromptLen)
				s.stats.PrefixHits += uint64(q.NumComputed)
			}
		}
		s.waiting = remove(s.waiting, q)
		q.state = stateRunning
		s.running = append(s.running, q)
		s.take(q, n)
		budget -= n
	}
	return budget
}

// next picks the waiting sequence that is due: by priority, then the tenant
// that got least, then arrival.
func (s *Scheduler) next() *Sequence {
	var best *Sequence
	for _, q := range s.waiting {
		if a := q.After; a != nil && a.state != stateFinished && a.NumComputed < a.PromptLen {
			continue
		}
		if best == nil || s.before(q, best) {
			best = q
		}
	}
	return best
}

func (s *Scheduler) before(a, b *Sequence) bool {
	// A preempted sequence goes first: it has waited already.
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(min(b.Preempted, 1), min(a.Preempted, 1)),
		cmp.Compare(s.served[a.Tenant], s.served[b.Tenant]),
		cmp.Compare(a.arrival, b.arrival),
	) < 0
}

func byRank(a, b *Sequence) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.arrival, b.arrival))
}

// share is how many tokens q gets. A chunk that does not reach the end of the
// pending tokens ends on a block border, so that a cache hit and a miss cut the
// prompt alike.
func (s *Scheduler) share(q *Sequence, budget int) int {
	pending := q.Pending()
	n := min(pending, budget)
	if pending > 1 && len(s.running)+len(s.waiting) > 1 {
		n = min(n, s.cfg.MaxChunk)
	}
	if q.ChunkCap > 0 {
		n = min(n, q.ChunkCap)
	}
	if n < pending {
		if end := (q.NumComputed + n) / s.pool.blockSize * s.pool.blockSize; end > q.NumComputed {
			n = end - q.NumComputed
		}
	}
	return n
}

func (s *Scheduler) take(q *Sequence, n int) {
	s.plan = append(s.plan, Slot{Seq: q, Len: n})
	if len(s.waiting) == 0 {
		clear(s.served)
		return
	}
	s.served[q.Tenant] += int64(n)
}

// grow makes q's block table cover tokens; false leaves it as it was.
func (s *Scheduler) grow(q *Sequence, tokens int) bool {
	need := s.BlocksFor(tokens) - len(q.Blocks)
	if need > s.pool.Free() {
		return false
	}
	for range need {
		id, _ := s.pool.Alloc()
		q.Blocks = append(q.Blocks, id)
	}
	return true
}

// reuse takes the longest cached prefix of q. At least one token is left to
// compute, since its logits are needed.
func (s *Scheduler) reuse(q *Sequence) {
	if q.NoReuse {
		return
	}
	size := s.pool.blockSize
	parent := q.Root
	for n := size; n < len(q.Tokens); n += size {
		toks := q.Tokens[n-size : n]
		h := s.pool.Chain(parent, toks)
		id, ok := s.pool.Lookup(h, toks)
		if !ok {
			return
		}
		q.Blocks = append(q.Blocks, id)
		q.hashes = append(q.hashes, h)
		q.NumComputed = n
		parent = h
	}
}

// register makes the newly full blocks of q findable.
func (s *Scheduler) register(q *Sequence) {
	size := s.pool.blockSize
	for n := len(q.hashes); (n+1)*size <= q.NumComputed; n++ {
		parent := q.Root
		if n > 0 {
			parent = q.hashes[n-1]
		}
		toks := q.Tokens[n*size : (n+1)*size]
		h := s.pool.Chain(parent, toks)
		q.hashes = append(q.hashes, h)
		s.pool.Register(q.Blocks[n], h, toks)
	}
}

func remove(list []*Sequence, q *Sequence) []*Sequence {
	if i := slices.Index(list, q); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
