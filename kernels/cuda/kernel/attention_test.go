package kernel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// attnCase is a model's attention, a cache, and what is in a step.
type attnCase struct {
	spec      kernels.Attention
	typ       kernel.KVType
	blockSize int
	norm      bool
	turn      int // rotated values
	neox      bool
	lengths   []int    // tokens of the sequences
	spans     [][3]int // sequence, first position, rows
	shared    int      // of the device; 0: 99 KiB
}

func (c attnCase) name() string {
	return fmt.Sprintf("%v/%dof%dx%d/block=%d/window=%d/cap=%v", c.typ, c.spec.KVHeads, c.spec.Heads, c.spec.HeadDim, c.blockSize, c.spec.Window, c.spec.SoftCap)
}

// tolerance of an output, of the largest value that is mixed: float32 sums, and
// weights in two halves of bf16 (2^-17 each) or f16 (2^-22).
func (r *attnRun) tolerance() float64 {
	if r.typ == kernel.KVBF16 {
		return 1e-5
	}
	return 1e-6
}

// testAttn compares the decode form to the reference, and everything else to the
// decode form, to the bit.
func testAttn(t testing.TB, r *attnRun) {
	d, where, _ := r.decode()
	var want [][]float32
	for i, w := range where {
		want = append(want, r.reference(w[0], w[1]))
		got := r.out(d, i)
		if e := r.worst(got, want[i]); !(e <= r.tolerance()) {
			t.Errorf("decode: sequence %d, position %d: off by %.2g of the largest value, wanted %.2g; got %v, wanted %v", w[0], w[1], e, r.tolerance(), got[:4], want[i][:4])
		}
	}
	if slices.ContainsFunc(r.out(d, len(where)), func(x float32) bool { return x != 0 }) {
		t.Errorf("decode: a padding row is not zeros")
	}
	same := func(what string, c kernel.AttentionCall) {
		for i, w := range where {
			if !slices.Equal(attnBits(r.out(c, i)), attnBits(r.out(d, i))) {
				t.Fatalf("%s: sequence %d, position %d has other bits than decode: off by %.2g, decode by %.2g", what, w[0], w[1], r.worst(r.out(c, i), want[i]), r.worst(r.out(d, i), want[i]))
			}
		}
	}
	tiles := []int{kernel.TileRows}
	if r.Target == 90 {
		tiles = append(tiles, 7)
		again := d // counters must be zero again, and a block takes several chunks
		again.Out.Addr = r.Room(4 * d.Rows * d.Out.Stride)
		r.target.SMs = 1
		r.run(kernel.Decode(r.target, again))
		same("decode by few blocks", again)
	}
	for _, n := range tiles {
		p, _, _ := r.prefill(n)
		same(fmt.Sprintf("prefill in tiles of %d", n), p)
	}
}

var kvTypes = []kernel.KVType{kernel.KVF16, kernel.KVBF16, kernel.KVF32, kernel.KVFP8, kernel.KVInt8}

func attnSpec(heads, kvHeads, dim int) kernels.Attention {
	return kernels.Attention{Heads: heads, KVHeads: kvHeads, HeadDim: dim, Scale: 1 / float32(math.Sqrt(float64(dim)))}
}

func attnCases() (cs []attnCase) {
	// Contexts around the sizes of blocks, tiles and chunks; prefill beside decode.
	for _, typ := range kvTypes {
		cs = append(cs, attnCase{spec: attnSpec(3, 1, 32), typ: typ, blockSize: 16, turn: 32, neox: true,
			lengths: []int{1, 15, 16, 17, 255, 256, 257, 600},
			spans:   [][3]int{{0, 0, 1}, {1, 14, 1}, {2, 15, 1}, {3, 16, 1}, {4, 254, 1}, {5, 255, 1}, {6, 250, 7}, {7, 599, 1}, {7, 509, 5}, {3, 0, 16}}})
	}
	// Sizes of heads, both kinds of rotation.
	for typ, dims := range map[kernel.KVType][]int{
		kernel.KVF16: {8, 12, 16, 24, 40, 64, 80, 96, 128, 256}, kernel.KVBF16: {24, 80, 128}, kernel.KVF32: {12, 40, 256},
		kernel.KVFP8: {16, 96, 128}, kernel.KVInt8: {8, 64, 256},
	} {
		for i, dim := range dims {
			c := attnCase{spec: attnSpec(4, 2, dim), typ: typ, blockSize: 16 << (i & 1), norm: i&2 == 0, turn: dim, neox: i&1 == 0,
				lengths: []int{5, 67}, spans: [][3]int{{1, 63, 4}, {0, 4, 1}}}
			if i == len(dims)-1 {
				c.turn = dim / 4 * 2
			}
			cs = append(cs, c)
		}
	}
	// Query heads of a KV head.
	for i, group := range []int{1, 2, 5, 7, 8, 9, 16, 20, 33} {
		c := attnCase{spec: attnSpec(2*group, 2, 16), typ: kernel.KVF16, blockSize: 16, lengths: []int{14 + i}, spans: [][3]int{{0, 9 + i, 5}}}
		cs = append(cs, c)
		if group >= 9 {
			c.typ = kernel.KVF32
			cs = append(cs, c)
		}
	}
	// Windows and soft caps.
	for i, window := range []int{1, 8, 33, 64, 200, 256, 300} {
		s := attnSpec(2, 1, 16)
		s.Window = window
		if i&1 == 0 {
			s.SoftCap = 2
		}
		cs = append(cs, attnCase{spec: s, typ: kvTypes[i%5], blockSize: 16 << (i & 1), lengths: []int{330, 3}, spans: [][3]int{{0, 1, 1}, {0, 254, 4}, {0, 326, 4}, {1, 2, 1}}})
	}
	for _, typ := range kvTypes {
		s := attnSpec(2, 1, 24)
		s.SoftCap = 30
		cs = append(cs, attnCase{spec: s, typ: typ, blockSize: 32, lengths: []int{70}, spans: [][3]int{{0, 60, 3}}})
	}
	// Where shared memory decides how many heads a block has; heads that several
	// warps share.
	for _, typ := range []kernel.KVType{kernel.KVF16, kernel.KVInt8} {
		cs = append(cs, attnCase{spec: attnSpec(16, 1, 256), typ: typ, blockSize: 16, lengths: []int{20}, spans: [][3]int{{0, 18, 2}}},
			attnCase{spec: attnSpec(4, 1, 512), typ: typ, blockSize: 16, lengths: []int{20}, spans: [][3]int{{0, 18, 2}}, shared: 227 << 10})
	}
	return cs
}

func TestAttention(t *testing.T) {
	for _, c := range attnCases() {
		t.Run(c.name(), func(t *testing.T) {
			ptxtest.Run(t, ptxtest.Options{Memory: 3 << 20}, func(t testing.TB, m *ptxtest.Machine) { testAttn(t, startAttn(t, m, c)) })
		})
	}
}

// TestAttentionTraffic: a decode launch moves the keys and values that a row
// sees, and little else.
func TestAttentionTraffic(t *testing.T) {
	for _, typ := range kvTypes {
		for _, window := range []int{0, 130} {
			c := attnCase{spec: attnSpec(4, 2, 64), typ: typ, blockSize: 16, lengths: []int{600}, spans: [][3]int{{0, 599, 1}}}
			c.spec.Window = window
			t.Run(c.name(), func(t *testing.T) {
				r := startAttn(t, ptxtest.New(t, ptxtest.Options{Memory: 8 << 20}, 80), c)
				d, _, n := r.decode()
				keys := 600
				if window > 0 {
					keys = window
				}
				perKey := int(d.Cache.BlockBytes()) / d.Cache.BlockSize
				rest := 4*r.spec.Heads*r.spec.HeadDim + 4*ceilDiv(keys, 16) + 3*8*r.spec.Heads + 3*4*r.spec.Heads*kvWidth(r.spec.HeadDim) + 64*3
				if got, want := 32*int(n.UniqueRead), keys*perKey+rest; float64(got) > 1.03*float64(want) {
					t.Errorf("%d bytes read, wanted %d for %d keys and %d for the rest", got, keys*perKey, keys, rest)
				}
			})
		}
	}
}

// TestAttentionErrors: every launch function refuses what its kernel cannot do.
func TestAttentionErrors(t *testing.T) {
	good := func() kernel.AttentionCall {
		m := kernel.Mat{Addr: 4096, Stride: 128}
		return kernel.AttentionCall{Rows: 1, Q: m, K: m, V: m, Out: m, Spec: attnSpec(2, 1, 64), MaxChunks: 1, Tiles: 1, Scratch: 4096,
			Cache: kernel.Cache{Addr: 4096, KVHeads: 1, HeadDim: 64, BlockSize: 16}, Plan: kernel.Plan{Pos: 4096, Seq: 4096, Tables: 4096, Tiles: 4096, MaxBlocks: 1, BlockSize: 16}}
	}
	target := kernel.Target{Compute: 86, SMs: 1, Shared: 99 << 10}
	type launcher = func(kernel.Target, kernel.AttentionCall) ([]kernel.Launch, error)
	all := []launcher{kernel.AppendKV, kernel.Decode, kernel.Prefill}
	for i, f := range all {
		if _, err := f(target, good()); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	for i, c := range []struct {
		spoil func(*kernel.AttentionCall)
		of    []launcher
	}{
		{func(c *kernel.AttentionCall) { c.Rows = 0 }, all},
		{func(c *kernel.AttentionCall) { c.Spec.HeadDim, c.Cache.HeadDim = 10, 10 }, all},
		{func(c *kernel.AttentionCall) { c.Spec.HeadDim, c.Cache.HeadDim = 2048, 2048 }, all},
		{func(c *kernel.AttentionCall) { c.Spec.Heads = 3; c.Spec.KVHeads = 2 }, all},
		{func(c *kernel.AttentionCall) { c.Cache.KVHeads = 2 }, all},
		{func(c *kernel.AttentionCall) { c.Cache.BlockSize = 8 }, all},
		{func(c *kernel.AttentionCall) { c.Plan.BlockSize = 32 }, all},
		{func(c *kernel.AttentionCall) { c.Cache.Type = 77 }, all},
		{func(c *kernel.AttentionCall) { c.Cache.Addr = 8 }, all},
		{func(c *kernel.AttentionCall) { c.Spec.Scale = 0 }, all},
		{func(c *kernel.AttentionCall) { c.Spec.Window = -1 }, all},
		{func(c *kernel.AttentionCall) { c.Q.Addr += 4 }, all},
		{func(c *kernel.AttentionCall) { c.Out.Stride = 64 }, all},
		{func(c *kernel.AttentionCall) { c.K.Stride = 32 }, all[:1]},
		{func(c *kernel.AttentionCall) { c.QRope = &kernel.Rotation{Table: 4096, Dim: 7} }, all[:1]},
		{func(c *kernel.AttentionCall) { c.KRope = &kernel.Rotation{Table: 4096, Dim: 66} }, all[:1]},
		{func(c *kernel.AttentionCall) { c.MaxChunks = 0 }, all[1:2]},
		{func(c *kernel.AttentionCall) { c.Rows = 4000 }, all[1:2]},
		{func(c *kernel.AttentionCall) { c.Tiles = 0 }, all[2:]},
		{func(c *kernel.AttentionCall) {
			c.Spec, c.Cache.HeadDim = attnSpec(1, 1, 1024), 1024
			c.Q.Stride, c.Out.Stride = 1024, 1024
		}, all[2:]}, // too much shared memory
	} {
		for j, f := range c.of {
			call := good()
			c.spoil(&call)
			if _, err := f(target, call); err == nil {
				t.Errorf("case %d, function %d: no error", i, j)
			}
		}
	}
}
