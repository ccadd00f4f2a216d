package kernel

import "fmt"

const residualModule = "residual"

// NormAdd gives the launch of dst += x / sqrt(mean(x²)+eps) · w, over whole rows.
// dst shares no memory with x.
func NormAdd(_ Target, x, dst Mat, w Addr, n, width int, eps float32) ([]Launch, error) {
	if err := checkRows("norm", n, width); err != nil {
		return nil, err
	}
	if err := checkNormAdd(x, dst, w); err != nil {
		return nil, err
	}
	return []Launch{{Module: residualModule, Name: "norm_add_row", Grid: Dim{uint32(n), 1, 1}, Block: Dim{256, 1, 1},
		Params: Pack(x.Addr, int32(x.Stride), dst.Addr, int32(dst.Stride), w, int32(width), eps)}}, nil
}

func checkNormAdd(x, dst Mat, w Addr) error {
	if x.Addr%16 != 0 || dst.Addr%16 != 0 || w%16 != 0 || x.Stride%4 != 0 || dst.Stride%4 != 0 {
		return fmt.Errorf("cannot norm: got rows at %#x and %#x by %d and %d values, weights at %#x; wanted multiples of 16 bytes", x.Addr, dst.Addr, x.Stride, dst.Stride, w)
	}
	return nil
}

// Rope gives the launch that rotates each of heads of headDim values of x in
// place, where AppendKV does not do it.
func Rope(_ Target, x Mat, p Plan, r Rotation, n, heads, headDim int) ([]Launch, error) {
	if err := checkRows("rotate", n, heads*headDim); err != nil {
		return nil, err
	}
	if r.Dim < 2 || r.Dim%2 != 0 || r.Dim > headDim {
		return nil, fmt.Errorf("cannot rotate: got %d values of heads of %d, wanted an even number of them", r.Dim, headDim)
	}
	neox := int32(0)
	if r.NeoX {
		neox = 1
	}
	return []Launch{{Module: residualModule, Name: "rope_rows", Grid: Dim{blocks(heads*r.Dim/2, 256), uint32(n), 1}, Block: Dim{256, 1, 1},
		Params: Pack(x.Addr, int32(x.Stride), p.Pos, r.Table, int32(heads), int32(headDim), int32(r.Dim/2), neox)}}, nil
}
