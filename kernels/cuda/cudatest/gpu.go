// Package cudatest runs launches on the PTX interpreter behind kernel.GPU, so
// that the device, with the kernels that ship, is tested in the process where
// there is no GPU. It is for tests only.
package cudatest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
)

// Options say what GPU is imagined.
type Options struct {
	Compute int  // compute capability × 10; 0: 80
	SMs     int  // 0: 8, so that grids stay small
	Lazy    bool // queued work runs when it is waited for, as late as on a GPU; otherwise at once
	Machine ptx.Options
	// Watch, if set, sees every launch with its report.
	Watch func(l *kernel.Launch, r *ptx.Report)
}

// GPU implements kernel.GPU. A launch that the interpreter finds fault with fails.
type GPU struct {
	o       Options
	m       *ptx.Machine
	modules map[string]*loaded
	queue   []func() error
	free    int64
	sizes   map[kernel.Addr]int64
	// Launches counts the launches that ran, Replays the graphs.
	Launches, Replays int
	// Hosts counts what HostAlloc gave and HostFree has not taken back.
	Hosts int
}

type loaded struct {
	module *ptx.Module
	in     *ptx.Loaded
}

var _ kernel.GPU = (*GPU)(nil)

// New makes a GPU.
func New(o Options) *GPU {
	if o.Compute == 0 {
		o.Compute = 80
	}
	if o.SMs == 0 {
		o.SMs = 8
	}
	if o.Machine.Memory == 0 {
		o.Machine.Memory = 64 << 20
	}
	return &GPU{o: o, m: ptx.NewMachine(o.Machine), modules: map[string]*loaded{}, free: int64(o.Machine.Memory), sizes: map[kernel.Addr]int64{}}
}

// Name is that of a GPU that no machine has.
func (g *GPU) Name() string { return "cuda:99" }

// sharedOptIn is the shared memory that a block may have, by compute capability
// (CUDA C++ Programming Guide, compute capabilities).
var sharedOptIn = map[int]int{80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10}

// Target is that of Options.
func (g *GPU) Target() kernel.Target {
	return kernel.Target{Compute: g.o.Compute, SMs: g.o.SMs, Shared: sharedOptIn[g.o.Compute]}
}

// Do runs f.
func (g *GPU) Do(f func() error) error { return f() }

// Machine is the interpreter's.
func (g *GPU) Machine() *ptx.Machine { return g.m }

// Memory tells what Alloc has left, about.
func (g *GPU) Memory() (free, total int64, err error) { return g.free, int64(g.o.Machine.Memory), nil }

// Alloc implements kernel.GPU; so do the others.
func (g *GPU) Alloc(n int64) (kernel.Addr, error) {
	a, err := g.m.Alloc(int(n))
	if err != nil {
		return 0, err
	}
	g.free -= n
	g.sizes[kernel.Addr(a)] = n
	return kernel.Addr(a), nil
}

func (g *GPU) Free(a kernel.Addr) error {
	g.free += g.sizes[a]
	delete(g.sizes, a)
	return g.m.Free(uint64(a))
}

func (g *GPU) HostAlloc(n int) ([]byte, error) { g.Hosts++; return make([]byte, n), nil }

func (g *GPU) HostFree([]byte) error { g.Hosts--; return nil }

func (g *GPU) enqueue(f func() error) error {
	if !g.o.Lazy {
		return f()
	}
	g.queue = append(g.queue, f)
	return nil
}

func (g *GPU) Upload(dst kernel.Addr, src []byte) error {
	return g.enqueue(func() error { return g.m.Write(uint64(dst), src) })
}

func (g *GPU) Download(dst []byte, src kernel.Addr) error {
	return g.enqueue(func() error { return g.m.ReadRaw(uint64(src), dst) })
}

func (g *GPU) Copy(dst, src kernel.Addr, n int64) error {
	return g.enqueue(func() error { return g.m.Copy(uint64(dst), uint64(src), int(n)) })
}

func (g *GPU) Fill(dst kernel.Addr, v byte, n int64) error {
	return g.enqueue(func() error { return g.m.Fill(uint64(dst), v, int(n)) })
}

func (g *GPU) Mark(int) error { return nil }

func (g *GPU) Wait(int) error {
	queue := g.queue
	g.queue = nil
	for _, f := range queue {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// parsed keeps modules, which are read again and again in tests.
var parsed sync.Map // of the image's hash to *ptx.Module

func (g *GPU) Load(module string, image []byte) error {
	key := sha256.Sum256(image)
	m, ok := parsed.Load(key)
	if !ok {
		p, err := ptx.Parse(image)
		if err != nil {
			return fmt.Errorf("cannot load kernels %s: %w", module, err)
		}
		m, _ = parsed.LoadOrStore(key, p)
	}
	in, err := g.m.Load(m.(*ptx.Module))
	if err != nil {
		return fmt.Errorf("cannot load kernels %s: %w", module, err)
	}
	g.modules[module] = &loaded{m.(*ptx.Module), in}
	return nil
}

// Prepare checks the launches against what the kernels say of themselves.
func (g *GPU) Prepare(list []kernel.Launch) (kernel.Work, error) {
	for i := range list {
		if err := g.check(&list[i]); err != nil {
			return nil, err
		}
	}
	return &work{g: g, list: slices.Clone(list)}, nil
}

func (g *GPU) check(l *kernel.Launch) error {
	m := g.modules[l.Module]
	if m == nil {
		return fmt.Errorf("cannot launch %s: kernels %s are not loaded", l.Name, l.Module)
	}
	k, ok := m.module.Kernel(l.Name)
	if !ok {
		return fmt.Errorf("kernels %s have no %s", l.Module, l.Name)
	}
	threads := int(l.Block.X) * int(l.Block.Y) * int(l.Block.Z)
	if threads < 1 || threads > k.MaxThreads || l.Grid.X < 1 || l.Grid.Y < 1 || l.Grid.Z < 1 || l.Grid.Y > 65535 || l.Grid.Z > 65535 {
		return fmt.Errorf("cannot launch %s: got a grid of %v and blocks of %v, %d threads allowed", l.Name, l.Grid, l.Block, k.MaxThreads)
	}
	if n := int(l.Shared) + k.StaticShared; n > g.Target().Shared {
		return fmt.Errorf("cannot launch %s: got %d bytes of shared memory, a block may have %d", l.Name, n, g.Target().Shared)
	}
	if len(k.Params) != len(l.Params.Offsets) || k.ParamBytes != len(l.Params.Data) {
		return fmt.Errorf("cannot launch %s: got %d parameters of %d bytes, wanted %d of %d", l.Name, len(l.Params.Offsets), len(l.Params.Data), len(k.Params), k.ParamBytes)
	}
	for i, p := range k.Params {
		if p.Offset != l.Params.Offsets[i] {
			return fmt.Errorf("cannot launch %s: parameter %d is at %d, wanted %d", l.Name, i, l.Params.Offsets[i], p.Offset)
		}
	}
	return nil
}

// Close drops everything.
func (g *GPU) Close() error { return nil }

// work is a list of launches.
type work struct {
	g     *GPU
	list  []kernel.Launch
	graph bool
}

// Capture makes it a graph. Parameters were copied by Prepare already.
func (w *work) Capture() error { w.graph = true; return nil }

func (w *work) Release() error { return nil }

func (w *work) Run() error {
	if w.graph {
		w.g.Replays++
	}
	return w.g.enqueue(func() error {
		for i := range w.list {
			if err := w.g.launch(&w.list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *GPU) launch(l *kernel.Launch) error {
	g.Launches++
	r, err := g.m.Launch(g.modules[l.Module].in, l.Name, ptx.Dim(l.Grid), ptx.Dim(l.Block), l.Shared, l.Params.Data)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", l.Name, err)
	}
	if g.o.Watch != nil {
		g.o.Watch(l, r)
	}
	if len(r.Findings) > 0 {
		return fmt.Errorf("kernel %s: %d findings, the first: %v", l.Name, len(r.Findings)+r.Dropped, r.Findings[0])
	}
	return nil
}
