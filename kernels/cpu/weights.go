package cpu

import (
	"sync"

	"hearth/kernels"
)

// weight is a tensor as a device uses it.
type weight struct {
	t      *kernels.Tensor // where the type is another than the program's, without Data
	panels []byte          // repacked for linear ops; nil if not needed
	stride int             // bytes of a panel
	count  int             // of panels
	bf16   *bf16Kernels    // whose panels these are, or nil
	vector []float32       // of a norm weight or bias, padded to whole panels

	readBack bool // rows that embed tokens are read from panels
}

func isFloat(t kernels.DType) bool { return t == kernels.F32 || t == kernels.F16 || t == kernels.BF16 }

// uses tells how the program reads each tensor.
type uses struct{ linear, embed, vector bool }

func (d *Device) tensorUses() []uses {
	u := make([]uses, len(d.p.Tensors))
	for _, ops := range [][]kernels.Op{d.p.Ops, d.p.Norm, d.p.Head} {
		for i := range ops {
			switch o := &ops[i]; o.Kind {
			case kernels.OpEmbed:
				u[o.W].embed = true
			case kernels.OpRMSNorm:
				u[o.W].vector = true
			case kernels.OpLinear:
				u[o.W].linear = true
				if o.Bias != kernels.NoTensor {
					u[o.Bias].vector = true
				}
			}
		}
	}
	return u
}

// loadWeights sizes one arena for all panels and fills it on all threads.
func (d *Device) loadWeights() error {
	use := d.tensorUses()
	d.weights = make([]weight, len(d.p.Tensors))
	at := make([]int, len(d.weights))
	total := 0
	for i := range d.weights {
		w := &d.weights[i]
		w.t = &d.p.Tensors[i]
		if use[i].vector {
			w.vector = make([]float32, panels(w.t.Cols)*panelRows)
			if err := kernels.Dequantize(w.vector[:w.t.Cols], w.t.Type, w.t.Data[:w.t.Type.RowBytes(w.t.Cols)]); err != nil {
				return err
			}
		}
		if !use[i].linear {
			continue
		}
		if w.stride, w.count = d.layout(w.t); d.inBF16(stored(w.t)) {
			w.bf16 = &d.ks.bf16
		}
		w.readBack = d.readBack(kernels.TensorID(i), use[i])
		if typ := stored(w.t); typ != w.t.Type || w.t.Order != nil {
			w.t = &kernels.Tensor{Name: w.t.Name, Type: typ, Rows: w.t.Rows, Cols: w.t.Cols}
		}
		at[i] = total
		total += (w.count*w.stride + 63) &^ 63
	}
	var err error
	if d.arena, err = allocate(total); err != nil {
		return err
	}
	for i := range d.weights {
		if w := &d.weights[i]; w.stride > 0 {
			w.panels = d.arena[at[i]:][:w.count*w.stride]
		}
	}
	d.fillAll(use, total)
	d.weightBytes.Store(int64(total))
	return nil
}

// fillAll repacks all tensors in order, each thread the panels it will multiply
// by. No thread waits for another: who comes last tells that a tensor is done and
// gives its pages in the file back.
func (d *Device) fillAll(use []uses, total int) {
	var threads sync.WaitGroup
	var mu sync.Mutex // guards below
	filled, done := make([]int, len(d.weights)), 0
	finish := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if filled[i]++; filled[i] < d.threads {
			return
		}
		w := &d.weights[i]
		if done += len(w.panels); d.o.Progress != nil && w.stride > 0 {
			d.o.Progress(int64(done), int64(total))
		}
		if d.o.Release != nil && (!use[i].embed || w.readBack) {
			d.o.Release(d.p.Tensors[i].Data)
		}
	}
	for th := range d.threads {
		threads.Go(func() {
			for i := range d.weights {
				if w := &d.weights[i]; w.stride > 0 {
					w.fill(&d.p.Tensors[i], th, d.threads)
				}
				finish(i)
			}
		})
	}
	threads.Wait()
}

func panelBytes(t *kernels.Tensor) int {
	typ := stored(t)
	if isFloat(typ) {
		return t.Cols * panelRows * typ.BlockBytes()
	}
	s := spec(typ)
	return t.Cols / s.values * s.blockBytes()
}

// fill repacks a thread's share of t.
func (w *weight) fill(t *kernels.Tensor, thread, threads int) {
	from, to := share(panels(w.t.Rows), thread, threads)
	for p := from; p < to; p++ {
		if w.bf16 != nil {
			w.bf16.pack(w.panels, w.stride, t, p)
			continue
		}
		dst := w.panels[p*w.stride:][:w.stride]
		src, at := t, p
		if w.t.Type != t.Type || t.Order != nil {
			src, at = convert(t, w.t.Type, p), 0
		}
		if isFloat(src.Type) {
			interleave(dst, src, at)
		} else {
			repack(dst, src, at)
		}
	}
}
