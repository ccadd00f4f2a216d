package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// exercise shows that a tokenizer that was accepted keeps its promises.
func exercise(t *testing.T, tok *Tokenizer, text string) {
	for _, special := range []bool{true, false} {
		ids := tok.Encode(nil, text, special)
		for _, id := range ids {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("id %d is not below %d", id, tok.Size())
			}
		}
		tok.Decode(ids)
		segs := []Segment{{text, special}}
		if got := tok.EncodeSegments(segs); !slices.Equal(got, ids) {
			t.Fatalf("segment gives %v, text gives %v", got, ids)
		}
	}
	tok.Piece(-1)
	tok.Piece(int32(tok.Size()))
	tok.TokenString(-1)
	tok.Hash()
	for _, id := range slices.Concat(tok.Prefix(), tok.Suffix(), tok.EndIDs()) {
		if id < 0 || int(id) >= tok.Size() {
			t.Fatalf("id %d is not below %d", id, tok.Size())
		}
	}
}

// FuzzFromJSON: any bytes give a tokenizer or an error.
func FuzzFromJSON(f *testing.F) {
	for _, v := range tinyVocabs(f) {
		f.Add([]byte(v.Tokenizer), []byte(`{"bos_token":"<|start|>","eos_token":{"content":"<|end|>"},"add_bos_token":true}`), "the kettle\xff sings")
	}
	f.Add([]byte(`{"model":{"merges":["a b"],"vocab":{"a":0,"b":1,"ab":2}},"added_tokens":[{"id":5,"content":"x"}]}`), []byte(nil), "abx")
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1e9],["aa",1e300]]},"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="}}`), []byte(nil), "aab")
	f.Fuzz(func(t *testing.T, tj, cj []byte, text string) {
		if tok, err := FromJSON(tj, cj); err == nil {
			exercise(t, tok, text)
		}
	})
}

// FuzzFromGGUF: any arrays give a tokenizer or an error.
func FuzzFromGGUF(f *testing.F) {
	f.Add("gpt2", "qwen2", "a\nb\nab\n<|im_end|>", "a b", "\x01\x01\x01\x03", int32(3), "ab<|im_end|>")
	f.Add("llama", "", "<unk>\n<0x-1>\n<0x41>\n\u2581\n\u2581a\na", "", "\x02\x01\x06\x01\x01\x01", int32(0), "a a\xff")
	f.Add("t5", "", "<unk>\na\nab\nabc", "", "\x02\x01\x01\x01", int32(0), "abcabd")
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges, types string, id int32, text string) {
		v := NewVocab()
		v.Model, v.Pre, v.Tokens, v.Merges = model, pre, strings.Split(tokens, "\n"), strings.Split(merges, "\n")
		if merges == "" {
			v.Merges = nil
		}
		for i := range len(types) {
			v.Types = append(v.Types, int32(types[i]))
		}
		for i := range v.Tokens {
			v.Scores = append(v.Scores, float32(-i%5))
		}
		v.UNK, v.BOS, v.EOS = id, id, id
		if tok, err := FromGGUF(v); err == nil {
			exercise(t, tok, text)
		}
	})
}

// FuzzEncode: byte-level text comes back as it was, and merging by heap and by
// scan agree.
func FuzzEncode(f *testing.F) {
	vocabs := tinyVocabs(f)
	tok, err := FromGGUF(vocabs[0].vocab())
	if err != nil {
		f.Fatal(err)
	}
	spm, err := FromGGUF(vocabs[1].vocab())
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range vocabs[0].Cases {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := tok.norm.apply(validUTF8(text), true)
		if got := string(tok.Decode(tok.Encode(nil, text, false))); got != want {
			t.Fatalf("%q comes back as %q", want, got)
		}
		m := tok.model.(*byteBPE)
		compareMerges(t, m, want, func(i int) int32 { return m.byteID[want[i]] })
		if s := spm.norm.apply(validUTF8(text), true); s != "" {
			whole := spm.model.segment(nil, s)
			if got := spm.words(nil, s, 0); !slices.Equal(got, whole) {
				t.Fatalf("%q: cut at U+2581 gives %v, whole gives %v", s, got, whole)
			}
		}
	})
}

func compareMerges(t *testing.T, r ranker, word string, id func(i int) int32) {
	symbols := func() (syms []symbol) {
		for i := range len(word) {
			syms = append(syms, symbol{start: int32(i), end: int32(i + 1), id: id(i)})
		}
		return syms
	}
	if len(word) < 2 || len(word) > 2000 {
		return
	}
	walk := func(syms []symbol) (ids []int32) {
		for i := int32(0); i >= 0; i = syms[i].next {
			ids = append(ids, syms[i].id)
		}
		return ids
	}
	scan := walk(mergeByScan(symbols(), r, word))
	w := &workspace{syms: symbols()}
	w.mergeByHeap(r, word)
	if heap := walk(w.syms); !slices.Equal(scan, heap) {
		t.Fatalf("%q: scan gives %v, heap gives %v", word, scan, heap)
	}
}

// FuzzLexer: what the lexer takes for JSON is read as encoding/json reads it.
func FuzzLexer(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2,"\u00e9\ud83d\ude00\n"],"b":{"c":null}}`))
	f.Add([]byte(`["\ud800x","\udc00\ud800"]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := lexer{b: b}
		raw, err := l.raw()
		if json.Valid(b) && utf8.Valid(b) && err != nil && !strings.Contains(err.Error(), "levels") {
			t.Fatalf("%q is JSON: %v", b, err)
		}
		if err != nil || !json.Valid(raw) || raw[0] != '"' || !utf8.Valid(raw) {
			return
		}
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		l = lexer{b: raw}
		if got, err := l.str(); err != nil || string(got) != want {
			t.Fatalf("%s: got %q, %v, want %q", raw, got, err, want)
		}
	})
}
