package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"hearth/engine/weights"
	"hearth/kernels"
)

// binder takes tensors out of a file into a program, each at most once, and
// knows at the end which were left over.
type binder struct {
	f    *weights.File
	h    *hyper
	p    *kernels.Program
	used map[string]bool
	// bare: the tensors are those of the model class without a head, whose names
	// lack "model."; embedding models are published so.
	bare bool
	// parameters counts the values of all tensors taken.
	parameters int64
}

// name is what the file calls a tensor.
func (b *binder) name(s *spec, layer int) string {
	pattern := s.hf
	if b.f.Format == weights.GGUF {
		pattern = s.gguf
	}
	if strings.Contains(pattern, "%d") {
		pattern = fmt.Sprintf(pattern, layer)
	}
	if b.h.wrapper != nil {
		return b.h.wrapper.name(b.f, pattern)
	}
	if bare, ok := strings.CutPrefix(pattern, "model."); ok && b.bare {
		return bare
	}
	return pattern
}

// take finds a tensor, checks its shape and adds it to the program.
func (b *binder) take(s *spec, layer int) (kernels.TensorID, error) {
	name := b.name(s, layer)
	t, ok := b.f.Tensor(name)
	rows, cols := b.h.size(s.rows), b.h.size(s.cols)
	want := fmt.Sprintf("[%d %d]", rows, cols)
	if s.isVector() {
		want = fmt.Sprintf("[%d]", cols)
	}
	if !ok {
		return kernels.NoTensor, fmt.Errorf("tensor %q is missing, wanted shape %s", name, want)
	}
	dims := 2
	if s.isVector() {
		dims = 1
	}
	if len(t.Shape) != dims || t.Rows != rows || t.Cols != cols {
		return kernels.NoTensor, fmt.Errorf("tensor %q has shape %v, wanted %s", name, t.Shape, want)
	}
	if err := b.f.Load(t); err != nil {
		return kernels.NoTensor, err
	}
	b.used[name] = true
	b.parameters += int64(rows) * int64(cols)
	out := t.Tensor
	if s.isVector() {
		shift := float32(0)
		if s.isNorm() && b.h.desc.shiftedNorms && b.f.Format == weights.Safetensors {
			shift = 1
		}
		var err error
		if out, err = vector(out, shift); err != nil {
			return kernels.NoTensor, err
		}
	}
	return b.add(out), nil
}

func (b *binder) add(t kernels.Tensor) kernels.TensorID {
	b.p.Tensors = append(b.p.Tensors, t)
	return kernels.TensorID(len(b.p.Tensors) - 1)
}

// vector converts a norm weight or bias to float32, so that devices see one
// type, and adds shift. The data is kept as it is where nothing changes.
func vector(t kernels.Tensor, shift float32) (kernels.Tensor, error) {
	switch {
	case t.Type != kernels.F32 && t.Type != kernels.F16 && t.Type != kernels.BF16:
		return t, fmt.Errorf("tensor %q has type %s, wanted F32, F16 or BF16 for a vector", t.Name, t.Type)
	case t.Type == kernels.F32 && shift == 0:
		return t, nil
	}
	x := make([]float32, t.Cols)
	if err := kernels.Dequantize(x, t.Type, t.Data); err != nil {
		return t, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	t.Type, t.Data = kernels.F32, make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(v+shift))
	}
	return t, nil
}

// rows makes a view of rows [from, to) of a matrix. Every row of a quantized
// matrix is whole blocks, so any range of rows is a matrix too.
func (b *binder) rows(id kernels.TensorID, from, to int) kernels.TensorID {
	t := b.p.Tensors[id]
	size := t.Type.RowBytes(t.Cols)
	t.Name = fmt.Sprintf("%s[%d:%d]", t.Name, from, to)
	t.Rows, t.Data = to-from, t.Data[from*size:to*size:to*size]
	return b.add(t)
}

// layer takes all tensors of one layer and splits the fused ones.
func (b *binder) layer(i int) (set [slotCount]kernels.TensorID, err error) {
	for j := range set {
		set[j] = kernels.NoTensor
	}
	for j := range b.h.desc.tensors {
		s := &b.h.desc.tensors[j]
		if !b.h.has(s.when) {
			continue
		}
		if set[s.slot], err = b.take(s, i); err != nil {
			return set, err
		}
	}
	q, kv, ffn := b.h.size(dimQuery), b.h.size(dimKV), b.h.ffn
	if id := set[slotQKV]; id != kernels.NoTensor {
		set[slotQ], set[slotK], set[slotV] = b.rows(id, 0, q), b.rows(id, q, q+kv), b.rows(id, q+kv, q+2*kv)
	}
	if id := set[slotGateUp]; id != kernels.NoTensor {
		set[slotGate], set[slotUp] = b.rows(id, 0, ffn), b.rows(id, ffn, 2*ffn)
	}
	return set, nil
}

// leftover fails on a tensor that the model does not use: it would belong to a
// variant whose arithmetic differs.
func (b *binder) leftover() error {
	for i := range b.f.Tensors {
		t := &b.f.Tensors[i]
		if !b.used[t.Name] && !b.passive(t.Name) {
			return fmt.Errorf("tensor %q %v is not known for architecture %s", t.Name, t.Shape, b.h.desc.name)
		}
	}
	return nil
}

// passive tells tensors that are read elsewhere or that say nothing new.
func (b *binder) passive(name string) bool {
	if b.f.Format == weights.GGUF {
		return name == "rope_freqs.weight" || name == "rope_factors_short.weight" || name == "rope_factors_long.weight"
	}
	if w := b.h.wrapper; w != nil && w.foreign(name) {
		return true
	}
	// Old quantized checkpoints have a bias of zeros where the model has none.
	if t, ok := b.f.Tensor(name); ok && b.f.Scheme != "" && strings.HasSuffix(name, ".bias") && t.Rows == 1 && !bytes.ContainsFunc(t.Data, func(r rune) bool { return r != 0 }) {
		return true
	}
	// Old checkpoints store the rotary frequencies, which follow from the
	// configuration; a tied output matrix may be stored a second time, and the
	// reference implementation ignores it.
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") || b.h.tied && (name == "lm_head.weight" || name == "language_model.lm_head.weight")
}
