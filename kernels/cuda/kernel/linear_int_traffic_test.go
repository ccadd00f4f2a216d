package kernel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// intMost is the most warp instructions of a 16 × 32 tile of W for 1 row (with
// x rounded once for four strips), 8 and 64. An H200 issues one in the time it
// reads 4.6 bytes of W.
var intMost = map[kernels.DType][3]float64{
	kernels.Q8_0: {65, 68, 246},
	kernels.Q4_0: {53, 69, 249},
	kernels.Q4_K: {59, 73, 294},
	kernels.Q6_K: {82, 101, 416},
}

// TestIntTraffic holds the kernels to what they should move and issue: W once
// and little else, whole sectors, no bank conflicts.
func TestIntTraffic(t *testing.T) {
	for typ, most := range intMost {
		c := &intCase{typ: typ, parts: []int{128}, k: 2048}
		c.make()
		m := ptxtest.New(t, ptxtest.Options{Memory: 16 << 20}, 90)
		w, call := c.upload(t, m)
		for i, rows := range []int{1, 8, 64} {
			call.Rows = rows
			ls, err := kernel.IntTile(intTarget(m), w, call, true)
			if rows == 1 {
				ls, err = kernel.IntGemv(kernel.Target{Compute: 90, SMs: 2, Shared: 99 << 10}, w, call)
			}
			if err != nil {
				t.Fatal(err)
			}
			reps := m.Launch(ls...)
			n := reps[len(reps)-1].Counts
			sectors, waves := float64(n.Sectors)/float64(n.IdealSectors), float64(n.SharedWaves)/float64(n.IdealWaves)
			instr := float64(n.WarpInstr) / float64(c.n*c.k/512)
			// x in float32 or operand form, and the parts of sums: read back, once
			extra := int64(rows * c.k * 4)
			if rows > 1 {
				block := 40
				if typ == kernels.Q6_K {
					block = 44
				}
				extra = int64(rows*c.k/32*block) + int64(8*rows*c.n*4)
			}
			read := float64(int64(n.UniqueRead)*32-extra) / float64(w.Bytes)
			t.Logf("%-5v %2d rows: sectors/ideal %.3f, waves/ideal %.3f, read %.3f of W, %.1f instructions a tile, %.2f bytes of W each", typ, rows, sectors, waves, read, instr, float64(w.Bytes)/float64(n.WarpInstr))
			if sectors > 1.1 || waves > 1.05 || read > 1.03 || instr > most[i] {
				t.Errorf("%v, %d rows: got sectors/ideal %.3f, waves/ideal %.3f, %.3f of W read, %.1f instructions a tile, wanted at most 1.1, 1.05, 1.03 and %.0f", typ, rows, sectors, waves, read, instr, most[i])
			}
		}
	}
}

// TestIntGeometry compares linear_int.go with the numbers of the CUDA sources.
func TestIntGeometry(t *testing.T) {
	src, err := os.ReadFile("../int_weights.cuh")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`struct (\w+) \{\n\tstatic constexpr int (kBlocks = [^;]*);`).FindAllStringSubmatch(string(src), -1) {
		found[strings.ToLower(m[1])] = m[2]
	}
	for name, want := range kernel.IntGeometry() {
		if found[name] != want {
			t.Errorf("%s: int_weights.cuh has %q, linear_int.go %q", name, found[name], want)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("linear_int.go knows nothing of %v", found)
	}
}

// TestIntBytes: the device form is no larger than the file's, for whole strips.
func TestIntBytes(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.Q8_0, kernels.Q4_0, kernels.Q4_1, kernels.Q5_0, kernels.Q5_1, kernels.Q2_K, kernels.Q4_K, kernels.Q5_K, kernels.Q6_K} {
		c := &intCase{typ: typ, parts: []int{64}, k: 512}
		c.make()
		w, err := kernel.NewWeight(c.tensors, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if file := int64(len(c.tensors[0].Data)); w.Bytes != file {
			t.Errorf("%v: got %d bytes, the file has %d", typ, w.Bytes, file)
		}
	}
}

// TestIntScratch: what is set aside for a vocabulary is bounded, and covers what
// any number of rows takes.
func TestIntScratch(t *testing.T) {
	w := &kernel.Weight{Type: kernels.Q6_K, N: 151936, K: 4096}
	if n := kernel.ScratchBytes(w, 128); n > 64<<20 {
		t.Errorf("got %d bytes", n)
	}
	for _, n := range []int{64, 4096, 14336, 151936} {
		w.N = n
		most := kernel.ScratchBytes(w, 512)
		for rows := 1; rows <= 512; rows++ {
			if used := kernel.IntScratchUsed(w, rows, 1<<20); used > most {
				t.Fatalf("%d outputs, %d rows: %d bytes are used, %d set aside", n, rows, used, most)
			}
		}
	}
}
