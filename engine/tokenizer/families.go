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

// familyOf finds the family of tokenizer.ggml.pre.
func familyOf(pre string) (family, bool) {
	switch pre {
	case "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2":
		return family{stages: stagesOf(llama3Rules.match), ignoreMerges: true, addBOS: true}, true
	case "dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "jina-v5-nano":
		return family{stages: stagesOf(llama3Rules.match)}, true
	case "qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "hunyuan-dense", "megrez", "mellum2":
		return family{stages: stagesOf(qwen2Rules.match), nfc: pre == "qwen2" || pre == "deepseek-r1-qwen"}, true
	case "qwen35":
		return family{stages: stagesOf(qwen35Rules.match), nfc: true}, true
	case "gpt-4o", "llama4", "kanana2":
		return family{stages: stagesOf(o200kRules.match)}, true
	case "tekken":
		return family{stages: stagesOf(tekkenRules.match), ignoreMerges: true, addBOS: true}, true
	case "deepseek-v3", "hunyuan-moe":
		return family{stages: stagesOf(run(classNumber, 3), cjkRun, deepseek3)}, true
	case "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b":
		return family{stages: stagesOf(run(classNumber, 1), gpt2)}, true
	case "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es",
		"jina-v2-de", "jina-v2-code", "roberta-bpe", "gigachat", "trillion", "a.x-4.0", "mellum", "modern-bert", "exaone4":
		return family{stages: stagesOf(gpt2), nfc: pre == "olmo"}, true
	case "falcon":
		return family{stages: stagesOf(punctRun(true), gpt2, threeDigits)}, true
	case "default", "":
		return family{stages: stagesOf(punctRun(false), gpt2, run(classNumber, 0), threeDigits)}, true
	}
	return family{}, false
}
