package cuda

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strconv"

	"hearth/kernels/cuda/kernel"
)

// emulator is a GPU whose kernels are formulas in Go over flat memory: what the
// device compiles, plans and captures is tested with it whether or not there are
// kernels. Queued work runs when it is waited for, as late as it may on a GPU, or
// at once.
type emulator struct {
	target kernel.Target
	lazy   bool
	total  int64 // bytes of memory
	blocks []memoryBlock
	next   kernel.Addr
	hosts  int
	queue  []func() error
	ops    []func() error // by number, which is the launch's name
	runs   []string       // names of what was launched one by one
	graphs int
	fail   func(what string) error // injected errors
	closed bool
}

type memoryBlock struct {
	addr kernel.Addr
	data []byte
}

func newEmulator(lazy bool) *emulator {
	return &emulator{target: kernel.Target{Compute: 80, SMs: 8, Shared: 100 << 10}, lazy: lazy, total: 1 << 30, next: 1 << 20}
}

func (e *emulator) Name() string            { return "cuda:9" }
func (e *emulator) Target() kernel.Target   { return e.target }
func (e *emulator) Do(f func() error) error { return f() }
func (e *emulator) Memory() (int64, int64, error) {
	free := e.total
	for _, b := range e.blocks {
		free -= int64(len(b.data))
	}
	return free, e.total, nil
}

func (e *emulator) injected(what string) error {
	if e.fail == nil {
		return nil
	}
	return e.fail(what)
}

func (e *emulator) Alloc(n int64) (kernel.Addr, error) {
	if err := e.injected("alloc"); err != nil {
		return 0, err
	}
	b := memoryBlock{e.next, make([]byte, n)}
	for i := range b.data {
		b.data[i] = 0xff // NaN
	}
	e.blocks = append(e.blocks, b)
	e.next += kernel.Addr(n+256+255) &^ 255
	return b.addr, nil
}

func (e *emulator) Free(a kernel.Addr) error {
	for i, b := range e.blocks {
		if b.addr == a {
			e.blocks = append(e.blocks[:i], e.blocks[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("free of %x, which is not allocated", a)
}

func (e *emulator) HostAlloc(n int) ([]byte, error) { e.hosts++; return make([]byte, n), nil }
func (e *emulator) HostFree([]byte) error           { e.hosts--; return nil }

// view is n bytes at an address.
func (e *emulator) view(a kernel.Addr, n int) []byte {
	i := sort.Search(len(e.blocks), func(i int) bool { return e.blocks[i].addr > a }) - 1
	if i < 0 || uint64(a-e.blocks[i].addr)+uint64(n) > uint64(len(e.blocks[i].data)) {
		panic(fmt.Sprintf("%d bytes at %x are outside of every allocation", n, a))
	}
	return e.blocks[i].data[a-e.blocks[i].addr:][:n]
}

func (e *emulator) enqueue(f func() error) error {
	if !e.lazy {
		return f()
	}
	e.queue = append(e.queue, f)
	return nil
}

func (e *emulator) Upload(dst kernel.Addr, src []byte) error {
	return e.enqueue(func() error { copy(e.view(dst, len(src)), src); return nil })
}

func (e *emulator) Download(dst []byte, src kernel.Addr) error {
	return e.enqueue(func() error { copy(dst, e.view(src, len(dst))); return nil })
}

func (e *emulator) Copy(dst, src kernel.Addr, n int64) error {
	return e.enqueue(func() error { copy(e.view(dst, int(n)), e.view(src, int(n))); return nil })
}

func (e *emulator) Fill(dst kernel.Addr, v byte, n int64) error {
	return e.enqueue(func() error {
		for i, b := 0, e.view(dst, int(n)); i < len(b); i++ {
			b[i] = v
		}
		return nil
	})
}

func (e *emulator) Mark(int) error { return nil }

func (e *emulator) Wait(int) error {
	q := e.queue
	e.queue = e.queue[:0]
	for _, f := range q {
		if err := f(); err != nil {
			return err
		}
	}
	return e.injected("wait")
}

func (e *emulator) Load(string, []byte) error { return e.injected("load") }
func (e *emulator) Close() error              { e.closed = true; return nil }

type emulatedWork struct {
	e     *emulator
	list  []kernel.Launch
	graph bool
	run   func() error
}

func (e *emulator) Prepare(list []kernel.Launch) (kernel.Work, error) {
	w := &emulatedWork{e: e, list: append([]kernel.Launch(nil), list...)}
	w.run = func() error {
		for i := range w.list {
			n, err := strconv.Atoi(w.list[i].Name[1:])
			if err != nil {
				return err
			}
			if err := e.ops[n](); err != nil {
				return err
			}
		}
		return nil
	}
	return w, nil
}

func (w *emulatedWork) Capture() error { w.graph = true; return nil }
func (w *emulatedWork) Release() error { return nil }

func (w *emulatedWork) Run() error {
	if err := w.e.injected("run"); err != nil {
		return err
	}
	if w.graph {
		w.e.graphs++
	} else {
		for _, l := range w.list {
			w.e.runs = append(w.e.runs, l.Name)
		}
	}
	return w.e.enqueue(w.run)
}

// launch makes a kernel of a formula; the first letter of its name says what it is.
func (e *emulator) launch(kind string, f func()) ([]kernel.Launch, error) {
	e.ops = append(e.ops, func() error { f(); return nil })
	return []kernel.Launch{{Module: "emulated", Name: kind + strconv.Itoa(len(e.ops)-1)}}, nil
}

func (e *emulator) i32(a kernel.Addr, i int) int32 {
	return int32(binary.LittleEndian.Uint32(e.view(a+kernel.Addr(4*i), 4)))
}

func (e *emulator) row(m kernel.Mat, r, n int) []float32 {
	return floats(e.view(m.Addr+kernel.Addr(4*r*m.Stride), 4*n))
}

func (e *emulator) vector(a kernel.Addr, n int) []float32 { return floats(e.view(a, 4*n)) }
