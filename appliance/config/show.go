package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Tree is the configuration as nested maps with the keys of the file, every
// default filled in.
func (c *Config) Tree() map[string]any {
	return treeOf(reflect.ValueOf(c).Elem())
}

func treeOf(v reflect.Value) map[string]any {
	fields := map[string]reflect.Value{}
	collect(v, fields)
	out := make(map[string]any, len(fields))
	for k, f := range fields {
		out[k] = leafOf(f)
	}
	return out
}

func leafOf(f reflect.Value) any {
	if f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return nil
		}
		f = f.Elem()
	}
	if _, ok := f.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return fmt.Sprint(f.Interface())
	}
	switch f.Kind() {
	case reflect.String: // maybe of a type of its own
		return f.String()
	case reflect.Struct:
		return treeOf(f)
	case reflect.Slice:
		list := make([]any, f.Len())
		for i := range list {
			list[i] = leafOf(f.Index(i))
		}
		return list
	}
	return f.Interface()
}

// Text is the configuration as TOML, every default filled in, in the order of
// the sample.
func (c *Config) Text() string {
	var b strings.Builder
	writeTable(&b, "", reflect.ValueOf(c).Elem())
	return b.String()
}

// writeTable writes plain keys first, since those after a header would belong
// to that header.
func writeTable(b *strings.Builder, path string, v reflect.Value) {
	eachField(v, func(key string, f reflect.Value) {
		if isPlain(f) {
			if l := leafOf(f); l != nil {
				fmt.Fprintf(b, "%s = %s\n", key, literal(l))
			}
		}
	})
	eachField(v, func(key string, f reflect.Value) {
		at := join(path, key)
		switch {
		case isPlain(f):
		case f.Kind() == reflect.Struct:
			fmt.Fprintf(b, "\n[%s]\n", at)
			writeTable(b, at, f)
		default:
			for i := range f.Len() {
				fmt.Fprintf(b, "\n[[%s]]\n", at)
				writeTable(b, at, f.Index(i))
			}
		}
	})
}

func eachField(v reflect.Value, do func(key string, f reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			eachField(v.Field(i), do)
		} else if key := f.Tag.Get("toml"); key != "" {
			do(key, v.Field(i))
		}
	}
}

func isPlain(f reflect.Value) bool {
	t := f.Type()
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	return t.Kind() != reflect.Struct && !(t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct)
}

// Literal writes a value of a tree as TOML, on one line.
func Literal(v any) string { return literal(v) }

func literal(v any) string {
	switch x := v.(type) {
	case map[string]any:
		parts := make([]string, 0, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if x[k] != nil {
				parts = append(parts, k+" = "+literal(x[k]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(x))
		for i := range x {
			parts[i] = literal(x[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		parts := make([]string, 0, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, quote(k)+" = "+quote(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case bool, int, int64, float64:
		return fmt.Sprint(x)
	}
	return quote(fmt.Sprint(v))
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
