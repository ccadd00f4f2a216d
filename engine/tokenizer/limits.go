package tokenizer

import "fmt"

// Bounds on a vocabulary. The largest published ones have about 262,000
// tokens, 515,000 merges and tokens of a few hundred bytes.
const (
	maxTokens     = 1<<idBits - 2 // about four million
	maxMerges     = 8 << 20
	maxTokenBytes = 64 << 10 // one token
	maxVocabBytes = 512 << 20
	maxAddedBytes = 4 << 10 // one added token: it is compared at every position
	maxJSONBytes  = 512 << 20
	maxJSONDepth  = 64
	maxSteps      = 64 // normalizer or pre-tokenizer steps
)

// checkTokens refuses vocabularies past the bounds.
func checkTokens(tokens []string) error {
	if len(tokens) == 0 {
		return fmt.Errorf("cannot use vocabulary: it has no tokens")
	}
	if len(tokens) > maxTokens {
		return fmt.Errorf("cannot use vocabulary: got %d tokens, want at most %d", len(tokens), maxTokens)
	}
	total := 0
	for i, s := range tokens {
		if len(s) > maxTokenBytes {
			return fmt.Errorf("cannot use token %d: got %d bytes, want at most %d", i, len(s), maxTokenBytes)
		}
		total += len(s)
	}
	if total > maxVocabBytes {
		return fmt.Errorf("cannot use vocabulary: got %d bytes of tokens, want at most %d", total, maxVocabBytes)
	}
	return nil
}
