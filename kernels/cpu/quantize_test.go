package cpu

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// floatsFor are values of ordinary size, with some that show how rounding, ties,
// infinities and what is too small are treated.
func floatsFor(rng *rand.Rand, n int) []float32 {
	odd := []float32{0, float32(math.Copysign(0, -1)), 1e-31, 1e-30, 1e-38, 1e-45, 3e38, 127, 0.5, -2.5, 63.5}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if rng.IntN(8) == 0 {
			x[i] = odd[rng.IntN(len(odd))]
		}
	}
	return x
}

// All sets round to the same blocks.
func TestQuantizeBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rows := [][]float32{make([]float32, 32), slices.Repeat([]float32{1e-31}, 32)}
	if runtime.GOARCH == "arm64" { // elsewhere the bytes under a scale that is not finite differ
		inf := float32(math.Inf(1))
		rows = append(rows, slices.Repeat([]float32{-1, inf}, 16), slices.Repeat([]float32{2, float32(math.NaN())}, 16))
	}
	for range 500 {
		rows = append(rows, floatsFor(rng, 32*(1+rng.IntN(9))))
	}
	for _, path := range Paths() {
		ks, _ := choose(path)
		for i, x := range rows {
			n := len(x) / 32 * act32Bytes
			want, got := make([]byte, n), make([]byte, n+1)
			quantize32(want, x)
			ks.quantize32(got[:n], x)
			for at := range want {
				if got[at] != want[at] {
					t.Fatalf("%s, row %d, byte %d of %d: got %#x, want %#x", path, i, at, n, got[at], want[at])
				}
			}
		}
	}
}
