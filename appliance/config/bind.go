package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// A value that is written as text with a unit implements
// encoding.TextUnmarshaler.

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// defaulter fills in the values that a table has when its keys are absent.
type defaulter interface{ setDefaults() }

// binder copies a decoded TOML tree into structs. Unlike decoding straight into
// the struct it goes on after a fault, so that all are found in one pass.
type binder struct {
	faults *Faults
}

// table binds the keys of tree to the fields of the struct that dst points to.
func (b *binder) table(path string, tree map[string]any, dst any) {
	fields := map[string]reflect.Value{}
	collect(reflect.ValueOf(dst).Elem(), fields)
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	sort.Strings(known)
	keys := make([]string, 0, len(tree))
	for k := range tree {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		at := join(path, k)
		field, ok := fields[k]
		if !ok {
			b.unknown(at, k, known)
			continue
		}
		b.value(at, tree[k], field)
	}
}

// collect finds the fields by key, those of embedded structs included.
func collect(v reflect.Value, fields map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			collect(v.Field(i), fields)
		} else if name := f.Tag.Get("toml"); name != "" {
			fields[name] = v.Field(i)
		}
	}
}

// secretKeys are what people write who mean to put a secret into the file, and
// the key that takes a reference to it.
var secretKeys = map[string]string{
	"key": "credential", "api_key": "credential", "apikey": "credential", "secret": "credential", "secret_key": "credential",
	"token": "credential", "password": "credential", "auth": "credential", "authorization": "credential", "access_key": "credential",
}

func (b *binder) unknown(at, name string, known []string) {
	if len(b.faults.List) > maxFaults {
		return // to look for the nearest name is work
	}
	if n, ok := secretKeys[name]; ok && slices.Contains(known, n) {
		b.faults.add(at, "unknown key; a secret is never written here: %s wants a reference to it, such as \"env:NAME\" or \"file:PATH\"", n)
		return
	}
	if n := nearest(name, known); n != "" {
		b.faults.add(at, "unknown key; did you mean %q?", n)
		return
	}
	b.faults.add(at, "unknown key; known here: %s", strings.Join(known, ", "))
}

func (b *binder) value(at string, in any, out reflect.Value) {
	if tv, ok := out.Addr().Interface().(encoding.TextUnmarshaler); ok {
		bindAs(b, at, in, "text in quotes", func(s string) {
			if err := tv.UnmarshalText([]byte(s)); err != nil {
				b.faults.add(at, "%v", err)
			}
		})
		return
	}
	switch out.Kind() {
	case reflect.Struct:
		b.subtable(at, in, out)
	case reflect.Slice:
		b.list(at, in, out)
	case reflect.Map:
		b.texts(at, in, out)
	case reflect.String:
		bindAs(b, at, in, "text", out.SetString)
	case reflect.Bool:
		bindAs(b, at, in, "true or false", out.SetBool)
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		b.value(at, in, out.Elem())
	case reflect.Int64:
		bindAs(b, at, in, "a whole number", out.SetInt)
	case reflect.Int:
		bindAs(b, at, in, "a whole number", func(n int64) {
			if n > math.MaxInt32 || n < math.MinInt32 {
				b.faults.add(at, "%d is out of range", n)
				return
			}
			out.SetInt(n)
		})
	case reflect.Float64:
		if n, ok := in.(int64); ok {
			in = float64(n)
		}
		bindAs(b, at, in, "a number", out.SetFloat)
	default:
		panic("BUG: configuration field of kind " + out.Kind().String() + " at " + at)
	}
}

func bindAs[T any](b *binder, at string, in any, want string, set func(T)) {
	t, ok := in.(T)
	if !ok {
		b.faults.add(at, "got %s, wanted %s", kindName(in), want)
		return
	}
	set(t)
}

func (b *binder) subtable(at string, in any, out reflect.Value) {
	sub, ok := in.(map[string]any)
	if !ok {
		b.faults.add(at, "got %s, wanted a table: [%s]", kindName(in), at)
		return
	}
	b.table(at, sub, out.Addr().Interface())
}

func (b *binder) list(at string, in any, out reflect.Value) {
	elems, ok := elements(in)
	if !ok {
		want := "a list"
		if out.Type().Elem().Kind() == reflect.Struct {
			want = fmt.Sprintf("an array of tables: [[%s]]", at)
		}
		b.faults.add(at, "got %s, wanted %s", kindName(in), want)
		return
	}
	list := reflect.MakeSlice(out.Type(), len(elems), len(elems))
	for i, e := range elems {
		item := list.Index(i)
		if d, ok := item.Addr().Interface().(defaulter); ok {
			d.setDefaults()
		}
		b.value(fmt.Sprintf("%s[%d]", at, i), e, item)
	}
	out.Set(list)
}

// texts binds a table whose keys are free and whose values are text.
func (b *binder) texts(at string, in any, out reflect.Value) {
	sub, ok := in.(map[string]any)
	if !ok {
		b.faults.add(at, "got %s, wanted a table: [%s]", kindName(in), at)
		return
	}
	m := make(map[string]string, len(sub))
	for k, v := range sub {
		bindAs(b, join(at, k), v, "text", func(s string) { m[k] = s })
	}
	out.Set(reflect.ValueOf(m))
}

func elements(in any) ([]any, bool) {
	switch l := in.(type) {
	case []any:
		return l, true
	case []map[string]any:
		all := make([]any, len(l))
		for i := range l {
			all[i] = l[i]
		}
		return all, true
	}
	return nil, false
}

func kindName(in any) string {
	switch in.(type) {
	case string:
		return "text"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	case []map[string]any:
		return "an array of tables"
	}
	return "a date or time"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
