package grammar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sharedTokenizer reads the pieces of a tokenizer.json next to the repository,
// byte-level or with byte fallback. It skips the test, loudly, without it.
func sharedTokenizer(t testing.TB, name string) *Vocab {
	t.Helper()
	dir, _ := os.Getwd()
	for !fileExists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Skip("NO go.mod ABOVE THE TEST: shared tokenizers not looked for")
		}
		dir = filepath.Dir(dir)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "..", "shared", "models", "tokenizers", name, "tokenizer.json"))
	if err != nil {
		t.Skipf("SHARED TOKENIZER %s IS ABSENT: measured nothing", name)
	}
	var doc struct {
		Model struct {
			Vocab map[string]int32 `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID      int32  `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
		Decoder json.RawMessage `json:"decoder"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	n := int32(0)
	for _, id := range doc.Model.Vocab {
		n = max(n, id+1)
	}
	for _, a := range doc.Added {
		n = max(n, a.ID+1)
	}
	pieces := make([][]byte, n)
	byteLevel := strings.Contains(string(doc.Decoder), "ByteLevel")
	for s, id := range doc.Model.Vocab {
		pieces[id] = pieceBytes(s, byteLevel)
	}
	control := map[int32]bool{}
	var ends []int32
	for _, a := range doc.Added {
		pieces[a.ID] = []byte(a.Content)
		control[a.ID] = a.Special
		if strings.Contains(a.Content, "end") || strings.Contains(a.Content, "eot") || a.Content == "<eos>" {
			ends = append(ends, a.ID)
		}
	}
	return NewVocab(pieces, func(id int32) bool { return control[id] }, ends)
}

func fileExists(p string) bool { _, err := os.Stat(p); return err == nil }

func pieceBytes(s string, byteLevel bool) []byte {
	if !byteLevel {
		if len(s) == 6 && strings.HasPrefix(s, "<0x") {
			if b, err := strconv.ParseUint(s[3:5], 16, 8); err == nil {
				return []byte{byte(b)}
			}
		}
		return []byte(strings.ReplaceAll(s, "▁", " "))
	}
	var out []byte
	for _, r := range s { // GPT-2's printable stand-ins for bytes
		switch {
		case r >= 0x100 && r < 0x100+33:
			out = append(out, byte(r-0x100))
		case r >= 0x121 && r < 0x121+34:
			out = append(out, byte(r-0x121+0x7F))
		case r == 0x143:
			out = append(out, 0xAD)
		default:
			out = append(out, byte(r))
		}
	}
	return out
}

// maskCases are what most masks of a real answer look like.
var maskCases = map[string]struct{ schema, prefix string }{
	"object-start":    {`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`, ``},
	"free-string":     {`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`, `{"name":"ab`},
	"bounded-string":  {`{"type":"string","maxLength":12}`, `"ab`},
	"long-string":     {`{"type":"string","maxLength":200000}`, `"ab`},
	"pattern":         {`{"type":"string","pattern":"^[a-z]+@[a-z]+\\.com$"}`, `"ab`},
	"number":          {`{"type":"number","minimum":0,"maximum":1000}`, `12`},
	"enum-600":        {bigEnum(600), `"w`},
	"open-key":        {`{"type":"object","properties":{"a":{},"b":{}}}`, `{"c`},
	"any-json":        {`{"type":"object"}`, `{"a":`},
	"optional-fields": {manyProperties(40, `"additionalProperties":false`), `{"p3":1`},
}

func BenchmarkMask(b *testing.B) {
	for _, model := range []string{"smollm2", "gemma3"} {
		b.Run(model, func(b *testing.B) {
			v := sharedTokenizer(b, model)
			bits := make([]uint32, MaskWords(v.Size()))
			for name, mc := range maskCases {
				comp := testCompiler(v)
				c, err := comp.Compile(b.Context(), FromSchema(json.RawMessage(mc.schema), SchemaOptions{}))
				if err != nil {
					b.Fatal(name, err)
				}
				b.Run(name+"/first", func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						c.t = newTable(c.t.p, v, 64<<20)
						m := c.NewMatcher()
						if err := m.AcceptBytes([]byte(mc.prefix)); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
						m.Mask(bits)
					}
				})
				m := c.NewMatcher()
				m.AcceptBytes([]byte(mc.prefix))
				m.Mask(bits)
				b.Run(name+"/again", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						m.Mask(bits)
					}
				})
			}
		})
	}
}

func TestSharedVocabulary(t *testing.T) {
	v := sharedTokenizer(t, "smollm2")
	var missing []int
	for b := 0; b < 0xF5; b++ {
		if !v.single[b] && b != 0xC0 && b != 0xC1 {
			missing = append(missing, b)
		}
	}
	t.Logf("%d tokens, %d nodes, %d plain, longest piece %d bytes, bytes without a token: %x", v.Size(), len(v.all.label), len(v.plain.ids), v.longer, missing)
	if len(v.jsonRunes) == 0 || !v.jsonRunes.has('é') || !v.jsonRunes.has('猫') || !v.jsonRunes.has('😀') {
		t.Error("ordinary characters cannot be written")
	}
	rng := testRand(11)
	comp := testCompiler(v)
	for _, sc := range schemaCases[:40] {
		c, err := comp.Compile(t.Context(), FromSchema(json.RawMessage(sc.schema), SchemaOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		if s := randomWalk(t, c, rng, 20); Validate(json.RawMessage(sc.schema), s) != nil {
			t.Errorf("%s: walk gave %s", sc.schema, s)
		}
	}
}
