package tokenizer

// Vocab holds the tokenizer arrays of a GGUF file; the names in the comments
// are its metadata keys. Use NewVocab, which sets every id to NoID.
type Vocab struct {
	Model  string    // tokenizer.ggml.model: "gpt2", "llama" or "t5"
	Pre    string    // tokenizer.ggml.pre; only for "gpt2"
	Tokens []string  // tokenizer.ggml.tokens
	Scores []float32 // tokenizer.ggml.scores; for "llama" and "t5"
	Types  []int32   // tokenizer.ggml.token_type; empty: all normal
	Merges []string  // tokenizer.ggml.merges, "left right"; for "gpt2"

	BOS, EOS, EOT, EOM, UNK, PAD int32 // tokenizer.ggml.*_token_id, or NoID

	// AddBOS, AddEOS, AddSpacePrefix and RemoveExtraWhitespaces are
	// tokenizer.ggml.add_bos_token, .add_eos_token, .add_space_prefix and
	// .remove_extra_whitespaces; nil where the file has none, which then
	// means what is usual for the model.
	AddBOS, AddEOS, AddSpacePrefix, RemoveExtraWhitespaces *bool

	PrecompiledCharsmap []byte // tokenizer.ggml.precompiled_charsmap; for "t5"

	// Architecture is general.architecture. "phi3" has tokens that take the
	// white space after them, which GGUF cannot say.
	Architecture string
}

// NewVocab returns a Vocab with no ids set.
func NewVocab() Vocab {
	return Vocab{BOS: NoID, EOS: NoID, EOT: NoID, EOM: NoID, UNK: NoID, PAD: NoID}
}
