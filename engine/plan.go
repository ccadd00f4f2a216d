package engine

import (
	"fmt"

	"hearth/engine/model"
	"hearth/engine/tokenizer"
	"hearth/engine/weights"
	"hearth/kernels"
)

// vocab maps a GGUF vocabulary to the tokenizer's input.
func vocab(v *weights.Vocabulary, architecture string) tokenizer.Vocab {
	out := tokenizer.NewVocab()
	out.Model, out.Pre, out.Architecture = v.Model, v.Pre, architecture
	out.Tokens, out.Scores, out.Types, out.Merges = v.Tokens, v.Scores, v.Types, v.Merges
	out.BOS, out.EOS, out.EOT, out.EOM = v.BOS, v.EOS, v.EOT, v.EOM
	out.UNK, out.PAD = v.Unknown, v.Padding
	out.AddBOS, out.AddEOS, out.AddSpacePrefix = v.AddBOS, v.AddEOS, v.AddSpacePrefix
	out.RemoveExtraWhitespaces = v.RemoveExtraWhitespace
	out.PrecompiledCharsmap = v.PrecompiledCharsMap
	return out
}

// kvShare is the part of the free memory that a cache takes where the operator
// names no size.
const kvShare = 4

// planKV sizes the cache: what the operator asked for, else enough for every
// sequence at full context, within a quarter of the memory that is free. It
// always holds one sequence of full context, or the model does not fit.
func planKV(o Options, p *kernels.Program, cfg *model.Config) (kernels.KVConfig, error) {
	kv := kernels.KVConfig{BlockSize: o.BlockSize, Type: kernels.F32}
	blockBytes := int64(p.KVValuesPerToken()) * int64(o.BlockSize) * int64(kv.Type.RowBytes(1))
	one := (cfg.ContextLength + o.BlockSize - 1) / o.BlockSize
	blocks := int64(one) * int64(o.MaxSequences)
	limit, asked := o.KVBytes, o.KVBytes > 0
	if !asked {
		limit = AvailableMemory() / kvShare
	}
	if limit > 0 {
		blocks = min(blocks, limit/blockBytes)
	}
	if blocks < int64(one) {
		if asked {
			return kv, fmt.Errorf("a context of %d tokens needs %d MiB of cache, kv_memory allows %d MiB: lower context or raise kv_memory",
				cfg.ContextLength, int64(one)*blockBytes>>20, limit>>20)
		}
		return kv, fmt.Errorf("a context of %d tokens needs %d MiB of cache, and a quarter of the free memory is %d MiB: lower context or set kv_memory",
			cfg.ContextLength, int64(one)*blockBytes>>20, limit>>20)
	}
	kv.Blocks = int(blocks)
	return kv, nil
}
