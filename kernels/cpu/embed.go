package cpu

import "hearth/kernels"

// A matrix that is multiplied and embeds tokens too (tied embeddings) is held
// once, as panels: a token's row is read back from the panel that it is in, and
// the file's pages are dropped as those of other matrices are.

// readBack tells whether the rows of tensor i are read from panels.
func (d *Device) readBack(i kernels.TensorID, u uses) bool {
	t := &d.p.Tensors[i]
	return u.linear && spec(t.Type) != nil && t.Order == nil
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

// row dequantizes row r of w, with the values that kernels.Dequantize gives: a
// block of its panel at a time, eight rows of which one is kept.
func (d *Device) row(th int, dst []float32, w *weight, r int) {
	s, eight := spec(w.t.Type), d.scratch[th].rows[:]
	panel := w.panels[r/panelRows*w.stride:][:w.stride]
	for b := 0; len(dst) > 0; b++ {
		d.ks.floats(w.t.Type, &eight[0], &panel[b*s.blockBytes()], 1)
		for k := range dst[:s.values] {
			dst[k] = eight[k*panelRows+r%panelRows]
		}
		dst = dst[s.values:]
	}
}
