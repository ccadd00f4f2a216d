package engine

import (
	"cmp"
	"fmt"

	"hearth/engine/weights"
	"hearth/kernels"
)

// plannedMemory is a device with a memory of its own that can tell what a program
// would take of it.
type plannedMemory interface {
	kernels.Device
	OwnMemory
	// Plan is what Load of p would take beside the cache, and what is free, in bytes.
	// Steps have at most rows tokens.
	Plan(p *kernels.Program, kv kernels.KVConfig, rows int) (weights, scratch, free int64, err error)
}

// PlanDeviceMemory plans what Open with the same options would do, on the device
// that OpenDevice gives, whose memory is then what the sizes are of. It reads what
// PlanMemory reads.
func PlanDeviceMemory(o Options) (*MemoryPlan, error) {
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
	o.Context = cfg.ContextLength // what is served, also where nothing was asked for
	dev, err := o.OpenDevice(o)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	own, ok := dev.(plannedMemory)
	if !ok {
		return nil, fmt.Errorf("cannot plan for %s: it has no memory of its own", dev.Name())
	}
	p := &MemoryPlan{
		Name: f.About.Name, Device: dev.Name(), Architecture: cfg.Architecture, Quantization: cfg.Quantization, Parameters: cfg.Parameters,
		Context: cfg.ContextLength, ModelContext: cfg.ModelContext, MaxSequences: o.MaxSequences, FileBytes: f.Size,
		ProcessBytes: processBytes, BlockTokens: o.BlockSize,
	}
	block := own.BlockBytes(prog, o.BlockSize)
	p.KVTokenBytes = block / int64(o.BlockSize)
	kv, err := planKV(o, prog, cfg, dev)
	if err != nil {
		p.Reason = err.Error()
		kv.Blocks = (cfg.ContextLength + o.BlockSize - 1) / o.BlockSize // what it would need at least
	}
	if p.WeightBytes, p.ScratchBytes, p.Available, err = own.Plan(prog, kv, o.MaxStepTokens); err != nil {
		return nil, err
	}
	p.KVBlocks, p.KVBytes = kv.Blocks, int64(kv.Blocks)*block
	p.FullSequences = kv.Blocks * o.BlockSize / max(1, p.Context)
	p.TotalBytes = p.WeightBytes + p.KVBytes + p.ScratchBytes
	if p.Reason == "" && p.TotalBytes > p.Available {
		p.Reason = fmt.Sprintf("it needs %d MiB and %d MiB are free on %s", p.TotalBytes>>20, p.Available>>20, p.Device)
	}
	p.Fits = p.Reason == ""
	room := p.Available - p.WeightBytes - p.ScratchBytes
	if o.KVBytes > 0 {
		room = min(room, o.KVBytes)
	}
	tokens := max(0, room) / max(1, block) * int64(o.BlockSize)
	p.LargestContext = int(min(tokens, int64(p.ModelContext)))
	return p, nil
}
