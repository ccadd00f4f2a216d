package cpu

import (
	"errors"
	"fmt"

	"hearth/kernels"
)

// Needs are what a device would take for a program. Sizes are bytes.
type Needs struct {
	WeightBytes  int64 // repacked
	MappedBytes  int64 // tensors that stay where the caller has them
	ScratchBytes int64 // an upper bound for steps of the given number of rows
}

// Need says what Load of p and steps of at most rows rows would take, without
// the cache.
func Need(p *kernels.Program, rows int, o Options) (Needs, error) {
	d, err := New(o)
	if err != nil {
		return Needs{}, err
	}
	if err := p.Validate(); err != nil {
		return Needs{}, fmt.Errorf("cpu: %w", err)
	}
	if err := d.checkBF16(p); err != nil {
		return Needs{}, err
	}
	if rows < 1 {
		return Needs{}, errors.New("cpu: a step has at least one row")
	}
	d.p = p
	var n Needs
	cols, expanded := 0, 0
	for i, u := range d.tensorUses() {
		t := &p.Tensors[i]
		cols = max(cols, t.Cols)
		if u.linear {
			stride, count := d.layout(t)
			n.WeightBytes += int64((count*stride + 63) &^ 63)
			if s := spec(stored(t)); s != nil {
				expanded = max(expanded, t.Cols/s.values*s.expandedBytes())
			}
		}
		if u.embed && !d.readBack(kernels.TensorID(i), u) {
			n.MappedBytes += int64(len(t.Data))
		}
	}
	for i, w := range p.Regs {
		if i != int(p.Logits) || p.Vocab%panelRows != 0 { // else the caller's own
			n.ScratchBytes += 4 * int64(rows) * int64((w+panelRows-1)&^(panelRows-1))
		}
	}
	n.ScratchBytes += d.threadScratch(rows, cols, expanded)
	return n, nil
}

// Rounds tells whether p has a matrix whose inputs are rounded to 8 bits unless
// Options.Activations is "f32": one that is not multiplied in floating point.
func Rounds(p *kernels.Program) bool {
	for _, ops := range [][]kernels.Op{p.Ops, p.Norm, p.Head} {
		for i := range ops {
			if ops[i].Kind == kernels.OpLinear && !isFloat(stored(&p.Tensors[ops[i].W])) {
				return true
			}
		}
	}
	return false
}

// threadScratch bounds the quantized inputs, shared and of each thread, and the
// threads' own buffers.
func (d *Device) threadScratch(rows, cols, expanded int) int64 {
	act := int64(rows) * int64(cols) * 5 / 2 // 64 bytes for every 32, and what growTo adds
	own := maxTilePanels*int64(expanded) + int64(replicated)*int64(cols)*(3+4)
	if d.bf16 {
		const row = 4*5/4 + 1 // float32, what growTo adds, and padding but for the last
		act += int64(rows) * (row*int64(cols) + 512)
		own += int64(replicated) * (row*int64(cols) + 512)
	}
	if d.floats {
		own += 4 * int64(floatPanels*panelRows) * int64(cols)
	}
	dim := 0
	for _, l := range d.p.KV {
		dim = max(dim, l.HeadDim)
	}
	own += 4*int64(attnCols)*int64(2*dim+keyTile+8) + 8*int64(keyTile)*int64(panels(dim)*panelRows)
	own += 4 * int64(d.p.Vocab) * 3 // the picker's powers and tokens
	rope := int64(rows) * int64(dim) * 8
	return act + rope + int64(d.threads)*own
}
