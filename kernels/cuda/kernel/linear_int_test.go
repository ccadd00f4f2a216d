package kernel_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
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

func floatBytes(v []float32) []byte {
	b := make([]byte, 4*len(v))
	for i, f := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
	}
	return b
}

func bytesFloat(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
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

func TestIntLinear(t *testing.T) {
	rows := []int{1, 2, 7, 8, 9, 17, 33, 64, 65, 70, 129}
	for _, c := range []intCase{
		{typ: kernels.Q4_0, parts: []int{35}, k: 96},
		{typ: kernels.Q8_0, parts: []int{35}, k: 96},
	} {
		c.make()
		for _, compute := range []int{80, 90} {
			t.Run(fmt.Sprintf("%v/%d", &c, compute), func(t *testing.T) {
				g := newGPU(t, compute)
				c.run(g, rows)
			})
		}
	}
}

func (c *intCase) run(g *gpu, rows []int) {
	t := g.t
	want, tol := c.reference(t, intMaxRows)
	w, err := kernel.NewWeight(c.tensors, c.gated, false)
	g.check(err)
	packed := make([]byte, w.Bytes)
	w.Pack(packed, 0)
	w.Addr = g.upload(packed)
	call := kernel.LinearCall{
		X: kernel.Mat{Addr: g.upload(floatBytes(c.x)), Stride: c.k}, Y: kernel.Mat{Addr: g.alloc(int64(4 * len(c.y))), Stride: c.out},
		Residual: c.residual, Act: c.act, Eps: intEps,
		Scratch: g.alloc(kernel.ScratchBytes(w, intMaxRows)), Counters: g.upload(make([]byte, kernel.CounterBytes)),
	}
	if c.norm {
		call.Norm = g.upload(floatBytes(c.weight))
	}
	if c.bias {
		call.Bias = g.upload(floatBytes(c.b))
	}
	first := make([]float32, len(c.y)) // what a row was at first: it must stay so in every tier
	done := 0
	for _, n := range rows {
		for _, tier := range intTiers {
			if n > tier.maxRows {
				continue
			}
			call.Rows = n
			ls, err := tier.launch(g.target, w, call)
			g.check(err)
			g.check(g.mach.Write(uint64(call.Y.Addr), floatBytes(c.y)))
			g.run(ls)
			got := make([]byte, 4*len(c.y))
			g.check(g.mach.Read(uint64(call.Y.Addr), got))
			for i, v := range bytesFloat(got) {
				if i >= n*c.out {
					if v != c.y[i] {
						t.Fatalf("%s, %d rows: row %d was written", tier.name, n, i/c.out)
					}
					continue
				}
				if math.Abs(float64(v)-want[i]) > tol[i] || v != v {
					t.Fatalf("%s, %d rows: row %d, output %d: got %g, wanted %g ± %g", tier.name, n, i/c.out, i%c.out, v, want[i], tol[i])
				}
				if i >= done*c.out {
					first[i] = v
				} else if v != first[i] {
					t.Fatalf("%s, %d rows: row %d, output %d: got %g, fewer rows had %g", tier.name, n, i/c.out, i%c.out, v, first[i])
				}
			}
			done = max(done, n)
		}
	}
}
