package main

import (
	"errors"
	"fmt"
	"strings"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
)

// counter is a kernel.GPU that counts: what is queued runs at once on the
// interpreter, but a launch only when it is counted for the first time, and then
// perhaps only a sample of its blocks. Its results are of no use.
type counter struct {
	g       gpu
	mach    *ptx.Machine
	modules map[string]*ptx.Loaded
	costs   map[string]counted // by key, of every launch that was ever counted
	target  int                // that the PTX is compiled for
	calls   []call             // of the step that is counted, in order
	seen    func(*kernel.Launch)
	on      bool        // launches are counted
	known   bool        // only those that have a cost already: nothing runs, and there is no memory
	next    kernel.Addr // where the next allocation is then
}

// errNotCounted is of a launch that has no cost yet.
var errNotCounted = errors.New("a launch was not counted")

// newCounter makes a counter with memory for what it runs; with 0 bytes nothing
// may be run, and a launch without a cost is an error.
func newCounter(g gpu, memory int64, costs map[string]counted) *counter {
	c := &counter{g: g, costs: costs, target: target(g), modules: map[string]*ptx.Loaded{}, known: memory == 0, next: 1 << 40}
	if !c.known {
		c.mach = ptx.NewMachine(ptx.Options{Count: true, Workers: 2, Memory: int(memory), MaxSteps: 1 << 40})
	}
	return c
}

// target is the virtual architecture whose PTX a GPU takes.
func target(g gpu) int {
	if g.compute >= 90 {
		return 90
	}
	return 80
}

func (c *counter) Name() string { return "counter" }
func (c *counter) Target() kernel.Target {
	return kernel.Target{Compute: c.g.compute, SMs: c.g.sms, Shared: c.g.shared}
}
func (c *counter) Do(f func() error) error              { return f() }
func (c *counter) Memory() (free, total int64, _ error) { return 1 << 40, 1 << 40, nil }
func (c *counter) Alloc(n int64) (kernel.Addr, error) {
	if c.known {
		a := c.next
		c.next += kernel.Addr(n+255) &^ 255
		return a, nil
	}
	a, err := c.mach.Alloc(int(n))
	return kernel.Addr(a), err
}

func (c *counter) Free(a kernel.Addr) error {
	if c.known {
		return nil
	}
	return c.mach.Free(uint64(a))
}

func (c *counter) HostAlloc(n int) ([]byte, error) { return make([]byte, n), nil }
func (c *counter) HostFree([]byte) error           { return nil }

func (c *counter) Download(b []byte, a kernel.Addr) error {
	if c.known {
		return nil
	}
	return c.mach.ReadRaw(uint64(a), b)
}

func (c *counter) Mark(int) error { return nil }
func (c *counter) Wait(int) error { return nil }
func (c *counter) Close() error   { return nil }

func (c *counter) Copy(dst, src kernel.Addr, n int64) error {
	if c.known {
		return nil
	}
	return c.mach.Copy(uint64(dst), uint64(src), int(n))
}

func (c *counter) Fill(a kernel.Addr, v byte, n int64) error {
	if v == 0 || c.known {
		return nil // memory is zero, and nothing is ever freed before it is counted
	}
	return c.mach.Fill(uint64(a), v, int(n))
}

func (c *counter) Upload(a kernel.Addr, b []byte) error {
	if c.known {
		return nil
	}
	return c.mach.Write(uint64(a), b)
}

// parsed are the modules that were parsed, by target and name.
var parsed = map[string]*ptx.Module{}

func (c *counter) Load(module string, text []byte) error {
	if c.known {
		return nil
	}
	name := fmt.Sprint(c.target, " ", module)
	m := parsed[name]
	if m == nil {
		var err error
		if m, err = ptx.Parse(text); err != nil {
			return fmt.Errorf("kernels %s: %w", module, err)
		}
		parsed[name] = m
	}
	var err error
	c.modules[module], err = c.mach.Load(m)
	return err
}

func (c *counter) Prepare(list []kernel.Launch) (kernel.Work, error) {
	if c.seen != nil {
		for i := range list {
			c.seen(&list[i])
		}
	}
	return &work{c, list}, nil
}

// work is a list of launches.
type work struct {
	c    *counter
	list []kernel.Launch
}

func (w *work) Capture() error { return nil }
func (w *work) Release() error { return nil }
func (w *work) Run() error {
	for i := range w.list {
		if err := w.c.run(&w.list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) run(l *kernel.Launch) error {
	if !c.on {
		return nil
	}
	k := c.key(l)
	got, ok := c.costs[k]
	if !ok {
		if c.known {
			return fmt.Errorf("%w: %s", errNotCounted, k)
		}
		var err error
		got.Cost, got.Whole, err = c.count(l)
		if err != nil {
			return err
		}
		c.costs[k] = got
	}
	c.calls = append(c.calls, call{Key: k, Times: 1, cost: got.Cost})
	return nil
}

// count measures a launch. A grid with several sides is run whole: neighbours in
// one may share what those in another do not.
func (c *counter) count(l *kernel.Launch) (cost, bool, error) {
	g := ptx.Dim(l.Grid)
	blocks := int(g.X) * int(g.Y) * int(g.Z)
	run := func(first, end int) (cost, bool, error) { return c.launch(l, uint64(first), uint64(end)) }
	if long := max(g.X, g.Y, g.Z); int(long) != blocks {
		total, _, err := run(0, blocks)
		return total, true, err
	}
	return measure(blocks, run)
}

// launch runs some blocks of a launch and counts.
func (c *counter) launch(l *kernel.Launch, first, end uint64) (k cost, joined bool, err error) {
	r, err := c.mach.LaunchPart(c.modules[l.Module], l.Name, ptx.Dim(l.Grid), ptx.Dim(l.Block), l.Shared, l.Params.Data, first, end)
	if err != nil {
		return cost{}, false, fmt.Errorf("%s %s: %w", l.Module, l.Name, err)
	}
	n := &r.Counts
	k = cost{Warp: float64(n.WarpInstr), Unique: 32 * float64(n.UniqueSectors), Sectors: float64(n.Sectors), Ideal: float64(n.IdealSectors),
		Waves: float64(n.SharedWaves), Least: float64(n.IdealWaves)}
	for _, line := range r.Lines() {
		joined = joined || strings.HasPrefix(line.Text, "atom.global")
		if line.MMA == 0 {
			continue
		}
		m, of, err := matrix(line.Text)
		if err != nil {
			return cost{}, false, fmt.Errorf("%s %s: %w", l.Module, l.Name, err)
		}
		*of(&k) += m * float64(line.MMA)
	}
	return k, joined, nil
}

// matrix gives the operations of one mma instruction (two for a multiply-add) by
// its shape, m16n8k16 and the like, and which of a cost's counters takes them.
func matrix(op string) (float64, func(*cost) *float64, error) {
	for _, part := range strings.Split(op, ".") {
		var m, n, k int
		if _, err := fmt.Sscanf(part, "m%dn%dk%d", &m, &n, &k); err == nil {
			if strings.Contains(op, ".s8") || strings.Contains(op, ".u8") {
				return float64(2 * m * n * k), func(c *cost) *float64 { return &c.Int8 }, nil
			}
			return float64(2 * m * n * k), func(c *cost) *float64 { return &c.Half }, nil
		}
	}
	return 0, nil, fmt.Errorf("cannot tell the shape of %q", op)
}

// key names launches that cost the same: the kernel, for which architecture, its
// extents, and those of its parameters that are no addresses.
func (c *counter) key(l *kernel.Launch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s %dx%dx%d %d+%d", c.target, l.Module, l.Name, l.Grid.X, l.Grid.Y, l.Grid.Z, l.Block.X*l.Block.Y*l.Block.Z, l.Shared)
	for i, at := range l.Params.Offsets {
		end := len(l.Params.Data)
		if i+1 < len(l.Params.Offsets) {
			end = l.Params.Offsets[i+1]
		}
		var v uint64
		for j := min(end, at+8) - 1; j >= at; j-- {
			v = v<<8 | uint64(l.Params.Data[j])
		}
		if v < 1<<32 { // device memory lies above
			fmt.Fprintf(&b, " %d", v)
		} else {
			b.WriteString(" *")
		}
	}
	return b.String()
}
