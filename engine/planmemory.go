package engine

import (
	"cmp"
	"fmt"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
)

// MemoryPlan says what a model will take before it is loaded. Sizes are bytes.
type MemoryPlan struct {
	Name          string // of the model, as its file states it
	Device        string // whose memory the sizes are of, but for ProcessBytes and MappedBytes
	Architecture  string
	Quantization  string
	Parameters    int64
	Context       int // tokens of a sequence
	ModelContext  int // most tokens that the model was made for
	MaxSequences  int
	FileBytes     int64
	WeightBytes   int64 // as the device holds them
	MappedBytes   int64 // read in place from the file: page cache, which the kernel can drop
	KVBlocks      int
	BlockTokens   int
	KVTokenBytes  int64 // of one token
	KVBytes       int64
	ScratchBytes  int64 // intermediate results of a step, at most
	ProcessBytes  int64 // the worker process itself, with tokenizer and grammar tables, about
	TotalBytes    int64 // of the device's memory, without MappedBytes
	Available     int64 // free now; 0: not known
	Fits          bool
	Reason        string // why it does not fit
	FullSequences int    // sequences of full context that the cache holds at once
	// LargestContext is the most tokens of a sequence that fit with these options,
	// 0 if none do.
	LargestContext int
}

// processBytes is what a worker takes beside what the plan counts: the Go heap
// with the tables of a vocabulary of 150 000 tokens.
const processBytes = 96 << 20

// PlanMemory plans what Open with the same options would do, on the CPU. It
// reads the file's tables, and of its weights only those that lie in parts, which
// it unpacks.
func PlanMemory(o Options) (*MemoryPlan, error) {
	o = withDefaults(o)
	f, err := weights.Open(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", o.Path, err)
	}
	defer f.Close()
	prog, cfg, err := buildModel(f, o.Context)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", o.Path, err)
	}
	o.KVType = cmp.Or(o.KVType, DefaultCache(o.Device, o.Activations, prog))
	need, err := cpu.Need(prog, o.MaxStepTokens, cpu.Options{Threads: o.Threads, Activations: o.Activations, Path: o.KernelPath})
	if err != nil {
		return nil, err
	}
	p := &MemoryPlan{
		Name: f.About.Name, Device: "cpu", Architecture: cfg.Architecture, Quantization: cfg.Quantization, Parameters: cfg.Parameters,
		Context: cfg.ContextLength, ModelContext: cfg.ModelContext, MaxSequences: o.MaxSequences, FileBytes: f.Size,
		WeightBytes: need.WeightBytes, MappedBytes: need.MappedBytes, ScratchBytes: need.ScratchBytes, ProcessBytes: processBytes,
		BlockTokens: o.BlockSize, Available: AvailableMemory(),
	}
	p.ScratchBytes += 4 * int64(prog.Vocab) * int64(min(o.MaxSequences, o.MaxStepTokens)) // logits
	kv, err := kernels.CacheType(o.KVType)
	if err != nil {
		return nil, err
	}
	p.KVTokenBytes = int64(prog.KVValuesPerToken()) * int64(kv.RowBytes(1))
	p.fit(o, prog, cfg)
	return p, nil
}

// fit sizes the cache and compares with what is free.
func (p *MemoryPlan) fit(o Options, prog *kernels.Program, cfg *model.Config) {
	kv, err := planKV(o, prog, cfg, nil)
	if err != nil {
		p.Reason = err.Error()
		one := int64((cfg.ContextLength + o.BlockSize - 1) / o.BlockSize)
		kv.Blocks = int(one) // what it would need at least
	}
	p.KVBlocks = kv.Blocks
	p.KVBytes = int64(kv.Blocks) * int64(o.BlockSize) * p.KVTokenBytes
	p.FullSequences = kv.Blocks * o.BlockSize / max(1, p.Context)
	p.TotalBytes = p.WeightBytes + p.KVBytes + p.ScratchBytes + p.ProcessBytes
	if p.Reason == "" && p.Available > 0 && p.TotalBytes > p.Available {
		p.Reason = fmt.Sprintf("it needs %d MiB and %d MiB are free", p.TotalBytes>>20, p.Available>>20)
	}
	p.Fits = p.Reason == ""
	p.LargestContext = p.largest(o)
}

// largest is the longest context of which the cache holds one sequence.
func (p *MemoryPlan) largest(o Options) int {
	most := o.KVBytes
	if most == 0 {
		if p.Available == 0 {
			return p.ModelContext
		}
		most = p.Available / kvShare
	}
	if p.Available > 0 {
		most = min(most, p.Available-p.WeightBytes-p.ScratchBytes-p.ProcessBytes)
	}
	tokens := most / max(1, p.KVTokenBytes)
	tokens -= tokens % int64(o.BlockSize)
	return int(max(0, min(tokens, int64(p.ModelContext))))
}

// buildModel builds with the context asked for, or with what is sensible where
// none is.
func buildModel(f *weights.File, context int) (*kernels.Program, *model.Config, error) {
	prog, cfg, err := model.Build(f, model.Options{ContextLength: context})
	if err == nil && context == 0 && cfg.ContextLength > MaxDefaultContext {
		prog, cfg, err = model.Build(f, model.Options{ContextLength: MaxDefaultContext})
	}
	return prog, cfg, err
}
