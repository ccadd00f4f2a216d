package cpu

import "hearth/kernels"

// A matrix that is multiplied and embeds tokens too (tied embeddings) is held
// once, as panels: a token's row is read back from the panel that it is in, and
// the file's pages are dropped as those of other matrices are.

// readBack tells whether the rows of tensor i are read from panels. Those for inputs in
// bf16, and of types without panels of their own, do not hold what the file does.
func (d *Device) readBack(i kernels.TensorID, u uses) bool {
	t := &d.p.Tensors[i]
	return u.linear && stored(t) == t.Type && t.Order == nil && !d.inBF16(t.Type)
}

// embed computes row r of an OpEmbed.
func (d *Device) embed(th int, dst []float32, o *kernels.Op, r int) {
	t, w, token := &d.p.Tensors[o.W], &d.weights[o.W], int(d.batch.Tokens[r])
	if w.readBack {
		d.row(th, dst[:t.Cols], w, token)
	} else {
		n := t.Type.RowBytes(t.Cols)
		if err := kernels.Dequantize(dst, t.Type, t.Data[token*n:][:n]); err != nil {
			panic("BUG: a validated embedding does not dequantize: " + err.Error())
		}
	}
	if o.Factor != 1 {
		scaleRow(dst, o.Factor)
	}
}

// rowStep is how many columns row takes at a time: whole blocks of every type.
const rowStep = 256

// row dequantizes row r of w, with the values that kernels.Dequantize gives: of its
// panel, eight rows of which one is kept.
func (d *Device) row(th int, dst []float32, w *weight, r int) {
	s, eight := spec(w.t.Type), d.scratch[th].rows[:]
	panel := w.panels[r/panelRows*w.stride:][:w.stride]
	for k := 0; k < len(dst); k += rowStep {
		part := dst[k:min(k+rowStep, len(dst))]
		if s != nil {
			d.ks.floats(w.t.Type, &eight[0], &panel[k/s.values*s.blockBytes()], len(part)/s.values)
		} else {
			d.ks.widen(w.t.Type, &eight[0], &panel[k*panelRows*w.t.Type.BlockBytes()], len(part))
		}
		for i := range part {
			part[i] = eight[i*panelRows+r%panelRows]
		}
	}
}
