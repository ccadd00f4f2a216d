package ptx

import (
	"math"
	"testing"
)

// Kernels without a fault run without a finding and compute what they should.

func TestSaxpy(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	n := 1000
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i), 1
	}
	px, py := b.put(x), b.put(y)
	r := b.clean("saxpy", Dim{X: 8}, Dim{X: 128}, 0, float32(2), px, py, int32(n))
	b.get(py, y)
	for i := range y {
		if y[i] != 2*float32(i)+1 {
			t.Fatalf("y[%d] = %v", i, y[i])
		}
	}
	if c := r.Counts; c.UniqueSectors != 250 || c.UniqueRead != 250 || c.UniqueWritten != 125 || c.Sectors != 375 || c.IdealSectors != 375 {
		t.Errorf("counts %+v", c)
	}
	if len(r.Lines()) == 0 || r.Lines()[0].Source != "good.cu:9" {
		t.Errorf("lines %v", r.Lines())
	}
}

// Parts of a grid that make it up do what all of it does.
func TestLaunchPart(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	n := 1000
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	px, py := b.put(x), b.put(y)
	params := b.params("saxpy", []any{float32(2), px, py, int32(n)})
	for _, part := range []struct{ first, end, sectors uint64 }{{3, 8, 154}, {0, 2, 64}, {2, 3, 32}} {
		r, err := b.m.LaunchPart(b.l, "saxpy", Dim{X: 8}, Dim{X: 128}, 0, params, part.first, part.end)
		if err != nil || len(r.Findings) > 0 || r.Counts.UniqueSectors != part.sectors {
			t.Fatalf("blocks %d to %d: %v, %v, %d sectors, wanted %d", part.first, part.end, err, r.Findings, r.Counts.UniqueSectors, part.sectors)
		}
	}
	b.get(py, y)
	for i := range y {
		if y[i] != 2*float32(i) {
			t.Fatalf("y[%d] = %v", i, y[i])
		}
	}
	for _, part := range [][2]uint64{{3, 3}, {4, 3}, {0, 9}} {
		if _, err := b.m.LaunchPart(b.l, "saxpy", Dim{X: 8}, Dim{X: 128}, 0, params, part[0], part[1]); err == nil {
			t.Errorf("blocks %d to %d were accepted", part[0], part[1])
		}
	}
}

func TestLastBlock(t *testing.T) {
	for _, opt := range []Options{watched, {Checks: true, Workers: 1}, {Workers: 2}} {
		b := open(t, "good.compute_80.ptx", opt)
		n, want := 5000, float32(0)
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i % 17)
			want += x[i]
		}
		px, partial, ticket, out := b.put(x), b.room(4*20), b.put([]uint32{0}), b.room(4)
		got := []float32{0}
		for range 3 {
			b.clean("last_block_sum", Dim{X: 20}, Dim{X: 128}, 0, px, int32(n), partial, ticket, out)
			if b.get(out, got); got[0] != want {
				t.Errorf("got %v, wanted %v", got[0], want)
			}
		}
		xi, part, o := make([]int32, 640), b.room(640*4), b.room(64*4)
		for i := range xi {
			xi[i] = int32(i)
		}
		sum := make([]int32, 64)
		b.clean("all_fence_sum", Dim{X: 10}, Dim{X: 64}, 0, b.put(xi), part, b.put([]uint32{0}), o)
		if b.get(o, sum); sum[3] != 2*(10*3+64*45) {
			t.Errorf("sum %v", sum[3])
		}
		value, turn := b.put([]int32{1}), b.put([]int32{0})
		b.clean("chain", Dim{X: 8}, Dim{X: 32}, 0, value, turn)
		v := []int32{0}
		if b.get(value, v); v[0] != (3*6561-1)/2 {
			t.Errorf("chain gave %d", v[0])
		}
	}
}

func gemmCase(t testing.TB, b *bench, m, n, k int) *Report {
	rng := noise(1)
	A, B := make([]uint16, m*k), make([]uint16, n*k)
	for i := range A {
		A[i] = bf16(rng.float())
	}
	for i := range B {
		B[i] = bf16(rng.float())
	}
	pa, pb, pc := b.put(A), b.put(B), b.room(m*n*4)
	r := b.clean("gemm", Dim{X: uint32(n+63) / 64, Y: uint32(m+63) / 64}, Dim{X: 128}, 6*64*32*2, pa, pb, pc, int32(m), int32(n), int32(k))
	C := make([]float32, m*n)
	b.get(pc, C)
	for i := range m {
		for j := range n {
			s := 0.0
			for l := range k {
				s += float64(unbf16(A[i*k+l])) * float64(unbf16(B[j*k+l]))
			}
			if d := math.Abs(float64(C[i*n+j]) - s); d > 1e-4*(1+math.Abs(s)) {
				t.Fatalf("%dx%dx%d: C[%d][%d] = %v, wanted %v", m, n, k, i, j, C[i*n+j], s)
			}
		}
	}
	return r
}

func TestGemm(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	for _, s := range [][3]int{{64, 64, 64}, {1, 1, 32}, {65, 70, 96}, {130, 63, 160}} {
		r := gemmCase(t, b, s[0], s[1], s[2])
		if r.Counts.SharedWaves != r.Counts.IdealWaves || r.Counts.MMA == 0 {
			t.Errorf("%v: %d waves, %d without conflicts, %d mma", s, r.Counts.SharedWaves, r.Counts.IdealWaves, r.Counts.MMA)
		}
	}
}

func TestGemv(t *testing.T) {
	b := open(t, "good.compute_90.ptx", watched)
	rows, k := 37, 136
	rng := noise(2)
	W, x := make([]uint16, rows*k), make([]float32, k)
	for i := range W {
		W[i] = bf16(rng.float())
	}
	for i := range x {
		x[i] = rng.float()
	}
	py := b.room(rows * 4)
	b.clean("gemv", Dim{X: 10}, Dim{X: 128}, 0, b.put(W), b.put(x), py, int32(rows), int32(k))
	y := make([]float32, rows)
	b.get(py, y)
	for i := range y {
		s := 0.0
		for j := range x {
			s += float64(unbf16(W[i*k+j])) * float64(x[j])
		}
		if math.Abs(float64(y[i])-s) > 1e-4 {
			t.Errorf("y[%d] = %v, wanted %v", i, y[i], s)
		}
	}
}

func TestDivergence(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	n := 100
	x, y := make([]int32, n), make([]int32, n)
	for i := range x {
		x[i] = int32(i + 1)
	}
	py := b.room(4 * n)
	b.clean("diverge", Dim{X: 2}, Dim{X: 64}, 0, b.put(x), py, int32(n))
	b.get(py, y)
	for i, v := range x {
		s := int32(0)
		for ; v != 1; s++ {
			if v%2 != 0 {
				v = 3*v + 1
			} else {
				v /= 2
			}
		}
		switch s % 5 {
		case 0:
			s += 100
		case 1:
			s *= 7
		case 2:
			s -= 3
		case 3:
			s ^= 0x55
		default:
			s = -s
		}
		if y[i] != s {
			t.Errorf("y[%d] = %d, wanted %d", i, y[i], s)
		}
	}
}

func TestHistogram(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	x, want, got := make([]byte, 3001), make([]uint32, 256), make([]uint32, 256)
	rng := noise(3)
	for i := range x {
		x[i] = byte(rng.next())
		want[x[i]]++
	}
	out := b.put(make([]uint32, 256))
	b.clean("histogram", Dim{X: 6}, Dim{X: 96}, 0, b.put(x), int32(len(x)), out)
	b.get(out, got)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("bin %d: %d, wanted %d", i, got[i], want[i])
		}
	}
}

func TestSoftmax(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	rows, n := 3, 300
	x, y := make([]float32, rows*n), make([]float32, rows*n)
	rng := noise(4)
	for i := range x {
		x[i] = 10 * rng.float()
	}
	py := b.room(4 * rows * n)
	b.clean("softmax", Dim{X: uint32(rows)}, Dim{X: 128}, 0, b.put(x), py, int32(n))
	b.get(py, y)
	for r := range rows {
		sum := 0.0
		for _, v := range x[r*n:][:n] {
			sum += math.Exp(float64(v))
		}
		for i, v := range x[r*n:][:n] {
			if w := math.Exp(float64(v)) / sum; math.Abs(float64(y[r*n+i])-w) > 1e-6*w+1e-9 {
				t.Fatalf("y[%d][%d] = %v, wanted %v", r, i, y[r*n+i], w)
			}
		}
	}
}

// A function that is called, local memory, constant memory, and the long way
// through sinf's argument reduction.
func TestCalls(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	x, y := make([]float32, 40), make([]float32, 40)
	for i := range x {
		x[i] = float32(i)*0.37 - 3
	}
	py := b.room(160)
	b.clean("calls", Dim{}, Dim{X: 64}, 0, b.put(x), py, int32(40))
	b.get(py, y)
	table := []float32{1.5, 2.5, -3, 4.25}
	for i, v := range x {
		tmp := make([]float32, 4)
		for j := range 4 {
			tmp[(j+i)%4] = v * float32(j)
		}
		w := float64(tmp[i%4]) + math.Sin(float64(v*100000)) + float64(tmp[(i+1)%4]) + float64(table[i%4])
		if math.Abs(float64(y[i])-w) > 1e-5 {
			t.Errorf("y[%d] = %v, wanted %v", i, y[i], w)
		}
	}
}

func TestWarps(t *testing.T) {
	b := open(t, "good.compute_80.ptx", watched)
	out := b.room(128)
	got := make([]int32, 32)
	b.clean("warp_exchange", Dim{}, Dim{X: 32}, 0, out)
	b.get(out, got)
	for i, v := range got {
		if want := int32((31-(i^1))*5 + 1); v != want {
			t.Errorf("lane %d: %d, wanted %d", i, v, want)
		}
	}
	x := make([]int32, 32)
	var ballot, sum uint32
	for i := range x {
		x[i] = int32(i * 7 % 20)
		sum += uint32(x[i])
		if x[i] > 10 {
			ballot |= 1 << i
		}
	}
	u := make([]uint32, 32)
	b.clean("votes", Dim{}, Dim{X: 32}, 0, b.put(x), out)
	b.get(out, u)
	for i := range u {
		var match uint32
		for j := range x {
			if x[j]%3 == x[i]%3 {
				match |= 1 << j
			}
		}
		want := ballot ^ 3 ^ match ^ sum ^ 0xffffffff ^ 1
		if i < 8 {
			want += uint32((7-i)*3) + 0xff
		}
		if u[i] != want {
			t.Errorf("lane %d: %#x, wanted %#x", i, u[i], want)
		}
	}
}
