package chattmpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decodeJSON reads one JSON text as Python's json.loads does: key order kept,
// the last of equal keys wins, integers of any size. All of it is user text.
func decodeJSON(raw []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("cannot decode JSON: text follows the value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, errors.New("cannot decode JSON: syntax error")
	}
	switch t := t.(type) {
	case nil:
		return none{}, nil
	case bool:
		return t, nil
	case string:
		return fromUser(t), nil
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if depth == maxJSONDepth {
			return nil, fmt.Errorf("cannot decode JSON: nested deeper than %d", maxJSONDepth)
		}
		if t == '[' {
			return decodeArray(d, depth)
		}
		return decodeObject(d, depth)
	}
	return nil, errors.New("cannot decode JSON: syntax error")
}

func decodeArray(d *json.Decoder, depth int) (value, error) {
	l := &list{user: true}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("cannot decode JSON: array is not closed")
	}
	return l, nil
}

func decodeObject(d *json.Decoder, depth int) (value, error) {
	o := newDict(4)
	o.user = true
	for d.More() {
		k, err := d.Token()
		key, ok := k.(string)
		if err != nil || !ok {
			return nil, errors.New("cannot decode JSON: syntax error in an object")
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.set(fromUser(key), v)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("cannot decode JSON: object is not closed")
	}
	return o, nil
}

const maxIntegerDigits = 4300 // Python's own bound

func decodeNumber(s string) (value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		if len(s) > maxIntegerDigits {
			return nil, fmt.Errorf("cannot decode JSON: integer has more than %d digits", maxIntegerDigits)
		}
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			return nil, errors.New("cannot decode JSON: bad number")
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, errors.New("cannot decode JSON: bad number")
	}
	return f, nil
}

// jsonWriter is json.dumps(…, ensure_ascii=…, indent=…, separators=…, sort_keys=…).
type jsonWriter struct {
	ev         *eval
	b          textBuilder
	ascii      bool
	sorted     bool
	indent     string
	pretty     bool
	item, pair string // separators
}

func (w *jsonWriter) newline(depth int, user bool) {
	if w.pretty {
		w.ev.room(len(w.indent) * depth)
		w.b.write("\n"+strings.Repeat(w.indent, depth), user)
	}
}

func (w *jsonWriter) value(v value, depth int, user bool) {
	w.ev.step(1)
	w.ev.room(len(w.b.b))
	if depth > maxParseDepth {
		w.ev.fail("value is nested deeper than %d", maxParseDepth)
	}
	switch v := v.(type) {
	case none:
		w.b.write("null", user)
	case bool:
		w.b.write(strconv.FormatBool(v), user)
	case int64:
		w.b.write(strconv.FormatInt(v, 10), user)
	case *big.Int:
		w.b.write(v.String(), user)
	case float64:
		w.b.write(jsonFloat(v), user)
	case text:
		w.quote(v)
	case *list:
		w.list(v, depth)
	case *dict:
		w.dict(v, depth)
	default:
		w.ev.checkDefined(v)
		w.ev.fail("%s has no JSON form", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f != f:
		return "NaN"
	}
	return formatFloat(f)
}

func (w *jsonWriter) list(l *list, depth int) {
	if len(l.items) == 0 {
		w.b.write("[]", l.user)
		return
	}
	w.b.write("[", l.user)
	for i, e := range l.items {
		if i > 0 {
			w.b.write(w.item, l.user)
		}
		w.newline(depth+1, l.user)
		w.value(e, depth+1, l.user)
	}
	w.newline(depth, l.user)
	w.b.write("]", l.user)
}

func (w *jsonWriter) dict(d *dict, depth int) {
	if len(d.keys) == 0 {
		w.b.write("{}", d.user)
		return
	}
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if w.sorted {
		sortStable(order, func(a, b int) bool {
			c, _ := w.ev.order(d.keys[a], d.keys[b])
			return c < 0
		})
	}
	w.b.write("{", d.user)
	for n, i := range order {
		if n > 0 {
			w.b.write(w.item, d.user)
		}
		w.newline(depth+1, d.user)
		w.key(d.keys[i])
		w.b.write(w.pair, d.user)
		w.value(d.vals[i], depth+1, d.user)
	}
	w.newline(depth, d.user)
	w.b.write("}", d.user)
}

func (w *jsonWriter) key(k value) {
	switch k := k.(type) {
	case text:
		w.quote(k)
	case none, bool, int64, float64, *big.Int:
		var inner jsonWriter
		inner.ev = w.ev
		inner.value(k, 0, false)
		w.b.write(`"`+string(inner.b.b)+`"`, false)
	default:
		w.ev.fail("%s cannot be a JSON key", typeName(k))
	}
}

func (w *jsonWriter) quote(t text) {
	w.ev.charge(len(t.s))
	w.b.write(`"`, t.user)
	last := t.user
	t.runs(func(s string, user bool) {
		last = user
		from := 0
		for i := 0; i < len(s); {
			r, n := utf8.DecodeRuneInString(s[i:])
			if e := w.escape(r, n); e != "" {
				w.b.write(s[from:i], user)
				w.b.write(e, user)
				from = i + n
			}
			i += n
		}
		w.b.write(s[from:], user)
	})
	w.b.write(`"`, last)
}

// escape gives the escaped form of r, empty where it stands for itself.
func (w *jsonWriter) escape(r rune, width int) string {
	switch {
	case r == '"':
		return `\"`
	case r == '\\':
		return `\\`
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r == '\b':
		return `\b`
	case r == '\f':
		return `\f`
	case r < 0x20:
		return `\u` + hex(r, 4)
	case r < 0x7f || !w.ascii && (r != utf8.RuneError || width > 1):
		return ""
	case !w.ascii:
		return "\ufffd"
	case r > 0xffff:
		r -= 0x10000
		return `\u` + hex(0xd800+r>>10, 4) + `\u` + hex(0xdc00+r&0x3ff, 4)
	}
	return `\u` + hex(r, 4)
}
