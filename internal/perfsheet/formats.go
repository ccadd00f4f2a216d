package main

import (
	"fmt"
	"strconv"
	"strings"

	"hearth/kernels"
)

// typeOf chooses the type of a matrix of a model.
type typeOf func(t *kernels.Tensor, s *shape) (kernels.DType, error)

// formats are the ways in which the sheet's models keep their weights.
var formats = []struct {
	name  string
	about string
	of    typeOf
}{
	{"BF16", "as published", func(*kernels.Tensor, *shape) (kernels.DType, error) { return kernels.BF16, nil }},
	{"Q8_0", "every matrix", func(*kernels.Tensor, *shape) (kernels.DType, error) { return kernels.Q8_0, nil }},
	{"Q4_K_M", "Q4_K, and Q6_K where that mixture has it: the output, and the value and down projections of half the layers; where a row is no multiple of 256, Q5_0 and Q8_0 in their place", mixture},
	{"W4A16", "4 bits with a scale and a zero for every 128 values of a row (64 where 128 does not divide it), as AWQ and GPTQ files have them; embedding and output in F16", packed},
}

// packed is what AWQ and GPTQ files hold: the layers' matrices in 4 bits.
func packed(t *kernels.Tensor, _ *shape) (kernels.DType, error) {
	if strings.Contains(t.Name, "layers.") {
		return kernels.U4, nil
	}
	return kernels.F16, nil
}

// group is the number of values of a row of cols that share a scale in W4A16.
func group(cols int) int {
	if cols%128 == 0 {
		return 128
	}
	return 64
}

// fileBytes is the size of a matrix in the file that the format is of. In memory
// 4-bit matrices have the scale of a group beside every 32 values.
func fileBytes(t kernels.DType, rows, cols int) int64 {
	n := int64(rows) * int64(cols)
	if t == kernels.U4 {
		return n/2 + n/int64(group(cols))*2 + n/int64(group(cols))/2
	}
	return int64(rows) * int64(t.RowBytes(cols))
}

// mixture is the choice of types that GGUF files named Q4_K_M hold.
func mixture(t *kernels.Tensor, s *shape) (kernels.DType, error) {
	better := strings.Contains(t.Name, "lm_head") || s.tied && strings.Contains(t.Name, "embed_tokens")
	if strings.Contains(t.Name, "v_proj") || strings.Contains(t.Name, "down_proj") {
		layer, err := layerOf(t.Name)
		if err != nil {
			return 0, err
		}
		n := s.layers
		better = layer < n/8 || layer >= 7*n/8 || (layer-n/8)%3 == 2
	}
	whole := t.Cols%256 == 0
	switch {
	case better && whole:
		return kernels.Q6_K, nil
	case better:
		return kernels.Q8_0, nil
	case whole:
		return kernels.Q4_K, nil
	}
	return kernels.Q5_0, nil
}

func layerOf(name string) (int, error) {
	_, rest, _ := strings.Cut(name, "layers.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("cannot tell the layer of tensor %q", name)
	}
	return n, nil
}

// nothing is the bytes of all matrices but those in 4 bits: zeros, which are
// never written and so take up no memory.
var nothing []byte

// levels are the bytes of matrices in 4 bits, by group: the layout looks for
// values that share a scale, so neighbouring groups must not.
var levels = map[int][]byte{}

func data(t kernels.DType, rows, cols int) []byte {
	n := rows * t.RowBytes(cols)
	if t != kernels.U4 {
		if n > len(nothing) {
			nothing = make([]byte, n)
		}
		return nothing[:n]
	}
	g := group(cols)
	if n > len(levels[g]) {
		b := make([]byte, n)
		size := t.BlockBytes()
		for i := range n / size {
			if i*t.BlockValues()/g%2 == 1 {
				b[i*size] = 1 // the smallest binary16
			}
		}
		levels[g] = b
	}
	return levels[g][:n]
}

// retype gives p's matrices the types of a format, and zeros. Vectors stay.
func retype(p *kernels.Program, s *shape, of typeOf) (*kernels.Program, error) {
	q := *p
	q.Tensors = append([]kernels.Tensor(nil), p.Tensors...)
	for i := range q.Tensors {
		t := &q.Tensors[i]
		if t.Rows == 1 {
			continue
		}
		typ, err := of(t, s)
		if err != nil {
			return nil, err
		}
		if t.Cols%typ.BlockValues() != 0 {
			return nil, fmt.Errorf("cannot hold %s in %s: rows of %d values", t.Name, typ, t.Cols)
		}
		t.Type = typ
		t.Data = data(typ, t.Rows, t.Cols)
	}
	return &q, q.Validate()
}
