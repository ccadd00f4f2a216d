package gguftest

// The vocabulary: the 256 bytes by value (in the letters of byte-level BPE), the
// control tokens, the results of Merges, and unused ones up to VocabSize.
const (
	VocabSize = 288

	EndOfText = 256 // <|endoftext|>
	IMStart   = 257 // <|im_start|>
	IMEnd     = 258 // <|im_end|>, ends an answer
	Pad       = 259 // <|pad|>
	firstPair = 260
)

// Merges are the pairs of byte-level BPE, in order. \u0120 is the letter of the
// space.
var Merges = []string{
	"t h", "th e", "\u0120 the", "i n", "\u0120 a", "e r", "o n", "r e", "h e", "\u0120 s", "l l", "he ll", "hell o",
}

// Template is a ChatML chat template.
const Template = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`

var control = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"}

// letter is the character that byte-level BPE writes a byte as: itself if
// printable in Latin-1, else the next free one from U+0100 on.
func letter(b int) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(b) {
		return rune(b)
	}
	next := rune(0x100)
	for i := range b {
		if !printable(i) {
			next++
		}
	}
	return next
}

// tokens lists texts and GGUF token types.
func tokens() (texts []string, types []int32) {
	add := func(text string, typ int32) {
		texts, types = append(texts, text), append(types, typ)
	}
	for b := range 256 {
		add(string(letter(b)), 1)
	}
	for _, c := range control {
		add(c, 3)
	}
	for _, m := range Merges {
		for i := range m {
			if m[i] == ' ' {
				add(m[:i]+m[i+1:], 1)
			}
		}
	}
	for len(texts) < VocabSize {
		add("<|unused_"+string(rune('a'+len(texts)-firstPair-len(Merges)))+"|>", 5)
	}
	return texts, types
}

func vocabularyKV() []KV {
	texts, types := tokens()
	return []KV{
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "smollm"},
		{"tokenizer.ggml.tokens", texts},
		{"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", Merges},
		{"tokenizer.ggml.bos_token_id", uint32(IMStart)},
		{"tokenizer.ggml.eos_token_id", uint32(IMEnd)},
		{"tokenizer.ggml.padding_token_id", uint32(Pad)},
		{"tokenizer.ggml.add_bos_token", false},
		{"tokenizer.ggml.add_space_prefix", false},
		{"tokenizer.chat_template", Template},
	}
}
