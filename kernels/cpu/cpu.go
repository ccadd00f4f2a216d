// Package cpu is the CPU device: a Program is compiled into stages that all
// threads run together, with weights repacked into panels (see panel.go) and
// inner loops in portable Go or generated assembly (see kernelSet). Every value
// of every row is computed by the same sequence of operations whatever the batch,
// the chunking, the number of threads or the kernel path, so results are the
// same bits in all of these.
package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"hearth/kernels"
)

// Options configure a device; the zero value is the fastest.
type Options struct {
	// Threads run a step, the caller's among them; 0: one for each physical core.
	Threads int
	// Activations is "q8" (default: inputs of quantized matrices are rounded to
	// 8-bit blocks), "bf16" (so are those, and inputs of matrices in BF16 are rounded
	// to bf16) or "f32" (nothing is rounded, and quantized weights are dequantized row
	// by row instead: exact to float32 rounding, and slower).
	Activations string
	// Path forces a kernel set, one of Paths; "" takes the best.
	Path string
	// Release, if not nil, is called in Load with the Data of each tensor that
	// will not be read again, so that a mapping can drop its pages.
	Release func(data []byte)
	// Progress, if not nil, is called in Load with the bytes of weights that are
	// repacked and of all.
	Progress func(done, total int64)
}

// Device implements kernels.Device.
type Device struct {
	o       Options
	ks      *kernelSet
	threads int
	floats  bool // Options.Activations is "f32"
	bf16    bool // or "bf16"

	p       *kernels.Program
	kv      kernels.KVConfig
	weights []weight // by TensorID
	arena   []byte   // all repacked weights
	cache   cache
	ops     part
	norm    part
	head    part

	pool    *pool
	crew    crew
	active  int // threads of the present step
	threadF func(thread int)
	scratch []scratch // by thread
	claims  [2]atomic.Int64

	regs   []register
	shared actRows // quantized inputs of a stage, all rows
	ropes  []ropeTable
	batch  *kernels.Batch
	rowOf  []rowInfo // by row of the batch
	sel    []int32   // rows of the norm part
	given  []int     // by row of logits: how many before it are given out

	inPlace bool // the head writes to the caller's memory

	loaded                         atomic.Bool
	weightBytes, kvBytes, scrBytes atomic.Int64
}

var _ kernels.Device = (*Device)(nil)

// register is a matrix (rows, stride) of which width columns count.
type register struct {
	data          []float32
	width, stride int
}

func (g *register) row(r int) []float32 { return g.data[r*g.stride:][:g.width] }

// rowInfo is where a row stands.
type rowInfo struct {
	span *kernels.Span
	pos  int
}

// New makes a device without a program.
func New(o Options) (*Device, error) {
	ks, err := choose(o.Path)
	if err != nil {
		return nil, err
	}
	switch o.Activations {
	case "", "q8", "bf16", "f32":
	default:
		return nil, fmt.Errorf("cpu: activations %q, want q8, bf16 or f32", o.Activations)
	}
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("cpu: %d threads, want 0 to %d", o.Threads, maxThreads)
	}
	n := o.Threads
	if n == 0 {
		n = max(1, min(physicalCores(), processors, maxThreads))
	}
	return &Device{o: o, ks: ks, threads: n, floats: o.Activations == "f32", bf16: o.Activations == "bf16"}, nil
}

const maxThreads = 256

// Name is "cpu".
func (d *Device) Name() string { return "cpu" }

// Load repacks the weights, allocates the cache and starts the threads.
func (d *Device) Load(p *kernels.Program, kv kernels.KVConfig) error {
	if d.p != nil {
		return errors.New("cpu: a program is loaded already")
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if err := kv.Validate(); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if err := d.checkBF16(p); err != nil {
		return err
	}
	d.p, d.kv = p, kv
	d.regs = make([]register, len(p.Regs))
	for i, w := range p.Regs {
		d.regs[i] = register{width: w, stride: (w + panelRows - 1) &^ (panelRows - 1)}
	}
	d.pool = newPool(d.threads)
	d.crew = newCrew(d.threads)
	d.threadF = d.thread
	d.scratch = make([]scratch, d.threads)
	err := d.cache.allocate(p, kv)
	if err == nil {
		err = d.compile()
	}
	if err == nil {
		err = d.loadWeights()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cpu: %w", err), d.Close())
	}
	d.kvBytes.Store(int64(len(d.cache.mem)))
	d.loaded.Store(true)
	return nil
}

// Stats tells the sizes.
func (d *Device) Stats() kernels.DeviceStats {
	return kernels.DeviceStats{WeightBytes: d.weightBytes.Load(), KVBytes: d.kvBytes.Load(),
		ScratchBytes: d.scrBytes.Load(), Path: d.ks.name, Threads: d.threads}
}

// Close stops the threads and gives all memory back.
func (d *Device) Close() error {
	if d.pool != nil {
		d.pool.stop()
		d.pool = nil
	}
	err := errors.Join(free(d.arena), free(d.cache.mem))
	d.loaded.Store(false)
	d.p, d.arena, d.cache, d.weights, d.regs, d.scratch = nil, nil, cache{}, nil, nil, nil
	return err
}

// CopyBlocks copies cache blocks in the order given.
func (d *Device) CopyBlocks(pairs [][2]int32) error {
	if d.p == nil {
		return errors.New("cpu: no program is loaded")
	}
	for _, pr := range pairs {
		if min(pr[0], pr[1]) < 0 || int(max(pr[0], pr[1])) >= d.kv.Blocks {
			return fmt.Errorf("cpu: cannot copy block %d to %d of %d", pr[0], pr[1], d.kv.Blocks)
		}
		d.cache.copyBlock(int(pr[0]), int(pr[1]))
	}
	return nil
}
