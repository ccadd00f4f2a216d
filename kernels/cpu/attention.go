package cpu

import (
	"math"
	"unsafe"

	"hearth/kernels"
)

// keyTile is the number of keys that one step of the online softmax takes: the
// tiles begin at multiples of it, wherever a query's window does.
const keyTile = 64

// runAttn turns heads and fills the cache, then attends. Keys and values of the
// step must all be in the cache before, so there is a barrier between.
func (d *Device) runAttn(th, index int, a *attnStage, rows int) {
	kvHeads := a.op.Attn.KVHeads
	from, to := share(rows*kvHeads, th, d.active)
	for u := from; u < to; u++ {
		d.turnHead(th, a, u/kvHeads, u%kvHeads)
	}
	d.pool.turn.wait()
	d.attend(th, &d.claims[index&1], a)
}

// turnHead runs the per-head ops on KV head g of row r and on the query heads
// that share it, and stores key and value.
func (d *Device) turnHead(th int, a *attnStage, r, g int) {
	at := a.op.Attn
	dim, group := at.HeadDim, at.Heads/at.KVHeads
	for i := range a.heads {
		o := &a.heads[i]
		x := d.regs[o.Dst].row(r)
		if o.Dst == a.op.K {
			x = x[g*dim : (g+1)*dim]
		} else {
			x = x[g*group*dim : (g+1)*group*dim]
		}
		if o.Kind == kernels.OpRope {
			d.ropeRow(x, o.Rope, r)
		} else {
			d.normRow(x, x, o)
		}
	}
	at0 := d.rowOf[r]
	block, slot := int(at0.span.Blocks[at0.pos/d.kv.BlockSize]), at0.pos%d.kv.BlockSize
	k, v := d.regs[a.op.K].row(r)[g*dim:(g+1)*dim], d.regs[a.op.V].row(r)[g*dim:(g+1)*dim]
	if d.kv.Type == kernels.F32 {
		d.cache.put32(a.op.Layer, block, g, slot, k, v)
		return
	}
	k16, v16 := d.scratch[th].half[:dim], d.scratch[th].half[dim:2*dim]
	d.ks.half(d.kv.Type, k16, k)
	d.ks.half(d.kv.Type, v16, v)
	d.cache.put16(a.op.Layer, block, g, slot, k16, v16)
}

// counter hands out units of work; results do not depend on who gets which.
type counter interface{ Add(int64) int64 }

// attend works through units: a tile of rows of one span, and query heads of
// one KV head. Long spans are tiled by rows; single rows may be cut down to one
// head so that all threads have work.
func (d *Device) attend(th int, claims counter, a *attnStage) {
	at := a.op.Attn
	group := at.Heads / at.KVHeads
	heads := min(group, attnCols)
	if len(d.batch.Spans)*at.KVHeads < 4*d.active {
		heads = 1
	}
	// A thread claims the next unit before it works on one, to fetch its keys in time.
	var now, then attnUnit
	unit, mine := int64(0), claims.Add(1)-1
	for i := range d.batch.Spans {
		s := &d.batch.Spans[i]
		h := heads
		if s.Len > 1 {
			h = min(group, attnCols)
		}
		tile := int32(max(1, min(16, attnCols/h)))
		for r := int32(0); r < s.Len; r += tile {
			for h0 := 0; h0 < at.Heads; {
				n := min(h, group-h0%group)
				if unit == mine {
					now, then = then, attnUnit{s, r, min(tile, s.Len-r), h0, n}
					if now.span != nil {
						d.attendTile(th, a, &now, &then)
					}
					mine = claims.Add(1) - 1
				}
				unit++
				h0 += n
			}
		}
	}
	if then.span != nil {
		d.attendTile(th, a, &then, nil)
	}
}

// attnUnit is heads [h0, h0+n), all of one KV head, of rows [r0, r0+rows) of a
// span.
type attnUnit struct {
	span     *kernels.Span
	r0, rows int32
	h0, n    int
}

// attendTile works through u. Tiles of keys are folded in ascending order, each
// with an online softmax (Milakov and Gimelshein, arXiv 1805.02867); which tiles
// a row sees depends on its position only. next is what this thread does next,
// if anything.
func (d *Device) attendTile(th int, a *attnStage, u, next *attnUnit) {
	s, r0, rows, h0, n := u.span, u.r0, u.rows, u.h0, u.n
	t := tile{d: d, sc: &d.scratch[th], a: a.op.Attn, layer: &d.cache.layers[a.op.Layer], n: n, cols: n * int(rows), next: next}
	dim := t.a.HeadDim
	for r := range int(rows) {
		q := d.regs[a.op.A].row(int(s.Row+r0) + r)[h0*dim : (h0+n)*dim]
		copy(t.sc.q[r*n*dim:], q)
	}
	for c := range t.cols {
		t.sc.state[c].reset()
	}
	clear(t.sc.acc[:t.cols*t.layer.dim])
	first := int(s.Context + r0)
	t.blocks, t.kvHead, t.index = s.Blocks, h0/(t.a.Heads/t.a.KVHeads), a.op.Layer
	t.last = first + int(rows) - 1
	for base := t.from(first) / keyTile * keyTile; base < first+int(rows); base += keyTile {
		t.keys(base, first, int(rows))
	}
	for r := range int(rows) {
		out := d.regs[a.op.Dst].row(int(s.Row+r0) + r)[h0*dim : (h0+n)*dim]
		for h := range n {
			c := r*n + h
			inv := 1 / t.sc.state[c].total()
			d.ks.scaleMul(out[h*dim:][:dim], t.sc.acc[c*t.layer.dim:][:dim], t.sc.ones[:dim], inv)
		}
	}
}

// tile is the state of attendTile; column c is row c/n, head c%n.
type tile struct {
	d             *Device
	sc            *scratch
	a             *kernels.Attention
	layer         *cacheLayer
	n, cols       int
	blocks        []int32 // of the span
	index, kvHead int     // layer and KV head in the cache
	last          int     // position that is the last to be seen
	next          *attnUnit
}

// from is the first position that a query at pos sees.
func (t *tile) from(pos int) int {
	if t.a.Window > 0 {
		return max(0, pos-t.a.Window+1)
	}
	return 0
}

// seen is the range of keys in the tile at base that a query at pos sees.
func (t *tile) seen(base, pos int) (lo, hi int) {
	return max(0, t.from(pos)-base), min(keyTile, pos+1-base)
}

// keys folds the keys and values of one tile into all columns that see any.
func (t *tile) keys(base, first, rows int) {
	r, end := 0, rows
	for r < end && !t.sees(base, first+r) {
		r++
	}
	for r < end && !t.sees(base, first+end-1) {
		end--
	}
	if (end-r)*t.n >= widened {
		t.foldWide(base, first, r, end)
		return
	}
	for r < end {
		lo, hi, same := t.alike(base, first, r, end)
		t.fold(base, lo, hi, r*t.n, same*t.n)
		r = same
	}
}

// alike is the range of keys that rows from r on see, of those before end, and the
// first that sees others.
func (t *tile) alike(base, first, r, end int) (lo, hi, other int) {
	lo, hi = t.seen(base, first+r)
	for other = r + 1; other < end; other++ {
		if l, h := t.seen(base, first+other); l != lo || h != hi {
			break
		}
	}
	return lo, hi, other
}

// sees tells whether a query at pos sees any key of the tile at base.
func (t *tile) sees(base, pos int) bool {
	lo, hi := t.seen(base, pos)
	return lo < hi
}

// fold: columns [c0, c1) see keys [lo, hi) of the tile at base.
func (t *tile) fold(base, lo, hi, c0, c1 int) {
	t.score(base, lo, hi, c0, c1)
	t.soften(lo, hi, c0, c1)
	t.weigh(base, lo, hi, c0, c1)
}

// widened is from how many columns on a tile of keys and values is turned into
// float32 once for all of them.
const widened = 12

// foldWide folds the tile at base, turned into float32, into rows [r0, r1), which all
// see some of it: keys [from, to) together, what only some see apart.
func (t *tile) foldWide(base, first, r0, r1 int) {
	ks, sc, dim, wide := t.d.ks, t.sc, t.a.HeadDim, t.layer.dim
	lo, to := t.seen(base, first+r0)
	from, hi := t.seen(base, first+r1-1)
	to = max(from, to)
	t.widen(base, lo, hi)
	t.columns(r0*t.n, r1*t.n, func(c, cols int) {
		ks.fmat(kernels.F32, cols, &sc.scores[c*keyTile], 4*keyTile, (*byte)(unsafe.Pointer(&sc.keys[0])), 4*wide*panelRows,
			&sc.q[c*dim], 4*dim, dim, panels(hi), 0)
	})
	for r := r0; r < r1; {
		l, h, other := t.alike(base, first, r, r1)
		t.soften(l, h, r*t.n, other*t.n)
		t.weighWide(l, min(from, h), r*t.n, other*t.n)
		r = other
	}
	t.weighWide(from, to, r0*t.n, r1*t.n)
	for r := r0; r < r1; {
		_, h, other := t.alike(base, first, r, r1)
		t.weighWide(to, h, r*t.n, other*t.n)
		r = other
	}
}

// weighWide adds values [lo, hi), turned into float32, to columns [c0, c1), after
// these were multiplied by their alpha, once.
func (t *tile) weighWide(lo, hi, c0, c1 int) {
	if lo >= hi {
		return
	}
	ks, sc, wide := t.d.ks, t.sc, t.layer.dim
	t.columns(c0, c1, func(c, cols int) {
		ks.fmatAcc(kernels.F32, cols, &sc.acc[c*wide], 4*wide, (*byte)(unsafe.Pointer(&sc.vals[lo*panelRows])), 4*keyTile*panelRows,
			&sc.scores[c*keyTile+lo], 4*keyTile, hi-lo, wide/panelRows, 0, &sc.alpha[c])
	})
	copy(sc.alpha[c0:c1], sc.ones)
}

// columns cuts columns [c0, c1) into near-equal tiles of what a kernel takes.
func (t *tile) columns(c0, c1 int, f func(c, cols int)) {
	count := tiles(c1-c0, t.d.ks.floatCols)
	for i := range count {
		from, to := share(c1-c0, i, count)
		f(c0+from, to-from)
	}
}

// widen turns what is seen of the tile at base into float32: keys (keyTile/8,
// dim, 8) and values (dim/8, keyTile, 8).
func (t *tile) widen(base, lo, hi int) {
	ks, wide, size, c := t.d.ks, t.layer.dim, t.d.kv.BlockSize, &t.d.cache
	for b := lo / size; b*size < hi; b++ {
		keys, vals := c.head(t.index, int(t.blocks[base/size+b]), t.kvHead)
		ks.widen(c.t, &t.sc.keys[b*size*wide], &keys[0], size/panelRows*wide)
		for p := range wide / panelRows {
			ks.widen(c.t, &t.sc.vals[(p*keyTile+b*size)*panelRows], &vals[p*size*panelRows*c.size], size)
		}
	}
}

// score multiplies columns [c0, c1) by keys [lo, hi) as they lie in the cache.
func (t *tile) score(base, lo, hi, c0, c1 int) {
	ks, dim, size, c := t.d.ks, t.a.HeadDim, t.d.kv.BlockSize, &t.d.cache
	stride := t.layer.dim * panelRows * c.size
	for b := lo / size; b*size < hi; b++ {
		keys, _ := c.at(t.index, int(t.blocks[base/size+b]), t.kvHead)
		ahead := t.ahead(keys, base, lo, hi, b, false)
		n := panels(min(hi-b*size, size))
		t.columns(c0, c1, func(at, cols int) {
			ks.fmat(c.t, cols, &t.sc.scores[at*keyTile+b*size], 4*keyTile, &c.mem[keys], stride, &t.sc.q[at*dim], 4*dim, dim, n, ahead)
			ahead = 0
		})
	}
}

// weigh adds values [lo, hi) as they lie in the cache to columns [c0, c1), after
// these were multiplied by their alpha.
func (t *tile) weigh(base, lo, hi, c0, c1 int) {
	ks, wide, size, c := t.d.ks, t.layer.dim, t.d.kv.BlockSize, &t.d.cache
	alpha := t.sc.alpha
	for b := lo / size; b*size < hi; b++ {
		_, vals := c.at(t.index, int(t.blocks[base/size+b]), t.kvHead)
		ahead := t.ahead(vals, base, lo, hi, b, true)
		k0, k1 := max(lo, b*size), min(hi, (b+1)*size)
		vals += (k0 - b*size) * panelRows * c.size
		t.columns(c0, c1, func(at, cols int) {
			ks.fmatAcc(c.t, cols, &t.sc.acc[at*wide], 4*wide, &c.mem[vals], size*panelRows*c.size,
				&t.sc.scores[at*keyTile+k0], 4*keyTile, k1-k0, wide/panelRows, ahead, &alpha[at])
			ahead = 0
		})
		alpha = t.sc.ones
	}
}

// ahead is how far from the keys, or the values, of block b of a tile that is
// which the thread reads two blocks later: first come the tile's keys, then its
// values, then the next tile or the next unit.
func (t *tile) ahead(from, base, lo, hi, b int, values bool) int {
	const later = 2
	size, c := t.d.kv.BlockSize, &t.d.cache
	first := lo / size
	count := (hi+size-1)/size - first
	i := b - first + later
	if values {
		i += count
	}
	if i < 2*count {
		keys, vals := c.at(t.index, int(t.blocks[base/size+first+i%count]), t.kvHead)
		if i < count {
			return keys - from
		}
		return vals - from
	}
	i -= 2 * count
	blocks, head, at, last := t.blocks, t.kvHead, base+keyTile, t.last
	if at > last {
		u := t.next
		if u == nil {
			return 0
		}
		blocks, head, last = u.span.Blocks, u.h0/(t.a.Heads/t.a.KVHeads), int(u.span.Context+u.r0+u.rows)-1
		at = t.from(int(u.span.Context + u.r0))
	}
	if at = at/size + i; at > last/size {
		return 0
	}
	keys, _ := c.at(t.index, int(blocks[at]), head)
	return keys - from
}

// soften turns the scores of columns [c0, c1) into weights of keys [lo, hi).
func (t *tile) soften(lo, hi, c0, c1 int) {
	scale := t.a.Scale
	if most := float64(t.a.SoftCap); most > 0 {
		for c := c0; c < c1; c++ {
			for i, s := range t.sc.scores[c*keyTile+lo : c*keyTile+hi] {
				t.sc.scores[c*keyTile+lo+i] = float32(most * math.Tanh(float64(s*scale)/most))
			}
		}
		scale = 1
	}
	t.d.ks.softmax(&t.sc.scores[c0*keyTile], c1-c0, panels(hi), lo, hi, scale, &t.sc.state[c0], &t.sc.alpha[c0])
}
