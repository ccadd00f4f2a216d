package ptx

import (
	"math"
	"math/big"
	"testing"
)

// anyFloat is a float32 of any exponent, often near others of the test.
func anyFloat(r *noise) float32 {
	b := r.next()<<9 ^ r.next()
	switch r.next() % 4 {
	case 0:
		b = b&0x807fffff | 0x3f000000 + r.next()%4<<23
	case 1:
		b &= 0xff8001ff
	case 2:
		b &= 0x81ffffff // small
	}
	if b&infF32 == infF32 {
		b ^= 1 << 29
	}
	return math.Float32frombits(b)
}

func exact(v float64) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(v) }

// Sums of products are rounded once, to every format and in every direction.
func TestFusedRounding(t *testing.T) {
	rng := noise(21)
	for range 40_000 {
		a, b, c := anyFloat(&rng), anyFloat(&rng), anyFloat(&rng)
		if rng.next()%3 == 0 { // nearly cancelling
			c = -a * b
		}
		if c-c != 0 {
			continue
		}
		sum := exact(float64(a))
		sum.Mul(sum, exact(float64(b))).Add(sum, exact(float64(c)))
		want, _ := sum.Float32()
		got := math.Float32frombits(fma32(math.Float32bits(a), math.Float32bits(b), math.Float32bits(c)))
		if got != want {
			t.Fatalf("%g·%g+%g = %g, wanted %g", a, b, c, got, want)
		}
		odd := fmaOdd(float64(a), float64(b), float64(c))
		for _, mode := range []rounding{rZero, rDown, rUp} {
			checkDirected(t, sum, math.Float32frombits(f32Bits(odd, mode)), mode)
		}
		checkHalf(t, rng.next(), rng.next(), rng.next())
	}
}

// checkDirected: the result is on the side that the mode asks for, and its
// neighbour towards the exact value is not.
func checkDirected(t *testing.T, sum *big.Float, got float32, mode rounding) {
	t.Helper()
	up := mode == rUp || mode == rZero && sum.Sign() < 0
	next := math.Nextafter32(got, float32(math.Inf(-1)))
	if !up {
		next = math.Nextafter32(got, float32(math.Inf(1)))
	}
	if got-got != 0 {
		return
	}
	side := exact(float64(got)).Cmp(sum)
	beyond := next-next == 0 && (up && exact(float64(next)).Cmp(sum) >= 0 || !up && exact(float64(next)).Cmp(sum) <= 0)
	if up && side < 0 || !up && side > 0 || beyond {
		t.Fatalf("%v rounded in mode %d gives %g", sum, mode, got)
	}
}

// checkHalf compares packed multiply-add with one rounding of the exact sum.
func checkHalf(t *testing.T, a, b, c uint32) {
	t.Helper()
	for _, f := range []struct {
		fma   func(a, b, c uint32) uint32
		wide  func(uint32) float32
		round format
		infty uint32
	}{{halfFma, halfToFloat, fmtF16, 0x7c00}, {bfloatFma, bfloatToFloat, fmtBF16, 0x7f80}} {
		x, y, z := float64(f.wide(a&0xffff)), float64(f.wide(b&0xffff)), float64(f.wide(c&0xffff))
		if x-x != 0 || y-y != 0 || z-z != 0 {
			continue
		}
		sum := exact(x)
		sum.Mul(sum, exact(y)).Add(sum, exact(z))
		got := float64(f.wide(f.fma(a, b, c)))
		if got-got != 0 {
			if limit := math.Ldexp(2-math.Ldexp(1, -f.round.prec), f.round.emax); new(big.Float).Abs(sum).Cmp(exact(limit)) < 0 {
				t.Fatalf("%g·%g+%g overflows", x, y, z)
			}
			continue
		}
		// no other number of the format lies nearer
		_, e := math.Frexp(got)
		ulp := math.Ldexp(1, max(e, f.round.emin+1)-f.round.prec)
		d := new(big.Float).Abs(new(big.Float).Sub(sum, exact(got)))
		if d.Cmp(exact(ulp/2)) > 0 {
			t.Fatalf("%g·%g+%g = %g, off by more than half of %g", x, y, z, got, ulp)
		}
	}
}

// Every half survives the way to float32 and back, and ties go to even.
func TestHalves(t *testing.T) {
	for h := range uint32(0x7c00) {
		for _, sign := range []uint32{0, 0x8000} {
			f := halfToFloat(h | sign)
			if floatToHalf(math.Float32bits(f)) != h|sign || f16Bits(float64(f), rNearest) != h|sign {
				t.Fatalf("%#x", h|sign)
			}
		}
		if h == 0x7bff {
			continue
		}
		mid := (float64(halfToFloat(h)) + float64(halfToFloat(h+1))) / 2
		even := h + h&1
		if got := floatToHalf(math.Float32bits(float32(mid))); got != even || f16Bits(mid, rNearest) != even {
			t.Fatalf("the middle of %#x and the next goes to %#x", h, got)
		}
	}
}
