// Package bench measures the engine alone: one model, no server, no sampling,
// the same work as llama.cpp's llama-bench and llama-batched-bench. Prefill is
// one prompt of so many tokens; decode is so many steps of a batch of sequences
// that start with Depth tokens in the cache. Tokens are arbitrary: the arithmetic does not
// depend on them.
package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"hearth/engine"
	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
)

// Options of a run. Zero values take the defaults named.
type Options struct {
	Path    string
	Prefill int   // tokens of the prompt; 0: 512
	Decode  int   // steps of each batch; 0: 128
	Depth   int   // tokens that each sequence of a batch has before
	Batch   []int // sequences at once; empty: 1, 8, 32
	Repeat  int   // 0: 5
	Threads int   // 0: the device's choice
	// Kernels forces an instruction set, see cpu.Options.Path.
	Kernels string
	// Activations is "q8", "bf16" or "f32", see cpu.Options.Activations.
	Activations string
	// KVType is that of the cache: "f16", "bf16" or "f32"; empty: as the engine's.
	KVType string
	// Progress, if set, is told what is about to be measured.
	Progress func(what string)
}

// Result holds one figure a repeat, tokens a second.
type Result struct {
	PrefillTokS []float64            `json:"prefill_tok_s"`
	DecodeTokS  map[string][]float64 `json:"decode_tok_s"` // by batch size
	LoadSeconds float64              `json:"load_s"`       // open, build and repack
	Device      string               `json:"device"`
	Path        string               `json:"path"` // instruction set
	Threads     int                  `json:"threads"`
	WeightBytes int64                `json:"weight_bytes"`
	Parameters  int64                `json:"parameters"`
	Type        string               `json:"type"`
}

const (
	blockSize = 16
	chunk     = 512 // prompt tokens of one step, llama.cpp's default ubatch
)

func (o *Options) defaults() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Prefill, 512)
	def(&o.Decode, 128)
	def(&o.Repeat, 5)
	if len(o.Batch) == 0 {
		o.Batch = []int{1, 8, 32}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Run loads the model and measures. One untimed round comes first.
func Run(ctx context.Context, o Options) (*Result, error) {
	o.defaults()
	began := time.Now()
	f, err := weights.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prog, cfg, err := model.Build(f, model.Options{})
	if err != nil {
		return nil, err
	}
	dev, err := cpu.New(cpu.Options{Threads: o.Threads, Path: o.Kernels, Activations: o.Activations, Release: f.Release})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	if o.KVType == "" {
		o.KVType = engine.DefaultCache(dev.Name(), o.Activations, prog)
	}
	r := &runner{dev: dev, prog: prog}
	kv, err := r.cache(&o)
	if err != nil {
		return nil, err
	}
	if err := dev.Load(prog, kv); err != nil {
		return nil, err
	}
	st := dev.Stats()
	res := &Result{
		DecodeTokS: map[string][]float64{}, LoadSeconds: time.Since(began).Seconds(),
		Device: dev.Name(), Path: st.Path, Threads: st.Threads, WeightBytes: st.WeightBytes,
		Parameters: cfg.Parameters, Type: cfg.Quantization,
	}
	for i := range o.Repeat + 1 {
		if err := r.round(ctx, &o, res, i > 0); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// runner drives a device through the plain batches of a benchmark.
type runner struct {
	dev    kernels.Device
	prog   *kernels.Program
	logits []float32
}

// cache is large enough for the largest case; each sequence has its own blocks.
func (r *runner) cache(o *Options) (kernels.KVConfig, error) {
	blocks := blocksFor(o.Prefill)
	for _, b := range o.Batch {
		blocks = max(blocks, b*blocksFor(o.Depth+o.Decode))
	}
	t, err := kernels.CacheType(o.KVType)
	return kernels.KVConfig{Blocks: blocks, BlockSize: blockSize, Type: t}, err
}

func blocksFor(tokens int) int { return (tokens + blockSize - 1) / blockSize }

func (r *runner) round(ctx context.Context, o *Options, res *Result, timed bool) error {
	o.Progress(fmt.Sprintf("prefill %d", o.Prefill))
	took, err := r.prefill(ctx, o.Prefill, blockTable(0, blocksFor(o.Prefill)))
	if err != nil {
		return err
	}
	if timed {
		res.PrefillTokS = append(res.PrefillTokS, float64(o.Prefill)/took.Seconds())
	}
	for _, b := range o.Batch {
		o.Progress(fmt.Sprintf("decode %d × %d", b, o.Decode))
		steps := o.Decode
		if !timed {
			steps = min(steps, 8)
		}
		took, err := r.decode(ctx, b, o.Depth, steps, blocksFor(o.Depth+o.Decode))
		if err != nil {
			return err
		}
		if timed {
			key := strconv.Itoa(b)
			res.DecodeTokS[key] = append(res.DecodeTokS[key], float64(b*steps)/took.Seconds())
		}
	}
	return nil
}

// prefill computes one prompt; only its last row needs logits.
func (r *runner) prefill(ctx context.Context, n int, table []int32) (time.Duration, error) {
	began := time.Now()
	for at := 0; at < n; at += chunk {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		m := min(chunk, n-at)
		b := kernels.Batch{Spans: []kernels.Span{{Len: int32(m), Context: int32(at), Blocks: table}}}
		for i := range m {
			b.Tokens = append(b.Tokens, r.token(at+i))
		}
		if at+m == n {
			b.LogitRows = []int32{int32(m) - 1}
		}
		if err := r.step(&b); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// decode computes steps tokens of batch sequences, one of each a step, behind
// depth tokens that are not timed.
func (r *runner) decode(ctx context.Context, batch, depth, steps, blocks int) (time.Duration, error) {
	b := kernels.Batch{}
	for i := range batch {
		b.Spans = append(b.Spans, kernels.Span{Row: int32(i), Len: 1, Blocks: blockTable(i*blocks, blocks)})
		b.Tokens = append(b.Tokens, 0)
		b.LogitRows = append(b.LogitRows, int32(i))
		if _, err := r.prefill(ctx, depth, b.Spans[i].Blocks); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for s := range steps {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for i := range batch {
			b.Spans[i].Context = int32(depth + s)
			b.Tokens[i] = r.token(s + i)
		}
		if err := r.step(&b); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (r *runner) step(b *kernels.Batch) error {
	if n := len(b.LogitRows) * r.prog.Vocab; cap(r.logits) < n {
		r.logits = make([]float32, n)
	}
	b.Logits = r.logits[:len(b.LogitRows)*r.prog.Vocab]
	return r.dev.Step(b)
}

func (r *runner) token(i int) int32 { return int32((i*37 + 11) % min(r.prog.Vocab, 30000)) }

func blockTable(first, n int) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = int32(first + i)
	}
	return t
}
