package kernel

import (
	"fmt"

	"hearth/kernels"
)

// KVType is how keys and values are kept.
type KVType uint8

const (
	KVF16 KVType = iota
	KVBF16
	KVF32
	KVFP8  // e4m3, saturating
	KVInt8 // with a float32 scale per token and head
)

// Cache is the paged cache of one attention layer: [block][kv head][keys, then
// values: BlockSize × HeadDim]. BlockBytes says how far blocks are apart.
type Cache struct {
	Addr             Addr
	Type             KVType
	KVHeads, HeadDim int
	BlockSize        int
	Scratch          int32 // the block that padding rows write to
}

// Rotation is a table of angles in device memory: for position p and pair i
// float32 cos, sin at ((p·Dim/2)+i)·2, scaled already.
type Rotation struct {
	Table Addr
	Dim   int // rotated values of a head
	NeoX  bool
}

// AttentionCall is everything between the Q, K, V linears and the output linear.
type AttentionCall struct {
	Rows    int
	Q, K, V Mat // q is overwritten by its rotated form
	Out     Mat
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
	// MaxChunks do not move it.
	Scratch Addr
}

// BlockBytes is the size of one block of the cache of a layer.
func (c *Cache) BlockBytes() int64 { return 0 }

// AppendKV gives the launch that norms and rotates q and k and writes k and v to
// the cache.
func AppendKV(t Target, c AttentionCall) ([]Launch, error) {
	return nil, fmt.Errorf("cannot append: no kernel yet")
}

// Decode gives the launches of attention for rows that are each the last of its
// sequence or any other; one block a row, KV head and chunk. Out is not Q.
func Decode(t Target, c AttentionCall) ([]Launch, error) {
	return nil, fmt.Errorf("cannot attend: no kernel yet")
}

// Prefill gives the launches of attention for tiles of rows. It has the same
// bits as Decode.
func Prefill(t Target, c AttentionCall) ([]Launch, error) {
	return nil, fmt.Errorf("cannot attend: no kernel yet")
}

// AttentionScratch is the size of AttentionCall.Scratch.
func AttentionScratch(spec kernels.Attention, rows, maxChunks int) int64 { return 0 }
