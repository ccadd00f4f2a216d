package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// endNames are names under which families have a token that ends a turn or the
// text, wherever it is a control token.
var endNames = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>",
	"<|end_of_text|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_turn|>", "<end_of_utterance>",
	"<\uff5cend\u2581of\u2581sentence\uff5c>", "[EOS]", "<|END_OF_TURN_TOKEN|>",
}

// turnNames are those of endNames that end a turn, in order of preference.
var turnNames = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>", "<end_of_utterance>",
	"<|END_OF_TURN_TOKEN|>", "<EOT>", "_<EOT>",
}

// setEnds fills endIDs, and eot where nothing says it.
func (t *Tokenizer) setEnds(ids ...int32) {
	add := func(id int32) {
		if id != NoID && !slices.Contains(t.endIDs, id) {
			t.endIDs = append(t.endIDs, id)
		}
	}
	add(t.eos)
	add(t.eot)
	for _, id := range ids {
		add(id)
	}
	control := func(name string) int32 {
		if id, ok := t.index.find(name); ok && t.kinds[id] == KindControl {
			return id
		}
		return NoID
	}
	for _, name := range endNames {
		add(control(name))
	}
	for _, name := range turnNames {
		if t.eot == NoID {
			t.eot = control(name)
		}
	}
	slices.Sort(t.endIDs)
}

// newMatchers splits added tokens by when they are looked for.
func (t *Tokenizer) newMatchers(toks []addedToken) error {
	var raw, normalized []addedToken
	for _, a := range toks {
		if a.normalized && len(t.norm) > 0 {
			a.content = t.norm.apply(a.content, true)
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	var err error
	if t.added, err = newMatcher(raw); err != nil {
		return err
	}
	t.addedNorm, err = newMatcher(normalized)
	return err
}

// newByteTokens finds <0x00> to <0xFF> among the names; nil if there is none.
func newByteTokens(names []string, isByte func(id int) bool) *byteTokens {
	b := new(byteTokens)
	for i := range b.id {
		b.id[i] = NoID
	}
	found := false
	for i, s := range names {
		if v, ok := parseByteName(s); ok && isByte(i) && b.id[v] == NoID {
			b.id[v] = int32(i)
			found = true
		}
	}
	if !found {
		return nil
	}
	return b
}

// newByteIDs finds the token of each byte in a byte-level vocabulary.
func newByteIDs(index *nameTable) (ids [256]int32) {
	for i := range ids {
		ids[i] = NoID
		if id, ok := index.find(byteName(byte(i))); ok {
			ids[i] = id
		}
	}
	return ids
}

// byteLevelPieces reads the names of a byte-level vocabulary; tokens for which
// verbatim says true stand for their names.
func byteLevelPieces(names []string, verbatim func(id int) bool) [][]byte {
	total := 0
	for _, s := range names {
		total += len(s)
	}
	blob := make([]byte, 0, total)
	pieces := make([][]byte, len(names))
	for i, s := range names {
		n := len(blob)
		if verbatim(i) {
			blob = append(blob, s...)
		} else {
			blob, _ = appendBytes(blob, s)
		}
		pieces[i] = blob[n:len(blob):len(blob)]
	}
	return pieces
}

// metaPieces reads the names of a SentencePiece vocabulary: U+2581 is a space,
// byte tokens are their byte; tokens for which verbatim says true stand for
// their names.
func metaPieces(names []string, isByte, verbatim func(id int) bool) [][]byte {
	total := 0
	for _, s := range names {
		total += len(s)
	}
	blob := make([]byte, 0, total)
	pieces := make([][]byte, len(names))
	for i, s := range names {
		n := len(blob)
		v, named := parseByteName(s)
		switch {
		case named && isByte(i):
			blob = append(blob, v)
		case verbatim(i):
			blob = append(blob, s...)
		default:
			for len(s) > 0 {
				j := strings.Index(s, meta)
				if j < 0 {
					break
				}
				blob = append(append(blob, s[:j]...), ' ')
				s = s[j+len(meta):]
			}
			blob = append(blob, s...)
		}
		pieces[i] = blob[n:len(blob):len(blob)]
	}
	return pieces
}

// checkID refuses an id outside the vocabulary; NoID is none.
func checkID(what string, id int32, size int) error {
	if id < NoID || int(id) >= size {
		return fmt.Errorf("cannot use %s token: got id %d, want one below %d", what, id, size)
	}
	return nil
}
