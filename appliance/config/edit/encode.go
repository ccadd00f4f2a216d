package edit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// literal writes a value on one line. v is a string, bool, int, int64, float64,
// or a list ([]any) or map (map[string]any) of such.
func literal(v any) (string, error) {
	var b strings.Builder
	err := writeLiteral(&b, v, 0)
	return b.String(), err
}

func writeLiteral(b *strings.Builder, v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("cannot write a value nested deeper than %d", maxDepth)
	}
	switch x := v.(type) {
	case string:
		if !utf8.ValidString(x) {
			return fmt.Errorf("cannot write text that is not UTF-8")
		}
		b.WriteString(quote(x))
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case int:
		b.WriteString(strconv.Itoa(x))
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(float(x))
	case []any:
		return writeList(b, x, depth)
	case []map[string]any:
		return writeList(b, untyped(x), depth)
	case map[string]any:
		return writeInline(b, x, depth)
	default:
		return fmt.Errorf("cannot write a value of type %T", v)
	}
	return nil
}

func writeList(b *strings.Builder, list []any, depth int) error {
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := writeLiteral(b, e, depth+1); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeInline(b *strings.Builder, m map[string]any, depth int) error {
	if len(m) == 0 {
		b.WriteString("{}")
		return nil
	}
	for i, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(map[bool]string{true: "{ ", false: ", "}[i == 0])
		b.WriteString(keyText(k) + " = ")
		if err := writeLiteral(b, m[k], depth+1); err != nil {
			return err
		}
	}
	b.WriteString(" }")
	return nil
}

// float writes a number so that it is read back as one with a fraction.
func float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// quote writes a basic string (TOML v1.0.0, String).
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func keyText(k string) string {
	if bare(k) {
		return k
	}
	return quote(k)
}

func dotted(keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = keyText(k)
	}
	return strings.Join(parts, ".")
}

// tables gives the elements of a list that holds tables only, and is not empty.
func tables(v any) ([]map[string]any, bool) {
	switch l := v.(type) {
	case []map[string]any:
		return l, len(l) > 0
	case []any:
		out := make([]map[string]any, len(l))
		for i, e := range l {
			m, ok := e.(map[string]any)
			if !ok {
				return nil, false
			}
			out[i] = m
		}
		return out, len(l) > 0
	}
	return nil, false
}

func untyped(l []map[string]any) []any {
	out := make([]any, len(l))
	for i := range l {
		out[i] = l[i]
	}
	return out
}

// section writes m below a header: plain keys first, since those after the
// header of a sub-table would belong to that.
func section(b *strings.Builder, header string, keys []string, m map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("cannot write a table nested deeper than %d", maxDepth)
	}
	b.WriteString(header + "\n")
	names := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(rank(x), rank(y)) })
	for _, k := range names {
		if isTable(m[k]) {
			continue
		}
		text, err := literal(m[k])
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		b.WriteString(keyText(k) + " = " + text + "\n")
	}
	for _, k := range names {
		sub := append(slices.Clone(keys), k)
		if t, ok := m[k].(map[string]any); ok {
			b.WriteString("\n")
			if err := section(b, "["+dotted(sub)+"]", sub, t, depth+1); err != nil {
				return err
			}
		} else if list, ok := tables(m[k]); ok {
			for _, t := range list {
				b.WriteString("\n")
				if err := section(b, "[["+dotted(sub)+"]]", sub, t, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// rank puts what a table is called above the rest of it.
func rank(key string) int {
	if i := slices.Index([]string{"name", "kind", "upstream", "model"}, key); i >= 0 {
		return i
	}
	return 9
}

func isTable(v any) bool {
	if _, ok := v.(map[string]any); ok {
		return true
	}
	_, ok := tables(v)
	return ok
}
