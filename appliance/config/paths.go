package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hearth/appliance/config/edit"
)

// Elements of arrays of tables have no number that lasts, but most have a name.

// Named says whether list is a non-empty array of tables.
func Named(list []any) bool {
	for _, e := range list {
		if _, ok := e.(map[string]any); !ok {
			return false
		}
	}
	return len(list) > 0
}

// ElementNames gives a name to each element of an array of tables: its name, its
// upstream and model, its model, its period, or where it has nothing of that its
// number. No two are the same.
func ElementNames(list []any) []string {
	out := make([]string, len(list))
	taken, last := make(map[string]bool, len(list)), map[string]int{}
	for i, e := range list {
		m, _ := e.(map[string]any)
		text := func(k string) string { s, _ := m[k].(string); return s }
		n := text("name")
		switch {
		case n != "":
		case text("upstream") != "":
			n = text("upstream") + "/" + text("model")
		case text("model") != "":
			n = text("model")
		case text("period") != "":
			n = text("period")
		default:
			n = strconv.Itoa(i)
		}
		for base := n; taken[n]; {
			last[base] = max(last[base]+1, 2)
			n = fmt.Sprintf("%s#%d", base, last[base])
		}
		out[i], taken[n] = n, true
	}
	return out
}

// ResolvePath reads the path of a key. Elements are written by number, or by what
// ElementNames calls them: tenant[default].budget[month].cap_usd.
func ResolvePath(d *edit.Doc, s string) (edit.Path, error) {
	var plain strings.Builder
	rest := s
	for {
		open := strings.IndexByte(rest, '[')
		if open < 0 {
			break
		}
		end := strings.IndexByte(rest[open:], ']')
		if end < 0 {
			break
		}
		plain.WriteString(rest[:open])
		name := rest[open+1 : open+end]
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			at, err := edit.ParsePath(plain.String())
			if err != nil {
				return nil, err
			}
			v, _ := d.Get(at)
			list, _ := v.([]any)
			i := slices.Index(ElementNames(list), name)
			if i < 0 {
				return nil, fmt.Errorf("cannot find %s[%.64s]: there is %q", at, name, ElementNames(list))
			}
			name = strconv.Itoa(i)
		}
		plain.WriteString("[" + name + "]")
		rest = rest[open+end+1:]
	}
	plain.WriteString(rest)
	return edit.ParsePath(plain.String())
}

// Lookup finds what stands at a path in a tree that Config.Tree or JSON has made.
// Elements are written by number or by name.
func Lookup(tree any, path string) (any, bool) {
	v := tree
	for path != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); path[0] == '[' {
			list, isList := v.([]any)
			i, err := strconv.Atoi(name)
			if err != nil {
				i = slices.Index(ElementNames(list), name)
			}
			if !ok || !isList || i < 0 || i >= len(list) {
				return nil, false
			}
			v, path = list[i], rest
			continue
		}
		key, rest := strings.TrimPrefix(path, "."), ""
		if end := strings.IndexAny(key, ".["); end >= 0 {
			key, rest = key[:end], key[end:]
		}
		m, _ := v.(map[string]any)
		sub, ok := m[strings.Trim(key, `"`)]
		if !ok {
			return nil, false
		}
		v, path = sub, rest
	}
	return v, true
}

// ValueFor makes of what a person or a form has given the value that the key at
// path takes: text becomes a number, true or false, or a list, where the key wants
// that. What fits already, and keys that are not known, stay as they are.
func ValueFor(path edit.Path, v any) (any, error) {
	t := typeAt(path)
	if n, ok := v.(json.Number); ok {
		v = n.String()
		if t != nil && isText(t) {
			return v, nil
		}
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) && t != nil && t.Kind() != reflect.Float64 {
		v = int64(f)
	}
	s, ok := v.(string)
	if !ok || t == nil || isText(t) {
		return v, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return nil, fmt.Errorf("cannot set %s to %.64q: wanted true or false", path, s)
		}
		return b, nil
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot set %s to %.64q: wanted a whole number", path, s)
		}
		return n, nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot set %s to %.64q: wanted a number", path, s)
		}
		return f, nil
	case reflect.Slice, reflect.Struct, reflect.Map:
		return listOrTable(path, t, s)
	}
	return v, nil
}

// listOrTable reads a TOML or JSON literal, or for lists of text the items with
// commas or newlines between them.
func listOrTable(path edit.Path, t reflect.Type, s string) (any, error) {
	trimmed := strings.TrimSpace(s)
	if trimmed != "" && (trimmed[0] == '[' || trimmed[0] == '{') {
		var v any
		if json.Unmarshal([]byte(trimmed), &v) == nil {
			return whole(v), nil
		}
		d, err := edit.Parse([]byte("v = " + trimmed))
		if err != nil {
			return nil, fmt.Errorf("cannot set %s: %.64q is no value: %w", path, s, err)
		}
		v, _ = d.Get(edit.Path{edit.Key("v")})
		return v, nil
	}
	if t.Kind() != reflect.Slice || !isText(t.Elem()) {
		return nil, fmt.Errorf("cannot set %s to %.64q: wanted a table, such as { a = \"b\" }", path, s)
	}
	out := []any{}
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out, nil
}

// whole turns the numbers of JSON that have no fraction into whole ones.
func whole(v any) any {
	switch x := v.(type) {
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	case []any:
		for i := range x {
			x[i] = whole(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = whole(x[k])
		}
	}
	return v
}

// typeAt is the type of the field that a path leads to, nil if there is none.
func typeAt(path edit.Path) reflect.Type {
	t := reflect.TypeFor[Config]()
	for _, s := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case s.Index >= 0:
			if t.Kind() != reflect.Slice {
				return nil
			}
			t = t.Elem()
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Struct && !isText(t):
			f, ok := fieldOf(t, s.Key)
			if !ok {
				return nil
			}
			t = f
		default:
			return nil
		}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if sub, ok := fieldOf(f.Type, key); ok {
				return sub, true
			}
		} else if f.Tag.Get("toml") == key {
			return f.Type, true
		}
	}
	return nil, false
}

// isText says whether values of t are written as text.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(textType)
}
