package tokenizer

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// FromGGUF makes a tokenizer from the arrays of a GGUF file. The ids are those
// that Hugging Face's tokenizers give for the same vocabulary, since models are
// trained with these; so Qwen text is brought to NFC although the file does not
// ask for it. v is not changed, and must not be changed afterwards.
func FromGGUF(v Vocab) (*Tokenizer, error) {
	if err := checkTokens(v.Tokens); err != nil {
		return nil, err
	}
	kinds, err := v.kinds()
	if err != nil {
		return nil, err
	}
	for _, id := range []struct {
		what string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"eot", v.EOT}, {"eom", v.EOM}, {"unknown", v.UNK}, {"padding", v.PAD}} {
		if err := checkID(id.what, id.id, len(v.Tokens)); err != nil {
			return nil, err
		}
	}
	t := &Tokenizer{
		names: v.Tokens, kinds: kinds, index: newNameTable(v.Tokens), cache: newWordCache(),
		bos: v.BOS, eos: v.EOS, eot: v.EOT, unk: v.UNK, pad: v.PAD,
	}
	t.defaultIDs(v.Model)
	switch v.Model {
	case "gpt2":
		err = t.ggufByteLevel(&v)
	case "llama":
		err = t.ggufScores(&v)
	case "t5":
		err = t.ggufUnigram(&v)
	default:
		err = fmt.Errorf("cannot use tokenizer model %.40q: want gpt2, llama or t5", v.Model)
	}
	if err != nil {
		return nil, err
	}
	if err := t.newMatchers(v.addedTokens(kinds)); err != nil {
		return nil, err
	}
	t.setEnds(v.EOM)
	return t, nil
}

// defaultIDs finds what old SentencePiece files leave unsaid.
func (t *Tokenizer) defaultIDs(model string) {
	if model == "gpt2" {
		return
	}
	for id, k := range t.kinds {
		if t.unk == NoID && k == KindUnknown {
			t.unk = int32(id)
		}
	}
	for name, id := range map[string]*int32{"<unk>": &t.unk, "<s>": &t.bos, "</s>": &t.eos} {
		found, ok := t.index.find(name)
		if *id == NoID && ok && t.kinds[found] != KindNormal && t.kinds[found] != KindUserDefined {
			*id = found
		}
	}
}

func (v *Vocab) kinds() ([]Kind, error) {
	kinds := make([]Kind, len(v.Tokens))
	if len(v.Types) != 0 && len(v.Types) != len(v.Tokens) {
		return nil, fmt.Errorf("cannot use vocabulary: got %d token types, want %d", len(v.Types), len(v.Tokens))
	}
	for i := range kinds {
		kinds[i] = KindNormal
		if len(v.Types) > 0 {
			k := v.Types[i]
			if k < 0 || k > int32(KindByte) {
				return nil, fmt.Errorf("cannot use token %d: got type %d, want 0 to %d", i, k, KindByte)
			}
			if k != 0 { // 0 is "undefined" in files of old converters
				kinds[i] = Kind(k)
			}
		}
		if kinds[i] == KindByte {
			if _, ok := parseByteName(v.Tokens[i]); !ok {
				return nil, fmt.Errorf("cannot use byte token %d: got name %.20q, want <0x00> to <0xFF>", i, v.Tokens[i])
			}
		}
	}
	return kinds, nil
}

// phi3Stripping are the tokens of Phi-3 that take the white space after them.
func phi3Stripping(name string) bool {
	switch name {
	case "<|assistant|>", "<|system|>", "<|end|>", "<|user|>", "</s>":
		return true
	}
	return strings.HasPrefix(name, "<|placeholder")
}

func (v *Vocab) addedTokens(kinds []Kind) []addedToken {
	var out []addedToken
	seen := make(map[string]bool)
	for i, k := range kinds {
		if k != KindControl && k != KindUserDefined && k != KindUnknown || v.Tokens[i] == "" || seen[v.Tokens[i]] {
			continue
		}
		seen[v.Tokens[i]] = true
		out = append(out, addedToken{
			content: v.Tokens[i], id: int32(i), special: k != KindUserDefined,
			rstrip: v.Architecture == "phi3" && phi3Stripping(v.Tokens[i]),
		})
	}
	return out
}

// addEnds sets prefix and suffix.
func (t *Tokenizer) addEnds(v *Vocab, bosDefault, eosDefault bool) {
	if boolOr(v.AddBOS, bosDefault) && t.bos != NoID {
		t.prefix = []int32{t.bos}
	}
	if boolOr(v.AddEOS, eosDefault) && t.eos != NoID {
		t.suffix = []int32{t.eos}
	}
}

func boolOr(p *bool, def bool) bool {
	if p != nil {
		return *p
	}
	return def
}

func (t *Tokenizer) ggufByteLevel(v *Vocab) error {
	f, ok := familyOf(v.Pre)
	if !ok {
		return fmt.Errorf("cannot use pre-tokenizer %.40q: it is not known to this build", v.Pre)
	}
	t.stages = f.stages
	t.describe = "gguf gpt2 " + v.Pre
	if f.nfc {
		t.norm = normalizer{normForm(norm.NFC)}
	}
	t.pieces = byteLevelPieces(t.names, func(id int) bool { return t.kinds[id] != KindNormal })
	b := &pairBuilder{index: t.index}
	for i, s := range v.Merges {
		cut := -1
		if s != "" {
			cut = strings.IndexByte(s[1:], ' ') + 1
		}
		if cut <= 0 || cut == len(s)-1 {
			return fmt.Errorf("cannot use merge %d: got %.80q, want two tokens with a space between", i, s)
		}
		if err := b.add(s[:cut], s[cut+1:]); err != nil {
			return err
		}
	}
	pairs, err := b.build()
	if err != nil {
		return err
	}
	m := &byteBPE{pairs: pairs, byteID: newByteIDs(t.index), unk: NoID}
	if f.ignoreMerges {
		m.whole = t.roles(KindNormal)
	}
	t.model = m
	t.addEnds(v, f.addBOS, false)
	return nil
}

func (t *Tokenizer) ggufScores(v *Vocab) error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("cannot use vocabulary: got %d scores, want %d", len(v.Scores), len(v.Tokens))
	}
	ranks, err := ranksOf(v.Scores)
	if err != nil {
		return err
	}
	normal := func(id int) bool { return t.kinds[id] == KindNormal }
	isByte := func(id int) bool { return t.kinds[id] == KindByte }
	t.pieces = metaPieces(t.names, isByte, func(id int) bool { return !normal(id) })
	t.describe = "gguf llama"
	if boolOr(v.AddSpacePrefix, true) {
		t.norm = append(t.norm, normPrepend(meta))
		t.describe += " prefix"
	}
	t.norm = append(t.norm, normReplace(" ", meta))
	m := &scoreBPE{
		tokens: t.roles(KindNormal), ranks: ranks, unk: t.unk,
		bytes: newByteTokens(t.names, isByte),
	}
	t.model = m
	if b := newMetaBorders(m.tokens); b != nil {
		t.stages = []splitter{b.split}
	}
	t.addEnds(v, true, false)
	return nil
}

func (t *Tokenizer) ggufUnigram(v *Vocab) error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("cannot use vocabulary: got %d scores, want %d", len(v.Scores), len(v.Tokens))
	}
	t.describe = "gguf t5"
	if len(v.PrecompiledCharsmap) > 0 {
		c, err := newCharsmap(v.PrecompiledCharsmap)
		if err != nil {
			return err
		}
		t.norm = append(t.norm, c.step)
	}
	if boolOr(v.RemoveExtraWhitespaces, false) {
		t.norm = append(t.norm, normSqueeze)
		t.describe += " squeeze"
	}
	t.norm = append(t.norm, normMetaspace(meta, boolOr(v.AddSpacePrefix, true), false))
	t.describe += fmt.Sprintf(" prefix=%v charsmap=%x", boolOr(v.AddSpacePrefix, true), v.PrecompiledCharsmap)
	isByte := func(id int) bool { return t.kinds[id] == KindByte }
	t.pieces = metaPieces(t.names, isByte, func(id int) bool { return t.kinds[id] != KindNormal })
	scores := make([]float64, len(v.Scores))
	for i, s := range v.Scores {
		scores[i] = float64(s)
		if math.IsNaN(scores[i]) || math.IsInf(scores[i], 0) {
			return fmt.Errorf("cannot use score of token %d: got %v", i, s)
		}
	}
	m, err := newUnigram(t.names, scores, t.unk, newByteTokens(t.names, isByte), func(id int) bool {
		return t.kinds[id] == KindNormal || t.kinds[id] == KindUnused
	})
	if err != nil {
		return err
	}
	t.model = m
	t.addEnds(v, false, true)
	return nil
}

// roles is the index for tokens of some kinds.
func (t *Tokenizer) roles(kinds ...Kind) *roleTable {
	r := &roleTable{nameTable: t.index, kinds: t.kinds}
	for _, k := range kinds {
		r.roles |= 1 << k
	}
	return r
}
