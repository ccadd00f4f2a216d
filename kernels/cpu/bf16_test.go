package cpu

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// withBF16 is the tests' options for inputs in bf16 on a path.
func withBF16(path string) Options { return Options{Threads: 2, Path: path, Activations: "bf16"} }

// bf16Paths are the paths whose sums are those of the portable one, and then each
// other one alone.
func bf16Paths() (all [][]string) {
	all = [][]string{nil}
	for _, path := range Paths() {
		if OwnSums(path) == "" {
			all[0] = append(all[0], path)
		} else {
			all = append(all, []string{path})
		}
	}
	return all
}

// Every path gives the bits of the portable one, unless the processor is known to round
// in another way, and a wrong kernel is noticed: wrong in its last row, or only where
// sums are flushed.
func TestBF16Agrees(t *testing.T) {
	for _, path := range Paths() {
		ks, _ := choose(path)
		want := equal
		if OwnSums(path) != "" {
			want = near
			t.Logf("LOUD: %s does not round as the manual says", path)
		}
		if got := ks.bf16.like(); got != want {
			t.Errorf("%s is as like the portable kernels as %v, wanted %v", path, got, want)
		}
	}
	for _, name := range []string{"row", "flush"} {
		broken := portable.bf16
		broken.mat = func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int) {
			portablePairs(cols, dst, ldd, w, stride, x, ldx, k, count, ahead)
			last := at(dst, (cols-1)*ldd+4*(count*panelRows-2))
			if name == "row" {
				*last = math.Nextafter32(*last, 2)
				return
			}
			for i := range cols * count * panelRows {
				v := at(dst, i%cols*ldd+i/cols*4)
				*v += 0 // which makes −0 0
			}
		}
		if broken.like() == equal {
			t.Errorf("kernels wrong by %s go unnoticed", name)
		}
	}
	// One rounding for two products is near; half a result, or one that depends on its
	// company, is not.
	for _, c := range []struct {
		name string
		want likeness
		mat  func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int)
	}{
		{"fused", near, fusedPairs},
		{"half", unlike, func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int) {
			portablePairs(cols, dst, ldd, w, stride, x, ldx, k, count, ahead)
			*dst /= 2
		}},
		{"company", unlike, func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int) {
			f := portablePairs
			if cols > 1 {
				f = fusedPairs
			}
			f(cols, dst, ldd, w, stride, x, ldx, k, count, ahead)
		}},
	} {
		other := portable.bf16
		other.mat = c.mat
		if fits := other.fit(); other.like() != c.want || fits != (c.want != unlike) || other.own != (c.want == near) {
			t.Errorf("%s: like %v, fit %v, own %v, wanted %v", c.name, other.like(), fits, other.own, c.want)
		}
	}
}

// fusedPairs is portablePairs with one rounding for two products, or nearly so.
func fusedPairs(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, _ int) {
	dword := func(p *byte, i int) (high, low float64) {
		v := *at((*uint32)(unsafe.Pointer(p)), 4*i)
		return float64(math.Float32frombits(v & 0xffff0000)), float64(math.Float32frombits(v << 16))
	}
	for c := range cols {
		for r := range count * panelRows {
			var acc float32
			for j := range k / 2 {
				w1, w0 := dword(w, r/16*stride/2+16*j+r%16)
				x1, x0 := dword(x, c*ldx/4+j)
				acc = float32(float64(acc) + w1*x1 + w0*x0)
			}
			*at(dst, c*ldd+4*r) = acc
		}
	}
}

// The kernels' results are those of the formula: inputs rounded beforehand and the
// reference device.
func TestBF16Cases(t *testing.T) {
	for _, path := range Paths() {
		n := 0
		for _, c := range kerneltest.Cases() {
			if !strings.HasPrefix(c.Name, "linear/BF16") {
				continue
			}
			n++
			in := c.Program.Tensors[0]
			for i := 0; i < len(in.Data); i += 4 {
				v := math.Float32bits(kernels.FromBF16(roundBF16(f32At(in.Data[i:]))))
				in.Data[i], in.Data[i+1], in.Data[i+2], in.Data[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
			}
			t.Run(path+"/"+c.Name, func(t *testing.T) { kerneltest.One(t, &c, open(withBF16(path))) })
		}
		if n == 0 {
			t.Error("the table has no case in BF16")
		}
	}
}

// The same bits alone and in batches, on every path; beside BF16 matrices there are
// some in float32.
func TestBF16Invariance(t *testing.T) {
	for _, paths := range bf16Paths() {
		var opens []kerneltest.Open
		for _, path := range paths {
			opens = append(opens, open(withBF16(path)))
		}
		kerneltest.InvarianceOf(t, 11, func(i int) bool { return i == 3 }, opens...)
	}
}

// Matrices of other types are multiplied as they are without it, and what has no
// matrix in BF16 is refused, by its name, also when it is planned.
func TestBF16OtherTypes(t *testing.T) {
	shape := kerneltest.Shape{Vocab: 64, Width: 64, Layers: 1, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Type: kernels.Q8_0, Head: kernels.F16}
	p := kerneltest.Model(shape, 5)
	d, _ := New(withBF16(""))
	defer d.Close()
	kv := kernels.KVConfig{Blocks: 8, BlockSize: 16, Type: kernels.F16}
	_, err := Need(p, 1, withBF16(""))
	for _, err := range []error{d.Load(p, kv), err} {
		if err == nil || !strings.Contains(err.Error(), `"bf16"`) || !strings.Contains(err.Error(), `wanted "q8" or "f32"`) {
			t.Errorf("a model without matrices in BF16: got %v", err)
		}
	}
	run := func(o Options, p *kernels.Program) []float32 {
		s := kerneltest.Step{Tokens: []int32{1, 2, 3}, Spans: []kernels.Span{{Len: 3, Blocks: []int32{0}}}}
		return kerneltest.Outputs(t, open(o)(t), &kerneltest.Case{Program: p, KV: kv, Steps: []kerneltest.Step{s}})[0]
	}
	// A program whose matrices are all quantized but one in BF16, whose inputs are
	// bf16 already: a head that only zeros come to.
	shape.Head = kernels.BF16
	p = kerneltest.Model(shape, 5)
	clear(p.Tensors[p.Head[0].W].Data)
	if got, want := run(withBF16(""), p), run(Options{Threads: 2}, p); !sameBits(got, want) {
		t.Error("quantized matrices are multiplied in another way than by default")
	}
	p = kerneltest.Model(shape, 5)
	if got, want := run(withBF16(""), p), run(Options{Threads: 2}, p); sameBits(got, want) {
		t.Error("inputs of a matrix in BF16 are not rounded")
	}
}

// Inputs are rounded to nearest even, the subnormal are zero, and all paths do the same.
func TestRoundBF16(t *testing.T) {
	for _, c := range []struct {
		x    uint32
		want uint16
	}{
		{0, 0}, {1 << 31, 0x8000}, {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0xbf818000, 0xbf82},
		{0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0xffc12345, 0xffc1},
		{0x007fffff, 0}, {0x807fffff, 0x8000}, {0x00800000, 0x0080}, {1, 0},
	} {
		x := math.Float32frombits(c.x)
		if got := roundBF16(x); got != c.want {
			t.Errorf("%08x: got %04x, want %04x", c.x, got, c.want)
		}
		for _, path := range Paths() {
			ks, _ := choose(path)
			for n := 1; n <= 70; n += 23 {
				row := make([]float32, n)
				for i := range row {
					row[i] = x
				}
				dst := make([]byte, ks.bf16.rowBytes(n))
				for i := range dst {
					dst[i] = 0xee
				}
				ks.bf16.round(&dst[0], row)
				for i := range bf16Cols(n) {
					got, want := uint16(0), c.want
					if ks.bf16.pairs {
						got = u16(dst[4*(i/2)+2-i%2*2:])
					} else if got = u16(dst[4*i+2:]); u16(dst[4*i:]) != 0 {
						t.Fatalf("%s: more bits than a bf16 has", path)
					}
					if i >= n {
						want = 0
					}
					if got != want {
						t.Fatalf("%s: %08x at %d of %d: got %04x, want %04x", path, c.x, i, n, got, want)
					}
				}
			}
		}
	}
}

// fmaFlush flushes what is below 2⁻¹²⁶ after rounding to 24 bits, and nothing else.
func TestFMAFlush(t *testing.T) {
	least := new(big.Float).SetMantExp(big.NewFloat(1), -126)
	rng := rand.New(rand.NewPCG(5, 5))
	flushed := 0
	f := func(x, y, z float32) {
		t.Helper()
		exact := new(big.Float).SetPrec(700).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.SetPrec(700).Add(exact, big.NewFloat(float64(z)))
		rounded := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(exact)
		want, _ := rounded.Float32()
		if rounded.Sign() != 0 && new(big.Float).Abs(rounded).Cmp(least) < 0 {
			want = float32(math.Copysign(0, float64(rounded.Sign())))
			flushed++
		}
		if got := fmaFlush(x, y, z); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%v·%v + %v: got %v, want %v", x, y, z, got, want)
		}
	}
	f(0x1p-100, 0x1p-51, 0x1p-126)     // stays
	f(0x1p-100, -0x1p-51, 0x1p-126)    // a tie below it, which goes up to it
	f(0x1p-100, -0x1.02p-51, 0x1p-126) // just below the tie
	f(0x1p-100, -0x1p-50, 0x1p-126)    // the next number below, which is no float32
	f(0x1p-126, -0x1p-20, 0)           // no sum
	for range 100_000 {
		bf := func(e int) float32 {
			return kernels.FromBF16(kernels.ToBF16(float32(math.Ldexp(1+rng.Float64(), e)) * float32(1-2*rng.IntN(2))))
		}
		e := -126 + rng.IntN(110)
		f(bf(e), bf(max(-126, -126-e-rng.IntN(30))), float32(math.Ldexp(1+rng.Float64(), -126+rng.IntN(8)))*float32(1-2*rng.IntN(2)))
	}
	if flushed < 100 {
		t.Errorf("only %d results were flushed", flushed)
	}
}

// BenchmarkBF16 runs a matrix of 64 rows that fits the cache: GFLOPS counts a multiply
// and an add as two.
func BenchmarkBF16(b *testing.B) {
	const rows, cols = 64, 1536
	rng := rand.New(rand.NewPCG(1, 1))
	w := kerneltest.Tensor(rng, "w", kernels.BF16, rows, cols, 1)
	x, dst := make([]float32, cols), make([]float32, 48*rows)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for _, path := range Paths() {
		if path == "portable" {
			continue
		}
		for _, n := range []int{1, 4, 8, 16, 48} {
			for _, act := range []string{"f32", "bf16"} {
				ks, _ := choose(path)
				d := &Device{ks: ks, bf16: act == "bf16"}
				wt := weight{t: &w}
				wt.stride, wt.count = d.layout(&w)
				wt.panels = make([]byte, wt.count*wt.stride)
				if d.bf16 {
					wt.bf16 = &ks.bf16
				}
				wt.fill(&w, 0, 1)
				reg := register{data: dst, width: rows, stride: rows}
				ldx := ks.bf16.rowBytes(cols)
				in, floats := actRows{bf16: make([]byte, n*ldx)}, make([]float32, n*cols)
				for c := range n {
					ks.bf16.round(&in.bf16[c*ldx], x)
				}
				b.Run(fmt.Sprintf("%s/%s/cols=%d", path, act, n), func(b *testing.B) {
					best := fastest(b, func() {
						if d.bf16 {
							d.multiplyBF16(&wt, &reg, &in, n, 0, rows/panelRows)
						} else {
							d.multiplyFloat(&wt, &reg, &floats[0], 4*cols, n, 0, rows/panelRows)
						}
					})
					b.ReportMetric(2*rows*cols*float64(n)/best/1e9, "best-GFLOPS")
				})
			}
		}
	}
}

// A step in steady state does not allocate, and takes no more than was planned.
func TestBF16Memory(t *testing.T) {
	p := kerneltest.Model(kerneltest.Shape{Vocab: 64, Width: 72, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 18, FFN: 100,
		Type: kernels.BF16, Head: kernels.BF16, Bias: true}, 3)
	const most = 40
	for _, path := range Paths() {
		o := withBF16(path)
		need, err := Need(p, most, o)
		if err != nil {
			t.Fatal(err)
		}
		d := open(o)(t).(*Device)
		if err := d.Load(p, kernels.KVConfig{Blocks: 8, BlockSize: 16, Type: kernels.F16}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 7, most} {
			s := kerneltest.Step{Tokens: make([]int32, n), Spans: []kernels.Span{{Len: int32(n), Blocks: []int32{3, 1, 2, 0}}}}
			b := s.Batch(p)
			if a := kerneltest.Allocs(func() {
				if err := d.Step(b); err != nil {
					t.Fatal(err)
				}
			}); a != 0 {
				t.Errorf("%s: a step of %d rows allocates %v times", path, n, a)
			}
		}
		if st := d.Stats(); st.WeightBytes != need.WeightBytes || st.ScratchBytes > need.ScratchBytes {
			t.Errorf("%s: took %d bytes of weights and %d of scratch, planned %d and %d", path, st.WeightBytes, st.ScratchBytes, need.WeightBytes, need.ScratchBytes)
		}
		d.Close()
	}
}
