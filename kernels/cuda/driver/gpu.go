package driver

import (
	"errors"
	"fmt"

	"hearth/kernels/cuda/kernel"
)

// GPU runs launches on a real GPU: a context with one stream. It implements
// kernel.GPU.
type GPU struct {
	*Context
	name      string
	stream    *Stream
	marks     [kernel.MaxMarks]*Event
	modules   map[string]*Module
	functions map[string]*Function // by module and name
}

var _ kernel.GPU = (*GPU)(nil)

// OpenGPU takes a GPU into use. Only one of a program should have it.
func (d *Driver) OpenGPU(dev Device) (*GPU, error) {
	c, err := d.Context(dev)
	if err != nil {
		return nil, err
	}
	g := &GPU{Context: c, name: fmt.Sprintf("cuda:%d", dev.Ordinal), modules: map[string]*Module{}, functions: map[string]*Function{}}
	err = c.Do(func() (err error) {
		if g.stream, err = c.NewStream(); err != nil {
			return err
		}
		for i := range g.marks {
			if g.marks[i], err = c.NewEvent(false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot use GPU %d (%s): %w", dev.Ordinal, dev.Name, err), g.Close())
	}
	return g, nil
}

// Name is "cuda:" and the ordinal.
func (g *GPU) Name() string { return g.name }

// Target is what launches depend on.
func (g *GPU) Target() kernel.Target {
	dev := g.Context.GPU()
	return kernel.Target{Compute: dev.Compute, SMs: dev.SMs, Shared: dev.Shared}
}

// Memory implements kernel.GPU.
func (g *GPU) Memory() (free, total int64, err error) { return g.MemInfo() }

// Upload implements kernel.GPU; so do the others.
func (g *GPU) Upload(dst kernel.Addr, src []byte) error        { return g.stream.Upload(dst, src) }
func (g *GPU) Download(dst []byte, src kernel.Addr) error      { return g.stream.Download(dst, src) }
func (g *GPU) Copy(dst, src kernel.Addr, n int64) error        { return g.stream.Copy(dst, src, n) }
func (g *GPU) Fill(dst kernel.Addr, value byte, n int64) error { return g.stream.Fill(dst, value, n) }
func (g *GPU) Mark(i int) error                                { return g.marks[i].Record(g.stream) }
func (g *GPU) Wait(i int) error                                { return g.marks[i].Wait() }

// Stream is the queue that everything goes to.
func (g *GPU) Stream() *Stream { return g.stream }

// Load compiles PTX.
func (g *GPU) Load(module string, ptx []byte) error {
	if g.modules[module] != nil {
		return fmt.Errorf("cannot load kernels %s: they are loaded already", module)
	}
	m, err := g.LoadModule(module, ptx, false)
	if err == nil {
		g.modules[module] = m
	}
	return err
}

// function finds a kernel of a loaded module.
func (g *GPU) function(module, name string) (*Function, error) {
	key := module + "." + name
	if f := g.functions[key]; f != nil {
		return f, nil
	}
	m := g.modules[module]
	if m == nil {
		return nil, fmt.Errorf("cannot launch %s: kernels %s are not loaded", name, module)
	}
	f, err := m.Function(name)
	if err == nil {
		g.functions[key] = f
	}
	return f, err
}

// Prepare makes launches ready.
func (g *GPU) Prepare(list []kernel.Launch) (kernel.Work, error) {
	w := &work{g: g}
	for i := range list {
		f, err := g.function(list[i].Module, list[i].Name)
		if err == nil {
			var c *Call
			if c, err = NewCall(f, &list[i]); err == nil {
				w.calls = append(w.calls, c)
			}
		}
		if err != nil {
			return nil, errors.Join(err, w.Release())
		}
	}
	return w, nil
}

// work is a list of calls, or the graph that was captured of them.
type work struct {
	g     *GPU
	calls []*Call
	graph *Graph
}

func (w *work) launch() error {
	for _, c := range w.calls {
		if err := w.g.stream.Launch(c); err != nil {
			return err
		}
	}
	return nil
}

// Capture implements kernel.Work. The graph has its own copies of all parameters.
func (w *work) Capture() error {
	g, err := w.g.stream.Capture(w.launch)
	if err != nil {
		return err
	}
	w.graph = g
	w.dropCalls()
	return nil
}

func (w *work) Run() error {
	if w.graph != nil {
		return w.g.stream.Replay(w.graph)
	}
	return w.launch()
}

func (w *work) dropCalls() {
	for _, c := range w.calls {
		c.Release()
	}
	w.calls = nil
}

func (w *work) Release() error {
	w.dropCalls()
	if w.graph == nil {
		return nil
	}
	return w.graph.Destroy()
}

// Close waits for what is queued, gives everything back and releases the context.
// After an error that destroyed the context the driver has done so already.
func (g *GPU) Close() error {
	err := g.Do(func() error {
		if g.Dead() != nil {
			return nil
		}
		var errs []error
		if g.stream != nil {
			errs = append(errs, g.stream.Sync())
		}
		for _, m := range g.modules {
			errs = append(errs, m.Unload())
		}
		for _, e := range g.marks {
			if e != nil {
				errs = append(errs, e.Destroy())
			}
		}
		if g.stream != nil {
			errs = append(errs, g.stream.Destroy())
		}
		return errors.Join(errs...)
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	dead := g.dead != nil
	if e := g.Context.Close(); !dead {
		err = errors.Join(err, e)
	}
	return err
}
