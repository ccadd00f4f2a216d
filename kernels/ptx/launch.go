package ptx

import (
	"fmt"
	"math/bits"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// Limits of a launch (CUDA C++ Programming Guide, compute capability 8.0 to 9.0).
const (
	maxBlockThreads = 1024
	maxShared       = 227 << 10 // bytes of a block on sm_90
)

// launch is one run of a kernel.
type launch struct {
	m           *Machine
	p           *program
	l           *Loaded
	grid, block Dim
	blocks      uint64 // to run, from next on
	threads     int
	warps       int
	dynamic     int // bytes of dynamic shared memory
	params      []byte
	checks      bool
	count       bool

	next atomic.Uint64 // block to run
	stop atomic.Bool

	mu       sync.Mutex
	err      error
	seen     map[seenKey]bool
	findings []Finding
	dropped  int
	sync     *syncTable
}

type seenKey struct {
	kind Kind
	line int32
}

// Launch runs a kernel to its end. params is one block laid out by
// Kernel.Params' offsets. Faults are in the report; the error says what kept
// the launch from being run to its end.
func (m *Machine) Launch(l *Loaded, name string, grid, block Dim, shared uint32, params []byte) (*Report, error) {
	return m.LaunchPart(l, name, grid, block, shared, params, 0, grid.norm().count())
}

// LaunchPart runs blocks first to end-1 of a grid alone, numbered with x running
// fastest. What blocks do together, such as the last to arrive finishing for all,
// does not happen unless the others run too, in a launch of their own.
func (m *Machine) LaunchPart(l *Loaded, name string, grid, block Dim, shared uint32, params []byte, first, end uint64) (*Report, error) {
	k, ok := l.m.Kernel(name)
	if !ok {
		return nil, fmt.Errorf("ptx: no kernel %q", name)
	}
	r := &launch{m: m, p: k.code.prog, l: l, grid: grid.norm(), block: block.norm(), params: params, checks: m.opt.Checks, count: m.opt.Count,
		seen: map[seenKey]bool{}, dynamic: int(shared), sync: &syncTable{}}
	if err := r.validate(k, shared); err != nil {
		return nil, fmt.Errorf("ptx: cannot launch %s: %w", name, err)
	}
	if first >= end || end > r.blocks {
		return nil, fmt.Errorf("ptx: cannot launch %s: got blocks %d to %d, wanted some of %d", name, first, end, r.blocks)
	}
	r.blocks = end
	r.next.Store(first)
	m.launch++
	if m.race != nil {
		m.race.begin()
	}
	for _, u := range m.unique {
		clear(u[:min((m.high()+1023)/1024, len(u))])
	}
	return r.run()
}

func (r *launch) validate(k *Kernel, shared uint32) error {
	g, b := r.grid, r.block
	switch {
	case r.l.owner != r.m:
		return fmt.Errorf("the module is loaded into another machine")
	case uint64(b.X)*uint64(b.Y) > maxBlockThreads || b.count() > uint64(k.MaxThreads) || b.Z > 64:
		return fmt.Errorf("got a block of %v, wanted at most %d threads", b, k.MaxThreads)
	case g.X > 1<<31-1 || g.Y > 65535 || g.Z > 65535:
		return fmt.Errorf("got a grid of %v, wanted at most (2147483647,65535,65535)", g)
	case len(r.params) != k.ParamBytes:
		return fmt.Errorf("got %d bytes of parameters, wanted %d", len(r.params), k.ParamBytes)
	case uint64(shared)+uint64(k.StaticShared) > maxShared:
		return fmt.Errorf("got %d bytes of shared memory, wanted at most %d", uint64(shared)+uint64(k.StaticShared), maxShared)
	}
	r.blocks, r.threads = g.count(), int(b.count())
	r.warps = (r.threads + 31) / 32
	return nil
}

func (r *launch) run() (*Report, error) {
	n := int(min(uint64(r.m.opt.Workers), r.blocks-r.next.Load()))
	workers := make([]*worker, n)
	var wg sync.WaitGroup
	for i := range workers {
		workers[i] = r.m.worker(r)
		wg.Go(func() {
			defer func() {
				if e := recover(); e != nil {
					r.fail(fmt.Errorf("BUG: the interpreter failed: %v\n%s", e, debug.Stack()))
				}
			}()
			workers[i].work()
		})
	}
	wg.Wait()
	rep := &Report{Kernel: r.p.name, Findings: r.findings, Dropped: r.dropped}
	if r.count {
		r.collect(rep, workers)
	}
	r.m.keep(workers)
	slices.SortStableFunc(rep.Findings, func(a, b Finding) int { return a.Line - b.Line })
	if r.err != nil {
		return rep, fmt.Errorf("ptx: %s: %w", r.p.name, r.err)
	}
	return rep, nil
}

// collect sums the workers' counters.
func (r *launch) collect(rep *Report, workers []*worker) {
	byLine := map[int32]int{}
	for pc := range r.p.code {
		in := &r.p.code[pc]
		var c Counts
		for _, w := range workers {
			c.add(&w.counts[pc])
			w.counts[pc] = Counts{}
		}
		if c.WarpInstr == 0 {
			continue
		}
		rep.Counts.add(&c)
		i, ok := byLine[in.line]
		if !ok {
			i = len(rep.lines)
			byLine[in.line] = i
			rep.lines = append(rep.lines, LineCounts{Line: int(in.line), Source: r.source(in), Text: in.x.text})
		}
		rep.lines[i].Counts.add(&c)
	}
	slices.SortFunc(rep.lines, func(a, b LineCounts) int { return a.Line - b.Line })
	for i, rd := range r.m.unique[0][:min((r.m.high()+1023)/1024, len(r.m.unique[0]))] {
		wr := r.m.unique[1][i]
		rep.Counts.UniqueRead += uint64(bits.OnesCount32(rd))
		rep.Counts.UniqueWritten += uint64(bits.OnesCount32(wr))
		rep.Counts.UniqueSectors += uint64(bits.OnesCount32(rd | wr))
	}
}

func (r *launch) source(in *inst) string {
	if in.x.src < 0 {
		return ""
	}
	return r.p.sources[in.x.src]
}

// fail ends the launch with the first error.
func (r *launch) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.stop.Store(true)
}

// report keeps the first finding of a kind at a line.
func (r *launch) report(f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := seenKey{f.Kind, int32(f.Line)}
	if r.seen[k] {
		return
	}
	r.seen[k] = true
	if len(r.findings) >= r.m.opt.MaxFindings {
		r.dropped++
		return
	}
	r.findings = append(r.findings, f)
}
