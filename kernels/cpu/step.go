package cpu

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"hearth/kernels"
	"hearth/kernels/pick"
)

// replicated is the most rows whose shared input every thread prepares for
// itself: up to there that is cheaper than a barrier.
const replicated = 4

// attnCols is the most query heads that attention works on together.
const attnCols = 64

// actRows are rows of one stage's input: quantized, in bf16, or float32 made for it.
type actRows struct {
	act32  []byte
	bf16   []byte // see bf16Kernels.round
	floats []float32
}

// scratch is what one thread owns.
type scratch struct {
	act         actRows
	panel       []float32                    // dequantized panels (f32 mode)
	expanded    []byte                       // expanded panels
	rows        [panelRows * rowStep]float32 // a part of a panel, see Device.row
	q           []float32                    // (attnCols, dim)
	scores      []float32                    // (attnCols, keyTile)
	keys, vals  []float32                    // a tile of them, see tile.widen
	acc         []float32                    // (attnCols, dim)
	state       []softState
	half        []uint16  // a key and a value
	alpha, ones []float32 // (attnCols), ones at least as long as a head
	picker      pick.Picker
	_           [64]byte
}

// ropeTable holds cos and sin by row of the step: (rows, dim/2) each.
type ropeTable struct {
	r        *kernels.Rope
	cos, sin []float32
}

// Step runs the batch on all threads.
func (d *Device) Step(b *kernels.Batch) error {
	if !d.loaded.Load() {
		return errors.New("cpu: no program is loaded")
	}
	if err := b.Validate(d.p, d.kv); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if len(b.Tokens) == 0 {
		return nil
	}
	d.batch = b
	d.reserve(b)
	d.active = d.crew.size(len(b.Tokens))
	d.pool.turn.slept.Store(0)
	d.claims[0].Store(0) // of the first stage; each stage resets the next one's
	start := time.Now()
	d.pool.run(d.active, d.threadF)
	d.crew.report(len(b.Tokens), time.Since(start), time.Duration(d.pool.turn.slept.Load()))
	d.batch = nil
	if d.inPlace {
		d.regs[d.p.Logits].data = nil // the caller's
	}
	return nil
}

// reserve grows the buffers for this batch; in steady state it only fills tables.
func (d *Device) reserve(b *kernels.Batch) {
	d.rowOf = d.rowOf[:0]
	for i := range b.Spans {
		s := &b.Spans[i]
		for j := range s.Len {
			d.rowOf = append(d.rowOf, rowInfo{s, int(s.Context + j)})
		}
	}
	d.sel = appendUnion(d.sel[:0], b.LogitRows, b.HiddenRows)
	grown := d.reserveRegs(&d.ops, len(b.Tokens))
	grown = d.reserveRegs(&d.norm, len(d.sel)) || grown
	if d.inPlace = b.Choices == nil && len(b.LogitRows) > 0 && d.logitsFit(); d.inPlace {
		d.regs[d.p.Logits].data = b.Logits
	}
	d.numberGiven(b)
	grown = d.reserveRegs(&d.head, len(b.LogitRows)) || grown
	for i := range d.ropes {
		t := &d.ropes[i]
		n := len(b.Tokens) * len(t.r.InvFreq)
		grown = growTo(&t.cos, n) || grown
		growTo(&t.sin, n)
	}
	for _, pt := range []*part{&d.ops, &d.norm, &d.head} {
		for i := range pt.stages {
			if l := pt.stages[i].lin; l != nil {
				grown = d.reserveAct(&d.shared, l, len(b.Tokens), false) || grown
			}
		}
	}
	if d.scratch[0].state == nil {
		d.reserveScratch()
		grown = true
	}
	if grown {
		d.countScratch()
	}
}

// logitsFit tells whether the head can write straight to the caller's memory.
func (d *Device) logitsFit() bool {
	return len(d.p.Head) > 0 && d.p.Vocab%panelRows == 0 && d.p.Logits != d.p.Final &&
		!writes(d.p.Ops, d.p.Logits) && !writes(d.p.Norm, d.p.Logits)
}

// growTo makes *s hold n values, with some to spare; old content is lost.
func growTo[T any](s *[]T, n int) bool {
	if cap(*s) >= n {
		*s = (*s)[:cap(*s)]
		return false
	}
	*s = make([]T, n+n/4)
	return true
}

func (d *Device) reserveRegs(pt *part, rows int) (grown bool) {
	for _, r := range pt.regs {
		g := &d.regs[r]
		if len(g.data) < rows*g.stride {
			grown = growTo(&g.data, rows*g.stride) || grown
		}
	}
	return grown
}

func (d *Device) reserveAct(a *actRows, l *linearStage, rows int, own bool) (grown bool) {
	width := d.p.Regs[l.input]
	if l.needInt {
		grown = growTo(&a.act32, rows*width/32*act32Bytes)
	}
	if l.needBF16 {
		grown = growTo(&a.bf16, rows*d.ks.bf16.rowBytes(width)) || grown
	}
	if own {
		grown = growTo(&a.floats, rows*d.regs[l.input].stride) || grown
	}
	return grown
}

// reserveScratch sizes the threads' own buffers, once.
func (d *Device) reserveScratch() {
	cols, dim := 0, 0
	for i := range d.p.Tensors {
		cols = max(cols, d.p.Tensors[i].Cols)
	}
	for _, l := range d.cache.layers {
		dim = max(dim, l.dim)
	}
	for th := range d.scratch {
		s := &d.scratch[th]
		for _, pt := range []*part{&d.ops, &d.norm, &d.head} {
			for i := range pt.stages {
				if l := pt.stages[i].lin; l != nil {
					d.reserveAct(&s.act, l, replicated, true)
				}
			}
		}
		if d.floats {
			s.panel = make([]float32, floatPanels*panelRows*cols)
		}
		if d.ks.tile != nil {
			s.expanded = make([]byte, maxTilePanels*d.expandedBytes())
		}
		s.q = make([]float32, attnCols*dim)
		s.acc = make([]float32, attnCols*dim)
		s.scores = make([]float32, attnCols*keyTile)
		s.keys, s.vals = make([]float32, dim*keyTile), make([]float32, dim*keyTile)
		s.state = make([]softState, attnCols)
		s.half = make([]uint16, 2*dim)
		s.picker.Loops = pick.Loops{Largest: d.ks.largest, Powers: d.ks.powers}
		s.alpha, s.ones = make([]float32, attnCols), make([]float32, max(attnCols, dim))
		for i := range s.ones {
			s.ones[i] = 1
		}
	}
}

// expandedBytes is the size of the largest expanded panel.
func (d *Device) expandedBytes() (n int) {
	for i := range d.weights {
		if w := &d.weights[i]; w.panels != nil && !isFloat(w.t.Type) {
			s := spec(w.t.Type)
			n = max(n, w.t.Cols/s.values*s.expandedBytes())
		}
	}
	return n
}

func (d *Device) countScratch() {
	n := len(d.shared.act32) + len(d.shared.bf16)
	for i := range d.regs {
		if !(d.inPlace && i == int(d.p.Logits)) {
			n += 4 * len(d.regs[i].data)
		}
	}
	for i := range d.ropes {
		n += 8 * len(d.ropes[i].cos)
	}
	for i := range d.scratch {
		s := &d.scratch[i]
		n += len(s.act.act32) + len(s.act.bf16) + len(s.expanded) + 4*(len(s.act.floats)+len(s.panel)+len(s.q)+len(s.acc)+len(s.scores)+len(s.keys)+len(s.vals)+len(s.alpha)) +
			len(s.state)*int(unsafe.Sizeof(softState{}))
	}
	d.scrBytes.Store(int64(n))
}

// appendUnion merges two ascending lists.
func appendUnion(out, a, b []int32) []int32 {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return out
}

// thread is the whole step of one thread.
func (d *Device) thread(th int) {
	b := d.batch
	d.fillRopes(th)
	d.pool.turn.wait()
	d.runPart(th, &d.ops, 0, len(b.Tokens))
	if len(d.sel) == 0 {
		return
	}
	if th == 0 {
		d.gather(d.norm.inputs, d.sel, nil)
	}
	d.pool.turn.wait()
	d.runPart(th, &d.norm, len(d.ops.stages), len(d.sel))
	if th == 0 {
		d.emit(b.Hidden, b.HiddenRows)
		d.gather(d.head.inputs, b.LogitRows, d.sel)
	}
	d.pool.turn.wait()
	if len(b.LogitRows) == 0 || len(d.p.Head) == 0 {
		return
	}
	if th == 0 && b.Prepare != nil {
		b.Prepare()
	}
	first := len(d.ops.stages) + len(d.norm.stages)
	d.runPart(th, &d.head, first, len(b.LogitRows))
	d.give(th, &d.claims[(first+len(d.head.stages))&1])
}

// fillRopes computes this thread's rows of the rotation tables.
func (d *Device) fillRopes(th int) {
	from, to := share(len(d.batch.Tokens), th, d.active)
	for i := range d.ropes {
		t := &d.ropes[i]
		n := len(t.r.InvFreq)
		for r := from; r < to; r++ {
			for k, f := range t.r.InvFreq {
				sin, cos := math.Sincos(float64(d.rowOf[r].pos) * float64(f))
				t.sin[r*n+k] = float32(sin * float64(t.r.Scale))
				t.cos[r*n+k] = float32(cos * float64(t.r.Scale))
			}
		}
	}
}

// gather moves the wanted rows of the registers to the front. rows ascend, so
// none is overwritten before it is read. Where in is given, register row i is
// that of batch row in[i].
func (d *Device) gather(regs []kernels.Reg, rows, in []int32) {
	for _, g := range regs {
		reg, at := &d.regs[g], 0
		for i, r := range rows {
			at = index(in, r, at)
			if at != i {
				copy(reg.row(i), reg.row(at))
			}
		}
	}
}

// index finds batch row r in in, not before at; without in it is r.
func index(in []int32, r int32, at int) int {
	if in == nil {
		return int(r)
	}
	for in[at] != r {
		at++
	}
	return at
}

// emit copies out the final states of rows of the batch.
func (d *Device) emit(dst []float32, rows []int32) {
	at, width := 0, d.p.Width
	for i, r := range rows {
		at = index(d.sel, r, at)
		copy(dst[i*width:(i+1)*width], d.regs[d.p.Final].row(at))
	}
}

// runPart runs all stages, of which the first has number first in the step, over
// the first rows rows.
func (d *Device) runPart(th int, pt *part, first, rows int) {
	for i := range pt.stages {
		s := &pt.stages[i]
		i += first
		if th == 0 {
			d.claims[(i+1)&1].Store(0) // of the next stage; nobody uses it now
		}
		switch s.kind {
		case stageRows:
			from, to := share(rows, th, d.active)
			for r := from; r < to; r++ {
				for k := range s.rows {
					d.rowOp(th, &s.rows[k], r)
				}
			}
		case stageLinear:
			d.runLinear(th, i, s.lin, rows)
		case stageAttn:
			d.runAttn(th, i, s.attn, rows)
		}
		d.pool.turn.wait()
	}
}
