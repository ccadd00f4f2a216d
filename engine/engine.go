// Package engine is the local inference engine: a model file opened and served
// as an infer.Backend. It wires the parts that do not know each other (weights,
// model, tokenizer, chat template, grammar, output, core) and does the work of a
// request that has no place in the step loop.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"hearth/engine/chattmpl"
	"hearth/engine/core"
	"hearth/engine/grammar"
	"hearth/engine/infer"
	"hearth/engine/model"
	"hearth/engine/output"
	"hearth/engine/sched"
	"hearth/engine/tokenizer"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
)

// Options say how a model is served. The zero value of a field means the
// default that its comment names.
type Options struct {
	Name string // as it is asked for; "" is the file's own name
	Path string // a .gguf file or a directory of safetensors

	Device      string // "cpu" (default) or "ref", or what OpenDevice knows
	Threads     int    // 0: the device's choice
	Activations string // "" (default): the device's own; "f32": not rounded; on a CPU "bf16", see cpu.Options; on a GPU "fast": rounded to what is fastest
	KernelPath  string // "" (default): the best of the machine, see cpu.Options
	Context     int    // tokens of a sequence; 0: what the model states, at most MaxDefaultContext

	KVBytes       int64  // cache; 0: computed, see planKV
	KVType        string // of its values: "f32", "f16", "bf16", or on a GPU "fp8" or "int8"; "": see DefaultCache
	BlockSize     int    // tokens of a block; 0: 16
	MaxSequences  int    // running at once; 0: 32
	MaxStepTokens int    // of all sequences in a step; 0: 256
	MaxChunk      int    // prompt tokens of one sequence in a step in company; 0: MaxStepTokens/2
	QueueLimit    int    // requests queued or running; 0: 1024
	NoPrefixCache bool

	// Speculation is the most tokens guessed ahead of a sequence from what it has
	// said before; 0: none. SpeculationBatch is the most sequences running for
	// which that is done; 0: 4.
	Speculation      int
	SpeculationBatch int

	CompileDeadline time.Duration // of a grammar; 0: the compiler's own
	Licence         string        // as recorded when the model was added
	Digest          string        // of the weights; "" is computed, which reads the file
	Build           string        // of this program, part of the fingerprint
	Now             func() time.Time
	Random          func([]byte)  // fills with random bytes; nil: crypto/rand
	OpenDevice      DeviceFactory // nil: the devices of this build
	Hardware        string        // as the contract's terms name it; "": Device

	// Progress, if not nil, is told how much of Open is done, 0 to 1.
	Progress func(share float64)

	release func(data []byte)       // gives mapped pages back
	loaded  func(done, total int64) // see Loaded

	// BeforeStep is a test hook, see core.Config.
	BeforeStep func(step uint64, running []*sched.Sequence, preempt func(*sched.Sequence))
}

// Loaded is what a device tells how many bytes of the weights it has taken; nil:
// nobody asks.
func (o *Options) Loaded() func(done, total int64) { return o.loaded }

// Release gives back the pages of the model file under data, once a device has
// its own copy.
func (o *Options) Release() func(data []byte) { return o.release }

// DeviceFactory makes a device by the options.
type DeviceFactory func(o Options) (kernels.Device, error)

// MaxDefaultContext bounds the context where the operator names none: models
// state up to a million tokens, which no small box can hold.
const MaxDefaultContext = 8192

// Engine serves one model. It implements infer.Backend.
type Engine struct {
	opts  Options
	file  *weights.File
	prog  *kernels.Program
	cfg   *model.Config
	tok   *tokenizer.Tokenizer
	tmpl  *chattmpl.Template
	grams func() *grammar.Compiler // made when it is first asked for
	dev   kernels.Device
	core  *core.Core
	info  infer.Model
	// slower says why the device is not what it could be.
	slower string
	ends   []int32
	// markers are the control tokens that tool syntax or reasoning spell.
	markers []marker
	longest int // bytes of the longest piece

	tools     *output.ToolFormat
	reasoning output.ReasoningFormat
	reasons   bool

	prepared preparedCache
	closing  sync.Once
}

var _ infer.Backend = (*Engine)(nil)

// Open loads a model and starts its loop. Errors say what is wrong with the
// file or what does not fit.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o = withDefaults(o)
	f, err := weights.Open(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", o.Path, err)
	}
	e := &Engine{opts: o, file: f}
	if err := e.open(ctx); err != nil {
		e.Close()
		return nil, fmt.Errorf("open model %s: %w", o.Path, err)
	}
	return e, nil
}

func withDefaults(o Options) Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.BlockSize, 16)
	def(&o.MaxSequences, 32)
	def(&o.MaxStepTokens, 256)
	def(&o.MaxChunk, max(o.MaxStepTokens/2, o.BlockSize))
	def(&o.QueueLimit, 1024)
	def(&o.SpeculationBatch, 4)
	if o.Device == "" || o.Device == "auto" {
		o.Device = "cpu"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = func(b []byte) { rand.Read(b) }
	}
	if o.OpenDevice == nil {
		o.OpenDevice = openDevice
	}
	return o
}

// open finds what can be wrong with a model before its weights are taken. They are
// taken beside the digest, which needs nothing but the file.
func (e *Engine) open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait() // Close unmaps what it reads
	defer cancel()
	hashing, loading := e.shares()
	digest, digestErr := e.opts.Digest, error(nil)
	if digest == "" {
		beside.Go(func() { digest, digestErr = e.file.Digest(ctx, hashing) })
	}
	if err := e.read(); err != nil {
		return err
	}
	beside.Go(func() { e.tok.Hash() }) // which it keeps
	kv, err := e.load(loading)
	if err != nil {
		return err
	}
	if beside.Wait(); digestErr != nil {
		return digestErr
	}
	e.describe(digest)
	e.start(kv)
	return nil
}

// read makes everything of the file but the weights: program, tokenizer and chat
// template.
func (e *Engine) read() (err error) {
	if e.tok, err = openTokenizer(e.file); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	if e.prog, e.cfg, err = buildModel(e.file, e.opts.Context); err != nil {
		return err
	}
	e.opts.KVType = cmp.Or(e.opts.KVType, DefaultCache(e.opts.Device, e.opts.Activations, e.prog))
	if e.tok.Size() > e.cfg.Vocab {
		return fmt.Errorf("the tokenizer has %d tokens and the output matrix %d rows", e.tok.Size(), e.cfg.Vocab)
	}
	if err := e.openTemplate(); err != nil {
		return fmt.Errorf("chat template: %w", err)
	}
	e.ends = endIDs(e.tok, e.cfg)
	for _, p := range e.tok.Pieces() {
		e.longest = max(e.longest, len(p))
	}
	e.grams = sync.OnceValue(func() *grammar.Compiler {
		return grammar.NewCompiler(grammar.NewVocab(e.tok.Pieces(), e.tok.IsControl, e.ends), grammar.Options{Deadline: e.opts.CompileDeadline})
	})
	return nil
}

// load plans the memory and has the device take the weights.
func (e *Engine) load(loading func(done, total int64)) (kv kernels.KVConfig, err error) {
	e.opts.release, e.opts.loaded = e.file.Release, loading
	o := e.opts
	o.Context = e.cfg.ContextLength // what is served, also where nothing was asked for
	dev, err := o.OpenDevice(o)
	if err != nil {
		return kv, err
	}
	e.dev = dev
	if e.opts.Device == "cpu" && e.opts.KernelPath == "" {
		e.slower = slower(cpu.Refused(), dev.Stats().Path)
	}
	if kv, err = planKV(e.opts, e.prog, e.cfg, dev); err != nil {
		return kv, err
	}
	if err := dev.Load(e.prog, kv); err != nil {
		return kv, fmt.Errorf("load into %s: %w", dev.Name(), err)
	}
	return kv, nil
}

// start runs the loop.
func (e *Engine) start(kv kernels.KVConfig) {
	e.core = core.New(core.Config{
		Device: e.dev, Program: e.prog, KV: kv,
		Sched: sched.Config{
			MaxTokens:    e.opts.MaxStepTokens,
			MaxSequences: min(e.opts.MaxSequences, e.opts.MaxStepTokens),
			MaxChunk:     e.opts.MaxChunk,
		},
		PrefixCache: !e.opts.NoPrefixCache,
		EndIDs:      e.ends,
		Piece:       e.tok.Piece,
		QueueLimit:  e.opts.QueueLimit,
		Draft:       e.opts.Speculation,
		DraftBatch:  e.opts.SpeculationBatch,
		BeforeStep:  e.opts.BeforeStep,
	})
}

// describe fills what is known of the model.
func (e *Engine) describe(digest string) {
	name := e.opts.Name
	if name == "" {
		name = e.file.About.Name
	}
	licence := e.opts.Licence
	if licence == "" {
		licence = e.file.About.Licence
	}
	template := sha256.Sum256([]byte(e.tmpl.Source()))
	e.info = infer.Model{
		Name:          name,
		Architecture:  e.cfg.Architecture,
		ContextLength: e.cfg.ContextLength,
		Vocabulary:    e.cfg.Vocab,
		Embedding:     e.cfg.Hidden,
		Quantization:  e.cfg.Quantization,
		ParameterSize: e.cfg.Parameters,
		FileBytes:     e.file.Size,
		Digest:        digest,
		TokenizerHash: e.tok.Hash(),
		TemplateHash:  hex.EncodeToString(template[:]),
		Licence:       licence,
		Tools:         true,
		Reasoning:     e.reasons,
		TemplateArgs:  readArgs(e.tmpl.Source()),
		Created:       e.opts.Now().Unix(),
		Device:        e.dev.Name(),
	}
	e.info.Terms = e.terms()
	e.info.Fingerprint = fingerprint(e.info.Terms)
}

// digestShare is about how much of the work of opening a model goes into its
// digest, where nobody has it.
const digestShare = 0.4

// shares are what is told of two parts of the work, done side by side, and told on
// to Options.Progress as one; nil where nobody wants to know.
func (e *Engine) shares() (hashing, loading func(done, total int64)) {
	if e.opts.Progress == nil {
		return nil, nil
	}
	var mu sync.Mutex
	var made [2]float64 // guarded by mu
	part := func(i int, share float64) func(done, total int64) {
		return func(done, total int64) {
			if total <= 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			made[i] = share * float64(done) / float64(total)
			e.opts.Progress(made[0] + made[1])
		}
	}
	if e.opts.Digest != "" {
		return nil, part(1, 1)
	}
	return part(0, digestShare), part(1, 1-digestShare)
}

// readArgs lists the variables about reasoning that a template mentions.
func readArgs(source string) []string {
	var out []string
	for _, name := range []string{"enable_thinking", "reasoning_effort"} {
		if strings.Contains(source, name) {
			out = append(out, name)
		}
	}
	return out
}

// terms is everything in this engine that can change an answer: build,
// artifacts, precision, cache and batching policy, hardware.
func (e *Engine) terms() []infer.Term {
	activations := e.opts.Activations
	if activations == "" {
		activations = "q8"
	}
	if own := cpu.OwnSums(e.opts.KernelPath); own != "" && activations == "bf16" {
		activations += " on " + own // which rounds sums as no other machine need do
	}
	return []infer.Term{
		{Name: "build", Value: e.opts.Build},
		{Name: "model", Value: e.info.Digest},
		{Name: "tokenizer", Value: e.info.TokenizerHash},
		{Name: "template", Value: e.info.TemplateHash},
		{Name: "quantization", Value: e.cfg.Quantization},
		{Name: "activations", Value: activations},
		{Name: "context", Value: strconv.Itoa(e.cfg.ContextLength)},
		{Name: "kv_type", Value: e.opts.KVType},
		{Name: "kv_block", Value: strconv.Itoa(e.opts.BlockSize)},
		{Name: "max_sequences", Value: strconv.Itoa(e.opts.MaxSequences)},
		{Name: "step_tokens", Value: strconv.Itoa(e.opts.MaxStepTokens)},
		{Name: "prefill_chunk", Value: strconv.Itoa(e.opts.MaxChunk)},
		{Name: "speculation", Value: strconv.Itoa(e.opts.Speculation)},
		{Name: "prefix_cache", Value: strconv.FormatBool(!e.opts.NoPrefixCache)},
		{Name: "device", Value: cmp.Or(e.opts.Hardware, e.opts.Device)},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
}

// fingerprint is a short digest of terms.
func fingerprint(terms []infer.Term) string {
	h := sha256.New()
	for _, t := range terms {
		fmt.Fprintf(h, "%s %q\n", t.Name, t.Value)
	}
	return "fp_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// Models lists the one model.
func (e *Engine) Models(context.Context) ([]infer.Model, error) {
	return []infer.Model{e.info}, nil
}

// Health is ready while the loop runs.
func (e *Engine) Health(context.Context) infer.Health {
	h := infer.Health{Ready: true, Device: e.info.Device, Degraded: e.slower, Stats: e.core.Stats()}
	if err := e.core.Failed(); err != nil {
		h.Ready, h.Failed, h.Reason = false, true, reasonOf(err)
	}
	return h
}

// Failed is the error that ended the loop, nil while it runs.
func (e *Engine) Failed() error { return e.core.Failed() }

// reasonOf is an error in words for an operator, its cause included.
func reasonOf(err error) string {
	if e := new(infer.Error); errors.As(err, &e) && e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return err.Error()
}

// Close ends the loop, the device and the mapping.
func (e *Engine) Close() error {
	var errs []error
	e.closing.Do(func() {
		if e.core != nil {
			e.core.Close()
		}
		if e.dev != nil {
			errs = append(errs, e.dev.Close())
		}
		errs = append(errs, e.file.Close())
	})
	return errors.Join(errs...)
}

// random64 is a random word for seeds and ids.
func (e *Engine) random64() uint64 {
	var b [8]byte
	e.opts.Random(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
