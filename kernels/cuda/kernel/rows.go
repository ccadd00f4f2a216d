package kernel

import (
	"fmt"

	"hearth/kernels"
)

// Embed gives the launch of dst[r] = factor · W[token[r]], of a table that lies
// in device memory as the file has it (any type).
func Embed(t Target, w Addr, typ kernels.DType, vocab, width int, p Plan, dst Mat, rows int, factor float32) ([]Launch, error) {
	return nil, fmt.Errorf("cannot embed: no kernel yet")
}

// RMSNorm gives the launch of dst = x / sqrt(mean(x²)+eps) · w, over groups of
// group values (0: the whole row).
func RMSNorm(t Target, x, dst Mat, w Addr, rows, width, group int, eps float32) ([]Launch, error) {
	return nil, fmt.Errorf("cannot norm: no kernel yet")
}

// Elementwise gives the launch of OpAdd, OpScale, OpSiluMul, OpGeluMul or
// OpSoftCap over (rows, width); b and factor as the op uses them.
func Elementwise(t Target, op kernels.OpKind, dst, a, b Mat, rows, width int, factor float32) ([]Launch, error) {
	return nil, fmt.Errorf("cannot compute: no kernel yet")
}

// Gather gives the launch of dst[i] = src[p.Gather[i]]; a padding row is zeroed.
func Gather(t Target, src, dst Mat, p Plan, rows, width int) ([]Launch, error) {
	return nil, fmt.Errorf("cannot gather: no kernel yet")
}

// CopyBlocks gives the launch that copies blocks of blockBytes within a cache of
// one layer: pairs is int32 ×2 (from, to) in device memory.
func CopyBlocks(t Target, cache Addr, blockBytes int64, pairs Addr, n int) ([]Launch, error) {
	return nil, fmt.Errorf("cannot copy: no kernel yet")
}
