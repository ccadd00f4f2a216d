package model

import (
	"hearth/engine/weights"
	"hearth/kernels"
)

// fileTypes names general.file_type of GGUF files: the recipe that a quantizer
// followed, which mixes tensor types.
var fileTypes = map[int64]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
	12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
	21: "Q2_K_S", 25: "IQ4_NL", 32: "BF16",
}

// quantization names how a model is stored: the recipe if the file states one,
// else the type that most of its bytes have.
func quantization(f *weights.File) string {
	if f.Format == weights.GGUF {
		n, err := f.Meta.Int("general.file_type", -1)
		if name, ok := fileTypes[n]; err == nil && ok {
			return name
		}
	}
	if f.Scheme != "" {
		return f.Scheme
	}
	bytes := f.DTypeBytes()
	best := kernels.F32
	for _, t := range kernels.DTypes() {
		if bytes[t] > bytes[best] {
			best = t
		}
	}
	return best.String()
}
