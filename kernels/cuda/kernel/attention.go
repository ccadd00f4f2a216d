package kernel

import (
	"fmt"
	"math"

	"hearth/kernels"
)

// AttentionCall is everything between the Q, K, V linears and the output linear.
type AttentionCall struct {
	Rows    int
	Q, K, V Mat // q is overwritten by its rotated form
	Out     Mat // not Q
	Plan    Plan
	Cache   Cache
	Spec    kernels.Attention
	QNorm   Addr // float32 (HeadDim) each, or 0
	KNorm   Addr
	Eps     float32
	QRope   *Rotation // nil: not rotated
	KRope   *Rotation
	// MaxChunks bounds the chunks of keys of any row, counted from position 0
	// whatever the window is (decode form); Tiles is the number of prefill tiles
	// (prefill form).
	MaxChunks int
	Tiles     int
	// Scratch is AttentionScratch bytes, zeroed once when allocated, for every call
	// with this Heads, KVHeads and HeadDim: what must be zero lies where Rows and
	// MaxChunks do not move it. A launch leaves it zero.
	Scratch Addr
}

const (
	// decodeRows is the most rows of a decode launch: they have a counter each.
	decodeRows = 2048
	// maxHeadDim is where a prefill block of eight warps has no more values for
	// another.
	maxHeadDim = 1024

	decodeThreads = 128
	// panelBytes is a panel of keys or values: 64 rows of 128 bytes.
	panelBytes = 64 * 128
	// decodeStats is the size of Stats in attention_decode.cu.
	decodeStats = 2688
)

// checkAttention says what is wrong with a call.
func checkAttention(what string, c *AttentionCall) error {
	s, k := &c.Spec, &c.Cache
	switch {
	case c.Rows < 1 || c.Rows > maxRows:
		return fmt.Errorf("cannot %s: got %d rows, wanted 1 to %d", what, c.Rows, maxRows)
	case s.HeadDim < 4 || s.HeadDim > maxHeadDim || s.HeadDim%4 != 0:
		return fmt.Errorf("cannot %s: got heads of %d values, wanted a multiple of 4 up to %d", what, s.HeadDim, maxHeadDim)
	case s.KVHeads < 1 || s.Heads < 1 || s.Heads%s.KVHeads != 0 || s.Heads > maxRows:
		return fmt.Errorf("cannot %s: got %d heads and %d KV heads, wanted a multiple", what, s.Heads, s.KVHeads)
	case k.KVHeads != s.KVHeads || k.HeadDim != s.HeadDim:
		return fmt.Errorf("cannot %s: got a cache of %d heads of %d, wanted %d of %d", what, k.KVHeads, k.HeadDim, s.KVHeads, s.HeadDim)
	case k.BlockSize != 16 && k.BlockSize != 32 || c.Plan.BlockSize != k.BlockSize:
		return fmt.Errorf("cannot %s: got blocks of %d tokens and a plan for %d, wanted 16 or 32", what, k.BlockSize, c.Plan.BlockSize)
	case k.Type > KVInt8:
		return fmt.Errorf("cannot %s: got cache type %d, wanted one up to %d", what, k.Type, KVInt8)
	case k.Addr%16 != 0 || k.Addr == 0:
		return fmt.Errorf("cannot %s: got a cache at %#x, wanted a multiple of 16", what, uint64(k.Addr))
	case s.Window < 0 || s.SoftCap < 0 || !(s.Scale > 0):
		return fmt.Errorf("cannot %s: got scale %v, window %d, soft cap %v, wanted a scale above 0 and the others from 0 up", what, s.Scale, s.Window, s.SoftCap)
	}
	for _, m := range []Mat{c.Q, c.Out} {
		if m.Addr%16 != 0 || m.Stride%4 != 0 || m.Stride < s.Heads*s.HeadDim {
			return fmt.Errorf("cannot %s: got rows at %#x, %d values apart, wanted multiples of 16 bytes and 4 values and room for %d", what, uint64(m.Addr), m.Stride, s.Heads*s.HeadDim)
		}
	}
	return nil
}

// attentionScale is what raw scores are multiplied by: to units of log2, or of
// the soft cap.
func attentionScale(c *AttentionCall) float32 {
	f := float64(c.Spec.Scale) * c.Cache.Type.unit()
	if c.Spec.SoftCap > 0 {
		return float32(f / float64(c.Spec.SoftCap))
	}
	return float32(f * math.Log2E)
}

// cacheArgs are the parameters that all attention kernels share, from the block
// tables on.
func cacheArgs(c *AttentionCall) []any {
	return []any{c.Plan.Tables, int32(c.Plan.MaxBlocks), c.Cache.shift(), c.Cache.Addr, c.Cache.BlockBytes(),
		int32(c.Spec.Heads / c.Spec.KVHeads), int32(c.Spec.HeadDim), int32(c.Cache.width()), int32(c.Spec.Window), attentionScale(c), c.Spec.SoftCap}
}

// Decode gives the launch of attention for rows that are each the last of its
// sequence or any other: blocks take a row, up to 16 heads of a KV head, and
// chunks of keys; the last block of a row to finish merges the chunks. A padding
// row's Out is zeros.
func Decode(t Target, c AttentionCall) ([]Launch, error) {
	if err := checkAttention("attend", &c); err != nil {
		return nil, err
	}
	if c.Rows > decodeRows || c.MaxChunks < 1 {
		return nil, fmt.Errorf("cannot attend: got %d rows and %d chunks, wanted 1 to %d rows and 1 chunk or more", c.Rows, c.MaxChunks, decodeRows)
	}
	heads, shared, err := decodeShape(t, &c)
	if err != nil {
		return nil, err
	}
	group := c.Spec.Heads / c.Spec.KVHeads
	parts := ceil(group, heads)
	// Blocks beyond a few for each multiprocessor would queue: they take several
	// chunks instead.
	across := min(c.MaxChunks, max(1, ceil(8*t.SMs, c.Rows*c.Spec.KVHeads*parts)))
	states := c.Scratch + ticketBytes(c.Spec)
	sums := states + Addr(8*int64(c.Rows)*int64(c.Spec.Heads)*int64(c.MaxChunks)+15)&^15
	args := append([]any{c.Q.Addr, int32(c.Q.Stride), c.Out.Addr, int32(c.Out.Stride), c.Plan.Pos, c.Plan.Seq}, cacheArgs(&c)...)
	args = append(args, int32(heads), int32(parts), c.Scratch, states, sums, int32(c.MaxChunks))
	return []Launch{{Module: c.Cache.Type.module("attention_decode"), Name: "attention_decode_" + c.Cache.Type.String(),
		Grid:  Dim{uint32(across), uint32(c.Spec.KVHeads * parts), uint32(c.Rows)},
		Block: Dim{decodeThreads, 1, 1}, Shared: shared, Params: Pack(args...)}}, nil
}

// decodeShape says how many heads a block takes and the shared memory it needs.
// A KV head's query heads are shared out evenly among its blocks.
func decodeShape(t Target, c *AttentionCall) (heads int, shared uint32, err error) {
	group, width := c.Spec.Heads/c.Spec.KVHeads, c.Cache.width()
	if c.Cache.Type == KVF32 {
		return f32Shape(t, c)
	}
	stride := width + 8
	if c.Cache.Type.bytes() == 1 {
		stride = width | 16
	}
	need := 0
	for parts := ceil(group, 16); ; parts++ {
		heads = ceil(group, parts)
		queries, sums := 2*ceil(width, 64)*16*128, 4*4*heads*stride
		need = 4*2*panelBytes + decodeStats + max(queries, sums)
		if need <= t.Shared {
			return heads, uint32(need), nil
		}
		if heads == 1 {
			return 0, 0, fmt.Errorf("cannot attend: heads of %d values need %d bytes of shared memory, the device has %d", c.Spec.HeadDim, need, t.Shared)
		}
	}
}

func f32Shape(t Target, c *AttentionCall) (heads int, shared uint32, err error) {
	group := c.Spec.Heads / c.Spec.KVHeads
	heads = ceil(group, ceil(group, 8))
	need := 4 * (8*ChunkKeys + (8+32+8)*c.Cache.width() + 4*8 + 4)
	if need > t.Shared {
		return 0, 0, fmt.Errorf("cannot attend: heads of %d values need %d bytes of shared memory, the device has %d", c.Spec.HeadDim, need, t.Shared)
	}
	return heads, uint32(need), nil
}

// Prefill gives the launch of attention for tiles of rows. It has the same bits
// as Decode.
func Prefill(t Target, c AttentionCall) ([]Launch, error) {
	if err := checkAttention("attend", &c); err != nil {
		return nil, err
	}
	if c.Tiles < 1 || c.Tiles > maxRows {
		return nil, fmt.Errorf("cannot attend: got %d tiles, wanted 1 to %d", c.Tiles, maxRows)
	}
	args := append([]any{c.Q.Addr, int32(c.Q.Stride), c.Out.Addr, int32(c.Out.Stride), c.Plan.Tiles}, cacheArgs(&c)...)
	l := Launch{Module: c.Cache.Type.module("attention_prefill"), Name: "attention_prefill_" + c.Cache.Type.String()}
	group := c.Spec.Heads / c.Spec.KVHeads
	if c.Cache.Type == KVF32 {
		heads, shared, err := f32Shape(t, &c)
		if err != nil {
			return nil, err
		}
		parts := ceil(group, heads)
		l.Grid, l.Block, l.Shared = Dim{TileRows, uint32(c.Spec.KVHeads * parts), uint32(c.Tiles)}, Dim{decodeThreads, 1, 1}, shared
		l.Params = Pack(append(args, int32(heads), int32(parts))...)
		return []Launch{l}, nil
	}
	warps, shared, err := prefillShape(t, &c)
	if err != nil {
		return nil, err
	}
	share := ceil(c.Cache.width(), 128)
	l.Grid = Dim{uint32(ceil(TileRows*group, warps/share*16)), uint32(c.Spec.KVHeads), uint32(c.Tiles)}
	l.Block, l.Shared, l.Params = Dim{uint32(32 * warps), 1, 1}, shared, Pack(append(args, int32(share))...)
	return []Launch{l}, nil
}

// prefillShape says how many warps a block has and the shared memory it needs:
// eight where tiles have rows for them, four otherwise.
func prefillShape(t Target, c *AttentionCall) (warps int, shared uint32, err error) {
	width, share := c.Cache.width(), ceil(c.Cache.width(), 128)
	need := 0
	for _, warps = range []int{8, 4} {
		rows := warps / share * 16
		if rows == 0 || warps%share != 0 {
			continue
		}
		panels := ceil(width*c.Cache.Type.bytes(), 128)
		need = 2*ceil(width, 64)*rows*128 + 2*panels*panelBytes + 8*rows + 2*8*32*warps + 24
		if c.Cache.Type == KVInt8 {
			need += 2 * 2 * 64 * 4
		}
		few := warps == 8 && 4%share == 0 && c.Rows*c.Spec.Heads/c.Spec.KVHeads < c.Tiles*rows*3/4
		if need <= t.Shared && !few {
			return warps, uint32(need), nil
		}
	}
	return 0, 0, fmt.Errorf("cannot attend: heads of %d values need %d bytes of shared memory, the device has %d", c.Spec.HeadDim, need, t.Shared)
}

// ticketBytes is the size of the counters of decode launches.
func ticketBytes(s kernels.Attention) Addr { return Addr(4*decodeRows*s.Heads+15) &^ 15 }

// AttentionScratch is the size of AttentionCall.Scratch: a counter for each row
// and KV head, and the state of each chunk of each row and head.
func AttentionScratch(spec kernels.Attention, rows, maxChunks int) int64 {
	width := (spec.HeadDim + 15) &^ 15
	return int64(ticketBytes(spec)) + 16 + int64(rows)*int64(spec.Heads)*int64(maxChunks)*int64(8+4*width)
}
