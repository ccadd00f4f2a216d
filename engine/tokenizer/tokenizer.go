// Package tokenizer turns text into the token ids a model was trained with,
// and ids back into exact bytes.
//
// Three models of subword segmentation are covered: byte-level BPE (GPT-2 and
// most families since), SentencePiece BPE with byte fallback (Llama 2, Mistral
// 7B, Gemma, Phi-3) and SentencePiece unigram. A vocabulary comes either from
// the arrays of a GGUF file (FromGGUF) or from a Hugging Face tokenizer.json
// with its tokenizer_config.json (FromJSON).
//
// Text takes this way: invalid UTF-8 becomes U+FFFD, added tokens are cut out,
// the rest is normalized, split into words by the family's pre-tokenizer, and
// each word is merged into tokens.
//
// Vocabularies are foreign input: every count, length and id is checked at
// load, so that encoding and decoding need no checks and cannot fail.
package tokenizer

import (
	"bytes"
	"sync"
)

// Kind is the role of a token, numbered as in GGUF's token_type.
type Kind uint8

const (
	KindNormal      Kind = 1
	KindUnknown     Kind = 2 // stands for what has no other token
	KindControl     Kind = 3 // structure of the prompt; never made from user text
	KindUserDefined Kind = 4 // added by name; recognized in any text
	KindUnused      Kind = 5
	KindByte        Kind = 6 // one byte, where no other token covers it
)

// NoID is the id of a token that the vocabulary does not have.
const NoID int32 = -1

// Segment is a stretch of a prompt. Control tokens are recognized only in
// Trusted text, which is what the chat template wrote; what users wrote is
// plain text whatever it looks like.
type Segment struct {
	Text    string
	Trusted bool
}

// Tokenizer is immutable and safe for concurrent use. Use FromGGUF or FromJSON.
type Tokenizer struct {
	names  []string // as the vocabulary writes them, by id
	pieces [][]byte // the bytes each token stands for, by id
	kinds  []Kind
	index  *nameTable // names to ids; the lowest id wins

	norm      normalizer // on the text between added tokens
	added     *matcher   // added tokens found in the text as it came
	addedNorm *matcher   // added tokens found after normalizing, or nil
	stages    []splitter // pre-tokenizer, outermost first
	model     segmenter
	cache     *wordCache

	prefix, suffix []int32
	bos, eos, eot  int32
	unk, pad       int32
	endIDs         []int32
	describe       string // model kind and settings, part of the hash

	hashOnce sync.Once
	hash     string
}

// Size is the number of ids: all are in [0, Size).
func (t *Tokenizer) Size() int { return len(t.names) }

// Piece returns the exact bytes that id adds to the text, maybe part of a
// character; nil for an id out of range. The caller must not change them.
func (t *Tokenizer) Piece(id int32) []byte {
	if id < 0 || int(id) >= len(t.pieces) {
		return nil
	}
	return t.pieces[id]
}

// Pieces returns the bytes of every id, in order. The caller must not change
// them.
func (t *Tokenizer) Pieces() [][]byte { return t.pieces }

// Decode joins the pieces of ids; ids out of range add nothing.
func (t *Tokenizer) Decode(ids []int32) []byte {
	var b bytes.Buffer
	for _, id := range ids {
		b.Write(t.Piece(id))
	}
	return b.Bytes()
}

// TokenString returns the name of id as the vocabulary writes it, or "".
func (t *Tokenizer) TokenString(id int32) string {
	if id < 0 || int(id) >= len(t.names) {
		return ""
	}
	return t.names[id]
}

// ID finds a token by its name as the vocabulary writes it.
func (t *Tokenizer) ID(token string) (int32, bool) { return t.index.find(token) }

// KindOf returns the role of id; an id out of range is KindUnused.
func (t *Tokenizer) KindOf(id int32) Kind {
	if id < 0 || int(id) >= len(t.kinds) {
		return KindUnused
	}
	return t.kinds[id]
}

// IsControl says whether id is structure rather than text: control and unknown
// tokens, which an answer's text leaves out.
func (t *Tokenizer) IsControl(id int32) bool {
	k := t.KindOf(id)
	return k == KindControl || k == KindUnknown
}

// Prefix returns the ids that the model wants before a text that does not
// already begin with them (for most families BOS, or nothing).
func (t *Tokenizer) Prefix() []int32 { return t.prefix }

// Suffix returns the ids that the model wants after a text (mostly nothing).
func (t *Tokenizer) Suffix() []int32 { return t.suffix }

// BOS returns the id that begins a text, or NoID.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the id that ends a text, or NoID.
func (t *Tokenizer) EOS() int32 { return t.eos }

// EOT returns the id that ends a turn of a conversation, or NoID.
func (t *Tokenizer) EOT() int32 { return t.eot }

// PAD returns the padding id, or NoID.
func (t *Tokenizer) PAD() int32 { return t.pad }

// EndIDs returns every id after which generation stops, ascending.
func (t *Tokenizer) EndIDs() []int32 { return t.endIDs }
