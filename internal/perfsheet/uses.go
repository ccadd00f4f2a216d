package main

import (
	"fmt"

	"hearth/kernels"
	"hearth/kernels/cuda"
)

// collect notes what launches of every kernel ask for, not of those of the
// sheet's models alone: every type of weights, every type of cache with every
// width of heads. The device prepares decode steps of up to 128 sequences and a
// prefill when it loads a program; nothing runs.
func (b *build) collect() error {
	for _, g := range gpus[:4] { // the last has the launches of the one before
		wide := shape{name: "wide", class: "LlamaForCausalLM", hidden: 512, ffn: 18944, layers: 1, heads: 4, kv: 1, dim: 128, vocab: 512, ropeTheta: 1e4, context: 8192, normEps: 1e-5}
		for _, t := range kernels.DTypes() {
			of := func(x *kernels.Tensor, _ *shape) (kernels.DType, error) { return t, nil }
			if err := b.prepare(&wide, of, "", g); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
		}
		for _, cache := range []string{"f16", "bf16", "f32", "fp8", "int8"} {
			for _, h := range []struct{ dim, heads, kv int }{{64, 14, 2}, {128, 28, 4}, {256, 4, 1}} {
				s := shape{name: fmt.Sprint("heads", h.dim), class: "Qwen2ForCausalLM", bias: true, hidden: 256, ffn: 512, layers: 1, heads: h.heads, kv: h.kv, dim: h.dim,
					vocab: 512, tied: true, ropeTheta: 1e4, context: 8192, normEps: 1e-6}
				of := func(*kernels.Tensor, *shape) (kernels.DType, error) { return kernels.BF16, nil }
				if err := b.prepare(&s, of, cache, g); err != nil {
					return fmt.Errorf("cache of %s, heads of %d: %w", cache, h.dim, err)
				}
			}
		}
	}
	return nil
}

// prepare loads a shape's program and takes note.
func (b *build) prepare(s *shape, of typeOf, cache string, g gpu) error {
	f, p, err := s.open(b.tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	if p, err = retype(p, s, of); err != nil {
		return err
	}
	kv := kernels.KVConfig{Blocks: 8192 / blockSize, BlockSize: blockSize, Type: kernels.F16}
	o := cuda.Options{Rows: 512, Sequences: 128, NoGraphs: true, Hollow: true, KV: cache}
	need, err := cuda.Need(p, kv, o)
	if err != nil {
		return err
	}
	c := newCounter(g, memoryOf(need, kv), b.costs)
	d, err := cuda.New(c, o)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Load(p, kv); err != nil {
		return err
	}
	b.note(c)
	return nil
}

// memoryOf is enough for a device's needs, with what allocations are rounded to
// and the variables of modules.
func memoryOf(n cuda.Needs, kv kernels.KVConfig) int64 {
	return n.WeightBytes + n.ScratchBytes + n.BlockBytes*int64(kv.Blocks) + 64<<20
}
