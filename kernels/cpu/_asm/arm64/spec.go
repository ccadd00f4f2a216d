package main

const (
	maxCols    = 4
	panelRows  = 8
	vecBytes   = 4 * panelRows
	act32Bytes = 64
	act32Tail  = 32 // d, d·Σ, −8·Σ, sums of the halves
	act32Less  = 48 // −16·Σ, −128·Σ, −32 · sums of the halves
)

// spec repeats panelSpec of the package above: what a panel block looks like.
type spec struct {
	name      string
	values    int // columns of a block
	low, high int // bits
	min       bool
	sub       int  // columns of a sub-block; 0: none
	nibble    bool // scale and minimum share a byte
	offset    int
	table     bool // low bits index IQ4_NL's levels
	signedSc  bool
}

var specs = []spec{
	{name: "Q4_0", values: 32, low: 4, offset: 8},
	{name: "Q4_1", values: 32, low: 4, min: true},
	{name: "Q5_0", values: 32, low: 4, high: 1, offset: 16},
	{name: "Q5_1", values: 32, low: 4, high: 1, min: true},
	{name: "Q8_0", values: 32, low: 8},
	{name: "IQ4_NL", values: 32, low: 4, table: true},
	{name: "Q2_K", values: 256, low: 2, min: true, sub: 16, nibble: true},
	{name: "Q3_K", values: 256, low: 2, high: 1, sub: 16, offset: 4, signedSc: true},
	{name: "Q4_K", values: 256, low: 4, min: true, sub: 32},
	{name: "Q5_K", values: 256, low: 4, high: 1, min: true, sub: 32},
	{name: "Q6_K", values: 256, low: 4, high: 2, sub: 16, offset: 32, signedSc: true},
}

func (s spec) scAt() int {
	if s.min {
		return 4 * panelRows
	}
	return 2 * panelRows
}

// scaleBytes is the size of one array of sub-block scales.
func (s spec) scaleBytes() int {
	if s.sub == 0 {
		return 0
	}
	return s.values / s.sub * panelRows
}

func (s spec) groupAt() int {
	at := s.scAt() + s.scaleBytes()
	if s.min && !s.nibble {
		at += s.scaleBytes()
	}
	return at
}
func (s spec) highBytes() int  { return vecBytes * s.high }
func (s spec) groupBytes() int { return vecBytes * (s.high + s.low) }
func (s spec) blockBytes() int { return s.groupAt() + s.values/32*s.groupBytes() }

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
