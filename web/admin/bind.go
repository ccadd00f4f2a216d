package admin

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
)

// bind fills in, a pointer to a struct, from named texts: the fields of a form
// or a query. Names are the JSON names; dots go into structs and lists
// ("limits.concurrency", "budgets.0.period"). A name may say how its text is
// written: ":usd" (dollars into nano-dollars), ":duration" ("24h" into
// nanoseconds), ":lines" (one element a line), ":words" (separated by commas or
// spaces), ":text" (as it is, also an empty one). Names that begin with an underscore are the page's own. Empty texts
// leave the field as it is, but for a pointer to a list, which is emptied by an
// empty text.
func bind(in any, values url.Values) error {
	tree := map[string]any{}
	t := reflect.TypeOf(in).Elem()
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		texts := values[name]
		if strings.HasPrefix(name, "_") {
			continue
		}
		path, way, _ := strings.Cut(name, ":")
		if len(path) > 200 || strings.Count(path, ".") > 8 {
			return infer.Invalid(clip(path, 40), "cannot be a field: the name is too long")
		}
		if err := put(tree, t, strings.Split(path, "."), path, way, texts); err != nil {
			return err
		}
	}
	b, err := json.Marshal(listsOf(tree))
	if err != nil {
		return err
	}
	return decode(b, in)
}

// decode reads one strict JSON document.
func decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return infer.Invalid("body", "cannot be read: %v", err)
	}
	if d.More() {
		return infer.Invalid("body", "cannot be read: there is more than one document")
	}
	return nil
}

// maxIndex bounds lists in forms.
const maxIndex = 64

// put places one field's texts into tree, by the type at its path.
func put(tree map[string]any, t reflect.Type, path []string, name, way string, texts []string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		f, ok := field(t, path[0])
		if !ok {
			return infer.Invalid(clip(name, 40), "there is no such field")
		}
		t = f
	case reflect.Slice:
		if i, err := strconv.Atoi(path[0]); err != nil || i < 0 || i >= maxIndex {
			return infer.Invalid(clip(name, 40), "cannot be a field: wanted an index below %d", maxIndex)
		}
		t = t.Elem()
	case reflect.Map:
		t = t.Elem()
	default:
		return infer.Invalid(clip(name, 40), "there is no such field")
	}
	if len(path) > 1 {
		sub, ok := tree[path[0]].(map[string]any)
		if !ok {
			sub = map[string]any{}
			tree[path[0]] = sub
		}
		return put(sub, t, path[1:], name, way, texts)
	}
	v, err := valueOf(t, way, texts)
	if err != nil {
		return infer.Invalid(clip(name, 40), "%v", err)
	}
	if v != nil {
		tree[path[0]] = v
	}
	return nil
}

// listsOf turns maps that were filled by index into lists. A gap is left out.
func listsOf(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	indices := make([]int, 0, len(m))
	for k, e := range m {
		m[k] = listsOf(e)
		if i, err := strconv.Atoi(k); err == nil {
			indices = append(indices, i)
		}
	}
	if len(m) == 0 || len(indices) < len(m) {
		return m
	}
	slices.Sort(indices)
	list := make([]any, 0, len(indices))
	for _, i := range indices {
		if e := m[strconv.Itoa(i)]; !isEmpty(e) {
			list = append(list, e)
		}
	}
	return list
}

func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	return v == nil || ok && len(m) == 0
}

// field finds the type of a struct's field by its JSON name, embedded ones too.
func field(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				if found, ok := field(ft, name); ok {
					return found, true
				}
			}
			continue
		}
		if f.IsExported() && (tag == name || tag == "" && f.Name == name) {
			return f.Type, true
		}
	}
	return nil, false
}

var (
	timeType = reflect.TypeFor[time.Time]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// valueOf is a text as JSON of type t; nil for an empty one.
func valueOf(t reflect.Type, way string, texts []string) (any, error) {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Slice && t.Elem().Elem().Kind() != reflect.Uint8 {
		list, err := listOf(t.Elem(), way, texts)
		if list == nil {
			list = []any{}
		}
		return list, err
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		return listOf(t, way, texts)
	}
	text := texts[len(texts)-1]
	if way == "text" {
		return text, nil
	}
	if t.Kind() != reflect.Bool && text == "" {
		return nil, nil
	}
	switch way {
	case "usd":
		r, ok := new(big.Rat).SetString(strings.TrimSpace(text))
		if !ok || len(text) > 32 || strings.ContainsAny(text, "eE/_xXpP") {
			return nil, fmt.Errorf("cannot read %.32q: wanted dollars, such as 5.00", text)
		}
		if r.Mul(r, big.NewRat(1e9, 1)); !r.IsInt() {
			return nil, fmt.Errorf("cannot read %.32q: wanted at most nine decimals", text)
		}
		return json.Number(r.Num().String()), nil
	case "duration":
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("cannot read %.32q: wanted a time span with its unit, such as 24h", text)
		}
		return int64(d), nil
	}
	switch {
	case t == timeType:
		return timeOf(text)
	case t == rawType:
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("cannot read this as JSON")
		}
		return json.RawMessage(text), nil
	case reflect.PointerTo(t).Implements(textType), t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Bool:
		return text == "true" || text == "on" || text == "1" || text == "yes", nil
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		n := json.Number(strings.TrimSpace(text))
		if _, err := n.Float64(); err != nil {
			return nil, fmt.Errorf("cannot read %.32q: wanted a number", text)
		}
		return n, nil
	case t.Kind() == reflect.Interface:
		return text, nil
	}
	return nil, fmt.Errorf("cannot be given as text")
}

// listOf is a list from repeated fields, lines or words.
func listOf(t reflect.Type, way string, texts []string) (any, error) {
	var parts []string
	for _, text := range texts {
		switch way {
		case "lines":
			parts = append(parts, strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })...)
		case "words":
			parts = append(parts, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })...)
		default:
			parts = append(parts, text)
		}
	}
	list := []any{}
	for _, p := range parts {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		v, err := valueOf(t.Elem(), "", []string{p})
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
}

// timeOf reads RFC 3339, and what date fields of browsers give, as UTC.
func timeOf(text string) (any, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return nil, fmt.Errorf("cannot read %.40q: wanted a time such as 2026-01-31T12:00:00Z", text)
}

func clip(s string, n int) string { return s[:min(len(s), n)] }
