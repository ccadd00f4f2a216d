// Package ref is the reference device: every op is written as its formula, one
// row at a time, with sums in float64. It is slow on purpose; other devices are
// measured against it.
package ref

import (
	"errors"
	"fmt"
	"math"

	"hearth/kernels"
)

// Device computes a Program plainly. Results are independent of the batch since
// every row is computed alone.
type Device struct {
	p    *kernels.Program
	kv   kernels.KVConfig
	regs [][]float32 // by register: (rows, width)
	keys [][]float32 // by KV layer: (blocks·blockSize, kvHeads, headDim), rounded to kv.Type
	vals [][]float32
	vecs map[kernels.TensorID][]float32 // dequantized norm weights and biases
	size kernels.DeviceStats
}

var _ kernels.Device = (*Device)(nil)

// New makes a device without a program.
func New() *Device { return &Device{} }

// Name is "ref".
func (d *Device) Name() string { return "ref" }

// Load checks the program and allocates the cache.
func (d *Device) Load(p *kernels.Program, kv kernels.KVConfig) error {
	if d.p != nil {
		return errors.New("ref: a program is loaded already")
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("ref: %w", err)
	}
	if err := kv.Validate(); err != nil {
		return fmt.Errorf("ref: %w", err)
	}
	d.keys = make([][]float32, len(p.KV))
	d.vals = make([][]float32, len(p.KV))
	for i, l := range p.KV {
		n := kv.Blocks * kv.BlockSize * l.KVHeads * l.HeadDim
		d.keys[i], d.vals[i] = make([]float32, n), make([]float32, n)
		d.size.KVBytes += 8 * int64(n)
	}
	d.regs = make([][]float32, len(p.Regs))
	d.vecs = make(map[kernels.TensorID][]float32)
	d.size.WeightBytes = p.WeightBytes()
	d.size.Path, d.size.Threads = "ref", 1
	d.p, d.kv = p, kv
	return nil
}

// Stats tells the sizes.
func (d *Device) Stats() kernels.DeviceStats { return d.size }

// Close drops the program and the cache.
func (d *Device) Close() error {
	*d = Device{}
	return nil
}

// CopyBlocks copies cache blocks in the order given.
func (d *Device) CopyBlocks(pairs [][2]int32) error {
	if d.p == nil {
		return errors.New("ref: no program is loaded")
	}
	for _, pr := range pairs {
		if min(pr[0], pr[1]) < 0 || int(max(pr[0], pr[1])) >= d.kv.Blocks {
			return fmt.Errorf("ref: cannot copy block %d to %d of %d", pr[0], pr[1], d.kv.Blocks)
		}
		for i, l := range d.p.KV {
			n := d.kv.BlockSize * l.KVHeads * l.HeadDim
			from, to := int(pr[0])*n, int(pr[1])*n
			copy(d.keys[i][to:to+n], d.keys[i][from:from+n])
			copy(d.vals[i][to:to+n], d.vals[i][from:from+n])
		}
	}
	return nil
}

// Step runs the batch.
func (d *Device) Step(b *kernels.Batch) error {
	if d.p == nil {
		return errors.New("ref: no program is loaded")
	}
	if err := b.Validate(d.p, d.kv); err != nil {
		return fmt.Errorf("ref: %w", err)
	}
	if len(b.Tokens) == 0 {
		return nil
	}
	for i, w := range d.p.Regs {
		d.regs[i] = grow(d.regs[i], len(b.Tokens)*w)
	}
	all := make([]int32, len(b.Tokens))
	for i := range all {
		all[i] = int32(i)
	}
	for i := range d.p.Ops {
		if err := d.run(&d.p.Ops[i], b, all); err != nil {
			return fmt.Errorf("ref: op %d: %w", i, err)
		}
	}
	for i := range d.p.Norm {
		if err := d.run(&d.p.Norm[i], b, union(b.LogitRows, b.HiddenRows)); err != nil {
			return fmt.Errorf("ref: norm op %d: %w", i, err)
		}
	}
	for i, r := range b.HiddenRows {
		copy(b.Hidden[i*d.p.Width:], d.row(d.p.Final, r))
	}
	for i := range d.p.Head {
		if err := d.run(&d.p.Head[i], b, b.LogitRows); err != nil {
			return fmt.Errorf("ref: head op %d: %w", i, err)
		}
	}
	return d.give(b)
}

func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// union merges two ascending lists.
func union(a, b []int32) []int32 {
	var out []int32
	for len(a) > 0 || len(b) > 0 {
		var v int32
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			v, a = a[0], a[1:]
		case len(a) == 0 || b[0] < a[0]:
			v, b = b[0], b[1:]
		default:
			v, a, b = a[0], a[1:], b[1:]
		}
		out = append(out, v)
	}
	return out
}

// row is register g at row r.
func (d *Device) row(g kernels.Reg, r int32) []float32 {
	w := d.p.Regs[g]
	return d.regs[g][int(r)*w : (int(r)+1)*w]
}

// tensorRow dequantizes row r of a tensor.
func (d *Device) tensorRow(id kernels.TensorID, r int, dst []float32) error {
	t := &d.p.Tensors[id]
	n := t.Type.RowBytes(t.Cols)
	return kernels.Dequantize(dst, t.Type, t.Data[r*n:(r+1)*n])
}

// vector is a norm weight or bias.
func (d *Device) vector(id kernels.TensorID) ([]float32, error) {
	if v, ok := d.vecs[id]; ok {
		return v, nil
	}
	v := make([]float32, d.p.Tensors[id].Cols)
	if err := d.tensorRow(id, 0, v); err != nil {
		return nil, err
	}
	d.vecs[id] = v
	return v, nil
}

// round rounds to the type of the cache.
func round(t kernels.DType, f float32) float32 {
	switch t {
	case kernels.F16:
		return kernels.FromF16(kernels.ToF16(f))
	case kernels.BF16:
		return kernels.FromBF16(kernels.ToBF16(f))
	}
	return f
}

// positions calls f with each row of the batch, its span and its position.
func positions(b *kernels.Batch, f func(row int32, s *kernels.Span, pos int)) {
	for i := range b.Spans {
		s := &b.Spans[i]
		for j := range s.Len {
			f(s.Row+j, s, int(s.Context+j))
		}
	}
}

func exp(x float64) float64  { return math.Exp(x) }
func tanh(x float64) float64 { return math.Tanh(x) }
