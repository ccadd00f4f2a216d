// Package gguftest makes tiny model files for tests: a GGUF writer, a
// safetensors writer, and on top of them a small llama with random weights, a
// byte-level vocabulary and a ChatML template, which every part of the engine
// can load without any file from elsewhere.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"

	"hearth/kernels"
)

// KV is one metadata entry. Value is a bool, string, uint32, int32, uint64,
// int64, float32, float64, or a slice of string, int32, uint32, float32, bool or
// uint8.
type KV struct {
	Key   string
	Value any
}

// Tensor is a tensor to be written. Shape is row-major, outermost first. Data
// holds the encoded values.
type Tensor struct {
	Name  string
	Type  kernels.DType
	Shape []int
	Data  []byte
}

// File is a GGUF file in memory.
type File struct {
	Version   uint32 // 0: 3
	Alignment int    // 0: 32; anything else is stated in the metadata
	KV        []KV
	Tensors   []Tensor
}

// Set replaces the value of a key or adds it.
func (f *File) Set(key string, value any) {
	for i := range f.KV {
		if f.KV[i].Key == key {
			f.KV[i].Value = value
			return
		}
	}
	f.KV = append(f.KV, KV{key, value})
}

// Delete removes a key.
func (f *File) Delete(key string) {
	for i := range f.KV {
		if f.KV[i].Key == key {
			f.KV = append(f.KV[:i:i], f.KV[i+1:]...)
			return
		}
	}
}

// Find gives a tensor to be changed in place, nil if there is none.
func (f *File) Find(name string) *Tensor {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			return &f.Tensors[i]
		}
	}
	return nil
}

var typeNumbers = map[kernels.DType]uint32{
	kernels.F32: 0, kernels.F16: 1, kernels.Q4_0: 2, kernels.Q4_1: 3, kernels.Q5_0: 6, kernels.Q5_1: 7, kernels.Q8_0: 8,
	kernels.Q2_K: 10, kernels.Q3_K: 11, kernels.Q4_K: 12, kernels.Q5_K: 13, kernels.Q6_K: 14, kernels.IQ4_NL: 20, kernels.BF16: 30,
}

// Bytes encodes the file. It panics on a value of a type it cannot write.
func (f *File) Bytes() []byte {
	version, alignment, kv := f.Version, f.Alignment, f.KV
	if version == 0 {
		version = 3
	}
	if alignment == 0 {
		alignment = 32
	} else {
		kv = append([]KV{{"general.alignment", uint32(alignment)}}, kv...)
	}
	b := append([]byte("GGUF"), u32(version)...)
	b = append(b, u64(uint64(len(f.Tensors)))...)
	b = append(b, u64(uint64(len(kv)))...)
	for _, e := range kv {
		b = appendText(b, e.Key)
		b = appendValue(b, e.Value)
	}
	offset := 0
	for _, t := range f.Tensors {
		b = appendText(b, t.Name)
		b = append(b, u32(uint32(len(t.Shape)))...)
		for i := range t.Shape {
			b = append(b, u64(uint64(t.Shape[len(t.Shape)-1-i]))...)
		}
		b = append(b, u32(typeNumbers[t.Type])...)
		b = append(b, u64(uint64(offset))...)
		offset += pad(len(t.Data), alignment)
	}
	for _, t := range f.Tensors {
		b = append(b, make([]byte, pad(len(b), alignment)-len(b))...)
		b = append(b, t.Data...)
	}
	return append(b, make([]byte, pad(len(b), alignment)-len(b))...)
}

func pad(n, alignment int) int { return (n + alignment - 1) / alignment * alignment }

func u32(x uint32) []byte { return binary.LittleEndian.AppendUint32(nil, x) }
func u64(x uint64) []byte { return binary.LittleEndian.AppendUint64(nil, x) }

func appendText(b []byte, s string) []byte {
	return append(append(b, u64(uint64(len(s)))...), s...)
}

func appendValue(b []byte, v any) []byte {
	if id, enc := scalar(v); enc != nil {
		return append(append(b, u32(id)...), enc...)
	}
	array := func(elem uint32, n int) { b = append(append(append(b, u32(9)...), u32(elem)...), u64(uint64(n))...) }
	switch v := v.(type) {
	case string:
		b = appendText(append(b, u32(8)...), v)
	case []string:
		array(8, len(v))
		for _, s := range v {
			b = appendText(b, s)
		}
	case []int32:
		array(5, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case []uint32:
		array(4, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case []float32:
		array(6, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case []bool:
		array(7, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case []uint8:
		array(0, len(v))
		b = append(b, v...)
	default:
		panic(fmt.Sprintf("BUG: cannot write a metadata value of type %T", v))
	}
	return b
}

func scalar(v any) (id uint32, enc []byte) {
	switch v := v.(type) {
	case uint32:
		return 4, u32(v)
	case int32:
		return 5, u32(uint32(v))
	case float32:
		return 6, u32(math.Float32bits(v))
	case bool:
		if v {
			return 7, []byte{1}
		}
		return 7, []byte{0}
	case uint64:
		return 10, u64(v)
	case int64:
		return 11, u64(uint64(v))
	case float64:
		return 12, u64(math.Float64bits(v))
	}
	return 0, nil
}
