package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"

	"hearth/kernels"
)

// Flags of linear_float.cuh.
const (
	flagFast uint32 = 1 << iota
	flagResidual
	flagSilu
	flagGelu
	flagTileScale
)

// floatForm is how a type's linears are cut: what the kernels of linear_float.cuh,
// linear_f32.cu and linear_packed.cu agree on with the layouts here.
type floatForm struct {
	module, entry string // entries are called entry_direct_1 and so on
	height        int    // outputs of a tile
	block         int    // values of K of a block
	blockBytes    int    // of one tile
}

const (
	// smallN: a weight of fewer outputs is cut into more segments, so that
	// enough warps read it at once.
	smallN        = 4096
	fewSegments   = 8
	manySegments  = 16
	directRows    = 8  // one tile of x
	skinnyRows    = 64 // eight
	gemmTiles     = 8  // tiles of a block of the gemm
	gemmRows      = 64
	skinnyTiles   = 2 // of a warp; 1 of packed weights for 4 or 8 tiles of x
	convertRound  = 8 // rows of a tile of x
	operandValues = 32
)

func formOf(t kernels.DType) floatForm {
	switch t {
	case kernels.U4:
		return floatForm{module: "linear_packed", entry: "linear_u4", height: 16, block: 64, blockBytes: 512}
	case kernels.U8:
		return floatForm{module: "linear_packed", entry: "linear_u8", height: 16, block: 32, blockBytes: 512}
	case kernels.F8:
		return floatForm{module: "linear_packed", entry: "linear_f8", height: 16, block: 32, blockBytes: 512}
	case kernels.F32:
		return floatForm{module: "linear_f32", entry: "linear_f32", height: 32, block: 4, blockBytes: 512}
	case kernels.F16:
		return floatForm{module: "linear_float", entry: "linear_f16", height: 16, block: 32, blockBytes: 1024}
	}
	return floatForm{module: "linear_float", entry: "linear_bf16", height: 16, block: 32, blockBytes: 1024}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// cut is a weight's shape in tiles, blocks and segments. It follows from the
// weight alone, and with it the order of every sum.
type cut struct {
	out      int // columns of y
	tiles    int // where gated, gate and up alternate
	blocks   int
	seg      int // blocks of a segment
	segments int
}

func (f *floatForm) cut(w *Weight) cut {
	c := cut{out: w.N, blocks: ceil(w.K, f.block)}
	if w.Gated {
		c.out = w.N / 2
		c.tiles = 2 * ceil(c.out, f.height)
	} else {
		c.tiles = ceil(w.N, f.height)
	}
	want := fewSegments
	if w.N <= smallN {
		want = manySegments
	}
	if f.block < operandValues { // segments are whole runs of 32 values
		per := operandValues / f.block
		c.seg = ceil(ceil(c.blocks, per), want)
		c.segments = ceil(c.blocks, per*c.seg)
		return c
	}
	c.seg = ceil(c.blocks, want)
	c.segments = ceil(c.blocks, c.seg)
	return c
}

// threads of a block with a warp for each segment: the norm of a row takes 256.
func (c *cut) threads() uint32 {
	if c.segments > fewSegments {
		return 512
	}
	return 256
}

func layoutFloat(w *Weight, ts []*kernels.Tensor) error {
	f := formOf(w.Type)
	c := f.cut(w)
	rows := tileRows{ts: ts, gated: w.Gated, height: f.height}
	if f.packed() {
		return layoutPacked(w, &f, &c, &rows)
	}
	w.Unit = int64(f.blockBytes)
	w.Bytes = int64(c.tiles) * int64(c.blocks) * w.Unit
	pack := packHalf
	if w.Type == kernels.F32 {
		pack = packF32
	}
	w.Pack = func(dst []byte, from int64) {
		at := int(from / w.Unit)
		for ; len(dst) > 0; dst, at = dst[f.blockBytes:], at+1 {
			pack(dst[:f.blockBytes], &rows, at/c.blocks, at%c.blocks*f.block, w.K)
		}
	}
	return nil
}

// tileRows finds the rows of a tile among tensors that lie one below the other.
type tileRows struct {
	ts     []*kernels.Tensor
	gated  bool
	height int
}

// row is the data of row i of a tile, nil past the end.
func (r *tileRows) row(tile, i int) []byte {
	at, ts := tile*r.height+i, r.ts
	if r.gated {
		at, ts = tile/2*r.height+i, ts[tile%2:tile%2+1]
	}
	for _, t := range ts {
		if at < t.Rows {
			n := t.Type.RowBytes(t.Cols)
			return t.Data[at*n : (at+1)*n]
		}
		at -= t.Rows
	}
	return nil
}

// packHalf writes a block of 16 outputs × 32 of K of 2-byte values: for the first
// and the second 16 of K, for each lane, the four registers of operand A of
// mma.m16n8k16 (PTX ISA, section of its fragments): outputs g, g+8, g, g+8 for
// g = lane/4, with k = 4·(lane%4) + {0,1}, {0,1}, {2,3}, {2,3}.
func packHalf(dst []byte, rows *tileRows, tile, k0, k int) {
	var tail [64]byte
	for i := range 16 {
		row := tail[:]
		if r := rows.row(tile, i); r != nil && k0+32 <= k {
			row = r[2*k0 : 2*k0+64]
		} else {
			clear(tail[:])
			if r != nil {
				copy(tail[:], r[2*k0:2*k])
			}
		}
		at := i%8*64 + i/8*4
		for s := range 2 {
			for t := range 4 {
				to, from := dst[at+512*s+16*t:], row[32*s+8*t:]
				binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(from))
				binary.LittleEndian.PutUint32(to[8:], binary.LittleEndian.Uint32(from[4:]))
			}
		}
	}
}

// packF32 writes a block of 32 outputs × 4 of K: 16 bytes an output.
func packF32(dst []byte, rows *tileRows, tile, k0, k int) {
	for i := range 32 {
		to := dst[16*i : 16*i+16]
		clear(to)
		if row := rows.row(tile, i); row != nil {
			copy(to, row[4*k0:4*min(k, k0+4)])
		}
	}
}

func (c *LinearCall) flags(w *Weight) uint32 {
	var f uint32
	if w.Fast {
		f |= flagFast
	}
	if c.Residual {
		f |= flagResidual
	}
	switch c.Act {
	case SiluMul:
		f |= flagSilu
	case GeluMul:
		f |= flagGelu
	}
	return f
}

func linearFloat(t Target, w *Weight, c LinearCall) ([]Launch, error) {
	if w.Type == kernels.F32 {
		return linearF32(w, c)
	}
	if !w.packed.ordered {
		return linearTier(t, w, c), nil
	}
	x := Mat{Addr: c.Scratch, Stride: ceil(w.K, 4) * 4}
	rows := rowsLaunch(c.X, c.Norm, c.Eps, w.Addr+Addr(w.packed.orderAt), c.Rows, w.K, x)
	c.X, c.Norm, c.Scratch = x, 0, c.Scratch+Addr(orderedBytes(w, c.Rows))
	return append([]Launch{rows}, linearTier(t, w, c)...), nil
}

// orderedBytes is the room in scratch for x in the order of the weight's columns.
func orderedBytes(w *Weight, rows int) int64 {
	if !w.packed.ordered {
		return 0
	}
	return int64(ceil(4*rows*ceil(w.K, 4)*4, 256) * 256)
}

// endsWithPost tells whether the kernels of a weight end with a post norm for a
// number of rows.
func endsWithPost(w *Weight, rows int) bool {
	f := formOf(w.Type)
	return !f.packed() && rows <= directRows
}

// linearTier gives the launches of the tier for the rows.
func linearTier(t Target, w *Weight, c LinearCall) []Launch {
	f := formOf(w.Type)
	u := f.cut(w)
	flags := c.flags(w)
	weight := []any{w.Addr}
	if f.packed() {
		p := &w.packed
		weight = append(weight, w.Addr+Addr(p.scalesAt), w.Addr+Addr(p.zerosAt), int32(p.group), int32(p.groups))
		if p.tileScale {
			flags |= flagTileScale
		}
	}
	out, tiles, blocks, seg := int32(u.out), int32(u.tiles), int32(u.blocks), int32(u.seg)
	n := 1 // tiles of a block of the first two tiers
	if w.Gated || u.tiles/2 >= t.SMs {
		n = 2
	}
	var post []any
	if endsWithPost(w, c.Rows) {
		post = c.postParams()
	}
	if c.Rows == 1 && w.K%4 == 0 {
		entry := f.entry
		if w.Type == kernels.U4 && w.packed.group == 0 {
			entry += "_fine"
		}
		return []Launch{{
			Module: f.module, Name: fmt.Sprintf("%s_one_row_%d", entry, n),
			Grid: Dim{uint32(ceil(u.tiles, n)), 1, 1}, Block: Dim{uint32(max(256, 32*u.segments)), 1, 1}, // the norm takes 256
			Params: Pack(slices.Concat(weight, []any{c.X.Addr, c.Norm, c.Eps, c.Y.Addr, c.Bias, int32(w.K), out, tiles, blocks, seg, flags}, post)...),
		}}
	}
	if c.Rows <= directRows {
		return []Launch{{
			Module: f.module, Name: fmt.Sprintf("%s_direct_%d", f.entry, n),
			Grid: Dim{uint32(ceil(u.tiles, n)), 1, 1}, Block: Dim{u.threads(), 1, 1},
			Params: Pack(slices.Concat(weight, []any{c.X.Addr, int32(c.X.Stride), c.Norm, c.Eps, c.Y.Addr, int32(c.Y.Stride), c.Bias,
				int32(c.Rows), int32(w.K), out, tiles, blocks, seg, flags}, post)...),
		}}
	}
	columns := ceil(c.Rows, convertRound)
	unscale := c.Scratch
	operand := c.Scratch + Addr(unscaleBytes(c.Rows))
	to := f
	if f.packed() {
		to = formOf(kernels.F16)
	}
	convert := Launch{
		Module: to.module, Name: to.entry + "_convert",
		Grid: Dim{uint32(columns * convertRound), 1, 1}, Block: Dim{256, 1, 1},
		Params: Pack(c.X.Addr, int32(c.X.Stride), c.Norm, c.Eps, int32(c.Rows), int32(w.K), blocks*int32(f.block/operandValues), flags, operand, unscale),
	}
	if c.Rows <= skinnyRows {
		n, across := 2, 1
		for n < columns {
			n *= 2
		}
		if u.segments <= fewSegments {
			across = 2
		}
		of := skinnyTiles
		if f.packed() && n >= 4 {
			of = 1
		}
		return []Launch{convert, {
			Module: f.module, Name: fmt.Sprintf("%s_skinny_%d", f.entry, n),
			Grid: Dim{uint32(ceil(u.tiles, of*across)), 1, 1}, Block: Dim{uint32(32 * u.segments * across), 1, 1},
			Params: Pack(append(weight, operand, unscale, c.Y.Addr, int32(c.Y.Stride), c.Bias,
				int32(c.Rows), out, tiles, blocks, seg, flags, int32(across))...),
		}}
	}
	return []Launch{convert, {
		Module: f.module, Name: f.entry + "_gemm",
		Grid: Dim{uint32(ceil(c.Rows, gemmRows)), uint32(ceil(u.tiles, gemmTiles)), 1}, Block: Dim{256, 1, 1},
		Params: Pack(append(weight, operand, unscale, c.Y.Addr, int32(c.Y.Stride), c.Bias, int32(c.Rows), out, tiles, blocks, seg, flags)...),
	}}
}

// unscaleBytes is the room before the operand in scratch: a float32 a row.
func unscaleBytes(rows int) int64 {
	return int64(ceil(4*ceil(rows, convertRound)*convertRound, 256) * 256)
}

func scratchFloat(w *Weight, rows int) int64 {
	f := formOf(w.Type)
	if w.Type == kernels.F32 {
		return 4 * int64(rows) * int64(ceil(w.K, 4)*4)
	}
	planes := int64(2)
	if w.Fast {
		planes = 1
	}
	return orderedBytes(w, rows) + unscaleBytes(rows) + int64(ceil(rows, convertRound))*int64(ceil(w.K, f.block)*f.block/operandValues)*planes*512
}

// linearF32 multiplies by float32 weights. The norm of many rows is a launch of
// its own.
func linearF32(w *Weight, c LinearCall) ([]Launch, error) {
	f := formOf(w.Type)
	u := f.cut(w)
	r, n := 16, 1
	switch {
	case c.Rows == 1:
		r = 1
	case c.Rows <= 8:
		r = 8
	}
	if w.Gated {
		n = 2
	}
	var launches []Launch
	x, norm := c.X, c.Norm
	if norm != 0 && r > 8 {
		to := Mat{Addr: c.Scratch, Stride: ceil(w.K, 4) * 4}
		launches = append(launches, rowsLaunch(x, norm, c.Eps, 0, c.Rows, w.K, to))
		x, norm = to, 0
	}
	return append(launches, Launch{
		Module: f.module, Name: fmt.Sprintf("%s_%d_%d", f.entry, r, n),
		Grid: Dim{uint32(ceil(u.tiles, n)), uint32(ceil(c.Rows, r)), 1}, Block: Dim{u.threads(), 1, 1},
		Params: Pack(append([]any{w.Addr, x.Addr, int32(x.Stride), norm, c.Eps, c.Y.Addr, int32(c.Y.Stride), c.Bias,
			int32(c.Rows), int32(w.K), int32(u.out), int32(u.tiles), int32(u.blocks), int32(u.seg), c.flags(w)}, c.postParams()...)...),
	}), nil
}

// rowsLaunch writes rows of x to another matrix, normed where norm is not 0, its
// columns in the order of a list of int32 where that is not 0.
func rowsLaunch(x Mat, norm Addr, eps float32, order Addr, rows, k int, to Mat) Launch {
	return Launch{
		Module: "linear_f32", Name: "linear_rows", Grid: Dim{uint32(rows), 1, 1}, Block: Dim{256, 1, 1},
		Params: Pack(x.Addr, int32(x.Stride), norm, eps, order, int32(k), to.Addr, int32(to.Stride)),
	}
}
