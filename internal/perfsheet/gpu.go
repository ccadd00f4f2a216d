package main

import (
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
	shared  map[kernelName]use // the most that any launch prepared asks for
	on      bool               // launches are counted
	known   bool               // only those that have a cost already
}

// kernelName names a kernel.
type kernelName struct{ Module, Kernel string }

// use is what launches of a kernel ask for.
type use struct {
	Threads int // of a block
	Dynamic int // bytes of dynamic shared memory
}

func newCounter(g gpu, memory int64, costs map[string]counted) *counter {
	return &counter{
		g: g, costs: costs, target: target(g), modules: map[string]*ptx.Loaded{}, shared: map[kernelName]use{},
		mach: ptx.NewMachine(ptx.Options{Count: true, Workers: 2, Memory: int(memory), MaxSteps: 1 << 40}),
	}
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
	a, err := c.mach.Alloc(int(n))
	return kernel.Addr(a), err
}
func (c *counter) Free(a kernel.Addr) error               { return c.mach.Free(uint64(a)) }
func (c *counter) HostAlloc(n int) ([]byte, error)        { return make([]byte, n), nil }
func (c *counter) HostFree([]byte) error                  { return nil }
func (c *counter) Download(b []byte, a kernel.Addr) error { return c.mach.ReadRaw(uint64(a), b) }
func (c *counter) Mark(int) error                         { return nil }
func (c *counter) Wait(int) error                         { return nil }
func (c *counter) Close() error                           { return nil }

func (c *counter) Copy(dst, src kernel.Addr, n int64) error {
	return c.mach.Copy(uint64(dst), uint64(src), int(n))
}

func (c *counter) Fill(a kernel.Addr, v byte, n int64) error {
	if v == 0 {
		return nil // memory is zero, and nothing is ever freed before it is counted
	}
	return c.mach.Fill(uint64(a), v, int(n))
}

func (c *counter) Upload(a kernel.Addr, b []byte) error { return c.mach.Write(uint64(a), b) }

// parsed are the modules that were parsed, by target and name.
var parsed = map[string]*ptx.Module{}

func (c *counter) Load(module string, text []byte) error {
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

// Prepare notes what every launch asks for, of steps that do not run too.
func (c *counter) Prepare(list []kernel.Launch) (kernel.Work, error) {
	for i := range list {
		l := &list[i]
		name := kernelName{l.Module, l.Name}
		u := c.shared[name]
		u.Threads = max(u.Threads, int(l.Block.X)*int(l.Block.Y)*int(l.Block.Z))
		u.Dynamic = max(u.Dynamic, int(l.Shared))
		c.shared[name] = u
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
			return fmt.Errorf("nothing is recorded of the launch %s", k)
		}
		var err error
		if l.Mixed {
			got.Whole = true
			got.Cost, err = c.launch(l, ptx.Dim(l.Grid))
		} else {
			got.Cost, got.Whole, err = measure(extent{l.Grid.X, l.Grid.Y, l.Grid.Z}, func(e extent) (cost, error) {
				return c.launch(l, ptx.Dim{X: e[0], Y: e[1], Z: e[2]})
			})
		}
		if err != nil {
			return err
		}
		c.costs[k] = got
	}
	c.calls = append(c.calls, call{Key: k, Times: 1, cost: got.Cost})
	return nil
}

// launch runs a launch with a grid of its own and counts.
func (c *counter) launch(l *kernel.Launch, grid ptx.Dim) (cost, error) {
	r, err := c.mach.Launch(c.modules[l.Module], l.Name, grid, ptx.Dim(l.Block), l.Shared, l.Params.Data)
	if err != nil {
		return cost{}, fmt.Errorf("%s %s: %w", l.Module, l.Name, err)
	}
	n := &r.Counts
	k := cost{Warp: float64(n.WarpInstr), Unique: 32 * float64(n.UniqueSectors), Sectors: float64(n.Sectors), Ideal: float64(n.IdealSectors),
		Waves: float64(n.SharedWaves), Least: float64(n.IdealWaves)}
	for _, line := range r.Lines() {
		if line.MMA == 0 {
			continue
		}
		m, of, err := matrix(line.Text)
		if err != nil {
			return cost{}, fmt.Errorf("%s %s: %w", l.Module, l.Name, err)
		}
		*of(&k) += m * float64(line.MMA)
	}
	return k, nil
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
