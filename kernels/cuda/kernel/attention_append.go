package kernel

import "fmt"

// Rotation is a table of angles in device memory: for position p and pair i
// float32 cos, sin at ((p·Dim/2)+i)·2, scaled already.
type Rotation struct {
	Table Addr
	Dim   int // rotated values of a head
	NeoX  bool
}

// AppendKV gives the launch that norms and rotates q and k and writes k and v to
// the cache. Values beyond the largest finite one of the cache's type are brought
// to it. For a padding row nothing is done.
func AppendKV(_ Target, c AttentionCall) ([]Launch, error) {
	if err := checkAttention("append", &c); err != nil {
		return nil, err
	}
	s, kv := &c.Spec, c.Spec.KVHeads*c.Spec.HeadDim
	if c.K.Stride < kv || c.V.Stride < kv {
		return nil, fmt.Errorf("cannot append: got rows %d and %d values apart, wanted room for %d", c.K.Stride, c.V.Stride, kv)
	}
	var table [2]Addr
	var turn [2]int32
	var neox int32
	for i, r := range []*Rotation{c.QRope, c.KRope} {
		if r == nil {
			continue
		}
		if r.Dim < 2 || r.Dim%2 != 0 || r.Dim > s.HeadDim || r.Table%8 != 0 || r.Table == 0 {
			return nil, fmt.Errorf("cannot append: got a rotation of %d values by a table at %#x, wanted an even number up to %d and a multiple of 8", r.Dim, uint64(r.Table), s.HeadDim)
		}
		table[i], turn[i] = r.Table, int32(r.Dim)
		if r.NeoX {
			neox |= 1 << i
		}
	}
	return []Launch{{Module: "append", Name: "append_" + c.Cache.Type.String(),
		Grid:   Dim{uint32(ceil(s.Heads+2*s.KVHeads, 4)), uint32(c.Rows), 1},
		Block:  Dim{128, 1, 1},
		Shared: uint32(4 * 4 * s.HeadDim),
		Params: Pack(c.Q.Addr, int32(c.Q.Stride), c.K.Addr, int32(c.K.Stride), c.V.Addr, int32(c.V.Stride),
			c.Plan.Pos, c.Plan.Seq, c.Plan.Tables, int32(c.Plan.MaxBlocks), c.Cache.shift(), c.Cache.Addr, c.Cache.BlockBytes(),
			int32(s.Heads), int32(s.KVHeads), int32(s.HeadDim), int32(c.Cache.width()), c.QNorm, c.KNorm, c.Eps,
			table[0], turn[0], table[1], turn[1], neox)}}, nil
}
