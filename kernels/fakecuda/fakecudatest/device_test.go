//go:build linux

package fakecudatest

import (
	"math"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

// openDevice opens kernels/cuda's device over the real binding.
func openDevice(t testing.TB, o cuda.Options) kernels.Device {
	_, g := open(t)
	o.Rows, o.Sequences = 64, 16
	d, err := cuda.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// greedy runs two prompts to an end and gives all tokens and logits.
func greedy(t *testing.T, d kernels.Device, p *kernels.Program) (tokens [2][]int32, logits []float32) {
	t.Helper()
	defer d.Close()
	kv := kernels.KVConfig{Type: kernels.F16, BlockSize: 16, Blocks: 16}
	if err := d.Load(p, kv); err != nil {
		t.Fatal(err)
	}
	tokens = [2][]int32{{3, 9, 27, 5, 15, 45, 60, 1, 2, 4, 8, 16, 32, 64, 7, 21, 63}, {40, 30, 20}}
	blocks := [2][]int32{{5, 2, 9}, {1, 11, 4}}
	var done [2]int
	for range 7 {
		b := &kernels.Batch{}
		for i := range tokens {
			b.Spans = append(b.Spans, kernels.Span{Row: int32(len(b.Tokens)), Len: int32(len(tokens[i]) - done[i]), Context: int32(done[i]), Blocks: blocks[i]})
			b.Tokens = append(b.Tokens, tokens[i][done[i]:]...)
			b.LogitRows = append(b.LogitRows, int32(len(b.Tokens)-1))
			done[i] = len(tokens[i])
		}
		b.Logits = make([]float32, len(b.LogitRows)*p.Vocab)
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		logits = append(logits, b.Logits...)
		for i := range tokens {
			row := b.Logits[i*p.Vocab:][:p.Vocab]
			tokens[i] = append(tokens[i], int32(slices.Index(row, slices.Max(row))))
		}
	}
	return tokens, logits
}

// The device computes what the reference does, through the driver's own entry
// points, on every kind of GPU and however late or early queued work runs.
func TestDevice(t *testing.T) {
	child := true
	for _, v := range []struct{ streams, devices string }{{"lazy", "8.0"}, {"eager", "9.0"}, {"eager", "8.6,sms=3"}} {
		child = inChild(t, "PASS: TestDevice", "FAKECUDA_STREAMS="+v.streams, "FAKECUDA_DEVICES="+v.devices)
		if child {
			break
		}
	}
	if !child {
		return
	}
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.F16} {
		p := kerneltest.Model(kerneltest.Shape{Vocab: 67, Width: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Type: dtype, Head: dtype, QKNorm: dtype == kernels.F16}, 11)
		want, wantLogits := greedy(t, ref.New(), p)
		for _, o := range []cuda.Options{{}, {NoGraphs: true}} {
			got, logits := greedy(t, openDevice(t, o), p)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%v %+v sequence %d: got tokens %v, wanted %v", dtype, o, i, got[i], want[i])
				}
			}
			for i, w := range wantLogits {
				if math.Abs(float64(logits[i]-w)) > 2e-3 {
					t.Fatalf("%v %+v: logit %d is %v, wanted %v", dtype, o, i, logits[i], w)
				}
			}
		}
	}
}
