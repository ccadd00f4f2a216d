package jsonread

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// build makes what encoding/json makes of the same text, through Value alone.
func build(t testing.TB, v Value) any {
	switch v.Kind() {
	case Null:
		return nil
	case Bool:
		b, err := v.Bool()
		if err != nil {
			t.Fatal(err)
		}
		return b
	case String:
		s, err := v.Str()
		if err != nil {
			t.Fatal(err)
		}
		return s
	case Number:
		var f float64
		if json.Unmarshal(v.Raw(), &f) != nil {
			return math.Inf(1)
		}
		return f
	case Array:
		out := []any{}
		if err := v.Items(math.MaxInt, func(_ int, m Value) error { out = append(out, build(t, m)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := map[string]any{}
	if err := v.Members(func(k string, m Value) error { out[k] = build(t, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParse(t *testing.T) {
	good := []string{
		`{}`, `[]`, ` {"a" : [ 1 , -2.5e+3, true,false , null, "x\n\u00e9\ud83d\ude00/\/" ] , "b":{"c":{}}} `, `"x"`, `0`, `-0.0`, `1e999`,
		`{"a":"\u0000","ä":"é","\"":"\\"}`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
	}
	for _, in := range good {
		v, err := Parse([]byte(in), Limits{})
		if err != nil {
			t.Errorf("%.60q: %v", in, err)
			continue
		}
		var want any
		if json.Unmarshal([]byte(in), &want) == nil {
			if got := build(t, v); !reflect.DeepEqual(got, want) {
				t.Errorf("%.60q: got %v, want %v", in, got, want)
			}
		}
	}
	bad := map[string]string{
		"":                   "empty body",
		"  \n":               "empty body",
		"{":                  "end of the body",
		`{"a":1,}`:           "member name",
		`[1,]`:               "a value",
		`{"a" 1}`:            "':'",
		`{a:1}`:              "member name",
		`{}{}`:               "after the end",
		`nul`:                "unknown word",
		`NaN`:                "a value",
		`[Infinity]`:         "a value",
		`01`:                 "leading zero",
		`1.`:                 "after the point",
		`-`:                  "a digit",
		`1e`:                 "exponent",
		"\"a\nb\"":           "control character 0x0a",
		`"\x"`:               "unknown escape",
		`"\u12"`:             `broken \u`,
		`"\ud800"`:           "first half",
		`"\ud800\u0041"`:     "first half",
		`"\udc00"`:           "second half",
		"\"\xff\"":           "not UTF-8",
		"\"\xc0\x80\"":       "not UTF-8",
		"\"\xed\xa0\x80\"":   "not UTF-8",
		"\"\xe2\x80\"":       "not UTF-8",
		"\xef\xbb\xbf{}":     "byte-order mark",
		"\xff\xfe{\x00}":     "outside ASCII",
		`{"a":1,"a":2}`:      `"a" comes twice`,
		`{"a":1,"\u0061":2}`: `"a" comes twice`,
		strings.Repeat("[", 65) + strings.Repeat("]", 65): "deeper than 64",
		strings.Repeat(`{"a":`, 10000):                    "deeper than 64",
	}
	for in, part := range bad {
		_, err := Parse([]byte(in), Limits{})
		var e *infer.Error
		if !errors.As(err, &e) || e.Code != infer.CodeInvalid || !strings.Contains(e.Message, part) {
			t.Errorf("%.60q: got %v, want %q", in, err, part)
		}
	}
}

func TestMembersLimitAndManyKeys(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"k0":0`)
	for i := 1; i < 10_000; i++ {
		b.WriteString(`,"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + itoa(i) + `":0`)
	}
	if _, err := Parse([]byte(b.String()+"}"), Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse([]byte(b.String()+`,"one more":0}`), Limits{}); err == nil {
		t.Fatal("10 001 members were taken")
	}
	if _, err := Parse([]byte(b.String()[:3000]+`,"k0":0}`), Limits{}); err == nil {
		t.Fatal("a duplicate among many keys was taken")
	}
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

func TestPathsAndWrongTypes(t *testing.T) {
	v, err := Parse([]byte(`{"messages":[{"n":1},{"n":"secret words"}],"k":7.5,"big":1e30}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	note := func(err error) {
		e := infer.AsError(err)
		got = append(got, e.Param+" | "+e.Message)
	}
	v.Members(func(key string, m Value) error {
		switch key {
		case "messages":
			m.Items(10, func(i int, x Value) error {
				return x.Members(func(_ string, n Value) error {
					_, err := n.Int(0, 9)
					if err != nil {
						note(err)
					}
					return nil
				})
			})
		case "k":
			_, err := m.Int(1, 128)
			note(err)
			_, err = m.Float(0, 2)
			note(err)
			_, err = m.Enum("auto", "none")
			note(err)
		case "big":
			_, err := m.Int(math.MinInt64, math.MaxInt64)
			note(err)
			note(m.Unknown())
		}
		return nil
	})
	want := []string{
		"messages[1].n | cannot use messages[1].n: got a string, wanted a whole number from 0 to 9",
		"k | cannot use k: got 7.5, wanted a whole number from 1 to 128",
		"k | cannot use k: got 7.5, wanted a number from 0 to 2",
		"k | cannot use k: got 7.5, wanted one of auto, none",
		"big | cannot use big: got 1e30, wanted a whole number",
		`big | unknown field "big"`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestInts(t *testing.T) {
	f := func(in string, want int64, ok bool) {
		t.Helper()
		v, err := Parse([]byte(in), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Int(math.MinInt64, math.MaxInt64)
		if (err == nil) != ok || got != want {
			t.Errorf("%s: got %d, %v", in, got, err)
		}
	}
	f("7", 7, true)
	f("7.0", 7, true)
	f("3e2", 300, true)
	f("9223372036854775807", math.MaxInt64, true)
	f("-9223372036854775808", math.MinInt64, true)
	f("9223372036854775808", 0, false)
	f("1e999", 0, false)
	f("1.5", 0, false)
	f(`"7"`, 0, false)
	v, _ := Parse([]byte("[1, 2,3 ]"), Limits{})
	if ids, err := v.Int32s(3, 0, 9); err != nil || !reflect.DeepEqual(ids, []int32{1, 2, 3}) {
		t.Errorf("got %v, %v", ids, err)
	}
	if _, err := v.Int32s(2, 0, 9); err == nil {
		t.Error("3 items were taken where 2 are allowed")
	}
}

// FuzzParse holds that whatever is accepted is JSON to encoding/json too, that
// both read the same from it, and that nothing panics.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"\u00e9\ud83d\ude00"],"b":null}`, `[[[]]]`, `"\ud800"`, `{"a":1,"a":2}`, "{\"\xff\":1}", `-0e-1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Parse(in, Limits{})
		if err != nil {
			var e *infer.Error
			if !errors.As(err, &e) {
				t.Fatalf("an error of type %T", err)
			}
			return
		}
		if !json.Valid(in) {
			t.Fatalf("accepted what is no JSON: %q", in)
		}
		var want any
		if json.Unmarshal(in, &want) != nil {
			return // a number beyond float64
		}
		if got := build(t, v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %v, want %v", in, got, want)
		}
	})
}

func BenchmarkParse20MiB(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("some words and a \\n line ", 20<<20/25) + `"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Parse(body, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
