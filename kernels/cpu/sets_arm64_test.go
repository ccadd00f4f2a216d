//go:build arm64 && !purego

package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"hearth/kernels"
)

// A machine with SDOT must use it: a path that silently falls back would pass every
// other test. The kernel's own word is in the auxiliary vector.
func TestPathsPresent(t *testing.T) {
	if !slices.Contains(Paths(), "neon") {
		t.Errorf("paths %q: neon is absent, every arm64 processor has it", Paths())
	}
	if runtime.GOOS != "linux" {
		t.Skipf("SKIPPED: no auxiliary vector on %s to compare with", runtime.GOOS)
	}
	aux, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		t.Fatal(err)
	}
	const hwcap, asimddp = 16, 1 << 20 // AT_HWCAP, HWCAP_ASIMDDP
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.LittleEndian.Uint64(aux) != hwcap {
			continue
		}
		want := binary.LittleEndian.Uint64(aux[8:])&asimddp != 0
		if got := slices.Contains(Paths(), "neon-dotprod"); got != want {
			t.Errorf("paths %q: neon-dotprod present %v, the system says %v", Paths(), got, want)
		}
		if want && Paths()[0] != "neon-dotprod" {
			t.Errorf("paths %q: neon-dotprod is not the first", Paths())
		}
		return
	}
	t.Error("the auxiliary vector has no hardware capabilities")
}

// Float matrices of every length and number of columns, whose results take what is
// in dst or not, with gaps between the rows.
func TestFmatBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, path := range Paths() {
		ks, _ := choose(path)
		for _, typ := range []kernels.DType{kernels.F32, kernels.F16, kernels.BF16} {
			for k := range 11 {
				for cols := 1; cols <= maxCols; cols++ {
					fmatBits(t, rng, ks, typ, k, cols)
				}
			}
		}
	}
}

func fmatBits(t *testing.T, rng *rand.Rand, ks *kernelSet, typ kernels.DType, k, cols int) {
	t.Helper()
	const count, ldd, ldx, stride = 2, 4 * (2*panelRows + 3), 4 * 13, 4*panelRows*11 + 16
	w := make([]byte, count*stride)
	for i := 0; i < len(w); i += typ.BlockBytes() {
		switch v := float32(rng.NormFloat64()); typ {
		case kernels.F32:
			binary.LittleEndian.PutUint32(w[i:], math.Float32bits(v))
		case kernels.F16:
			binary.LittleEndian.PutUint16(w[i:], kernels.ToF16(v/1000)) // subnormals too
		case kernels.BF16:
			binary.LittleEndian.PutUint16(w[i:], kernels.ToBF16(v))
		}
	}
	x, dst, alpha := floatsFor(rng, maxCols*ldx/4), floatsFor(rng, maxCols*ldd/4), floatsFor(rng, maxCols)
	for i := range x { // products that overflow are infinities of either sign, and their sums NaN
		x[i] = max(-1e3, min(1e3, x[i]))
	}
	want, got := slices.Clone(dst), slices.Clone(dst)
	portable.fmat(typ, cols, &want[0], ldd, &w[0], stride, &x[0], ldx, k, count, 0)
	ks.fmat(typ, cols, &got[0], ldd, &w[0], stride, &x[0], ldx, k, count, 0)
	if !sameBits(got, want) {
		t.Fatalf("%s: fmat of %v, %d columns by %d: got %v, want %v", ks.name, typ, k, cols, got, want)
	}
	portable.fmatAcc(typ, cols, &want[0], ldd, &w[0], stride, &x[0], ldx, k, count, 0, unsafe.SliceData(alpha))
	ks.fmatAcc(typ, cols, &got[0], ldd, &w[0], stride, &x[0], ldx, k, count, 0, unsafe.SliceData(alpha))
	if !sameBits(got, want) {
		t.Fatalf("%s: fmatAcc of %v, %d columns by %d: got %v, want %v", ks.name, typ, k, cols, got, want)
	}
}
