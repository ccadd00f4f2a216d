package sched

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the simulation, 0 for the fixed set")

// The simulation runs random arrivals, cancellations, forced preemptions and
// finishes against a naive model of what each block must contain, and checks
// after every step: references add up, no block is both free and held, a block
// is only shared where the tokens before it are the same, the budget is kept,
// and every sequence finishes.
func TestSimulation(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	for _, seed := range seeds {
		simulate(t, seed)
	}
}

type sim struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	pool    *BlockPool
	s       *Scheduler
	live    []*Sequence
	target  map[*Sequence]int // length at which it finishes
	content map[int32][]int32 // block → tokens that were computed into it
}

func simulate(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 77))
	size := []int{4, 16}[r.IntN(2)]
	blocks := 8 + r.IntN(40)
	m := &sim{
		t: t, seed: seed, r: r,
		pool:    NewBlockPool(blocks, size, seed%4 != 0),
		target:  map[*Sequence]int{},
		content: map[int32][]int32{},
	}
	m.s = New(Config{MaxTokens: 1 + r.IntN(64), MaxSequences: 1 + r.IntN(8), MaxChunk: r.IntN(32)}, m.pool)
	arrivals := 60
	for step := 0; arrivals > 0 || len(m.live) > 0; step++ {
		if step > 20000 {
			t.Fatalf("seed %d: no end after %d steps, %d live", seed, step, len(m.live))
		}
		if arrivals > 0 && r.IntN(3) == 0 {
			m.arrive(blocks * size)
			arrivals--
		}
		if len(m.live) > 0 && r.IntN(40) == 0 {
			m.end(m.live[r.IntN(len(m.live))])
		}
		if len(m.live) > 0 && r.IntN(15) == 0 {
			m.s.Preempt(m.live[r.IntN(len(m.live))])
		}
		m.step()
		m.check()
	}
	if m.pool.Free() != m.pool.Total() {
		t.Fatalf("seed %d: %d of %d blocks free at the end", seed, m.pool.Free(), m.pool.Total())
	}
}

func (m *sim) arrive(capacity int) {
	n := 1 + m.r.IntN(capacity/2)
	q := &Sequence{
		Tenant:   []string{"a", "b"}[m.r.IntN(2)],
		Priority: m.r.IntN(2),
		NoReuse:  m.r.IntN(8) == 0,
	}
	q.Root = RootHash(Salt{"tenant", q.Tenant})
	base := int32(m.r.IntN(2)) // few distinct prefixes, so that they are shared
	for i := range n {
		tok := base
		if i > n/2 {
			tok = int32(m.r.IntN(3))
		}
		q.Tokens = append(q.Tokens, tok)
	}
	q.PromptLen = n
	if len(m.live) > 0 && m.r.IntN(4) == 0 {
		if l := m.live[len(m.live)-1]; slices.Equal(l.Tokens[:l.PromptLen], q.Tokens) {
			q.After = l
		}
	}
	m.target[q] = min(capacity, n+1+m.r.IntN(20))
	m.live = append(m.live, q)
	m.s.Add(q)
}

func (m *sim) end(q *Sequence) {
	m.s.Finish(q)
	m.live = slices.DeleteFunc(m.live, func(x *Sequence) bool { return x == q })
}

func (m *sim) step() {
	plan := m.s.Plan()
	total := 0
	for _, sl := range plan {
		total += sl.Len
		q := sl.Seq
		if sl.Len <= 0 || sl.Len > q.Pending() || len(q.Blocks)*m.pool.blockSize < q.NumComputed+sl.Len {
			m.t.Fatalf("seed %d: bad slot: %d of %d pending, %d blocks", m.seed, sl.Len, q.Pending(), len(q.Blocks))
		}
		for i := q.NumComputed; i < q.NumComputed+sl.Len; i++ {
			b, off := q.Blocks[i/m.pool.blockSize], i%m.pool.blockSize
			if m.pool.blocks[b].refs != 1 {
				m.t.Fatalf("seed %d: writes into block %d shared by %d", m.seed, b, m.pool.blocks[b].refs)
			}
			m.content[b] = append(m.content[b][:off:off], q.Tokens[i])
		}
	}
	if total > m.s.cfg.MaxTokens || len(plan) > m.s.cfg.MaxSequences {
		m.t.Fatalf("seed %d: plan of %d tokens in %d slots", m.seed, total, len(plan))
	}
	if len(plan) == 0 && len(m.live) > 0 {
		m.t.Fatalf("seed %d: nothing runs while %d wait", m.seed, len(m.live))
	}
	m.s.Done()
	for _, sl := range slices.Clone(plan) {
		q := sl.Seq
		if q.Pending() > 0 {
			continue
		}
		if len(q.Tokens) >= m.target[q] {
			m.end(q)
			continue
		}
		q.Tokens = append(q.Tokens, int32(m.r.IntN(3)))
	}
}

func (m *sim) check() {
	refs := map[int32]int32{}
	for _, q := range m.live {
		for i, b := range q.Blocks {
			refs[b]++
			for j := range m.pool.blockSize {
				pos := i*m.pool.blockSize + j
				if pos < q.NumComputed && m.content[b][j] != q.Tokens[pos] {
					m.t.Fatalf("seed %d: block %d holds another token at position %d", m.seed, b, pos)
				}
			}
		}
	}
	free, cached := 0, 0
	for id := m.pool.head; id >= 0; id = m.pool.blocks[id].next {
		free++
		if m.pool.blocks[id].registered {
			cached++
		}
		if m.pool.blocks[id].refs != 0 {
			m.t.Fatalf("seed %d: block %d is free and held", m.seed, id)
		}
	}
	if free != m.pool.free || cached != m.pool.cached {
		m.t.Fatalf("seed %d: counts %d/%d, list %d/%d", m.seed, m.pool.free, m.pool.cached, free, cached)
	}
	held := 0
	for id := range m.pool.blocks {
		if m.pool.blocks[id].refs != refs[int32(id)] {
			m.t.Fatalf("seed %d: block %d has %d references, %d holders", m.seed, id, m.pool.blocks[id].refs, refs[int32(id)])
		}
		if refs[int32(id)] > 0 {
			held++
		}
	}
	if held+free != len(m.pool.blocks) {
		m.t.Fatalf("seed %d: %d held + %d free of %d blocks", m.seed, held, free, len(m.pool.blocks))
	}
}

func newSequence(tenant string, tokens ...int32) *Sequence {
	return &Sequence{Tenant: tenant, Root: RootHash(Salt{"tenant", tenant}), Tokens: tokens, PromptLen: len(tokens)}
}

func TestPrefixIsSharedWithinATenantOnly(t *testing.T) {
	pool := NewBlockPool(16, 4, true)
	s := New(Config{MaxTokens: 64, MaxSequences: 4}, pool)
	prompt := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	run := func(tenant string) int {
		q := newSequence(tenant, slices.Clone(prompt)...)
		s.Add(q)
		s.Plan()
		s.Done()
		s.Finish(q)
		return q.CachedLen
	}
	for _, c := range []struct {
		tenant string
		want   int
	}{{"a", 0}, {"a", 4}, {"b", 0}, {"b", 4}} {
		// The last block is never taken whole: one token must be computed.
		if got := run(c.tenant); got != c.want {
			t.Errorf("tenant %s: %d cached tokens, want %d", c.tenant, got, c.want)
		}
	}
	pool.DropCache()
	if got := run("a"); got != 0 || pool.Free() != 16 {
		t.Errorf("after DropCache: %d cached tokens, %d free", got, pool.Free())
	}
}

func TestSaltsAreTagged(t *testing.T) {
	a := RootHash(Salt{"tenant", "x"}, Salt{"adapter", "y"})
	for _, b := range []Hash{
		RootHash(Salt{"tenant", "xadaptery"}),
		RootHash(Salt{"adapter", "x"}, Salt{"tenant", "y"}),
		RootHash(Salt{"tenant", "x"}, Salt{"salt", "y"}),
	} {
		if a == b {
			t.Error("two different salts give one root")
		}
	}
}

func TestFairnessBetweenTenants(t *testing.T) {
	s := New(Config{MaxTokens: 8, MaxSequences: 1}, NewBlockPool(64, 4, false))
	for range 6 {
		s.Add(newSequence("loud", 1, 2, 3, 4, 5, 6, 7))
	}
	quiet := newSequence("quiet", 1, 2, 3)
	s.Add(quiet)
	for step := range 3 {
		plan := s.Plan()
		q := plan[0].Seq
		s.Done()
		s.Finish(q)
		if q == quiet {
			if step > 1 {
				t.Errorf("quiet tenant ran in step %d", step)
			}
			return
		}
	}
	t.Error("the quiet tenant waits behind all of the loud one's")
}

func TestLongPromptLeavesRoom(t *testing.T) {
	s := New(Config{MaxTokens: 32, MaxSequences: 8, MaxChunk: 16}, NewBlockPool(64, 4, false))
	long := newSequence("a", make([]int32, 100)...)
	s.Add(long)
	short := newSequence("a", 1, 2, 3)
	s.Add(short)
	plan := s.Plan()
	if len(plan) != 2 || plan[0].Len != 16 || plan[1].Len != 3 {
		t.Errorf("plan %+v", plan)
	}
}
