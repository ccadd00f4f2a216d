package main

import "math"

// neighbours is how many blocks are run together to see what they share: more than
// two, since two may have halves of one sector.
const neighbours = 5

// runner runs blocks first to end-1 of a launch, and no others. joined says that
// they counted each other's arrival, for the last of all to do something more.
type runner func(first, end int) (c cost, joined bool, err error)

// few is how many blocks are run whole.
const few = 24

// tolerance is how far the costs of blocks may lie apart that count as alike.
const tolerance = 0.01

// measure finds the cost of a launch of so many blocks. Where they are more than a
// few only some are run: the grid is taken to be stretches of blocks that cost
// alike (a block may have one strip of a weight more than those after it, or a
// weight of another type), and each stretch to cost what its first, its last and
// some between do. Of distinct bytes, what neighbours share is counted once.
// Where that leads nowhere all blocks are run. whole says so.
func measure(blocks int, run runner) (total cost, whole bool, err error) {
	if blocks > few {
		s := sampler{run: run, one: map[int]cost{}}
		found, err := s.split(blocks)
		if err != nil {
			return cost{}, false, err
		}
		if s.joined { // the others arrive as well, and the count is back at zero
			if err := s.rest(blocks); err != nil {
				return cost{}, false, err
			}
		} else if found {
			total, ok, err := s.total()
			if err != nil || ok {
				return total, false, err
			}
		}
	}
	total, _, err = run(0, blocks)
	return total, true, err
}

// sampler finds out what blocks cost.
type sampler struct {
	run    runner
	one    map[int]cost // of a block alone
	joined bool
	parts  []stretch
}

// stretch is a run of blocks that cost alike, and those of them that were run.
type stretch struct {
	first, last int
	ran         []int
}

// alike tells whether block i costs what block as does.
func (s *sampler) alike(i, as int) (bool, error) {
	for _, b := range []int{i, as} {
		if _, ok := s.one[b]; ok {
			continue
		}
		c, joined, err := s.run(b, b+1)
		if err != nil {
			return false, err
		}
		s.one[b] = c
		s.joined = s.joined || joined
	}
	a, b := s.one[as], s.one[i]
	other := b.fields()
	for j, f := range a.fields() {
		if f != &a.Unique && math.Abs(*other[j]-*f) > tolerance**f {
			return false, nil
		}
	}
	return true, nil
}

// split finds the stretches of a grid. It gives up where a third of the blocks
// had to be run, or where they join.
func (s *sampler) split(blocks int) (bool, error) {
	for first := 0; first < blocks; {
		end := blocks // of the stretch: a block that is known not to belong to it
		ran := []int{first}
		for i := 1; i <= 4; i++ {
			at := first + (blocks-1-first)*i/4
			same, err := s.alike(at, first)
			if err != nil {
				return false, err
			}
			if !same {
				end = at
				break
			}
			ran = append(ran, at)
		}
		for last := ran[len(ran)-1]; end < blocks && last+1 < end; {
			mid := (last + end) / 2
			same, err := s.alike(mid, first)
			if err != nil {
				return false, err
			}
			if same {
				last = mid
				ran = append(ran, mid)
			} else {
				end = mid
			}
		}
		if s.joined || 3*len(s.one) > blocks {
			return false, nil
		}
		s.parts = append(s.parts, stretch{first, end - 1, ran})
		first = end
	}
	return true, nil
}

// total adds up stretches. ok is false where they are too short to tell what
// blocks share.
func (s *sampler) total() (sum cost, ok bool, err error) {
	own, shared, longest := make([]float64, len(s.parts)), 0.0, 0
	for i, p := range s.parts {
		n := p.last - p.first + 1
		if n < 2 {
			continue
		}
		few := min(n, neighbours)
		together, _, err := s.run(p.first, p.first+few)
		if err != nil {
			return cost{}, false, err
		}
		own[i] = (together.Unique - s.one[p.first].Unique) / float64(few-1)
		if n > longest {
			longest, shared = n, s.one[p.first].Unique-own[i]
		}
	}
	for i, p := range s.parts {
		n := p.last - p.first + 1
		if n < 2 {
			own[i] = max(0, s.one[p.first].Unique-shared)
		}
		for _, b := range p.ran {
			c := s.one[b]
			c.Unique = own[i]
			sum.add(c, float64(n)/float64(len(p.ran)))
		}
	}
	sum.Unique += shared
	for _, v := range sum.fields() {
		*v = math.Round(*v) // they are counts
	}
	return sum, longest > 0, nil
}

// rest runs the blocks that were not run yet.
func (s *sampler) rest(blocks int) error {
	for first := 0; first < blocks; first++ {
		end := first
		for ; end < blocks; end++ {
			if _, ran := s.one[end]; ran {
				break
			}
		}
		if end > first {
			if _, _, err := s.run(first, end); err != nil {
				return err
			}
			first = end
		}
	}
	return nil
}
