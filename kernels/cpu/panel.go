package cpu

import (
	"encoding/binary"

	"hearth/kernels"
)

// Weights are repacked at load into panels of eight rows. Within a panel the
// values of four consecutive columns of one row are four neighbouring bytes,
// and the eight rows follow each other, so that one 32-byte vector holds "quad"
// j: columns 4j…4j+3 of eight rows. Four activation bytes broadcast to all lanes
// then meet it in one multiply, and lane r accumulates row r: no horizontal sums.
//
// A panel is a sequence of blocks, each of panelSpec.values columns:
//
//	d      8 × binary16           block scale
//	m      8 × binary16           block minimum (Q4_1, Q5_1) or scale of minima
//	sc     pairs × 8 × 2 bytes    sub-block scales: pair p, row r: subs 2p, 2p+1
//	mn     likewise               sub-block minima
//	group  one for every 32 columns: high bits, then low bits
//
// A group's low bits: 8-bit, vector j is quad j; 4-bit, vector j%4 holds quad j
// in its low (j<4) or high nibbles; 2-bit, vector j/4 holds quad j at bit
// 2·(j%4). High bits: one bit, bit j of the only vector; two bits, as 2-bit low.
const (
	panelRows = 8
	vecBytes  = 4 * panelRows
)

// panelSpec is the geometry of a quantized type as a panel.
type panelSpec struct {
	values    int // columns of a block: 32 or 256
	low, high int // bits
	min       bool
	sub       int  // columns of a sub-block; 0: none
	nibble    bool // scale and minimum share the sc byte (low, high nibble)
	offset    int  // what is taken from the stored level: value = level − offset
	signed    bool // levels are two's complement bytes, or a table makes them so
}

var panelSpecs = [...]panelSpec{
	kernels.Q4_0:   {values: 32, low: 4, offset: 8},
	kernels.Q4_1:   {values: 32, low: 4, min: true},
	kernels.Q5_0:   {values: 32, low: 4, high: 1, offset: 16},
	kernels.Q5_1:   {values: 32, low: 4, high: 1, min: true},
	kernels.Q8_0:   {values: 32, low: 8, signed: true},
	kernels.IQ4_NL: {values: 32, low: 4, signed: true},
	kernels.Q2_K:   {values: 256, low: 2, min: true, sub: 16, nibble: true},
	kernels.Q3_K:   {values: 256, low: 2, high: 1, sub: 16, offset: 4},
	kernels.Q4_K:   {values: 256, low: 4, min: true, sub: 32},
	kernels.Q5_K:   {values: 256, low: 4, high: 1, min: true, sub: 32},
	kernels.Q6_K:   {values: 256, low: 4, high: 2, sub: 16, offset: 32},
}

// spec is the geometry of t, or nil if t is not quantized.
func spec(t kernels.DType) *panelSpec {
	if int(t) < len(panelSpecs) && panelSpecs[t].values > 0 {
		return &panelSpecs[t]
	}
	return nil
}

// scAt, mnAt, groupAt are offsets in a block; groupBytes is the size of a group.
func (s *panelSpec) scAt() int {
	if s.min {
		return 2 * 2 * panelRows
	}
	return 2 * panelRows
}

// scaleBytes is the size of one array of sub-block scales.
func (s *panelSpec) scaleBytes() int {
	if s.sub == 0 {
		return 0
	}
	return s.values / s.sub * panelRows
}

func (s *panelSpec) mnAt() int { return s.scAt() + s.scaleBytes() }

func (s *panelSpec) groupAt() int {
	if s.sub > 0 && s.min && !s.nibble {
		return s.mnAt() + s.scaleBytes()
	}
	return s.mnAt()
}

func (s *panelSpec) highBytes() int  { return 4 * panelRows * s.high }
func (s *panelSpec) groupBytes() int { return 4 * panelRows * (s.high + s.low) }

// blockBytes is the size of a block of eight rows.
func (s *panelSpec) blockBytes() int { return s.groupAt() + s.values/32*s.groupBytes() }

// expandedBytes is the most that an expanded block takes (see kernelSet.expand): scales
// as float32, and for every 32 columns sub-block scales, what goes with their
// minima or offset, and levels as bytes.
func (s *panelSpec) expandedBytes() int {
	n := 4*panelRows + panelRows*s.values
	if s.min {
		n += 4 * panelRows
	}
	if s.sub > 0 {
		n += s.values / 32 * vecBytes * (32/s.sub + 1)
	}
	return n
}

// pack writes row r of a block.
func (s *panelSpec) pack(block []byte, r int, l *levels) {
	binary.LittleEndian.PutUint16(block[2*r:], l.d)
	if s.min {
		binary.LittleEndian.PutUint16(block[2*panelRows+2*r:], l.m)
	}
	if s.sub > 0 {
		for i := range s.values / s.sub {
			at := i/2*2*panelRows + 2*r + i%2
			if s.nibble {
				block[s.scAt()+at] = l.sc[i] | l.mn[i]<<4
				continue
			}
			block[s.scAt()+at] = l.sc[i]
			if s.min {
				block[s.mnAt()+at] = l.mn[i]
			}
		}
	}
	for g := range s.values / 32 {
		group := block[s.groupAt()+g*s.groupBytes():][:s.groupBytes()]
		quads := (*[8]uint32)(l.q[8*g:])
		packBits(group[s.highBytes()+4*r:], s.low, 0, quads)
		if s.high > 0 {
			packBits(group[4*r:], s.high, s.low, quads)
		}
	}
}

// packBits writes bits [shift, shift+n) of the levels of eight quads of a row:
// to is the row's lane in the first vector.
func packBits(to []byte, n, shift int, quads *[8]uint32) {
	mask := uint32(1<<n-1) * each
	per := 8 / n // quads in a vector
	for v := range n {
		var w uint32
		switch n {
		case 8:
			w = quads[v]
		case 4: // quads v and v+4
			w = quads[v]>>shift&mask | quads[v+4]>>shift&mask<<4
		default:
			for i := range per {
				w |= quads[v*per+i] >> shift & mask << (i * n)
			}
		}
		binary.LittleEndian.PutUint32(to[v*vecBytes:], w)
	}
}

// quadAt tells in which vector of a field of that many bits quad j is, and at
// which bit.
func quadAt(bits, j int) (vec, shift int) {
	switch bits {
	case 8:
		return j, 0
	case 4:
		return j % 4, j / 4 * 4
	case 2:
		return j / 4, j % 4 * 2
	}
	return 0, j
}

// unpack reads row r of a block back, the inverse of pack.
func (s *panelSpec) unpack(block []byte, r int, l *levels) {
	l.d = binary.LittleEndian.Uint16(block[2*r:])
	if s.min {
		l.m = binary.LittleEndian.Uint16(block[2*panelRows+2*r:])
	}
	if s.sub > 0 {
		for i := range s.values / s.sub {
			at := i/2*2*panelRows + 2*r + i%2
			l.sc[i] = block[s.scAt()+at]
			switch {
			case s.nibble:
				l.sc[i], l.mn[i] = l.sc[i]&15, l.sc[i]>>4
			case s.min:
				l.mn[i] = block[s.mnAt()+at]
			}
		}
	}
	lowMask, highMask := uint32(1<<s.low-1)*each, uint32(1<<s.high-1)*each
	for g := range s.values / 32 {
		group := block[s.groupAt()+g*s.groupBytes():][:s.groupBytes()]
		high, low := group[:s.highBytes()], group[s.highBytes():]
		for j := range 8 {
			vec, shift := quadAt(s.low, j)
			w := u32(low[vec*vecBytes+4*r:]) >> shift & lowMask
			if s.high > 0 {
				vec, shift = quadAt(s.high, j)
				w |= u32(high[vec*vecBytes+4*r:]) >> shift & highMask << s.low
			}
			l.q[8*g+j] = w
		}
	}
}

// panels is the number of panels of n rows.
func panels(n int) int { return (n + panelRows - 1) / panelRows }
