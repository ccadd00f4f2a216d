package tokenizer

// family is what a GGUF pre-tokenizer name stands for.
type family struct {
	stages       []splitter
	ignoreMerges bool // a word that is a token as a whole stays whole
	addBOS       bool // where the file does not say
	nfc          bool
}

func stagesOf(patterns ...pattern) []splitter {
	out := make([]splitter, len(patterns))
	for i, p := range patterns {
		out[i] = isolate(p)
	}
	return out
}

// familyOf finds the family of tokenizer.ggml.pre. The names are those that
// llama.cpp's converter writes; where it names several families one way of
// splitting, the rest of the family (NFC) is that of the published tokenizer.
func familyOf(pre string) (family, bool) {
	switch pre {
	case "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano":
		return family{stages: stagesOf(llama3Rules.match), ignoreMerges: true, addBOS: true}, true
	case "dbrx", "smaug-bpe", "chatglm-bpe", "glm4":
		return family{stages: stagesOf(llama3Rules.match)}, true
	case "qwen2":
		return family{stages: stagesOf(qwen2Rules.match), nfc: true}, true
	case "qwen35":
		return family{stages: stagesOf(qwen35Rules.match), nfc: true}, true
	case "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "f2llmv2", "solar-open", "grok-2":
		return family{stages: stagesOf(qwen2Rules.match)}, true
	case "seed-coder":
		return family{stages: stagesOf(wordRules{letters: classLetter, digits: 1}.match)}, true
	case "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2":
		return family{stages: stagesOf(o200kRules.match)}, true
	case "tekken":
		return family{stages: stagesOf(tekkenRules.match), ignoreMerges: true, addBOS: true}, true
	case "deepseek-v3", "hunyuan-dense", "joyai-llm":
		return family{stages: stagesOf(run(classNumber, 3), cjkRun, deepseek3)}, true
	case "deepseek-coder":
		return family{stages: stagesOf(lineEnd, afterSpace(classLetter), afterSpace(classPunct), cjkWideRun, run(classNumber, 1))}, true
	case "smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2":
		return family{stages: stagesOf(run(classNumber, 1), gpt2)}, true
	case "command-r":
		return family{stages: stagesOf(run(classNumber, 1), gpt2), nfc: true}, true
	case "gpt-2", "phi-2", "jais", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
		"roberta-bpe", "gigachat", "trillion", "a.x-4.0", "mellum", "modern-bert", "exaone4", "granite-docling":
		return family{stages: stagesOf(gpt2)}, true
	case "mpt", "olmo":
		return family{stages: stagesOf(gpt2), nfc: true}, true
	case "falcon":
		return family{stages: stagesOf(punctRun(true), gpt2, threeDigits)}, true
	case "bloom", "poro-chat", "gpt3-finnish":
		return family{stages: stagesOf(bloomWord)}, true
	case "viking":
		return family{stages: stagesOf(bloomWord, run(classNumber, 1))}, true
	case "default", "":
		return family{stages: stagesOf(punctRun(false), gpt2, run(classNumber, 0), threeDigits)}, true
	}
	return family{}, false
}
