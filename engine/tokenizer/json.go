package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Option changes how FromJSON reads a tokenizer.
type Option func(*jsonReader)

// WithVerbatimAdded makes the piece of an added token its name as it is
// written, as Hugging Face's tokenizers 0.22 and later have it: Gemma's
// tokens for two and more spaces then read as U+2581, where without this
// option they are the spaces that the model means.
func WithVerbatimAdded() Option { return func(r *jsonReader) { r.verbatim = true } }

// FromJSON makes a tokenizer from the bytes of a Hugging Face tokenizer.json
// and tokenizer_config.json; the latter may be nil. Neither is kept. A part
// that is not known is an error that names it.
func FromJSON(tokenizerJSON, configJSON []byte, opts ...Option) (*Tokenizer, error) {
	if len(tokenizerJSON) > maxJSONBytes {
		return nil, fmt.Errorf("cannot read tokenizer.json: got %d bytes, want at most %d", len(tokenizerJSON), maxJSONBytes)
	}
	r := &jsonReader{lex: lexer{b: tokenizerJSON}}
	for _, o := range opts {
		o(r)
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	if err := r.readConfig(configJSON); err != nil {
		return nil, err
	}
	return r.build()
}

// jsonReader collects the parts of a tokenizer.json.
type jsonReader struct {
	lex      lexer
	verbatim bool

	names  []string // by id; "" is a hole
	scores []float64
	index  *nameTable
	pairs  *pairTable

	parts map[string]json.RawMessage // top-level values but the model
	model jsonModel
	added []jsonAdded
	cfg   jsonConfig

	norm     normalizer
	stages   []splitter
	describe strings.Builder
	steps    int

	byteLevel    bool // words are bytes, each token character stands for one
	byteFallback bool // the decoder reads <0xHH>
	metaDecoder  bool // the decoder reads U+2581 as a space
}

type jsonModel struct {
	Type                    string   `json:"type"`
	UnkToken                *string  `json:"unk_token"`
	UnkID                   *int64   `json:"unk_id"`
	Dropout                 *float64 `json:"dropout"`
	ContinuingSubwordPrefix string   `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string   `json:"end_of_word_suffix"`
	FuseUnk                 bool     `json:"fuse_unk"`
	ByteFallback            bool     `json:"byte_fallback"`
	IgnoreMerges            bool     `json:"ignore_merges"`
}

type jsonAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func (r *jsonReader) read() error {
	r.parts = map[string]json.RawMessage{}
	seen := false
	err := r.lex.object(func(key []byte) error {
		if string(key) == "model" && !seen {
			seen = true
			return r.readModel()
		}
		name := string(key)
		raw, err := r.lex.raw()
		if len(r.parts) > 64 {
			return fmt.Errorf("cannot read tokenizer.json: it has too many members")
		}
		r.parts[name] = raw
		return err
	})
	if err != nil {
		return err
	}
	if r.lex.peek() != 0 {
		return r.lex.fail("nothing more")
	}
	if !seen {
		return fmt.Errorf("cannot read tokenizer.json: it has no model")
	}
	if raw, ok := r.parts["added_tokens"]; ok {
		if err := json.Unmarshal(raw, &r.added); err != nil {
			return fmt.Errorf("cannot read added_tokens: %w", err)
		}
	}
	return nil
}

// readModel reads the model object; vocabulary and merges are taken as they
// pass, merges that come first are gone over again.
func (r *jsonReader) readModel() error {
	small := map[string]json.RawMessage{}
	mergesAt := -1
	err := r.lex.object(func(key []byte) error {
		switch string(key) {
		case "vocab":
			if r.index != nil {
				return r.lex.fail("one vocabulary")
			}
			return r.readVocab()
		case "merges":
			if r.index != nil {
				return r.readMerges()
			}
			r.lex.peek()
			mergesAt = r.lex.i
			_, err := r.lex.raw()
			return err
		}
		name := string(key)
		raw, err := r.lex.raw()
		if len(small) > 64 {
			return fmt.Errorf("cannot read tokenizer.json: its model has too many members")
		}
		small[name] = raw
		return err
	})
	if err != nil {
		return err
	}
	if r.index == nil {
		return fmt.Errorf("cannot read tokenizer.json: its model has no vocabulary")
	}
	if mergesAt >= 0 {
		again := r.lex
		r.lex.i = mergesAt
		if err := r.readMerges(); err != nil {
			return err
		}
		r.lex.i = again.i
	}
	raw, err := json.Marshal(small)
	if err != nil {
		return fmt.Errorf("cannot read model: %w", err)
	}
	if err := json.Unmarshal(raw, &r.model); err != nil {
		return fmt.Errorf("cannot read model: %w", err)
	}
	return nil
}

// arena keeps many short strings in few allocations.
type arena struct{ buf []byte }

func (a *arena) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > cap(a.buf)-len(a.buf) {
		a.buf = make([]byte, 0, max(1<<16, len(b)))
	}
	n := len(a.buf)
	a.buf = append(a.buf, b...)
	return unsafe.String(&a.buf[n], len(b)) // never written again
}

func (r *jsonReader) readVocab() error {
	var a arena
	total := 0
	put := func(id int64, name []byte) error {
		if id < 0 || id >= maxTokens {
			return fmt.Errorf("cannot use token %.80q: got id %d, want 0 to %d", name, id, maxTokens-1)
		}
		if total += len(name); len(name) > maxTokenBytes || total > maxVocabBytes {
			return fmt.Errorf("cannot use token %d: got %d bytes, want at most %d, and %d in all", id, len(name), maxTokenBytes, maxVocabBytes)
		}
		for int(id) >= len(r.names) {
			r.names = append(r.names, "")
		}
		if r.names[id] != "" {
			return fmt.Errorf("cannot use token %.80q: id %d is that of %.80q", name, id, r.names[id])
		}
		r.names[id] = a.keep(name)
		return nil
	}
	var err error
	if r.lex.peek() == '[' {
		err = r.lex.array(func() error {
			name, score, err := r.readScored()
			if err != nil {
				return err
			}
			r.scores = append(r.scores, score)
			return put(int64(len(r.scores)-1), name)
		})
	} else {
		var name []byte
		err = r.lex.object(func(key []byte) error {
			name = append(name[:0], key...)
			id, err := r.lex.integer()
			if err != nil {
				return err
			}
			return put(id, name)
		})
	}
	if err != nil {
		return err
	}
	if len(r.names) == 0 {
		return fmt.Errorf("cannot use vocabulary: it has no tokens")
	}
	r.index = newNameTable(r.names)
	return nil
}

// readScored reads ["piece", score].
func (r *jsonReader) readScored() (name []byte, score float64, err error) {
	n := 0
	err = r.lex.array(func() error {
		n++
		switch n {
		case 1:
			s, err := r.lex.str()
			name = append(name, s...)
			return err
		case 2:
			raw, err := r.lex.raw()
			if err != nil {
				return err
			}
			return json.Unmarshal(raw, &score)
		}
		return r.lex.fail("a token and its score")
	})
	if err == nil && n != 2 {
		err = r.lex.fail("a token and its score")
	}
	return name, score, err
}

// readMerges reads "left right" or ["left", "right"] in order of rank.
func (r *jsonReader) readMerges() error {
	b := &pairBuilder{index: r.index}
	var left []byte
	err := r.lex.array(func() error {
		var right []byte
		if r.lex.peek() == '[' {
			n := 0
			err := r.lex.array(func() error {
				s, err := r.lex.str()
				switch n++; n {
				case 1:
					left = append(left[:0], s...)
				case 2:
					right = s
				default:
					return r.lex.fail("two tokens")
				}
				return err
			})
			if err != nil {
				return err
			}
			if n != 2 {
				return r.lex.fail("two tokens")
			}
		} else {
			s, err := r.lex.str()
			if err != nil {
				return err
			}
			l, rest, ok := strings.Cut(view(s), " ")
			if !ok {
				return r.lex.fail("two tokens with a space between")
			}
			left, right = append(left[:0], l...), s[len(s)-len(rest):]
		}
		return b.add(view(left), view(right))
	})
	if err == nil {
		r.pairs, err = b.build()
	}
	return err
}

// view reads b as a string for as long as b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// build puts the tokenizer together.
func (r *jsonReader) build() (*Tokenizer, error) {
	kinds, toks, err := r.addTokens()
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		read func(json.RawMessage) error
	}{{"normalizer", r.readNormalizer}, {"pre_tokenizer", r.readPreTokenizer}, {"decoder", r.readDecoder}} {
		if raw := r.parts[part.name]; len(raw) > 0 && string(raw) != "null" {
			if err := part.read(raw); err != nil {
				return nil, err
			}
		}
	}
	t := &Tokenizer{
		names: r.names, kinds: kinds, index: r.index, cache: newWordCache(), norm: r.norm, stages: r.stages,
		bos: NoID, eos: NoID, eot: NoID, unk: NoID, pad: NoID,
	}
	if r.model.UnkToken != nil {
		t.unk, _ = r.index.find(*r.model.UnkToken)
	}
	if err := r.setModel(t); err != nil {
		return nil, err
	}
	r.setPieces(t)
	t.describe = fmt.Sprintf("json %s byte-level=%v %s", r.model.Type, r.byteLevel, r.describe.String())
	if err := t.newMatchers(toks); err != nil {
		return nil, err
	}
	if err := r.setNamed(t); err != nil {
		return nil, err
	}
	t.setEnds()
	return t, nil
}

// addTokens gives the added tokens their ids and every token its kind.
func (r *jsonReader) addTokens() ([]Kind, []addedToken, error) {
	var toks []addedToken
	for _, a := range r.added {
		if a.ID < 0 || a.ID >= maxTokens {
			return nil, nil, fmt.Errorf("cannot use added token %.80q: got id %d, want 0 to %d", a.Content, a.ID, maxTokens-1)
		}
		for int(a.ID) >= len(r.names) {
			r.names = append(r.names, "")
		}
		switch r.names[a.ID] {
		case a.Content:
		case "":
			r.names[a.ID] = a.Content
			r.index.grow(r.names, int(a.ID))
		default:
			return nil, nil, fmt.Errorf("cannot use added token %.80q: id %d is that of %.80q", a.Content, a.ID, r.names[a.ID])
		}
		toks = append(toks, addedToken{
			content: a.Content, id: int32(a.ID), special: a.Special, lstrip: a.LStrip, rstrip: a.RStrip,
			singleWord: a.SingleWord, normalized: a.Normalized,
		})
	}
	r.index.names = r.names // holes may have been added
	kinds := make([]Kind, len(r.names))
	for i, s := range r.names {
		kinds[i] = KindNormal
		if s == "" {
			kinds[i] = KindUnused
		} else if _, ok := parseByteName(s); ok && r.model.ByteFallback {
			kinds[i] = KindByte
		}
	}
	for _, a := range toks {
		kinds[a.id] = KindUserDefined
		if a.special {
			kinds[a.id] = KindControl
		}
		named := r.model.UnkToken != nil && *r.model.UnkToken == a.content
		if a.special && (named || r.model.UnkID != nil && *r.model.UnkID == int64(a.id)) {
			kinds[a.id] = KindUnknown
		}
	}
	return kinds, slices.Clip(toks), nil
}

func (r *jsonReader) setModel(t *Tokenizer) error {
	m := &r.model
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("cannot use model: it drops merges at random (dropout %v)", *m.Dropout)
	case m.ContinuingSubwordPrefix != "" || m.EndOfWordSuffix != "":
		return fmt.Errorf("cannot use model: subword prefixes and suffixes are not supported")
	}
	isByte := func(id int) bool { return t.kinds[id] == KindByte }
	switch m.Type {
	case "BPE", "":
		if r.scores != nil {
			return fmt.Errorf("cannot use BPE model: its vocabulary is a list")
		}
		if r.pairs == nil {
			r.pairs = newPairTable(0)
		}
		if r.byteLevel {
			b := &byteBPE{pairs: r.pairs, byteID: newByteIDs(t.index), unk: t.unk}
			if m.IgnoreMerges {
				b.whole = t.roles(KindNormal)
			}
			t.model = b
			return nil
		}
		c := &charBPE{pairs: r.pairs, chars: t.roles(KindNormal, KindUserDefined), unk: t.unk, fuse: m.FuseUnk, whole: m.IgnoreMerges}
		if m.ByteFallback {
			c.bytes = newByteTokens(t.names, isByte)
		}
		if b := newMetaBorders(c.chars); b != nil && !c.whole {
			t.stages = append(t.stages, b.split)
		}
		t.model = c
		return nil
	case "Unigram":
		return r.setUnigram(t, isByte)
	}
	return fmt.Errorf("cannot use model type %.40q: want BPE or Unigram", m.Type)
}

func (r *jsonReader) setUnigram(t *Tokenizer, isByte func(id int) bool) error {
	if r.scores == nil {
		return fmt.Errorf("cannot use Unigram model: its vocabulary has no scores")
	}
	if r.model.UnkID == nil || *r.model.UnkID < 0 || *r.model.UnkID >= int64(len(r.scores)) {
		return fmt.Errorf("cannot use Unigram model: it names no unknown token")
	}
	t.unk = int32(*r.model.UnkID)
	n := len(r.scores)
	var bytes *byteTokens
	if r.model.ByteFallback {
		bytes = newByteTokens(t.names, isByte)
	}
	u, err := newUnigram(t.names, r.scores, t.unk, bytes, func(id int) bool {
		return id < n && (t.kinds[id] == KindNormal || t.kinds[id] == KindUserDefined)
	})
	t.model = u
	return err
}

func (r *jsonReader) setPieces(t *Tokenizer) {
	added := func(id int) bool { return t.kinds[id] != KindNormal && t.kinds[id] != KindByte }
	switch {
	case r.byteLevel:
		t.pieces = byteLevelPieces(t.names, added)
	default:
		t.pieces = metaPieces(t.names, func(id int) bool { return r.byteFallback && t.kinds[id] == KindByte }, func(id int) bool {
			return !r.metaDecoder || t.kinds[id] == KindControl || t.kinds[id] == KindUnknown || r.verbatim && added(id)
		})
	}
}
