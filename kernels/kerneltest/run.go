package kerneltest

import (
	"math"
	"strings"
	"testing"

	"hearth/kernels"
	"hearth/kernels/ref"
)

// Open makes a device without a program; a test fails if it cannot.
type Open func(t testing.TB) kernels.Device

// Candidate is a device to compare with the reference. Quantized says that it
// rounds the inputs of quantized matrices to 8 bits.
type Candidate struct {
	Name      string
	Open      Open
	Quantized bool
}

// Against runs the case table on the reference and on all candidates.
func Against(t *testing.T, candidates ...Candidate) {
	AgainstSome(t, func(int) bool { return true }, candidates...)
}

// AgainstSome is Against on the cases whose numbers are wanted.
func AgainstSome(t *testing.T, wanted func(i int) bool, candidates ...Candidate) {
	for i, c := range Cases() {
		if !wanted(i) {
			continue
		}
		want := Outputs(t, ref.New(), &c)
		for _, cand := range candidates {
			t.Run(cand.Name+"/"+c.Name, func(t *testing.T) {
				tol := c.Tol
				if cand.Quantized && strings.HasPrefix(c.Name, "linear/") && c.Program.Tensors[1].Type.BlockValues() > 1 {
					tol = c.TolQ8
				}
				got := Outputs(t, cand.Open(t), &c)
				for s := range want {
					compare(t, s, got[s], want[s], tol)
				}
			})
		}
	}
}

// One runs a case on the reference and on a device that rounds nothing more.
func One(t *testing.T, c *Case, o Open) {
	want, got := Outputs(t, ref.New(), c), Outputs(t, o(t), c)
	for s := range want {
		compare(t, s, got[s], want[s], c.Tol)
	}
}

// Same checks that two devices give the same bits in every case.
func Same(t *testing.T, a, b Open) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			x, y := Outputs(t, a(t), &c), Outputs(t, b(t), &c)
			for s := range x {
				identical(t, s, x[s], y[s])
			}
		})
	}
}

// Outputs are the final states of every step of a case, then the device closed.
func Outputs(t testing.TB, d kernels.Device, c *Case) [][]float32 {
	t.Helper()
	defer d.Close()
	if err := d.Load(c.Program, c.KV); err != nil {
		t.Fatalf("%s: load: %v", d.Name(), err)
	}
	var out [][]float32
	for i, s := range c.Steps {
		b := s.Batch(c.Program)
		if err := d.Step(b); err != nil {
			t.Fatalf("%s: step %d: %v", d.Name(), i, err)
		}
		out = append(out, append(b.Hidden, b.Logits...))
	}
	return out
}

func compare(t *testing.T, step int, got, want []float32, tol float64) {
	t.Helper()
	top := 1.0 // inputs are of this order, so a small result is one of cancellation
	for _, w := range want {
		top = max(top, math.Abs(float64(w)))
	}
	for i, w := range want {
		if e := math.Abs(float64(got[i]) - float64(w)); !(e <= tol*top) {
			t.Fatalf("step %d value %d: got %v, want %v (off by %.3g of the largest, %g allowed)", step, i, got[i], w, e/top, tol)
		}
	}
}

func identical(t *testing.T, step int, a, b []float32) {
	t.Helper()
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("step %d value %d: %v and %v (%08x, %08x)", step, i, a[i], b[i], math.Float32bits(a[i]), math.Float32bits(b[i]))
		}
	}
}
