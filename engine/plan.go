package engine

import (
	"errors"
	"fmt"

	"hearth/engine/model"
	"hearth/engine/tokenizer"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
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

// OwnMemory is a device whose cache lies in a memory of its own.
type OwnMemory interface {
	// Room is how many bytes are left for the cache of p, once its weights and the
	// intermediate results of steps of rows tokens are there too.
	Room(p *kernels.Program, rows int) (int64, error)
	// BlockBytes is the size of one block of the cache of p, all layers.
	BlockBytes(p *kernels.Program, blockSize int) int64
}

// NoRoom says that a device's own memory does not hold a cache for one sequence.
type NoRoom struct{ Text string }

func (e *NoRoom) Error() string { return e.Text }

// cacheRoom says how large a block is, and how large the cache may be where the
// operator names no size; limit 0: not known.
type cacheRoom struct {
	blockBytes, limit int64
	what              string        // the limit in words
	own               bool          // of the device
	typ               kernels.DType // of the values, unless own: such a device knows it
}

// planRoom asks the device, or for a cache in the machine's memory the system.
func planRoom(o Options, p *kernels.Program, dev kernels.Device) (cacheRoom, error) {
	own, ok := dev.(OwnMemory)
	if !ok {
		t, err := kernels.CacheType(o.KVType)
		if err != nil {
			return cacheRoom{}, err
		}
		bytes := int64(p.KVValuesPerToken()) * int64(o.BlockSize) * int64(t.RowBytes(1))
		return cacheRoom{bytes, AvailableMemory() / kvShare, "a quarter of the free memory", false, t}, nil
	}
	room, err := own.Room(p, o.MaxStepTokens)
	if err != nil {
		return cacheRoom{}, err
	}
	return cacheRoom{own.BlockBytes(p, o.BlockSize), max(room, 1), "what is left of the memory of " + dev.Name(), true, kernels.F16}, nil
}

// DefaultCache is the kv_type of a model for which none is asked: half precision,
// but float32 in the machine's memory where nothing else is rounded either.
func DefaultCache(device, activations string, p *kernels.Program) string {
	if device != "cpu" && device != "ref" || activations == "bf16" {
		return "f16"
	}
	if activations == "f32" || !cpu.Rounds(p) {
		return "f32"
	}
	return "f16"
}

// planKV sizes the cache: what the operator asked for, else enough for every
// sequence at full context, within a quarter of the memory that is free, or
// within what is left on a device with a memory of its own. It always holds one
// sequence of full context, or the model does not fit. dev may be nil.
func planKV(o Options, p *kernels.Program, cfg *model.Config, dev kernels.Device) (kernels.KVConfig, error) {
	room, err := planRoom(o, p, dev)
	kv := kernels.KVConfig{BlockSize: o.BlockSize, Type: room.typ}
	if err != nil {
		return kv, err
	}
	one := (cfg.ContextLength + o.BlockSize - 1) / o.BlockSize
	blocks := int64(one) * int64(o.MaxSequences)
	limit, asked := o.KVBytes, o.KVBytes > 0
	if !asked {
		limit = room.limit
	}
	if limit > 0 {
		blocks = min(blocks, limit/room.blockBytes)
	}
	if blocks < int64(one) {
		need := int64(one) * room.blockBytes >> 20
		if asked {
			return kv, fmt.Errorf("a context of %d tokens needs %d MiB of cache, kv_memory allows %d MiB: lower context or raise kv_memory",
				cfg.ContextLength, need, limit>>20)
		}
		text := fmt.Sprintf("a context of %d tokens needs %d MiB of cache, and %s is %d MiB: lower context or set kv_memory",
			cfg.ContextLength, need, room.what, limit>>20)
		if room.own {
			return kv, &NoRoom{text}
		}
		return kv, errors.New(text)
	}
	kv.Blocks = int(blocks)
	return kv, nil
}
