package remote

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Values are written field by field in the order of their declaration:
// integers as varints, floats as 8 or 4 bytes (so that NaN passes), strings and
// slices behind their length, of which 0 is nil and n+1 is n elements, maps in
// the order of their keys, pointers behind a byte. What was nil stays nil and
// what was text stays that text, neither of which JSON could promise.

// encodeValue appends v, which must be made of the kinds above.
func encodeValue(dst []byte, v any) []byte {
	return appendValue(dst, reflect.ValueOf(v))
}

func appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(dst, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(dst, v.Uint())
	case reflect.Float32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v.Float())))
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case reflect.String:
		s := v.String()
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		return append(dst, s...)
	case reflect.Slice:
		return appendSlice(dst, v)
	case reflect.Map:
		return appendMap(dst, v)
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, 0)
		}
		return appendValue(append(dst, 1), v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			dst = appendValue(dst, v.Field(i))
		}
		return dst
	}
	panic(fmt.Sprintf("BUG: cannot encode %s", v.Type()))
}

func appendSlice(dst []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(dst, 0)
	}
	n := v.Len()
	dst = binary.AppendUvarint(dst, uint64(n)+1)
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return append(dst, v.Bytes()...)
	}
	if floats, ok := v.Interface().([]float32); ok { // embeddings: millions
		dst = slices.Grow(dst, 4*n)
		for _, f := range floats {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
		}
		return dst
	}
	for i := range n {
		dst = appendValue(dst, v.Index(i))
	}
	return dst
}

func appendMap(dst []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(dst, 0)
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.CanInt() {
			return int(min(max(a.Int()-b.Int(), -1), 1))
		}
		return strings.Compare(a.String(), b.String())
	})
	dst = binary.AppendUvarint(dst, uint64(len(keys))+1)
	for _, k := range keys {
		dst = appendValue(appendValue(dst, k), v.MapIndex(k))
	}
	return dst
}

// decodeValue reads all of b into what p points to.
func decodeValue(b []byte, p any) error {
	d := decoder{b: b}
	d.value(reflect.ValueOf(p).Elem())
	if d.bad {
		return protocolError("cannot read a %T: it is cut short or malformed", p)
	}
	if len(d.b) != 0 {
		return protocolError("cannot read a %T: %d bytes are left", p, len(d.b))
	}
	return nil
}

// decoder reads values. Once bad, it reads zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.bad, d.b = true, nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) flag() bool {
	b := d.take(1)
	if len(b) == 1 && b[0] > 1 {
		d.fail()
	}
	return len(b) == 1 && b[0] == 1
}

func (d *decoder) value(v reflect.Value) {
	if d.bad {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.flag())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x, n := binary.Varint(d.b)
		if n <= 0 || v.OverflowInt(x) {
			d.fail()
			return
		}
		d.b = d.b[n:]
		v.SetInt(x)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x := d.uvarint()
		if v.OverflowUint(x) {
			d.fail()
			return
		}
		v.SetUint(x)
	case reflect.Float32:
		if b := d.take(4); b != nil {
			v.SetFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case reflect.Float64:
		if b := d.take(8); b != nil {
			v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case reflect.String:
		v.SetString(string(d.take(d.uvarint())))
	case reflect.Slice:
		d.slice(v)
	case reflect.Map:
		d.fill(v)
	case reflect.Pointer:
		if d.flag() {
			p := reflect.New(v.Type().Elem())
			d.value(p.Elem())
			v.Set(p)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			d.value(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("BUG: cannot decode %s", v.Type()))
	}
}

// count reads a length in the form n+1; ok is false for nil. Every element has
// at least one byte, so more than there are bytes is a lie.
func (d *decoder) count() (n int, ok bool) {
	c := d.uvarint()
	if c == 0 || d.bad {
		return 0, false
	}
	if c-1 > uint64(len(d.b)) {
		d.fail()
		return 0, false
	}
	return int(c - 1), true
}

func (d *decoder) slice(v reflect.Value) {
	n, ok := d.count()
	if !ok {
		return
	}
	t := v.Type()
	if t.Elem().Kind() == reflect.Uint8 {
		v.SetBytes(append(make([]byte, 0, n), d.take(uint64(n))...))
		return
	}
	if floats, ok := v.Addr().Interface().(*[]float32); ok {
		if b := d.take(4 * uint64(n)); b != nil || n == 0 {
			*floats = make([]float32, n)
			for i := range *floats {
				(*floats)[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
			}
		}
		return
	}
	// Memory is taken as elements come, since one may be far larger than its
	// bytes here.
	v.Set(reflect.MakeSlice(t, 0, min(n, 64)))
	for range n {
		if d.bad {
			return
		}
		if v.Len() == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(v.Len() + 1)
		e := v.Index(v.Len() - 1)
		e.SetZero()
		d.value(e)
	}
}

func (d *decoder) fill(v reflect.Value) {
	n, ok := d.count()
	if !ok {
		return
	}
	t := v.Type()
	v.Set(reflect.MakeMapWithSize(t, min(n, 64)))
	for range n {
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		d.value(k)
		d.value(e)
		if d.bad {
			return
		}
		v.SetMapIndex(k, e)
	}
}

// schemaOf writes down the types of values, so that two ends whose types
// differ find out before they misread each other.
func schemaOf(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		describeType(h.Write, reflect.TypeOf(v))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func describeType(write func([]byte) (int, error), t reflect.Type) {
	fmt.Fprintf(writerFunc(write), "%s(", t.Kind())
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		describeType(write, t.Elem())
	case reflect.Map:
		describeType(write, t.Key())
		describeType(write, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				panic(fmt.Sprintf("BUG: cannot send %s: field %s is not exported", t, f.Name))
			}
			fmt.Fprintf(writerFunc(write), "%s:", f.Name)
			describeType(write, f.Type)
		}
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.Array, reflect.Uintptr, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		panic(fmt.Sprintf("BUG: cannot send a %s", t))
	}
	fmt.Fprint(writerFunc(write), ")")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
