package cpu

import (
	"math"
	"math/rand/v2"
	"slices"

	"hearth/kernels"
)

// likeness is how the results of kernels compare with the portable ones'.
type likeness int

const (
	unlike likeness = iota
	near            // they differ by no more than the rounding of sums does
	equal           // the same bits
)

// fit tells whether b may be used. Intel's manual says how VDPBF16PS rounds; a
// processor that does it in another way is used all the same, since that is what it is
// there for, but its results are its own then (see OwnSums).
func (b *bf16Kernels) fit() bool {
	l := b.like()
	b.own = l == near
	return l != unlike
}

// like compares b with the portable kernels: every number of columns, an odd number of
// panels, values of all magnitudes, so that sums round, cancel, and fall below what a
// float32 holds. However many columns there are, each has the same bits.
func (b *bf16Kernels) like() likeness {
	rng := rand.New(rand.NewPCG(3, 1))
	least := equal
	for _, exponents := range [][2]int{{-4, 4}, {-40, 40}, {-67, -61}, {-126, 3}} {
		value := func() float32 {
			return float32(math.Ldexp(rng.NormFloat64(), exponents[0]+rng.IntN(exponents[1]-exponents[0])))
		}
		for _, count := range []int{1, 3, 10} {
			least = min(least, newBF16Trial(b.cols, count, value).compare(b))
		}
	}
	return least
}

// bf16Trial is count panels of 40 columns, the last of them padding if count is odd,
// and rows of inputs.
type bf16Trial struct {
	w     kernels.Tensor
	x     [][]float32
	count int
}

func newBF16Trial(rows, count int, value func() float32) *bf16Trial {
	cols := 40 - count%2
	t := &bf16Trial{w: kernels.Tensor{Type: kernels.BF16, Rows: count*panelRows - 1, Cols: cols, Data: make([]byte, 2*cols*count*panelRows)}, count: count}
	for i := 0; i < len(t.w.Data); i += 2 {
		h := kernels.ToBF16(value())
		t.w.Data[i], t.w.Data[i+1] = byte(h), byte(h>>8)
	}
	for c := range rows {
		t.x = append(t.x, make([]float32, cols))
		for i := range t.x[c] {
			t.x[c][i] = value()
		}
	}
	return t
}

// run gives n rows of results.
func (t *bf16Trial) run(b *bf16Kernels, n int) []float32 {
	k, ldd := bf16Cols(t.w.Cols), (t.count+1)*panelRows
	stride, ldx := 2*panelRows*k, b.rowBytes(t.w.Cols)
	w, in, dst := make([]byte, (t.count+1)&^1*stride), make([]byte, n*ldx), make([]float32, n*ldd)
	for p := range t.count {
		b.pack(w, stride, &t.w, p)
	}
	for c := range n {
		b.round(&in[c*ldx], t.x[c])
	}
	for c := 0; c < n; c += b.cols {
		b.mat(min(n-c, b.cols), &dst[c*ldd], 4*ldd, &w[0], stride, &in[c*ldx], ldx, k, t.count, 0)
	}
	return dst
}

// magnitudes is t without signs.
func (t *bf16Trial) magnitudes() *bf16Trial {
	m := &bf16Trial{w: t.w, count: t.count}
	m.w.Data = slices.Clone(t.w.Data)
	for i := 1; i < len(m.w.Data); i += 2 {
		m.w.Data[i] &= 0x7f
	}
	for _, x := range t.x {
		m.x = append(m.x, slices.Clone(x))
	}
	for _, x := range m.x {
		for i, v := range x {
			x[i] = max(v, -v)
		}
	}
	return m
}

func (t *bf16Trial) compare(b *bf16Kernels) likeness {
	all := len(t.x)
	got, want := t.run(b, all), t.run(&portable.bf16, all)
	for n := 1; n < all; n++ {
		if !sameBits(t.run(b, n), got) {
			return unlike
		}
	}
	if sameBits(got, want) {
		return equal
	}
	// Each of up to 80 roundings is off by at most 2⁻²⁴ of what was summed so far,
	// or by what is flushed.
	for i, sum := range t.magnitudes().run(&portable.bf16, all) {
		if off := math.Abs(float64(got[i]) - float64(want[i])); !(off <= 0x1p-17*float64(sum)+0x1p-119) {
			return unlike
		}
	}
	return near
}

// OwnSums names the kernel set of which results with Activations "bf16" are not those
// of the other sets, if that is what path ("": the best) takes; else it is empty.
func OwnSums(path string) string {
	if ks, err := choose(path); err == nil && ks.bf16.own {
		return ks.name
	}
	return ""
}
