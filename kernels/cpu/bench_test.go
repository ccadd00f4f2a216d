package cpu

import (
	"fmt"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// modelBench measures tokens a second of a random model: decode with b
// sequences at a context of 128, or a prefill of b tokens.
func modelBench(b *testing.B, p *kernels.Program, o Options, rows int, prefill bool) {
	d, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const size, context = 16, 128
	per := (context + size) / size
	blocks := max(rows*per, rows/size+1)
	if err := d.Load(p, kernels.KVConfig{Blocks: blocks, BlockSize: size, Type: kernels.F16}); err != nil {
		b.Fatal(err)
	}
	in := &kernels.Batch{Tokens: make([]int32, rows)}
	for i := range in.Tokens {
		in.Tokens[i] = int32(i * 31 % p.Vocab)
	}
	table := func(from, n int) (t []int32) {
		for i := range n {
			t = append(t, int32(from+i))
		}
		return t
	}
	if prefill {
		in.Spans = []kernels.Span{{Len: int32(rows), Blocks: table(0, blocks)}}
		in.LogitRows = []int32{int32(rows - 1)}
	} else {
		for r := range rows {
			in.Spans = append(in.Spans, kernels.Span{Row: int32(r), Len: 1, Context: context - 1, Blocks: table(r*per, per)})
			in.LogitRows = append(in.LogitRows, int32(r))
		}
	}
	in.Logits = make([]float32, len(in.LogitRows)*p.Vocab)
	step := func() {
		if err := d.Step(in); err != nil {
			b.Fatal(err)
		}
	}
	step()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuSeconds()
	best := fastest(b, step)
	if used := cpuSeconds() - before; used > 0 {
		b.ReportMetric(float64(rows*b.N)/used, "tok/cpu-s") // holds on a busy machine too
	}
	b.ReportMetric(float64(rows)/best, "best-tok/s")
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "tok/s")
}

// BenchmarkSmolLM2 has the shape of SmolLM2-135M with random weights.
func BenchmarkSmolLM2(b *testing.B) {
	for _, t := range []kernels.DType{kernels.Q4_1, kernels.Q4_0, kernels.Q8_0, kernels.F16} {
		p := kerneltest.Model(kerneltest.SmolLM2(t), 1)
		for _, threads := range []int{1, 2} {
			for _, rows := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("%v/threads=%d/decode=%d", t, threads, rows), func(b *testing.B) {
					modelBench(b, p, Options{Threads: threads}, rows, false)
				})
			}
			b.Run(fmt.Sprintf("%v/threads=%d/prefill=512", t, threads), func(b *testing.B) {
				modelBench(b, p, Options{Threads: threads}, 512, true)
			})
		}
	}
}
