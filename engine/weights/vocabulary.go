package weights

import (
	"errors"
	"fmt"
)

// NoToken marks a special token that the file does not name.
const NoToken int32 = -1

// Vocabulary is the tokenizer of a GGUF file, as stored. Only array types and
// lengths have been checked: Scores and Types are empty or as long as Tokens,
// and ids are within Tokens or NoToken. Token texts are hostile strings.
type Vocabulary struct {
	Model  string // tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece), "t5" (unigram) …
	Pre    string // tokenizer.ggml.pre: pre-tokenizer of byte-level BPE, "" if not stated
	Tokens []string
	Scores []float32
	Types  []int32  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
	Merges []string // "left right"

	BOS, EOS, EOT, EOM, Unknown, Separator, Padding, Mask int32

	AddBOS, AddEOS, AddSpacePrefix, RemoveExtraWhitespace *bool // nil: not stated
	PrecompiledCharsMap                                   []byte
}

// readVocabulary takes the tokenizer out of the metadata; nil if there is none.
func readVocabulary(m *Metadata) (*Vocabulary, error) {
	const p = "tokenizer.ggml."
	if !m.Has(p+"model") && !m.Has(p+"tokens") {
		return nil, nil
	}
	for _, key := range []string{p + "scores", p + "token_type"} {
		if n, want := m.Len(key), m.Len(p+"tokens"); m.Has(key) && n != want {
			return nil, fmt.Errorf("metadata %s has %d elements, wanted %d, one a token", key, n, want)
		}
	}
	v := &Vocabulary{}
	var errs [8]error
	v.Model, errs[0] = m.String(p+"model", "")
	v.Pre, errs[1] = m.String(p+"pre", "")
	v.Tokens, errs[2] = m.Strings(p + "tokens")
	v.Scores, errs[3] = m.Floats(p + "scores")
	v.Types, errs[4] = tokenTypes(m)
	v.Merges, errs[5] = m.Strings(p + "merges")
	v.PrecompiledCharsMap, errs[6] = charsMap(m)
	errs[7] = v.readFlags(m)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return v, v.readSpecial(m)
}

func (v *Vocabulary) readFlags(m *Metadata) error {
	var errs []error
	for _, f := range []struct {
		key string
		dst **bool
	}{
		{"add_bos_token", &v.AddBOS}, {"add_eos_token", &v.AddEOS},
		{"add_space_prefix", &v.AddSpacePrefix}, {"remove_extra_whitespaces", &v.RemoveExtraWhitespace},
	} {
		key := "tokenizer.ggml." + f.key
		if !m.Has(key) {
			continue
		}
		b, err := m.Bool(key, false)
		errs = append(errs, err)
		*f.dst = &b
	}
	return errors.Join(errs...)
}

func (v *Vocabulary) readSpecial(m *Metadata) error {
	var errs []error
	for _, s := range []struct {
		key string
		dst *int32
	}{
		{"bos", &v.BOS}, {"eos", &v.EOS}, {"eot", &v.EOT}, {"eom", &v.EOM}, {"unknown", &v.Unknown},
		{"seperator", &v.Separator}, // as the format spells it
		{"padding", &v.Padding}, {"mask", &v.Mask},
	} {
		key := "tokenizer.ggml." + s.key + "_token_id"
		id, err := m.Int(key, int64(NoToken))
		switch {
		case err != nil:
			errs = append(errs, err)
		case id == int64(NoToken) || id == 1<<32-1: // both are written for "none"
			*s.dst = NoToken
		case id < 0 || id >= int64(len(v.Tokens)):
			errs = append(errs, fmt.Errorf("metadata %s is %d, but the vocabulary has %d tokens", key, id, len(v.Tokens)))
		default:
			*s.dst = int32(id)
		}
	}
	return errors.Join(errs...)
}

func tokenTypes(m *Metadata) ([]int32, error) {
	const key = "tokenizer.ggml.token_type"
	v, ok := m.values[key]
	if !ok {
		return nil, nil
	}
	if v.typ != typeArray {
		return nil, m.mismatch(key, "array of integers")
	}
	size := valueTypes[v.elem].size
	types := make([]int32, v.count)
	for i := range types {
		t, ok := decodeInt(v.elem, v.raw[i*size:])
		if !ok {
			return nil, m.mismatch(key, "array of integers")
		}
		if t < 0 || t > 6 {
			return nil, fmt.Errorf("metadata %s: element %d is %d, wanted 0 to 6", key, i, t)
		}
		types[i] = int32(t)
	}
	return types, nil
}

func charsMap(m *Metadata) ([]byte, error) {
	const key = "tokenizer.ggml.precompiled_charsmap"
	v, ok := m.values[key]
	if !ok {
		return nil, nil
	}
	if v.typ != typeArray || v.elem != typeUint8 && v.elem != typeInt8 {
		return nil, m.mismatch(key, "array of bytes")
	}
	return append([]byte{}, v.raw...), nil
}
