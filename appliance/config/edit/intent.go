package edit

import (
	"fmt"
	"maps"
	"math"
	"time"
)

// What an edit is to say is worked out on the decoded document, apart from the
// text.

// with is a copy of v in which path holds x.
func with(v any, path Path, x any) (any, error) {
	if len(path) == 0 {
		return x, nil
	}
	s := path[0]
	switch c := v.(type) {
	case nil:
		if !s.isKey() {
			return with([]any{}, path, x)
		}
		return with(map[string]any{}, path, x)
	case map[string]any:
		if !s.isKey() {
			break
		}
		sub, err := with(c[s.Key], path[1:], x)
		if err != nil {
			return nil, err
		}
		out := maps.Clone(c)
		out[s.Key] = sub
		return out, nil
	case []map[string]any:
		return with(untyped(c), path, x)
	case []any:
		if s.isKey() || s.Index > len(c) {
			break
		}
		out := append([]any(nil), c...)
		if s.Index == len(c) {
			out = append(out, nil)
		}
		sub, err := with(out[s.Index], path[1:], x)
		out[s.Index] = sub
		return out, err
	}
	return nil, fmt.Errorf("there is no such place")
}

// without is a copy of v that has nothing at path.
func without(v any, path Path) any {
	switch c := v.(type) {
	case map[string]any:
		out := maps.Clone(c)
		if len(path) == 1 {
			delete(out, path[0].Key)
		} else {
			out[path[0].Key] = without(c[path[0].Key], path[1:])
		}
		return out
	case []map[string]any:
		return without(untyped(c), path)
	case []any:
		out := append([]any(nil), c...)
		i := path[0].Index
		if len(path) == 1 {
			return append(out[:i], out[i+1:]...)
		}
		out[i] = without(out[i], path[1:])
		return out
	}
	return v
}

// renamed is a copy of v in which the last key of path is called name.
func renamed(v any, path Path, name string) any {
	switch c := v.(type) {
	case map[string]any:
		out := maps.Clone(c)
		k := path[0].Key
		if len(path) == 1 {
			out[name] = out[k]
			delete(out, k)
		} else {
			out[k] = renamed(c[k], path[1:], name)
		}
		return out
	case []map[string]any:
		return renamed(untyped(c), path, name)
	case []any:
		out := append([]any(nil), c...)
		out[path[0].Index] = renamed(out[path[0].Index], path[1:], name)
		return out
	}
	return v
}

// Equal compares decoded documents: the same keys, kinds and values.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if sub, ok := y[k]; !ok || !Equal(x[k], sub) {
				return false
			}
		}
		return true
	case []map[string]any:
		return Equal(untyped(x), b)
	case []any:
		if l, ok := b.([]map[string]any); ok {
			b = untyped(l)
		}
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || math.IsNaN(x) && math.IsNaN(y))
	case int:
		return Equal(int64(x), b)
	case int64:
		if y, ok := b.(int); ok {
			b = int64(y)
		}
		return x == b
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y) && x.Location().String() == y.Location().String()
	}
	return a == b
}
