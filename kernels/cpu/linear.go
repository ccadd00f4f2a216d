package cpu

import (
	"unsafe"

	"hearth/kernels"
)

// chunkBytes bounds the quantized input that is multiplied by all of a thread's
// panels before the next rows, so that it stays in the second-level cache.
const chunkBytes = 256 << 10

// weightsAhead is how many bytes before they are read float weights are fetched.
const weightsAhead = 1024

// A thread takes the first ownCuts of its cuts of every matrix unasked; the
// rest goes to whoever is free, since cores are not equally fast: others use
// them too.
const (
	cuts    = 8
	ownCuts = 5
)

// runLinear prepares the input, multiplies, and runs what follows on the
// columns that this thread made.
func (d *Device) runLinear(th, index int, l *linearStage, rows int) {
	act := d.prepare(th, l, rows)
	if d.active == 1 {
		d.runCuts(th, l, act, rows, 0, cuts)
		return
	}
	d.runCuts(th, l, act, rows, th*cuts, th*cuts+ownCuts)
	claims := &d.claims[index&1]
	for {
		i := int(claims.Add(1)) - 1
		owner := i / (cuts - ownCuts)
		if owner >= d.active {
			return
		}
		at := owner*cuts + ownCuts + i%(cuts-ownCuts)
		d.runCuts(th, l, act, rows, at, at+1)
	}
}

// runCuts makes cuts [s0, s1) of the columns of every matrix, of cuts for
// each thread.
func (d *Device) runCuts(th int, l *linearStage, act *actRows, rows, s0, s1 int) {
	for i := range l.mats {
		o := &l.mats[i]
		w := &d.weights[o.W]
		from, to := d.columns(w.t.Rows, rows, s0, s1)
		if from < to {
			d.multiply(th, l, o, w, act, rows, from, to)
		}
	}
	for i := range l.post {
		o := &l.post[i]
		width := d.regs[o.Dst].width
		from, to := d.columns(width, rows, s0, s1)
		from, to = from*panelRows, min(to*panelRows, width)
		if from >= to {
			continue
		}
		for r := range rows {
			d.pointwise(o, r, from, to)
		}
	}
}

// columns is which panels of n columns cuts [s0, s1) are, for a number of rows; those
// of a tile stay together.
func (d *Device) columns(n, rows, s0, s1 int) (from, to int) {
	n, all := panels(n), cuts*d.active
	unit := 2
	if d.ks.tile != nil && rows >= d.ks.tileRows {
		unit = maxTilePanels
	}
	from, _ = share(tiles(n, unit), s0, all)
	to, _ = share(tiles(n, unit), s1, all)
	return unit * from, min(unit*to, n)
}

// prepare norms and quantizes the input: all rows by every thread for itself if
// they are few, else each thread some rows for all.
func (d *Device) prepare(th int, l *linearStage, rows int) *actRows {
	reg := &d.regs[l.input]
	if rows > replicated {
		a := &d.shared
		from, to := share(rows, th, d.active)
		for r := from; r < to; r++ {
			x := reg.row(r)
			if l.norm != nil {
				d.normRow(x, d.regs[l.norm.A].row(r), l.norm)
			}
			d.quantize(a, l, x, r)
		}
		d.pool.turn.wait()
		return a
	}
	a := &d.scratch[th].act
	if l.norm == nil {
		for r := range rows {
			d.quantize(a, l, reg.row(r), r)
		}
		return a
	}
	for r := range rows {
		x := a.floats[r*reg.stride:][:reg.width]
		d.normRow(x, d.regs[l.norm.A].row(r), l.norm)
		d.quantize(a, l, x, r)
	}
	return a
}

func (d *Device) quantize(a *actRows, l *linearStage, x []float32, r int) {
	if l.needInt {
		n := len(x) / 32 * act32Bytes
		d.ks.quantize32(a.act32[r*n:][:n], x)
	}
	if l.needBF16 {
		d.ks.bf16.round(&a.bf16[r*d.ks.bf16.rowBytes(len(x))], x)
	}
}

// floatInput is where the float32 form of the stage's input is, and the bytes
// of a row.
func (d *Device) floatInput(a *actRows, l *linearStage) (*float32, int) {
	reg := &d.regs[l.input]
	if l.norm != nil && a != &d.shared {
		return &a.floats[0], 4 * reg.stride
	}
	return &reg.data[0], 4 * reg.stride
}

// tiles is the number of near-equal tiles of at most most columns that n are cut
// into: tile i has columns share(n, i, tiles).
func tiles(n, most int) int { return (n + most - 1) / most }

// multiply makes panels [from, to) of one matrix for all rows.
func (d *Device) multiply(th int, l *linearStage, o *kernels.Op, w *weight, act *actRows, rows, from, to int) {
	dst := &d.regs[o.Dst]
	switch {
	case d.inBF16(w.t.Type):
		d.multiplyBF16(w, dst, act, rows, from, to)
	case isFloat(w.t.Type):
		x, ldx := d.floatInput(act, l)
		d.multiplyFloat(w, dst, x, ldx, rows, from, to)
	case d.floats:
		x, ldx := d.floatInput(act, l)
		d.multiplyDequantized(th, w, dst, x, ldx, rows, from, to)
	default:
		d.multiplyInt(th, w, dst, act, rows, from, to)
	}
	if o.Bias != kernels.NoTensor {
		bias := d.weights[o.Bias].vector[from*panelRows : to*panelRows]
		for r := range rows {
			d.ks.add(dst.data[r*dst.stride+from*panelRows:][:len(bias)], bias)
		}
	}
}

// at is p moved by n bytes.
func at[T any](p *T, n int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), n)) }

func (d *Device) multiplyInt(th int, w *weight, dst *register, act *actRows, rows, from, to int) {
	blocks, lda, ldd := w.t.Cols/spec(w.t.Type).values, w.t.Cols/32*act32Bytes, 4*dst.stride
	chunk := max(8, chunkBytes/min(lda, depth/32*act32Bytes)&^7)
	for r0 := 0; r0 < rows; r0 += chunk {
		n, p := min(chunk, rows-r0), from
		out, in := at(&dst.data[0], r0*ldd), at(&act.act32[0], r0*lda)
		switch {
		case d.ks.tile != nil && n >= d.ks.tileRows:
			end := from + (to-from)&^1
			d.multiplyTiles(w, d.scratch[th].expanded, at(out, 4*panelRows*p), ldd, p, end, in, lda, blocks, n)
			p = end
		case d.ks.pair != nil && n >= maxCols && p+1 < to:
			count := (to - p) / 2
			d.ks.pair(w.t.Type, n, at(out, 4*panelRows*p), ldd, &w.panels[p*w.stride], w.stride, in, lda, blocks, count)
			p += 2 * count
		}
		t, step := tiles(n, maxCols), 1
		if t == 1 {
			step = max(1, to-p)
		}
		for ; p < to; p += step {
			for i := range t {
				c, end := share(n, i, t)
				d.ks.mat(w.t.Type, end-c, at(out, c*ldd+4*panelRows*p), ldd, &w.panels[p*w.stride], at(in, c*lda), lda, blocks, step)
			}
		}
	}
}

// depth is about how many columns of expanded panels, and of the input, are
// worked on at a time, so that they stay in the caches near the core.
const depth = 512

// multiplyTiles multiplies n rows by panels [from, to), an even number, a part of
// their columns after the other. Those that it works on are expanded in x.
func (d *Device) multiplyTiles(w *weight, x []byte, dst *float32, ldd, from, to int, act *byte, lda, blocks, n int) {
	s, parts := spec(w.t.Type), tiles(w.t.Cols, depth)
	size := s.blockBytes()
	for k := range parts {
		b0, b1 := share(blocks, k, parts)
		in := at(act, b0*s.values/32*act32Bytes)
		for p := from; p < to; {
			count := maxTilePanels
			if p+count > to || d.ks.tileCols(w.t.Type, count) == 0 {
				count = 2
			}
			e := d.ks.expand(w.t.Type, count, &x[0], &w.panels[p*w.stride+b0*size], w.stride, b1-b0)
			next := to * w.stride // where that begins which is expanded next
			switch {
			case p+count < to:
				next = (p+count)*w.stride + b0*size
			case k+1 < parts:
				next = from*w.stride + b1*size
			}
			// Each tile fetches another part of it, and the first again once all is there.
			part, fetched := (b1-b0)*s.values/32*64, 0
			t := tiles(n, d.ks.tileCols(w.t.Type, count))
			for i, c := 0, 0; i < t; i++ {
				cols := n / t
				if i < n%t {
					cols++
				}
				ahead := min(next+fetched, len(w.panels)-1)
				d.ks.tile(w.t.Type, count, cols, at(dst, c*ldd+4*panelRows*(p-from)), ldd, e, at(in, c*lda), lda, b1-b0, b0, &w.panels[ahead], w.stride)
				c += cols
				if fetched += part; fetched >= (b1-b0)*size {
					fetched = 0
				}
			}
			p += count
		}
	}
}

func (d *Device) multiplyFloat(w *weight, dst *register, x *float32, ldx, rows, from, to int) {
	out, ldd := &dst.data[0], 4*dst.stride
	if rows <= d.ks.floatCols {
		d.ks.fmat(w.t.Type, rows, at(out, 4*panelRows*from), ldd, &w.panels[from*w.stride], w.stride, x, ldx, w.t.Cols, to-from, weightsAhead)
		return
	}
	chunk := max(8, chunkBytes/ldx&^7)
	for r0 := 0; r0 < rows; r0 += chunk {
		n := min(chunk, rows-r0)
		t, step := tiles(n, d.ks.floatCols), d.ks.floatPanels
		for p := from; p < to; p += step { // several, for enough sums that do not wait for each other
			for i := range t {
				c, end := share(n, i, t)
				c += r0
				d.ks.fmat(w.t.Type, end+r0-c, at(out, c*ldd+4*panelRows*p), ldd, &w.panels[p*w.stride], w.stride, at(x, c*ldx), ldx, w.t.Cols, min(step, to-p), weightsAhead)
			}
		}
	}
}

// floatPanels is the number of panels that are dequantized at a time.
const floatPanels = 4

// multiplyDequantized turns a few panels into float32 and multiplies by those.
func (d *Device) multiplyDequantized(th int, w *weight, dst *register, x *float32, ldx, rows, from, to int) {
	panel := d.scratch[th].panel
	cols, blocks := w.t.Cols, w.t.Cols/spec(w.t.Type).values
	out, ldd := &dst.data[0], 4*dst.stride
	for p := from; p < to; p += floatPanels {
		n := min(floatPanels, to-p)
		d.ks.floats(w.t.Type, &panel[0], &w.panels[p*w.stride], n*blocks)
		t := tiles(rows, d.ks.floatCols)
		for i := range t {
			c, end := share(rows, i, t)
			d.ks.fmat(kernels.F32, end-c, at(out, c*ldd+4*panelRows*p), ldd, (*byte)(unsafe.Pointer(&panel[0])),
				4*panelRows*cols, at(x, c*ldx), ldx, cols, n, 0)
		}
	}
}
