package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"hearth/kernels"
)

// The GGUF format: github.com/ggml-org/ggml, docs/gguf.md. Version 3 is version
// 2 with big-endian files allowed; those are refused here.

const ggufMagic = "GGUF"

// ggmlTypes numbers tensor types as GGUF files do. Those without a kernels type
// have only a name, for the error.
var ggmlTypes = map[uint32]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 4: "Q4_2", 5: "Q4_3", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
	10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS",
	18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16",
	26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}

// cursor reads a header front to back. The first failure sticks.
type cursor struct {
	data []byte
	off  int
	err  error
}

func (c *cursor) left() int { return len(c.data) - c.off }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// take gives the next n bytes, or nil after failing.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		c.fail("%s at byte %d needs %d bytes, only %d are left in the file", what, c.off, n, c.left())
		return nil
	}
	b := c.data[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return b
}

func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) text(what string) []byte { return c.take(c.u64(what), what) }

// count reads a number of items of at least size bytes each and refuses one that
// the rest of the file cannot hold.
func (c *cursor) count(n uint64, size int, limit int, what string) int {
	if c.err != nil {
		return 0
	}
	if most := uint64(c.left() / size); n > most {
		c.fail("%s is %d, but the rest of the file holds %d at most", what, n, most)
		return 0
	}
	if n > uint64(limit) {
		c.fail("%s is %d, more than the %d allowed", what, n, limit)
		return 0
	}
	return int(n)
}

// ggufHeader is one parsed GGUF file, before shards are put together.
type ggufHeader struct {
	meta    *Metadata
	tensors []Tensor
}

// parseGGUF reads a whole GGUF file. Results are views of data.
func parseGGUF(data []byte) (*ggufHeader, error) {
	c := &cursor{data: data}
	if magic := c.take(4, "magic"); c.err == nil && string(magic) != ggufMagic {
		return nil, fmt.Errorf("not a GGUF file: it begins with %q", magic)
	}
	version := c.u32("version")
	switch {
	case c.err != nil:
	case version == 2 || version == 3:
	case version == 2<<24 || version == 3<<24:
		return nil, errors.New("big-endian GGUF is not supported")
	default:
		return nil, fmt.Errorf("GGUF version %d is not supported, wanted 2 or 3", version)
	}
	tensorCount, keyCount := c.u64("tensor count"), c.u64("metadata count")
	nKeys := c.count(keyCount, 8+1+4+1, maxKeys, "metadata count")
	nTensors := c.count(tensorCount, 8+1+4+8+4+8, maxTensors, "tensor count")
	if c.err != nil {
		return nil, c.err
	}
	h := &ggufHeader{meta: readMetadata(c, nKeys)}
	if c.err != nil {
		return nil, c.err
	}
	alignment, err := h.alignment()
	if err != nil {
		return nil, err
	}
	infos := readTensorInfos(c, nTensors)
	if c.err != nil {
		return nil, c.err
	}
	if len(infos) > 0 {
		h.tensors, err = placeTensors(data, c.off, alignment, infos)
	}
	return h, err
}

func (h *ggufHeader) alignment() (int, error) {
	a, err := h.meta.Int("general.alignment", 32)
	if err == nil && (a < 1 || a > maxAlignment || a&(a-1) != 0) {
		err = fmt.Errorf("metadata general.alignment is %d, wanted a power of two up to %d", a, maxAlignment)
	}
	return int(a), err
}

func readMetadata(c *cursor, n int) *Metadata {
	m := &Metadata{values: make(map[string]value, n)}
	for range n {
		raw := c.text("metadata key")
		if len(raw) == 0 || len(raw) > maxKeyBytes {
			c.fail("metadata key of %d bytes, wanted 1 to %d", len(raw), maxKeyBytes)
		}
		key := string(raw)
		v := readValue(c, key)
		if c.err != nil {
			return m
		}
		if m.Has(key) {
			c.fail("metadata key %q occurs twice", key)
			return m
		}
		m.keys = append(m.keys, key)
		m.values[key] = v
	}
	return m
}

func readValue(c *cursor, key string) value {
	v := value{typ: valueType(c.u32("metadata type"))}
	switch {
	case c.err != nil:
	case int(v.typ) >= len(valueTypes):
		c.fail("metadata %q has unknown type %d", key, uint32(v.typ))
	case v.typ == typeString:
		v.raw = c.text("metadata string")
	case v.typ == typeArray:
		readArray(c, key, &v)
	default:
		v.raw = c.take(uint64(valueTypes[v.typ].size), "metadata value")
	}
	return v
}

func readArray(c *cursor, key string, v *value) {
	v.elem = valueType(c.u32("array type"))
	n := c.u64("array length")
	if c.err != nil {
		return
	}
	if int(v.elem) >= len(valueTypes) || v.elem == typeArray {
		c.fail("metadata %q is an array of %s, which is not supported", key, v.elem)
		return
	}
	size := valueTypes[v.elem].size
	v.count = c.count(n, size, c.left(), fmt.Sprintf("length of array %q", key))
	if v.elem != typeString {
		v.raw = c.take(uint64(v.count)*uint64(size), "array")
		return
	}
	start := c.off
	for i := 0; i < v.count && c.err == nil; i++ {
		c.text("array string")
	}
	v.raw = c.data[start:c.off]
}

// tensorInfo is a tensor as the header describes it.
type tensorInfo struct {
	name   string
	dims   []int // as in the file: fastest first
	typ    uint32
	offset uint64
}

func readTensorInfos(c *cursor, n int) []tensorInfo {
	infos := make([]tensorInfo, 0, n)
	seen := make(map[string]struct{}, n)
	for range n {
		var t tensorInfo
		name := c.text("tensor name")
		if len(name) == 0 || len(name) > maxNameBytes {
			c.fail("tensor name of %d bytes, wanted 1 to %d", len(name), maxNameBytes)
		}
		t.name = string(name)
		dims := c.u32("tensor dimensions")
		if dims < 1 || dims > maxDims {
			c.fail("tensor %q has %d dimensions, wanted 1 to %d", t.name, dims, maxDims)
		}
		for i := uint32(0); i < dims && c.err == nil; i++ {
			d := c.u64("tensor dimension")
			if d == 0 || d > min(1<<40, math.MaxInt) {
				c.fail("tensor %q has dimension %d, wanted 1 to 2^40", t.name, d)
			}
			t.dims = append(t.dims, int(d))
		}
		t.typ, t.offset = c.u32("tensor type"), c.u64("tensor offset")
		if c.err != nil {
			return nil
		}
		if _, dup := seen[t.name]; dup {
			c.fail("tensor %q occurs twice", t.name)
			return nil
		}
		seen[t.name] = struct{}{}
		infos = append(infos, t)
	}
	return infos
}

// placeTensors checks every tensor against the data section that begins at the
// first aligned byte after the header, and makes its view.
func placeTensors(data []byte, headerEnd, alignment int, infos []tensorInfo) ([]Tensor, error) {
	start := (headerEnd + alignment - 1) &^ (alignment - 1)
	if start > len(data) {
		return nil, fmt.Errorf("the data section would begin at byte %d, but the file has %d", start, len(data))
	}
	section := data[start:]
	tensors := make([]Tensor, len(infos))
	ranges := make([]byteRange, len(infos))
	for i := range infos {
		t := &infos[i]
		shape := make([]int, len(t.dims))
		for j, d := range t.dims {
			shape[len(shape)-1-j] = d
		}
		typ, err := ggufType(t.name, t.typ)
		if err != nil {
			return nil, err
		}
		if t.offset%uint64(alignment) != 0 {
			return nil, fmt.Errorf("tensor %q has offset %d, not a multiple of the alignment %d", t.name, t.offset, alignment)
		}
		size, rows, err := tensorBytes(t.name, typ, shape)
		if err != nil {
			return nil, err
		}
		end, carry := bits.Add64(t.offset, size, 0)
		if carry != 0 || end > uint64(len(section)) {
			return nil, fmt.Errorf("tensor %q (%s, %v) needs %d bytes at offset %d of the data section, which has %d", t.name, typ, shape, size, t.offset, len(section))
		}
		ranges[i] = byteRange{t.offset, end, t.name}
		tensors[i] = Tensor{Tensor: kernels.Tensor{
			Name: t.name, Type: typ, Rows: rows, Cols: shape[len(shape)-1],
			Data: section[t.offset:end:end],
		}, Shape: shape}
	}
	return tensors, checkOverlap(ranges)
}

func ggufType(tensor string, id uint32) (kernels.DType, error) {
	name, known := ggmlTypes[id]
	if !known {
		return 0, fmt.Errorf("tensor %q has unknown type %d", tensor, id)
	}
	typ, err := kernels.ParseDType(name)
	if err != nil {
		return 0, fmt.Errorf("tensor %q has type %s, which is not supported", tensor, name)
	}
	return typ, nil
}
