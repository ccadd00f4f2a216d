// Package cuda is the GPU device: a Program is compiled into a short list of
// launches, with norms, activations and residuals fused into the matrices beside
// them; all that changes from step to step lies in one block of device memory,
// the step plan, so that the launches of a decode step are captured as a graph
// once and replayed. Kernels and layouts are package kernel's.
//
// The device knows no driver: it is given a kernel.GPU.
package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// Options configure a device; the zero value is exact and fast.
type Options struct {
	// NoGraphs launches every kernel by itself.
	NoGraphs bool
	// Fast drops the lower half of the bits of linears' inputs, for weights of 16
	// bits: about twice the speed where tokens are many, and results that differ in
	// the third digit.
	Fast bool
	// KV is how keys and values are kept: "f16", "bf16", "f32", "fp8" or "int8"; "": as
	// the KVConfig of Load says.
	KV string
	// Rows bounds the rows of a step, Sequences its spans; 0: 2048 and 256.
	Rows, Sequences int
	// Context bounds the tokens of a sequence; 0: as many as the cache holds.
	Context int
	// Hollow leaves weights out: there is memory for them, and Load sends nothing.
	// What a step launches can be counted so, not what it computes.
	Hollow bool
	// Release, if not nil, is called in Load with the Data of each tensor that will
	// not be read again.
	Release func(data []byte)
	// Progress, if not nil, is called in Load with the bytes of weights that have
	// been sent to the GPU and of all.
	Progress func(done, total int64)
}

func (o Options) withDefaults() Options {
	if o.Rows == 0 {
		o.Rows = 2048
	}
	if o.Sequences == 0 {
		o.Sequences = 256
	}
	o.Sequences = min(o.Sequences, o.Rows)
	return o
}

// Device implements kernels.Device and kernels.Chooser.
type Device struct {
	g      kernel.GPU
	o      Options
	target kernel.Target
	lib    library
	images map[string][]byte // as stored gives them
	loaded map[string]bool   // images that the GPU has

	// The compiled program; see program.
	p              *kernels.Program
	kv             kernels.KVConfig
	kvType         kernel.KVType
	ops            []node
	logits, hidden *tail // nil: the program has none
	regs           *registers
	store          *store
	planner        planner
	rows           int // of the registers
	wanted         int // rows of the tails' registers

	// Device and host memory; see memory.
	allocs        []kernel.Addr
	hosts         [][]byte
	caches        []kernel.Addr // by KV layer
	planAddr      kernel.Addr
	linearScratch kernel.Addr
	counters      kernel.Addr
	attnScratch   map[headShape]kernel.Addr
	results       []byte // page-locked
	choose        chooser

	works map[workKey]*cached
	clock uint64
	batch *kernels.Batch
	stepF func() error
	dead  error // the first error of the GPU

	weightBytes, kvBytes, scratchBytes atomic.Int64
}

var _ kernels.Device = (*Device)(nil)

// New makes a device of a GPU, which it closes with itself.
func New(g kernel.GPU, o Options) (*Device, error) {
	t := g.Target()
	images, err := stored(t.Compute)
	if err != nil {
		return nil, err
	}
	if _, err := parseKV(o.KV, kernels.F16); err != nil {
		return nil, err
	}
	if o.Rows < 0 || o.Sequences < 0 || o.Context < 0 {
		return nil, fmt.Errorf("cuda: got %d rows, %d sequences and a context of %d tokens, wanted 0 or more each", o.Rows, o.Sequences, o.Context)
	}
	d := &Device{g: g, o: o.withDefaults(), target: t, lib: kernelLibrary, images: images, loaded: map[string]bool{}, works: map[workKey]*cached{}}
	d.stepF = func() error { return d.run(d.batch) }
	return d, nil
}

// parseKV reads Options.KV.
func parseKV(name string, t kernels.DType) (kernel.KVType, error) {
	if name == "" {
		switch t {
		case kernels.F32:
			return kernel.KVF32, nil
		case kernels.BF16:
			return kernel.KVBF16, nil
		}
		return kernel.KVF16, nil
	}
	for _, k := range []struct {
		name string
		t    kernel.KVType
	}{{"f16", kernel.KVF16}, {"bf16", kernel.KVBF16}, {"f32", kernel.KVF32}, {"fp8", kernel.KVFP8}, {"int8", kernel.KVInt8}} {
		if k.name == name {
			return k.t, nil
		}
	}
	return 0, fmt.Errorf("cuda: got a cache of %q, wanted f16, bf16, f32, fp8 or int8", name)
}

// Name is that of the GPU.
func (d *Device) Name() string { return d.g.Name() }

// Load allocates the cache, has the kernels compiled, sends the weights and makes
// the graphs of usual steps.
func (d *Device) Load(p *kernels.Program, kv kernels.KVConfig) error {
	if d.p != nil {
		return fmt.Errorf("%s: a program is loaded already", d.Name())
	}
	if err := errors.Join(p.Validate(), kv.Validate()); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	err := d.program(p, kv)
	if err == nil {
		err = d.g.Do(d.place)
	}
	if err != nil {
		d.dead = err
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	return nil
}

// place is the part of Load that needs the GPU.
func (d *Device) place() error {
	if err := d.allocate(); err != nil {
		return err
	}
	if err := d.allocateWeights(d.store); err != nil {
		return err
	}
	if err := d.compileKernels(); err != nil {
		return err
	}
	if err := d.upload(d.store); err != nil {
		return err
	}
	d.weightBytes.Store(d.store.bytes)
	return d.warm()
}

// compileKernels has the driver compile all modules that the program's steps will
// launch: what it refuses is told before weights are sent, and no request waits
// for a compiler later.
func (d *Device) compileKernels() error {
	keys := d.usual()
	if d.logits != nil {
		keys = append(keys, workKey{kind: workLogits, rows: 1}, workKey{kind: workChoose, rows: 1}, workKey{kind: workChooseTop, rows: 1})
	}
	if d.hidden != nil {
		keys = append(keys, workKey{kind: workHidden, rows: 1})
	}
	for _, k := range keys {
		list, err := d.launches(k)
		if err != nil {
			return err
		}
		for i := range list {
			if err := d.load(list[i].Module); err != nil {
				return err
			}
		}
	}
	return nil
}

// usual lists the decode steps over a short context, and a step of many rows.
func (d *Device) usual() (keys []workKey) {
	for n := 1; n <= min(d.o.Sequences, d.planner.decode); n = bucket(n + 1) {
		s := shape{rows: bucket(n), decode: bucket(n), chunks: 1, blocks: kernel.ChunkKeys / d.kv.BlockSize}
		k := workKey{kind: workForward, shape: s}
		if d.logits != nil && s.rows <= d.wanted {
			k.kind = workDirect
		}
		keys = append(keys, k)
	}
	rows := pad(d.o.Rows)
	s := shape{rows: rows, tiles: bucket(ceil(rows, kernel.TileRows)), blocks: d.planner.chunks * kernel.ChunkKeys / d.kv.BlockSize}
	return append(keys, workKey{kind: workForward, shape: s})
}

// warm makes the lists of launches of usual steps, and their graphs.
func (d *Device) warm() error {
	for _, k := range d.usual() {
		if _, err := d.work(k); err != nil {
			return err
		}
	}
	return nil
}

// CopyBlocks copies cache blocks in the order given.
func (d *Device) CopyBlocks(pairs [][2]int32) error {
	if err := d.usable(); err != nil {
		return err
	}
	for _, pr := range pairs {
		if min(pr[0], pr[1]) < 0 || int(max(pr[0], pr[1])) >= d.kv.Blocks {
			return fmt.Errorf("%s: cannot copy block %d to %d of %d", d.Name(), pr[0], pr[1], d.kv.Blocks)
		}
	}
	return d.do(func() error {
		for _, pr := range pairs {
			for layer := range d.caches {
				c := d.cache(layer)
				n := d.lib.blockBytes(c)
				if err := d.g.Copy(c.Addr+kernel.Addr(int64(pr[1])*n), c.Addr+kernel.Addr(int64(pr[0])*n), n); err != nil {
					return err
				}
			}
		}
		return d.settle()
	})
}

// settle waits until the GPU has done all that was queued.
func (d *Device) settle() error {
	if err := d.g.Mark(0); err != nil {
		return err
	}
	return d.g.Wait(0)
}

func (d *Device) usable() error {
	if d.dead != nil {
		return fmt.Errorf("%s: the device failed before: %w", d.Name(), d.dead)
	}
	if d.p == nil {
		return fmt.Errorf("%s: no program is loaded", d.Name())
	}
	return nil
}

// do runs f on the GPU's thread. An error is the device's end.
func (d *Device) do(f func() error) error {
	if err := d.g.Do(f); err != nil {
		d.dead = err
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	return nil
}

// Stats tells the sizes. Path is the GPU's architecture and that of the kernels it
// was given.
func (d *Device) Stats() kernels.DeviceStats {
	return kernels.DeviceStats{WeightBytes: d.weightBytes.Load(), KVBytes: d.kvBytes.Load(), ScratchBytes: d.scratchBytes.Load(),
		Path: fmt.Sprintf("sm_%d ptx compute_%d", d.target.Compute, imageTarget(d.target.Compute))}
}

// Close gives all memory back and closes the GPU.
func (d *Device) Close() error {
	if d.g == nil {
		return nil
	}
	err := d.g.Do(func() error {
		var errs []error
		for k, c := range d.works {
			errs = append(errs, c.Release())
			delete(d.works, k)
		}
		for _, a := range d.allocs {
			errs = append(errs, d.g.Free(a))
		}
		for _, h := range d.hosts {
			errs = append(errs, d.g.HostFree(h))
		}
		d.allocs, d.hosts = nil, nil
		return errors.Join(errs...)
	})
	if d.dead != nil {
		err = nil // what follows from the error that was told
	}
	err = errors.Join(err, d.g.Close())
	d.p, d.dead = nil, errors.New("closed")
	return err
}
