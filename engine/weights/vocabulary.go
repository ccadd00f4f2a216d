package weights

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
