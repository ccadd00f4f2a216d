package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// fma32 rounds once: to what rounding the exact result gives, also where the
// float64 sum falls halfway between two float32.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	twice := 0
	f := func(x, y, z float32) {
		t.Helper()
		exact := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
		sum := exact(x)
		sum.Mul(sum, exact(y))
		sum.Add(sum, exact(z))
		want, _ := sum.Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("%v·%v + %v: got %v, want %v", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			twice++
		}
	}
	f(0x1p-100, 0x1p-49, 0x1p-126) // results that are not normal
	f(3, 5, -15)
	for range 100_000 {
		x, y := float32(rng.IntN(1<<25)-1<<24), float32(rng.IntN(1<<25)-1<<24)
		f(x, y*float32(math.Exp2(float64(-rng.IntN(60)))), float32(rng.IntN(1<<25)-1<<24))
		// a tie, but for (1+u)(1−u) = 1 − u²
		z := float32(1<<23 + rng.IntN(1<<23))
		if rng.IntN(2) == 0 {
			z = -z
		}
		f(1+0x1p-23, 0.5-0x1p-24, z)
		f(-1-0x1p-23, 0.5-0x1p-24, z)
	}
	if twice == 0 {
		t.Error("no case is one that rounding twice gets wrong")
	}
}
