package kernel_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ptx/ptxtest"
)

// intCase is a linear with what is fused, and its inputs on the host.
type intCase struct {
	typ      kernels.DType
	parts    []int // outputs
	k        int
	gated    bool
	act      kernel.Activation
	norm     bool
	bias     bool
	residual bool
	rows     []int // nil: intRows

	tensors []*kernels.Tensor
	x       []float32 // (intMaxRows, k)
	y       []float32 // (intMaxRows, out) before
	weight  []float32 // of the norm
	b       []float32
	n, out  int
}

const (
	intMaxRows = 129
	intEps     = 1e-5
)

func (c *intCase) String() string {
	return fmt.Sprintf("%v/%v×%d/act=%d/norm=%v/bias=%v/residual=%v", c.typ, c.parts, c.k, c.act, c.norm, c.bias, c.residual)
}

// make fills the inputs. Rows differ in size; some blocks of x are zero.
func (c *intCase) make() {
	rng := rand.New(rand.NewPCG(uint64(c.typ), uint64(c.k)))
	for i, n := range c.parts {
		t := kerneltest.Tensor(rng, fmt.Sprint("w", i), c.typ, n, c.k, 1/float32(math.Sqrt(float64(c.k))))
		c.tensors = append(c.tensors, &t)
		c.n += n
	}
	c.out = c.n
	if c.gated {
		c.out = c.n / 2
	}
	random := func(n int, mean, dev float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = mean + dev*float32(rng.NormFloat64())
		}
		return v
	}
	c.x = random(intMaxRows*c.k, 0, 1)
	for r := range intMaxRows {
		for i := range c.k {
			c.x[r*c.k+i] *= float32(1 + r%5)
		}
		clear(c.x[r*c.k+r%(c.k/32)*32:][:32])
	}
	c.y = random(intMaxRows*c.out, 0, 1)
	c.weight = random(c.k, 1, 0.3)
	c.b = random(c.n, 0, 1)
}

// fma32 is a·b+c, rounded once (but for ties of the second rounding).
func fma32(a, b, c float32) float32 {
	return float32(math.FMA(float64(a), float64(b), float64(c)))
}

// normRow is what activation.cuh computes, in its order.
func normRow(x, w []float32) []float32 {
	var warps [8]float32
	for v := range warps {
		var lanes [32]float32
		for l := range lanes {
			for k := 4 * (32*v + l); k < len(x); k += 1024 {
				for _, e := range x[k : k+4] {
					lanes[l] = fma32(e, e, lanes[l])
				}
			}
		}
		for d := 16; d > 0; d /= 2 {
			for l := range d {
				lanes[l] += lanes[l+d]
			}
		}
		warps[v] = lanes[0]
	}
	s := warps[0]
	for _, v := range warps[1:] {
		s += v
	}
	inv := 1 / float32(math.Sqrt(float64(s/float32(len(x))+intEps)))
	y := make([]float32, len(x))
	for i := range x {
		y[i] = float32(x[i]*inv) * w[i]
	}
	return y
}

// rounded is x as the kernels round it to int8, with a scale for 32 values.
func rounded(x []float32) []float64 {
	y := make([]float64, len(x))
	for b := 0; b < len(x); b += 32 {
		var m float32
		for _, v := range x[b : b+32] {
			m = max(m, float32(math.Abs(float64(v))))
		}
		if m < 1e-30 {
			continue
		}
		d, inv := m/127, 127/m
		for i := b; i < b+32; i++ {
			y[i] = float64(d) * math.RoundToEven(float64(float32(x[i]*inv)))
		}
	}
	return y
}

// reference computes rows rows in float64 from the rounded x; tol is how far
// float32 sums may be off.
func (c *intCase) reference(t *testing.T, rows int) (want, tol []float64) {
	t.Helper()
	w := make([]float64, 0, c.n*c.k)
	buf := make([]float32, c.k)
	for _, x := range c.tensors {
		for r := range x.Rows {
			if err := kernels.Dequantize(buf, x.Type, x.Data[r*x.Type.RowBytes(c.k):][:x.Type.RowBytes(c.k)]); err != nil {
				t.Fatal(err)
			}
			for _, v := range buf {
				w = append(w, float64(v))
			}
		}
	}
	want, tol = make([]float64, rows*c.out), make([]float64, rows*c.out)
	sums, sizes := make([]float64, c.n), make([]float64, c.n)
	for r := range rows {
		x := c.x[r*c.k:][:c.k]
		if c.norm {
			x = normRow(x, c.weight)
		}
		q := rounded(x)
		for n := range c.n {
			sums[n], sizes[n] = 0, 0
			for i, v := range q {
				p := v * w[n*c.k+i]
				sums[n] += p
				sizes[n] += math.Abs(p)
			}
			if c.bias {
				sums[n] += float64(c.b[n])
			}
		}
		for n := range c.out {
			v, size := sums[n], sizes[n]
			if c.gated {
				size = sizes[n]*(1+math.Abs(sums[n+c.out])) + sizes[n+c.out]*(1+math.Abs(v))
				if c.act == kernel.SiluMul {
					v = v / (1 + math.Exp(-v)) * sums[n+c.out]
				} else {
					v = 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) * sums[n+c.out]
				}
			}
			if c.residual {
				v += float64(c.y[r*c.out+n])
			}
			// An order of a few dozen float32 sums; minima make terms larger than
			// their sum: factor 4.
			want[r*c.out+n], tol[r*c.out+n] = v, 1e-6+4e-7*4*size
		}
	}
	return want, tol
}

// intTier makes the launches of a call one way.
type intTier struct {
	name    string
	maxRows int
	launch  func(kernel.Target, *kernel.Weight, kernel.LinearCall) ([]kernel.Launch, error)
}

var intTiers = []intTier{
	{"chosen", intMaxRows, kernel.Linear},
	{"gemv", 8, kernel.IntGemv},
	{"tile", intMaxRows, func(t kernel.Target, w *kernel.Weight, c kernel.LinearCall) ([]kernel.Launch, error) {
		return kernel.IntTile(t, w, c, false)
	}},
	{"cut", 128, func(t kernel.Target, w *kernel.Weight, c kernel.LinearCall) ([]kernel.Launch, error) {
		return kernel.IntTile(t, w, c, true)
	}},
}

// intCases are each type with shapes that are no multiples of a tile, and what
// is fused in turn.
func intCases() (cs []*intCase) {
	for t := range kernels.DTypes() {
		typ := kernels.DType(t)
		if !kernel.IsInt(typ) {
			continue
		}
		k := typ.BlockValues()
		// an odd number of K blocks, fewer than there are segments
		small, big, few := k, 2*k, []int{1, 5, 9, 70}
		if k == 32 {
			small, big = 3*k, 13*k
		}
		cs = append(cs, &intCase{typ: typ, parts: []int{35}, k: small})
		switch t % 3 {
		case 0:
			cs = append(cs, &intCase{typ: typ, parts: []int{40, 9, 10}, k: big, norm: true, bias: true, rows: few})
		case 1:
			cs = append(cs, &intCase{typ: typ, parts: []int{44, 44}, k: big, gated: true, act: kernel.SiluMul, norm: true, rows: few})
		case 2:
			cs = append(cs, &intCase{typ: typ, parts: []int{131}, k: big, residual: true, rows: few})
		}
	}
	// as many segments as there can be, of unequal length
	return append(cs, &intCase{typ: kernels.Q8_0, parts: []int{19, 19}, k: 1056, gated: true, act: kernel.GeluMul, bias: true, rows: []int{2, 9, 40}},
		&intCase{typ: kernels.Q4_K, parts: []int{10, 10}, k: 2304, gated: true, act: kernel.SiluMul, norm: true, residual: true, rows: []int{1, 17}})
}

// TestIntLinear: every type, tier and number of rows gives what float64 makes
// of the same rounded x, and a row's bits are the same in all of them.
func TestIntLinear(t *testing.T) {
	for _, c := range intCases() {
		t.Run(c.String(), func(t *testing.T) {
			c.make()
			want, tol := c.reference(t, intMaxRows)
			ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) { c.run(t, m, want, tol) })
		})
	}
}

// intRows are around the widths of tiles; the two targets' PTX is nearly the
// same, so the second is spared some.
var intRows = map[int][]int{80: {1, 2, 7, 8, 9, 17, 33, 64, 65, 70, 129}, 90: {1, 7, 9, 33, 70}}

// upload puts the inputs of a case on the machine.
func (c *intCase) upload(t testing.TB, m *ptxtest.Machine) (*kernel.Weight, kernel.LinearCall) {
	w, err := kernel.NewWeight(c.tensors, c.gated, false)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, w.Bytes)
	half := w.Bytes / w.Unit / 2 * w.Unit
	w.Pack(packed[half:], half)
	w.Pack(packed[:half], 0)
	w.Addr = m.Bytes(packed)
	call := kernel.LinearCall{
		X: kernel.Mat{Addr: m.Floats(c.x), Stride: c.k}, Y: kernel.Mat{Addr: m.Room(4 * len(c.y)), Stride: c.out},
		Residual: c.residual, Act: c.act, Eps: intEps,
		Scratch: m.Room(int(kernel.ScratchBytes(w, intMaxRows))), Counters: m.Bytes(make([]byte, kernel.CounterBytes)),
	}
	if c.norm {
		call.Norm = m.Floats(c.weight)
	}
	if c.bias {
		call.Bias = m.Floats(c.b)
	}
	return w, call
}

func (c *intCase) run(t testing.TB, m *ptxtest.Machine, want, tol []float64) {
	w, call := c.upload(t, m)
	before, err := binary.Append(nil, binary.LittleEndian, c.y)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]float32, len(c.y)) // what a row was at first: it must stay so in every tier
	done, rows := 0, c.rows
	if rows == nil {
		rows = intRows[m.Target]
	}
	for _, n := range rows {
		var seen []string // launches; what is chosen is one of the others
		for _, tier := range intTiers {
			if n > tier.maxRows {
				continue
			}
			call.Rows = n
			ls, err := tier.launch(intTarget(m), w, call)
			if key := fmt.Sprint(ls); err == nil && slices.Contains(seen, key) {
				continue
			} else {
				seen = append(seen, key)
			}
			if err == nil {
				err = m.Write(uint64(call.Y.Addr), before)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.Launch(ls...)
			for i, v := range m.ReadFloats(call.Y.Addr, len(c.y)) {
				fault := ""
				switch {
				case i >= n*c.out:
					if v != c.y[i] {
						fault = "it was written"
					}
				case !(math.Abs(float64(v)-want[i]) <= tol[i]):
					fault = fmt.Sprintf("got %g, wanted %g ± %g", v, want[i], tol[i])
				case i >= done*c.out:
					first[i] = v
				case v != first[i]:
					fault = fmt.Sprintf("got %g, fewer rows had %g", v, first[i])
				}
				if fault != "" {
					t.Fatalf("%s, %d rows: row %d, output %d: %s", tier.name, n, i/c.out, i%c.out, fault)
				}
			}
			done = max(done, n)
		}
	}
}

func intTarget(m *ptxtest.Machine) kernel.Target {
	return kernel.Target{Compute: m.Target, SMs: 8, Shared: 99 << 10}
}
