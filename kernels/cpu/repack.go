package cpu

import (
	"encoding/binary"
	"math"

	"hearth/kernels"
)

// Repacking is most of a start. So the types that files are mostly of are not
// taken apart into levels and put together again, but moved by words, two rows,
// whose lanes are neighbours, at a time.

// repack turns rows [8p, 8p+8) of a quantized tensor into panel p; rows past
// the end stay zero. dst must be zero.
func repack(dst []byte, t *kernels.Tensor, p int) {
	s := spec(t.Type)
	row, in, out, at := t.Type.RowBytes(t.Cols), t.Type.BlockBytes(), s.blockBytes(), s.groupAt()
	rows := min(panelRows, t.Rows-p*panelRows)
	src := t.Data[p*panelRows*row:][:rows*row]
	if move := movers[t.Type]; move != nil {
		none := make([]byte, in) // in the place of a row past the end
		for b := range t.Cols / s.values {
			for r := 0; r < rows; r += 2 {
				even, odd := src[r*row+b*in:][:in], none
				if r+1 < rows {
					odd = src[(r+1)*row+b*in:][:in]
				}
				move(s, dst[b*out:][:out], at, r, even, odd)
			}
		}
		return
	}
	var l levels
	for r := range rows {
		for b := range t.Cols / s.values {
			readers[t.Type](&l, src[r*row+b*in:][:in])
			s.pack(dst[b*out:][:out], r, &l)
		}
	}
}

// movers write rows r and r+1 of a block whose groups begin at groups; even and odd
// are the rows' bytes. It is what readers and pack would do one by one.
var movers = [len(readers)]func(s *panelSpec, block []byte, groups, r int, even, odd []byte){
	kernels.Q4_0:   move4,
	kernels.Q4_1:   move4,
	kernels.IQ4_NL: move4,
	kernels.Q5_0:   move5,
	kernels.Q5_1:   move5,
	kernels.Q8_0:   move8,
	kernels.Q4_K:   move4K,
	kernels.Q5_K:   move5K,
	kernels.Q6_K:   move6K,
}

const (
	both    = 0x0101010101010101 // a byte repeated in a pair of words
	nibble  = 15 * both
	quarter = 3 * both
)

// lanes is where two rows' lanes of the first vectors of a field are; four and
// eight vectors of it.
type (
	lanes4 = *[3*vecBytes + 8]byte
	lanes8 = *[7*vecBytes + 8]byte
)

// words are eight bytes of each of two rows: their first words side by side, as
// lanes hold them, and their second.
func words(even, odd []byte) (first, second uint64) {
	x, y := binary.LittleEndian.Uint64(even), binary.LittleEndian.Uint64(odd)
	return x&math.MaxUint32 | y<<32, x>>32 | y&^math.MaxUint32
}

func put(to []byte, x uint64) { binary.LittleEndian.PutUint64(to, x) }

// halves writes a binary16 of each row.
func halves(to []byte, even, odd []byte) {
	binary.LittleEndian.PutUint32(to, uint32(u16(even))|uint32(u16(odd))<<16)
}

// move4: levels of 4 bits lie as their lanes hold them.
func move4(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	n := s.moveHead(block, r, even, odd)
	moveNibbles(lanes4(block[groups+4*r:]), (*[16]byte)(even[n:]), (*[16]byte)(odd[n:]))
}

// moveHead moves d and m, and tells what follows them.
func (s *panelSpec) moveHead(block []byte, r int, even, odd []byte) int {
	halves(block[2*r:], even, odd)
	if !s.min {
		return 2
	}
	halves(block[2*(panelRows+r):], even[2:], odd[2:])
	return 4
}

func moveNibbles(to lanes4, even, odd *[16]byte) {
	for v := range 2 {
		x, y := words(even[8*v:], odd[8*v:])
		put(to[2*v*vecBytes:], x)
		put(to[(2*v+1)*vecBytes:], y)
	}
}

// move5: as move4, and bit 4j+k of a word before them is bit j of byte k.
func move5(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	n := s.moveHead(block, r, even, odd)
	a, b := u32(even[n:]), u32(odd[n:])
	var high uint64
	for j := range 8 {
		high |= (uint64(spread[a>>(4*j)&15]) | uint64(spread[b>>(4*j)&15])<<32) >> 4 << j
	}
	put(block[groups+4*r:], high)
	moveNibbles(lanes4(block[groups+s.highBytes()+4*r:]), (*[16]byte)(even[n+4:]), (*[16]byte)(odd[n+4:]))
}

func move8(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	n := s.moveHead(block, r, even, odd)
	to, a, b := lanes8(block[groups+4*r:]), (*[32]byte)(even[n:]), (*[32]byte)(odd[n:])
	for v := range 4 {
		x, y := words(a[8*v:], b[8*v:])
		put(to[2*v*vecBytes:], x)
		put(to[(2*v+1)*vecBytes:], y)
	}
}

// moveRun turns 32 bytes of each row, whose low nibbles are one group of columns
// and whose high ones another, into the low bits of these.
func moveRun(low, high lanes4, even, odd *[32]byte) {
	for v := range 2 {
		a, b := words(even[8*v:], odd[8*v:])
		c, d := words(even[8*v+16:], odd[8*v+16:])
		put(low[2*v*vecBytes:], a&nibble|c&nibble<<4)
		put(low[(2*v+1)*vecBytes:], b&nibble|d&nibble<<4)
		put(high[2*v*vecBytes:], a>>4&nibble|c&(nibble<<4))
		put(high[(2*v+1)*vecBytes:], b>>4&nibble|d&(nibble<<4))
	}
}

// lowOf is where lane r of the low bits of group g begins, highOf of the high.
func (s *panelSpec) lowOf(groups []byte, g, r int) lanes4 {
	return lanes4(groups[g*s.groupBytes()+s.highBytes()+4*r:])
}

func (s *panelSpec) highOf(groups []byte, g, r int) []byte {
	return groups[g*s.groupBytes()+4*r:]
}

func move4K(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	s.moveHead4K(block, r, even, odd)
	for g := 0; g < 8; g += 2 {
		moveRun(s.lowOf(block[groups:], g, r), s.lowOf(block[groups:], g+1, r), (*[32]byte)(even[16+16*g:]), (*[32]byte)(odd[16+16*g:]))
	}
}

// moveHead4K moves what Q4_K and Q5_K have in front: d, m, scales and minima.
func (s *panelSpec) moveHead4K(block []byte, r int, even, odd []byte) {
	s.moveHead(block, r, even, odd)
	for i, b := range [2][]byte{even, odd} {
		sc, mn := kernels.ScalesQ4K(b[4:16])
		for p := range 4 {
			at := p*2*panelRows + 2*(r+i)
			block[s.scAt()+at], block[s.scAt()+at+1] = sc[2*p], sc[2*p+1]
			block[s.mnAt()+at], block[s.mnAt()+at+1] = mn[2*p], mn[2*p+1]
		}
	}
}

func move5K(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	s.moveHead4K(block, r, even, odd)
	for g := 0; g < 8; g += 2 {
		moveRun(s.lowOf(block[groups:], g, r), s.lowOf(block[groups:], g+1, r), (*[32]byte)(even[48+16*g:]), (*[32]byte)(odd[48+16*g:]))
	}
	// Bit g of a word is of group g; there it is bit j, of quad j.
	var high [8]uint64
	for j := 0; j < 8; j += 2 {
		x, y := words(even[16+4*j:], odd[16+4*j:])
		for g := range high {
			high[g] |= x>>g&both<<j | y>>g&both<<(j+1)
		}
	}
	for g, w := range high {
		put(s.highOf(block[groups:], g, r), w)
	}
}

func move6K(s *panelSpec, block []byte, groups, r int, even, odd []byte) {
	halves(block[2*r:], even[208:], odd[208:])
	for p := range 8 {
		halves(block[s.scAt()+p*2*panelRows+2*r:], even[192+2*p:], odd[192+2*p:])
	}
	for h := range 2 {
		g := 4 * h
		moveRun(s.lowOf(block[groups:], g, r), s.lowOf(block[groups:], g+2, r), (*[32]byte)(even[64*h:]), (*[32]byte)(odd[64*h:]))
		moveRun(s.lowOf(block[groups:], g+1, r), s.lowOf(block[groups:], g+3, r), (*[32]byte)(even[64*h+32:]), (*[32]byte)(odd[64*h+32:]))
		// Bits 2i of a word are of group g+i; there they are bits 2·(j%4), of quad j.
		for v := range 2 {
			var high [4]uint64
			for k := 0; k < 4; k += 2 {
				at := 128 + 32*h + 16*v + 4*k
				x, y := words(even[at:], odd[at:])
				for i := range high {
					high[i] |= x>>(2*i)&quarter<<(2*k) | y>>(2*i)&quarter<<(2*k+2)
				}
			}
			for i, w := range high {
				put(s.highOf(block[groups:], g+i, r)[v*vecBytes:], w)
			}
		}
	}
}

// interleave turns rows [8p, 8p+8) of a float tensor into a panel: eight rows
// of column 0, then of column 1, …
func interleave(dst []byte, t *kernels.Tensor, p int) {
	size := t.Type.BlockBytes()
	row := t.Cols * size
	rows := min(panelRows, t.Rows-p*panelRows)
	src := t.Data[p*panelRows*row:][:rows*row]
	done := 0 // columns
	if rows == panelRows && size == 2 {
		done = interleave2(dst, src, t.Cols)
	} else if rows == panelRows && size == 4 {
		done = interleave4(dst, src, t.Cols)
	}
	for r := range rows {
		for k := done; k < t.Cols; k++ {
			copy(dst[(k*panelRows+r)*size:][:size], src[r*row+k*size:])
		}
	}
}

// interleave2 does four columns of four rows of 16 bits at a time, and tells how
// many columns it did.
func interleave2(dst, src []byte, cols int) (k int) {
	const even = 0x0000ffff0000ffff
	for ; k+4 <= cols; k += 4 {
		to := (*[4 * 2 * panelRows]byte)(dst[k*2*panelRows:])
		for r := 0; r < panelRows; r += 4 {
			a := binary.LittleEndian.Uint64(src[2*(r*cols+k):])
			b := binary.LittleEndian.Uint64(src[2*((r+1)*cols+k):])
			c := binary.LittleEndian.Uint64(src[2*((r+2)*cols+k):])
			d := binary.LittleEndian.Uint64(src[2*((r+3)*cols+k):])
			a, b = a&even|b&even<<16, a>>16&even|b&^even
			c, d = c&even|d&even<<16, c>>16&even|d&^even
			put(to[2*r:], a&math.MaxUint32|c<<32)
			put(to[2*(panelRows+r):], b&math.MaxUint32|d<<32)
			put(to[2*(2*panelRows+r):], a>>32|c&^math.MaxUint32)
			put(to[2*(3*panelRows+r):], b>>32|d&^math.MaxUint32)
		}
	}
	return k
}

// interleave4 does two columns of two rows of 32 bits at a time.
func interleave4(dst, src []byte, cols int) (k int) {
	for ; k+2 <= cols; k += 2 {
		to := (*[2 * vecBytes]byte)(dst[k*vecBytes:])
		for r := 0; r < panelRows; r += 2 {
			x, y := words(src[4*(r*cols+k):], src[4*((r+1)*cols+k):])
			put(to[4*r:], x)
			put(to[vecBytes+4*r:], y)
		}
	}
	return k
}
