package jsonwrite

import (
	"encoding/json"
	"math"
	"testing"
	"unicode/utf8"
)

func TestString(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(String(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	f("", `""`)
	f("a\"b\\c/<>&\u2028", "\"a\\\"b\\\\c/<>&\u2028\"")
	f("\n\r\t\x00\x1f\x7f", "\"\\n\\r\\t\\u0000\\u001f\x7f\"")
	f("é🙂", `"é🙂"`)
	f("a\xffb", "\"a\ufffdb\"")
	f("\xf0\x9f\x99", "\"\ufffd\"")             // one broken piece, one mark
	f("\xf0\x9f\xf0\x9f", "\"\ufffd\ufffd\"")   // two pieces
	f("\xe2\x80", "\"\ufffd\"")                 //
	f("\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\"") // a surrogate has no first piece
	f("\xc0\x80", "\"\ufffd\ufffd\"")           // never begins a character
	f("\xf4\x90\x80\x80", "\"\ufffd\ufffd\ufffd\ufffd\"")
}

func FuzzString(f *testing.F) {
	f.Add("a\xf0\x9f\x99\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(String(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if got != Text(s) || utf8.ValidString(s) && got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

func TestFloat(t *testing.T) {
	for in, want := range map[float64]string{-0.5: "-0.5", 1e-9: "1e-09", math.Inf(-1): "null", 0: "0"} {
		if got := string(Float(nil, in)); got != want {
			t.Errorf("%v: got %s, want %s", in, got, want)
		}
	}
}
