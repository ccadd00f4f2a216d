package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// valueType is the type of a GGUF metadata value, numbered as in the format.
type valueType uint32

const (
	typeUint8 valueType = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

var valueTypes = [...]struct {
	name string
	size int // bytes of one; for a string its length field, the least it takes
}{
	{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"int32", 4}, {"float32", 4},
	{"bool", 1}, {"string", 8}, {"array", 12}, {"uint64", 8}, {"int64", 8}, {"float64", 8},
}

func (t valueType) String() string {
	if int(t) < len(valueTypes) {
		return valueTypes[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// value is one metadata value, still encoded: a view of the mapping whose
// bounds have been checked. A string's raw is its text without the length.
type value struct {
	typ   valueType
	elem  valueType // of an array
	count int       // of an array
	raw   []byte
}

// Metadata holds the key-values of a GGUF file. Values are decoded when asked
// for and copied, so results outlive the File; the Metadata itself does not.
type Metadata struct {
	keys   []string
	values map[string]value
}

// Keys lists all keys in file order.
func (m *Metadata) Keys() []string { return m.keys }

// Len is the number of elements of an array, 0 for anything else.
func (m *Metadata) Len(key string) int { return m.values[key].count }

// Has reports whether a key is present.
func (m *Metadata) Has(key string) bool {
	_, ok := m.values[key]
	return ok
}

// TypeName is the type of a key's value in words, "" if the key is absent.
func (m *Metadata) TypeName(key string) string {
	v, ok := m.values[key]
	if !ok {
		return ""
	}
	if v.typ == typeArray {
		return fmt.Sprintf("array of %d %s", v.count, v.elem)
	}
	return v.typ.String()
}

func (m *Metadata) mismatch(key, want string) error {
	return fmt.Errorf("metadata %s: got %s, wanted %s", key, m.TypeName(key), want)
}

// String gives a string value, or def if the key is absent.
func (m *Metadata) String(key, def string) (string, error) {
	v, ok := m.values[key]
	if !ok {
		return def, nil
	}
	if v.typ != typeString {
		return "", m.mismatch(key, "string")
	}
	return string(v.raw), nil
}

// Bool gives a bool value, or def if the key is absent.
func (m *Metadata) Bool(key string, def bool) (bool, error) {
	v, ok := m.values[key]
	if !ok {
		return def, nil
	}
	if v.typ != typeBool {
		return false, m.mismatch(key, "bool")
	}
	return v.raw[0] != 0, nil
}

// Int gives an integer value of any width, or def if the key is absent.
func (m *Metadata) Int(key string, def int64) (int64, error) {
	v, ok := m.values[key]
	if !ok {
		return def, nil
	}
	n, ok := decodeInt(v.typ, v.raw)
	if !ok {
		return 0, m.mismatch(key, "an integer below 2^63")
	}
	return n, nil
}

// Float gives a float value of either width, or def if the key is absent.
func (m *Metadata) Float(key string, def float64) (float64, error) {
	v, ok := m.values[key]
	if !ok {
		return def, nil
	}
	x, ok := decodeFloat(v.typ, v.raw)
	if !ok {
		return 0, m.mismatch(key, "float")
	}
	return x, nil
}

// Ints gives an array of integers or bools (as 0 and 1); nil if the key is absent.
func (m *Metadata) Ints(key string) ([]int64, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, nil
	}
	if v.typ != typeArray || v.elem == typeString || v.elem == typeFloat32 || v.elem == typeFloat64 {
		return nil, m.mismatch(key, "array of integers")
	}
	if v.count > maxIntArray {
		return nil, fmt.Errorf("metadata %s has %d elements, more than the %d allowed", key, v.count, maxIntArray)
	}
	size := valueTypes[v.elem].size
	out := make([]int64, v.count)
	for i := range out {
		b := v.raw[i*size:]
		if v.elem == typeBool {
			out[i] = int64(min(b[0], 1))
		} else if out[i], ok = decodeInt(v.elem, b); !ok {
			return nil, fmt.Errorf("metadata %s: element %d is not below 2^63", key, i)
		}
	}
	return out, nil
}

// Floats gives an array of floats; nil if the key is absent.
func (m *Metadata) Floats(key string) ([]float32, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, nil
	}
	if v.typ != typeArray || v.elem != typeFloat32 && v.elem != typeFloat64 {
		return nil, m.mismatch(key, "array of floats")
	}
	size := valueTypes[v.elem].size
	out := make([]float32, v.count)
	for i := range out {
		x, _ := decodeFloat(v.elem, v.raw[i*size:])
		out[i] = float32(x)
	}
	return out, nil
}

// Strings gives an array of strings; nil if the key is absent. All texts share
// one allocation.
func (m *Metadata) Strings(key string) ([]string, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, nil
	}
	if v.typ != typeArray || v.elem != typeString {
		return nil, m.mismatch(key, "array of strings")
	}
	var text strings.Builder
	text.Grow(len(v.raw) - 8*v.count)
	for raw := v.raw; len(raw) > 0; {
		n := binary.LittleEndian.Uint64(raw)
		text.Write(raw[8 : 8+n])
		raw = raw[8+n:]
	}
	all, raw := text.String(), v.raw
	out := make([]string, v.count)
	for i := range out {
		n := binary.LittleEndian.Uint64(raw)
		out[i], all, raw = all[:n], all[n:], raw[8+n:]
	}
	return out, nil
}

func decodeInt(t valueType, b []byte) (int64, bool) {
	le := binary.LittleEndian
	switch t {
	case typeUint8:
		return int64(b[0]), true
	case typeInt8:
		return int64(int8(b[0])), true
	case typeUint16:
		return int64(le.Uint16(b)), true
	case typeInt16:
		return int64(int16(le.Uint16(b))), true
	case typeUint32:
		return int64(le.Uint32(b)), true
	case typeInt32:
		return int64(int32(le.Uint32(b))), true
	case typeUint64:
		return int64(le.Uint64(b)), le.Uint64(b) <= math.MaxInt64
	case typeInt64:
		return int64(le.Uint64(b)), true
	}
	return 0, false
}

func decodeFloat(t valueType, b []byte) (float64, bool) {
	switch t {
	case typeFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case typeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}
