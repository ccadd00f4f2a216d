package jsonread

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

func fromCursor(c *Cursor) any {
	k, ok := c.Kind()
	switch {
	case !ok:
		c.Skip()
		return nil
	case k == String:
		return c.Str()
	case k == Number:
		f, _ := c.Float()
		return f
	case k == Bool:
		return c.True()
	case k == Array:
		out := []any{}
		for ok := c.Array(); ok && c.More(); {
			out = append(out, fromCursor(c))
		}
		return out
	case k == Object:
		out := map[string]any{}
		for ok := c.Object(); ok && c.More(); {
			key := string(appendUnescaped(nil, c.Key()))
			out[key] = fromCursor(c)
		}
		return out
	}
	c.Skip()
	return nil
}

// FuzzCursor holds that what a Cursor reads to the end is what encoding/json
// reads, that skipping accepts the same texts as walking, and that nothing
// panics.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"\u00e9\ud83d\ude00",{}],"b":null}`, `[[[]]]`, `"\ud800x"`, `{"a":1,"a":2}`, `[1,]`, `{"a":}`, `{,}`, ` [ true , false ] `, `{"a":[{"b":{}}],"c":"d"}`, `-0e-1`, `[1 2]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var c, skip Cursor
		c.Reset(in)
		got := fromCursor(&c)
		ok := c.End()
		skip.Reset(in)
		skip.Skip()
		if skip.End() != ok {
			t.Fatalf("%q: walking says %v, skipping %v", in, ok, !ok)
		}
		var want any
		if err := json.Unmarshal(in, &want); err != nil {
			if ok && json.Valid(in) {
				return // a number beyond float64
			}
			return // a Cursor is more lenient about what stands in strings
		}
		if !ok {
			t.Fatalf("%q: refused what is JSON", in)
		}
		if !utf8.Valid(in) {
			return // encoding/json mends it, a Cursor leaves it
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %v, want %v", in, got, want)
		}
	})
}

func TestCursorRefuses(t *testing.T) {
	for _, in := range []string{``, `{`, `[1,]`, `{"a":1,}`, `{"a"}`, `{"a":1 "b":2}`, `[1 2]`, `{1:2}`, `tru`, `01`, `1.`, `"a`, `"a\`, "\"a\nb\"", `{}}`, `[}`, `{,}`, `[,1]`, `nullx`} {
		var c Cursor
		c.Reset([]byte(in))
		fromCursor(&c)
		if c.End() {
			t.Errorf("%q was taken", in)
		}
	}
	deep := make([]byte, 400)
	for i := range deep {
		deep[i] = '['
	}
	var c Cursor
	c.Reset(deep)
	c.Skip()
	if c.OK() {
		t.Error("a text nested 400 deep was taken")
	}
}
