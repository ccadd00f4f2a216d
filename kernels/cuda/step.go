package cuda

import (
	"fmt"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// Step runs the batch. What depends on the step goes to the GPU in one copy; then
// one graph, or a list of launches that is kept for the next step of this shape.
func (d *Device) Step(b *kernels.Batch) error {
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.check(b); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if len(b.Tokens) == 0 {
		return nil
	}
	d.batch = b
	err := d.do(d.stepF)
	d.batch = nil
	return err
}

// check refuses a batch that does not fit; that is not the device's end.
func (d *Device) check(b *kernels.Batch) error {
	if err := b.Validate(d.p, d.kv); err != nil {
		return err
	}
	if len(b.Tokens) > d.o.Rows || len(b.Spans) > d.o.Sequences {
		return fmt.Errorf("batch: got %d rows of %d sequences, wanted at most %d and %d", len(b.Tokens), len(b.Spans), d.o.Rows, d.o.Sequences)
	}
	for i := range b.Spans {
		if s := &b.Spans[i]; int(s.Context)+int(s.Len) > d.planner.context {
			return fmt.Errorf("batch: span %d has %d tokens, wanted at most %d", i, s.Context+s.Len, d.planner.context)
		}
	}
	return nil
}

// workKind says what a list of launches does.
type workKind uint8

const (
	workForward   workKind = iota // the ops
	workDirect                    // the ops, then logits of all rows
	workLogits                    // logits of gathered rows
	workHidden                    // final states of gathered rows
	workChoose                    // tokens from logits
	workChooseTop                 // with alternatives
)

// workKey names a list of launches.
type workKey struct {
	kind  workKind
	shape shape
	rows  int // of what follows the ops
}

// cached is a list that is ready, with the time of its last use.
type cached struct {
	kernel.Work
	used uint64
}

// maxWorks bounds the lists that are kept: more than the graphs of 16 sizes of
// batches with contexts of 12, and no more memory of the driver than spare has.
// Tests lower it.
var maxWorks = 192

// work makes a list ready, or finds it.
func (d *Device) work(k workKey) (kernel.Work, error) {
	d.clock++
	if c := d.works[k]; c != nil {
		c.used = d.clock
		return c.Work, nil
	}
	if len(d.works) >= maxWorks {
		if err := d.evict(); err != nil {
			return nil, err
		}
	}
	list, err := d.launches(k)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := d.load(list[i].Module); err != nil {
			return nil, err
		}
	}
	w, err := d.g.Prepare(list)
	if err != nil {
		return nil, err
	}
	d.works[k] = &cached{w, d.clock}
	if !d.o.NoGraphs && k.kind <= workDirect && k.shape.tiles == 0 {
		if err := w.Capture(); err != nil {
			return nil, fmt.Errorf("cannot capture a step of %d rows: %w", k.shape.rows, err)
		}
	}
	return w, nil
}

func (d *Device) launches(k workKey) ([]kernel.Launch, error) {
	switch k.kind {
	case workLogits:
		return d.finish(d.logits, k.rows, false)
	case workHidden:
		return d.finish(d.hidden, k.rows, false)
	case workChoose, workChooseTop:
		return d.lib.sample(d.target, d.choose.call(d, k.rows, k.kind == workChooseTop))
	}
	list, err := d.forward(k.shape)
	if err != nil || k.kind == workForward {
		return list, err
	}
	more, err := d.finish(d.logits, k.shape.rows, true)
	return append(list, more...), err
}

// load compiles a module when it is first named.
func (d *Device) load(module string) error {
	if d.loaded[module] {
		return nil
	}
	image, ok := d.images[module]
	if !ok {
		return fmt.Errorf("this build has no kernels %q", module)
	}
	ptx, err := expand(image)
	if err != nil {
		return fmt.Errorf("cannot unpack kernels %s: %w", module, err)
	}
	d.loaded[module] = true
	return d.g.Load(module, ptx)
}

// evict drops the list that has not been used for longest.
func (d *Device) evict() error {
	var oldest workKey
	at := d.clock
	for k, c := range d.works {
		if c.used < at {
			oldest, at = k, c.used
		}
	}
	return d.forget(oldest)
}

func (d *Device) forget(k workKey) error {
	c := d.works[k]
	delete(d.works, k)
	return c.Release()
}

// run is Step on the GPU's thread.
func (d *Device) run(b *kernels.Batch) error {
	s := d.planner.lay(b)
	d.planner.write(b, s)
	logits, hidden := b.LogitRows, b.HiddenRows
	if d.logits == nil {
		logits = nil
	}
	if d.hidden == nil {
		hidden = nil
	}
	// Where all rows are wanted, and are in the registers as in the batch, nothing
	// is gathered.
	k := workKey{kind: workForward, shape: s}
	if s.tiles == 0 && len(hidden) == 0 && len(logits) == len(b.Tokens) && s.rows <= d.wanted {
		k.kind = workDirect
	}
	w, err := d.work(k)
	if err != nil {
		return err
	}
	if err := d.g.Upload(d.planAddr+kernel.Addr(4*align(d.planner.gather)), byteView(d.planner.words[align(d.planner.gather):d.planner.used])); err != nil {
		return err
	}
	if err := w.Run(); err != nil {
		return err
	}
	switch {
	case k.kind == workDirect:
		return d.giveLogits(b, 0, len(logits))
	case len(logits)+len(hidden) == 0:
		return d.settle()
	}
	if err := d.passes(workLogits, logits, b, d.giveLogits); err != nil {
		return err
	}
	return d.passes(workHidden, hidden, b, d.giveHidden)
}

// passes runs a tail over the wanted rows, as many at once as its registers hold.
// Each waits for its results, so that the list of the next can be written.
func (d *Device) passes(kind workKind, rows []int32, b *kernels.Batch, give func(b *kernels.Batch, from, n int) error) error {
	for from := 0; from < len(rows); from += d.wanted {
		n := min(len(rows)-from, d.wanted)
		padded := min(bucket(n), d.wanted)
		d.planner.want(rows[from:from+n], padded)
		w, err := d.work(workKey{kind: kind, rows: padded})
		if err != nil {
			return err
		}
		if err := d.g.Upload(d.planAddr, byteView(d.planner.words[:padded])); err != nil {
			return err
		}
		if err := w.Run(); err != nil {
			return err
		}
		if err := give(b, from, n); err != nil {
			return err
		}
	}
	return nil
}

// giveHidden copies final states to the batch.
func (d *Device) giveHidden(b *kernels.Batch, from, n int) error {
	return d.fetch(b.Hidden[from*d.p.Width:], d.hidden, 0, n)
}

// giveLogits copies logits to the batch, or chooses from them.
func (d *Device) giveLogits(b *kernels.Batch, from, n int) error {
	if b.Choices != nil {
		return d.choose.run(d, b, from, n)
	}
	return d.fetch(b.Logits[from*d.p.Vocab:], d.logits, 0, n)
}

// fetch copies n rows of a tail's result, from row at on, to dst.
func (d *Device) fetch(dst []float32, t *tail, at, n int) error {
	m, width := t.regs.mat(t.out, 0), d.p.Regs[t.out]
	for n > 0 {
		k := min(n, len(d.results)/(4*m.Stride))
		// The matrix may hold other registers to the left: rows end with this one.
		bytes := 4 * ((k-1)*m.Stride + width)
		if err := d.g.Download(d.results[:bytes], m.Addr+kernel.Addr(4*at*m.Stride)); err != nil {
			return err
		}
		if err := d.settle(); err != nil {
			return err
		}
		for r, values := 0, floats(d.results); r < k; r++ {
			copy(dst[r*width:(r+1)*width], values[r*m.Stride:])
		}
		dst, at, n = dst[k*width:], at+k, n-k
	}
	return nil
}
