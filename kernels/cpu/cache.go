package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"hearth/kernels"
)

// cache is the paged KV cache, block by block, in each all layers: memory is
// touched, in huge pages, as blocks are taken. A block of one layer and KV head holds keys as
// panels of eight tokens, (blockSize/8, headDim, 8), so that scores are lanes,
// and values as panels of eight dimensions, (dim/8, blockSize, 8), so that
// outputs are. dim is headDim rounded up to 8.
type cache struct {
	mem    []byte
	t      kernels.DType
	size   int // bytes of a value
	tokens int // of a block
	blocks int
	stride int // bytes of a block
	layers []cacheLayer
}

type cacheLayer struct {
	keys, vals int // offset in a block
	heads, dim int
	headBytes  int // of keys, or of values, of one head in one block
	rawDim     int
}

func (c *cache) allocate(p *kernels.Program, kv kernels.KVConfig) error {
	c.t, c.size, c.tokens, c.blocks = kv.Type, kv.Type.BlockBytes(), kv.BlockSize, kv.Blocks
	c.layers = make([]cacheLayer, len(p.KV))
	stride := int64(0)
	for i, l := range p.KV {
		dim := panels(l.HeadDim) * panelRows
		head := c.tokens * dim * c.size
		heads := int64(l.KVHeads) * int64(head)
		if stride > math.MaxInt64/2/int64(kv.Blocks)-2*heads {
			return fmt.Errorf("kv cache of %d blocks is too large", kv.Blocks)
		}
		c.layers[i] = cacheLayer{keys: int(stride), vals: int(stride + heads), heads: l.KVHeads, dim: dim, rawDim: l.HeadDim, headBytes: head}
		stride += 2 * heads
	}
	c.stride = int(stride)
	var err error
	c.mem, err = allocate(c.stride * kv.Blocks)
	return err
}

// head returns the keys and values of one head in one block.
func (c *cache) head(layer, block, head int) (keys, vals []byte) {
	k, v := c.at(layer, block, head)
	n := c.layers[layer].headBytes
	return c.mem[k:][:n], c.mem[v:][:n]
}

// at is where in mem they are.
func (c *cache) at(layer, block, head int) (keys, vals int) {
	l := &c.layers[layer]
	at := block*c.stride + head*l.headBytes
	return l.keys + at, l.vals + at
}

// put32 and put16 store the key and value of one head at slot of a block, put16
// already rounded to the type of the cache.
func (c *cache) put32(layer, block, head, slot int, k, v []float32) {
	keys, vals := c.head(layer, block, head)
	at := 4 * (slot/panelRows*c.layers[layer].dim*panelRows + slot%panelRows)
	for i, x := range k {
		binary.LittleEndian.PutUint32(keys[at+4*panelRows*i:], math.Float32bits(x))
	}
	for i, x := range v {
		binary.LittleEndian.PutUint32(vals[4*((i/panelRows*c.tokens+slot)*panelRows+i%panelRows):], math.Float32bits(x))
	}
}

func (c *cache) put16(layer, block, head, slot int, k, v []uint16) {
	keys, vals := c.head(layer, block, head)
	at := 2 * (slot/panelRows*c.layers[layer].dim*panelRows + slot%panelRows)
	for i, x := range k {
		binary.LittleEndian.PutUint16(keys[at+2*panelRows*i:], x)
	}
	for i, x := range v {
		binary.LittleEndian.PutUint16(vals[2*((i/panelRows*c.tokens+slot)*panelRows+i%panelRows):], x)
	}
}

func (c *cache) copyBlock(from, to int) {
	copy(c.mem[to*c.stride:][:c.stride], c.mem[from*c.stride:])
}
