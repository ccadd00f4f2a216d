package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"

	"hearth/kernels"
)

// packing is the layout of a weight of U4, U8 or F8: tiles of levels, then scales,
// then zero points, then the order of columns (kernels.Tensor.Order) as int32, each
// from a multiple of the unit on. Scales that runs of 32 values share are stored
// once, as the file had them.
type packing struct {
	group, groups              int // 2^group runs of 32 of K share a scale; groups of a row
	tileScale                  bool
	ordered                    bool
	scalesAt, zerosAt, orderAt int64
}

const packedUnit = 512

func (f *floatForm) packed() bool { return f.module == "linear_packed" }

// headBytes is what stands before the levels of a block: the scale, and the zero.
func headBytes(t kernels.DType) int {
	if t == kernels.F8 {
		return 4
	}
	return 3
}

func layoutPacked(w *Weight, f *floatForm, c *cut, rows *tileRows) error {
	p := &w.packed
	p.group = groupOf(rows.ts)
	p.groups = 1 + (c.blocks*f.block/operandValues-1)>>p.group
	p.tileScale = w.Type == kernels.F8 && sharedByTiles(rows, c, p.group)
	entries := int64(c.tiles) * int64(p.groups)
	align := func(n int64) int64 { return (n + packedUnit - 1) / packedUnit * packedUnit }
	w.Unit = packedUnit
	p.scalesAt = int64(c.tiles) * int64(c.blocks) * packedUnit
	p.zerosAt = p.scalesAt + align(entries*int64(p.scaleEntry(w.Type)))
	w.Bytes = p.zerosAt
	if w.Type != kernels.F8 {
		w.Bytes += align(entries * zeroEntry)
	}
	p.orderAt = w.Bytes
	order := rows.ts[0].Order
	if p.ordered = order != nil; p.ordered {
		w.Bytes += align(4 * int64(w.K))
	}
	w.Pack = func(dst []byte, from int64) {
		for ; len(dst) > 0; dst, from = dst[packedUnit:], from+packedUnit {
			unit := dst[:packedUnit]
			switch {
			case from < p.scalesAt:
				at := int(from / packedUnit)
				if tile, block := at/c.blocks, at%c.blocks*f.block; w.Type == kernels.U4 {
					packNibbles(unit, rows, tile, block, w.K)
				} else {
					packBytes(unit, rows, tile, block, w.K)
				}
			case from < p.zerosAt:
				p.packScales(unit, rows, c.tiles, from-p.scalesAt)
			case from < p.orderAt:
				p.packZeros(unit, rows, c.tiles, from-p.zerosAt)
			default:
				clear(unit)
				for i, k := range order[(from-p.orderAt)/4 : min(int64(w.K), (from-p.orderAt+packedUnit)/4)] {
					binary.LittleEndian.PutUint32(unit[4*i:], uint32(k))
				}
			}
		}
	}
	return nil
}

// groupOf is the binary logarithm of the largest power of two such that every
// row of every tensor changes its scale or zero point only at multiples of it.
func groupOf(ts []*kernels.Tensor) int {
	g := 0
	for _, t := range ts {
		n, head, row := t.Type.BlockBytes(), headBytes(t.Type), t.Type.RowBytes(t.Cols)
		for at := 0; at < len(t.Data) && g&1 == 0; at += row {
			for i := n; i < row; i += n {
				if string(t.Data[at+i:][:head]) != string(t.Data[at+i-n:][:head]) {
					g |= i / n
				}
			}
		}
	}
	if g == 0 {
		return wholeRow
	}
	return bits.TrailingZeros(uint(g))
}

// wholeRow is the group of a weight whose rows have one scale each.
const wholeRow = 30

// sharedByTiles tells whether all outputs of each tile have the same scales.
func sharedByTiles(rows *tileRows, c *cut, group int) bool {
	for tile := range c.tiles {
		first := rows.row(tile, 0)
		for i := 1; i < rows.height; i++ {
			row := rows.row(tile, i)
			for at := 0; at < len(row); at += kernels.F8.BlockBytes() << group {
				if string(row[at:at+4]) != string(first[at:at+4]) {
					return false
				}
			}
		}
	}
	return true
}

// scaleEntry is the size of a tile's scales for a group, zeroEntry of its zeros.
func (p *packing) scaleEntry(t kernels.DType) int {
	switch {
	case p.tileScale:
		return 4
	case t == kernels.F8:
		return 64
	}
	return 32
}

const zeroEntry = 16

// head is what stands before the levels of a group of output i of a tile, nil
// past the ends.
func (p *packing) head(rows *tileRows, tile, group, i int) []byte {
	t := rows.ts[0].Type
	row, at := rows.row(tile, i), group*t.BlockBytes()<<p.group
	if at >= len(row) {
		return nil
	}
	return row[at : at+headBytes(t)]
}

// packScales writes the unit of scales from byte `from` of them on: for each tile
// and group, outputs 0, 8, 1, 9 … 7, 15, or one.
func (p *packing) packScales(dst []byte, rows *tileRows, tiles int, from int64) {
	clear(dst)
	t := rows.ts[0].Type
	size := p.scaleEntry(t)
	for at := int(from) / size; len(dst) >= size && at < tiles*p.groups; dst, at = dst[size:], at+1 {
		for i := range 16 {
			h := p.head(rows, at/p.groups, at%p.groups, i)
			switch place := i%8*2 + i/8; {
			case h == nil:
			case t != kernels.F8:
				copy(dst[2*place:], h[:2])
			case !p.tileScale || i == 0:
				// The kernel takes the numbers of e4m3 times 2^-8.
				s := math.Float32frombits(binary.LittleEndian.Uint32(h)) * 256
				binary.LittleEndian.PutUint32(dst[4*place:], math.Float32bits(s))
			}
		}
	}
}

// packZeros does so for zero points.
func (p *packing) packZeros(dst []byte, rows *tileRows, tiles int, from int64) {
	clear(dst)
	for at := int(from) / zeroEntry; len(dst) > 0 && at < tiles*p.groups; dst, at = dst[zeroEntry:], at+1 {
		for i := range 16 {
			if h := p.head(rows, at/p.groups, at%p.groups, i); h != nil {
				dst[i%8*2+i/8] = h[2]
			}
		}
	}
}

// levels is the block of 32 values from k on of output i of a tile, without its
// head; zeros past the ends.
func (r *tileRows) levels(tile, i, k int) []byte {
	t := r.ts[0].Type
	n, row := t.BlockBytes(), r.row(tile, i)
	if at := k / 32 * n; at < len(row) {
		return row[at+headBytes(t) : at+n]
	}
	return noLevels[:]
}

var noLevels [32]byte

// packNibbles writes a block of 16 outputs × 64 of K: see U4 in linear_packed.cuh.
func packNibbles(dst []byte, rows *tileRows, tile, k0, _ int) {
	// The values 16·s … of K are the low or the high nibbles of a block's bytes. Of
	// four neighbours the second and third change places.
	spread := func(b []byte, s int) uint32 {
		v := binary.LittleEndian.Uint32(b) >> (s % 2 * 4) & 0x0f0f0f0f
		return v&0xff0000ff | v>>8&0xff00 | v<<8&0xff0000
	}
	for g := range 8 {
		for half := range 2 {
			a, b := rows.levels(tile, g, k0+32*half), rows.levels(tile, g+8, k0+32*half)
			for s := 2 * half; s < 2*half+2; s++ {
				for t := range 4 {
					binary.LittleEndian.PutUint32(dst[(g*4+t)*16+4*s:], spread(a[4*t:], s)|spread(b[4*t:], s)<<4)
				}
			}
		}
	}
}

// packBytes writes a block of 16 outputs × 32 of K: see U8 in linear_packed.cuh.
func packBytes(dst []byte, rows *tileRows, tile, k0, _ int) {
	for g := range 8 {
		a, b := rows.levels(tile, g, k0), rows.levels(tile, g+8, k0)
		for s := range 2 {
			for t := range 4 {
				from, to := 16*s+4*t, (g*4+t)*16+8*s
				for i := range 4 {
					dst[to+2*i], dst[to+2*i+1] = a[from+i], b[from+i]
				}
			}
		}
	}
}
