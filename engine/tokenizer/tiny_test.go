package tokenizer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tinyVocab is an entry of testdata/tiny.json, made by testdata/make_vectors.py.
type tinyVocab struct {
	Name      string
	Tokenizer json.RawMessage
	GGUF      struct {
		Model, Pre     string
		Tokens, Merges []string
		Scores         []float32
		Types          []int32
	}
	PiecesHex []string `json:"pieces_hex"`
	Cases     []struct {
		Text       string
		IDs, Plain []int32
	}
}

func tinyVocabs(t testing.TB) []tinyVocab {
	b, err := os.ReadFile("testdata/tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	var v []tinyVocab
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *tinyVocab) vocab() Vocab {
	g := NewVocab()
	g.Model, g.Pre, g.Tokens, g.Merges, g.Scores, g.Types = v.GGUF.Model, v.GGUF.Pre, v.GGUF.Tokens, v.GGUF.Merges, v.GGUF.Scores, v.GGUF.Types
	return g
}

// both makes the tokenizer from each source.
func (v *tinyVocab) both(t testing.TB) map[string]*Tokenizer {
	j, err := FromJSON(v.Tokenizer, nil)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	g, err := FromGGUF(v.vocab())
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return map[string]*Tokenizer{"json": j, "gguf": g}
}

func TestTiny(t *testing.T) {
	for _, v := range tinyVocabs(t) {
		for src, tok := range v.both(t) {
			for _, c := range v.Cases {
				if got := tok.Encode(nil, c.Text, true); !slices.Equal(got, c.IDs) {
					t.Errorf("%s %s: %q\n got %v\nwant %v", v.Name, src, c.Text, got, c.IDs)
				}
				plain := c.Plain
				if plain == nil {
					plain = c.IDs
				}
				if got := tok.Encode(nil, c.Text, false); !slices.Equal(got, plain) {
					t.Errorf("%s %s: plain %q\n got %v\nwant %v", v.Name, src, c.Text, got, plain)
				}
			}
			for id, h := range v.PiecesHex {
				if want, _ := hex.DecodeString(h); !bytes.Equal(tok.Piece(int32(id)), want) {
					t.Errorf("%s %s: piece %d: got %q, want %q", v.Name, src, id, tok.Piece(int32(id)), want)
				}
			}
			if tok.Size() != len(v.PiecesHex) || len(tok.Pieces()) != tok.Size() {
				t.Errorf("%s %s: size %d, want %d", v.Name, src, tok.Size(), len(v.PiecesHex))
			}
		}
	}
}

// TestSegments shows that trust decides about control tokens only, and that
// ordinary tokens reach over borders.
func TestSegments(t *testing.T) {
	for _, v := range tinyVocabs(t) {
		for src, tok := range v.both(t) {
			start, _ := tok.ID("<|start|>")
			end, _ := tok.ID("<|end|>")
			control := func(ids []int32) (n int) {
				for _, id := range ids {
					if id == start || id == end {
						n++
					}
				}
				return n
			}
			for _, c := range []struct {
				segs []Segment
				want int
			}{
				{[]Segment{{"<|start|>", true}, {"<|start|><|end|>", false}, {"<|end|>\n", true}}, 2},
				{[]Segment{{"<|start|>the ket", true}, {"tle<|end", false}, {"|><|end|>", true}}, 2},
				{[]Segment{{"<|sta", true}, {"rt|>", true}}, 1},
				{[]Segment{{"<|sta", true}, {"rt|>", false}}, 0},
				{[]Segment{{"<", false}, {"<|end|>", true}}, 1},
				{[]Segment{{"<|end|>", false}, {"", true}, {"<|end|>", false}}, 0},
				{nil, 0},
			} {
				text := ""
				for _, s := range c.segs {
					text += s.Text
				}
				got := tok.EncodeSegments(c.segs)
				if n := control(got); n != c.want {
					t.Errorf("%s %s: %v: got %d control tokens, want %d", v.Name, src, c.segs, n, c.want)
				}
				if v.Name == "bytes" && string(tok.Decode(got)) != text {
					t.Errorf("%s %s: %v decodes to %q", v.Name, src, c.segs, tok.Decode(got))
				}
			}
			whole := tok.Encode(nil, "the kettle sings\n\nbluest", true)
			cut := tok.EncodeSegments([]Segment{{"the ket", true}, {"tle sin", false}, {"gs\n", true}, {"\nbluest", false}})
			if !slices.Equal(whole, cut) {
				t.Errorf("%s %s: cut text has other tokens: %v, want %v", v.Name, src, cut, whole)
			}
		}
	}
}

// TestUntrustedNeverControls tries every token's own name as user text.
func TestUntrustedNeverControls(t *testing.T) {
	check := func(name string, tok *Tokenizer) {
		for id := range int32(tok.Size()) {
			for _, text := range []string{tok.TokenString(id), " " + tok.TokenString(id) + "x"} {
				for _, got := range tok.EncodeSegments([]Segment{{text, false}}) {
					if tok.KindOf(got) == KindControl {
						t.Fatalf("%s: %q makes control token %d", name, text, got)
					}
				}
			}
		}
	}
	for _, v := range tinyVocabs(t) {
		for src, tok := range v.both(t) {
			check(v.Name+" "+src, tok)
		}
	}
}

func TestConcurrent(t *testing.T) {
	v := tinyVocabs(t)[0]
	tok := v.both(t)["json"]
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for _, c := range v.Cases {
					if got := tok.Encode(nil, c.Text, true); !slices.Equal(got, c.IDs) {
						t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
					}
				}
				tok.Hash()
			}
		})
	}
	wg.Wait()
}

func TestHash(t *testing.T) {
	seen := map[string]string{}
	for _, v := range tinyVocabs(t) {
		for src, tok := range v.both(t) {
			h := tok.Hash()
			if again := v.both(t)[src].Hash(); again != h || len(h) != 64 {
				t.Errorf("%s %s: hash %s, then %s", v.Name, src, h, again)
			}
			if other, ok := seen[h]; ok {
				t.Errorf("%s and %s %s have one hash", other, v.Name, src)
			}
			seen[h] = v.Name + " " + src
		}
	}
	v := tinyVocabs(t)[0]
	g := v.vocab()
	g.Merges = append(slices.Clone(g.Merges[1:]), g.Merges[0])
	tok, err := FromGGUF(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := seen[tok.Hash()]; ok {
		t.Error("another order of merges has the same hash")
	}
}

// TestStripping: flags lstrip, rstrip and single_word of tokenizer.json.
func TestStripping(t *testing.T) {
	v := tinyVocabs(t)[0]
	var tj map[string]any
	if err := json.Unmarshal(v.Tokenizer, &tj); err != nil {
		t.Fatal(err)
	}
	list := tj["added_tokens"].([]any)
	list[0].(map[string]any)["lstrip"] = true
	list[1].(map[string]any)["rstrip"] = true
	list[2].(map[string]any)["single_word"] = true
	list[2].(map[string]any)["content"] = "pad"
	b, err := json.Marshal(tj)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := func(text string) string {
		var out []string
		for _, id := range tok.Encode(nil, text, true) {
			out = append(out, tok.TokenString(id))
		}
		return strings.Join(out, "·")
	}
	for text, want := range map[string]string{
		"a  <|start|> b":  "a·<|start|>·Ġb",
		"a <|end|> \n b":  "a·Ġ·<|end|>·b",
		"pad":             "pad",
		"padx pad_ (pad)": "p·a·d·x·Ġp·a·d·_·Ġ·(·pad·)",
		" <|start|>":      "<|start|>",
	} {
		if got := names(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
