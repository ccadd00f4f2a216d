package kernel

import (
	"fmt"
	"strings"

	"hearth/kernels"
)

// rowsModule holds the kernels over whole rows.
const rowsModule = "rows"

func rows(name string, grid Dim, args ...any) []Launch {
	return []Launch{{Module: rowsModule, Name: name, Grid: grid, Block: Dim{256, 1, 1}, Params: Pack(args...)}}
}

func blocks(n, per int) uint32 { return uint32((n + per - 1) / per) }

// maxRows is the most rows of one launch: the grid's second and third extents
// have 16 bits (CUDA C++ Programming Guide, compute capabilities).
const maxRows = 1<<16 - 1

func checkRows(what string, rows, width int) error {
	if rows < 1 || rows > maxRows || width < 1 {
		return fmt.Errorf("cannot %s: got %d rows of %d values, wanted 1 to %d rows of 1 or more", what, rows, width, maxRows)
	}
	return nil
}

// Embed gives the launch of dst[r] = factor · W[token[r]], of a table that lies
// in device memory as the file has it. A token outside of the table gives zeros.
func Embed(_ Target, w Addr, typ kernels.DType, vocab, width int, p Plan, dst Mat, n int, factor float32) ([]Launch, error) {
	if err := checkRows("embed", n, width); err != nil {
		return nil, err
	}
	if typ > kernels.IQ4_NL || width%typ.BlockValues() != 0 {
		return nil, fmt.Errorf("cannot embed: no kernel reads rows of %d values of %s", width, typ)
	}
	return rows("embed_"+strings.ToLower(typ.String()), Dim{blocks(width, 256), uint32(n), 1},
		w, int64(typ.RowBytes(width)), int32(vocab), int32(width), p.Tokens, dst.Addr, int32(dst.Stride), factor), nil
}

// RMSNorm gives the launch of dst = x / sqrt(mean(x²)+eps) · w, over groups of
// group values (0: the whole row). dst may be x.
func RMSNorm(_ Target, x, dst Mat, w Addr, n, width, group int, eps float32) ([]Launch, error) {
	if err := checkRows("norm", n, width); err != nil {
		return nil, err
	}
	if group == 0 {
		group = width
	}
	if group < 0 || width%group != 0 {
		return nil, fmt.Errorf("cannot norm: got groups of %d values in rows of %d, wanted a divisor", group, width)
	}
	if group == width {
		return rows("rmsnorm_row", Dim{uint32(n), 1, 1}, x.Addr, int32(x.Stride), dst.Addr, int32(dst.Stride), w, int32(width), eps), nil
	}
	return rows("rmsnorm_group", Dim{blocks(width/group, 8), uint32(n), 1},
		x.Addr, int32(x.Stride), dst.Addr, int32(dst.Stride), w, int32(width/group), int32(group), eps), nil
}

// Elementwise gives the launch of OpAdd, OpScale, OpSiluMul, OpGeluMul or
// OpSoftCap over (n, width); a, b and factor as the op uses them.
func Elementwise(_ Target, op kernels.OpKind, dst, a, b Mat, n, width int, factor float32) ([]Launch, error) {
	if err := checkRows("compute", n, width); err != nil {
		return nil, err
	}
	grid := Dim{blocks(width, 1024), uint32(n), 1}
	switch op {
	case kernels.OpAdd:
		return rows("add_rows", grid, dst.Addr, int32(dst.Stride), a.Addr, int32(a.Stride), int32(width)), nil
	case kernels.OpScale:
		return rows("scale_rows", grid, dst.Addr, int32(dst.Stride), factor, int32(width)), nil
	case kernels.OpSoftCap:
		return rows("softcap_rows", grid, dst.Addr, int32(dst.Stride), factor, int32(width)), nil
	case kernels.OpSiluMul, kernels.OpGeluMul:
		name := "silu_mul_rows"
		if op == kernels.OpGeluMul {
			name = "gelu_mul_rows"
		}
		return rows(name, grid, dst.Addr, int32(dst.Stride), a.Addr, int32(a.Stride), b.Addr, int32(b.Stride), int32(width)), nil
	}
	return nil, fmt.Errorf("cannot compute: op %d is not elementwise", op)
}

// Gather gives the launch of dst[i] = src[p.Gather[i]]; a padding row is zeroed.
func Gather(_ Target, src, dst Mat, p Plan, n, width int) ([]Launch, error) {
	if err := checkRows("gather", n, width); err != nil {
		return nil, err
	}
	return rows("gather_rows", Dim{blocks(width, 1024), uint32(n), 1},
		dst.Addr, int32(dst.Stride), src.Addr, int32(src.Stride), p.Gather, int32(width)), nil
}
