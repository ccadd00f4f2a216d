package kernel

import "fmt"

// KVType is how keys and values are kept.
type KVType uint8

const (
	KVF16 KVType = iota
	KVBF16
	KVF32
	KVFP8  // e4m3, saturating
	KVInt8 // with a float32 scale per token and head
)

func (t KVType) String() string {
	if t > KVInt8 {
		return fmt.Sprintf("KVType(%d)", uint8(t))
	}
	return [...]string{"f16", "bf16", "f32", "fp8", "int8"}[t]
}

// bytes of one value.
func (t KVType) bytes() int { return [...]int{2, 2, 4, 1, 1}[t] }

// unit is what a 1 of the operand stands for that kernels make of a stored
// value: e4m3 is widened to f16 without changing the exponent's bias.
func (t KVType) unit() float64 {
	if t == KVFP8 {
		return 256
	}
	return 1
}

// module is where the kernels of a type are.
func (t KVType) module(name string) string {
	if t == KVF32 {
		return "attention_f32"
	}
	return name
}

// Cache is the paged cache of one attention layer: [block][kv head][keys, then
// values: BlockSize rows of HeadDim values and zeros up to a multiple of 16;
// for int8 a float32 scale for each key and then for each value]. BlockBytes
// says how far blocks are apart.
type Cache struct {
	Addr             Addr
	Type             KVType
	KVHeads, HeadDim int
	BlockSize        int
}

// width is the number of values of a row.
func (c *Cache) width() int { return (c.HeadDim + 15) &^ 15 }

// shift is log2 of BlockSize.
func (c *Cache) shift() int32 {
	if c.BlockSize == 32 {
		return 5
	}
	return 4
}

// BlockBytes is the size of one block of the cache of a layer, a multiple of 16.
func (c *Cache) BlockBytes() int64 {
	head := 2 * c.BlockSize * c.width() * c.Type.bytes()
	if c.Type == KVInt8 {
		head += 2 * c.BlockSize * 4
	}
	return int64(c.KVHeads) * int64(head)
}
