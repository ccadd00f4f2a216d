// Package host is what the two kinds of worker have in common: the options that
// the server hands over, and serving one model on the inherited connection. It
// knows no device but those of package engine; a worker for others brings a way
// to open them.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/remote"
	"hearth/engine/worker/report"
)

// Spec is what a worker needs to open its model.
type Spec struct {
	Name          string `json:"name"`
	Path          string `json:"path"`
	Device        string `json:"device,omitempty"` // "cpu", or the UUID of a GPU
	Threads       int    `json:"threads,omitempty"`
	Activations   string `json:"activations,omitempty"`
	Context       int    `json:"context,omitempty"`
	KVBytes       int64  `json:"kv_bytes,omitempty"`
	KVType        string `json:"kv_type,omitempty"`
	MaxSequences  int    `json:"max_sequences,omitempty"`
	MaxStepTokens int    `json:"max_step_tokens,omitempty"`
	Queue         int    `json:"queue,omitempty"`
	NoPrefixCache bool   `json:"no_prefix_cache,omitempty"`
	Speculation   int    `json:"speculation,omitempty"`
	SpeculateTo   int    `json:"speculation_batch,omitempty"`
	Licence       string `json:"licence,omitempty"`
	Digest        string `json:"digest,omitempty"`

	Library  string `json:"library,omitempty"` // of the GPU's driver
	NoGraphs bool   `json:"no_graphs,omitempty"`
}

// Options are s for the engine. build tells this program apart from others.
func (s Spec) Options(build string) engine.Options {
	return engine.Options{
		Name: s.Name, Path: s.Path, Device: s.Device, Threads: s.Threads, Activations: s.Activations, Context: s.Context,
		KVBytes: s.KVBytes, KVType: s.KVType, MaxSequences: s.MaxSequences, MaxStepTokens: s.MaxStepTokens,
		QueueLimit: s.Queue, NoPrefixCache: s.NoPrefixCache, Speculation: s.Speculation, SpeculationBatch: s.SpeculateTo, Licence: s.Licence, Digest: s.Digest, Build: build,
	}
}

// Argument is s as the one argument of a worker.
func (s Spec) Argument() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// ParseSpec reads the argument of a worker.
func ParseSpec(arg string) (s Spec, err error) {
	if err = json.Unmarshal([]byte(arg), &s); err != nil {
		return s, fmt.Errorf("cannot read the options: %w", err)
	}
	return s, nil
}

// Plan is what a worker answers that is asked what a model would take.
type Plan struct {
	Memory *engine.MemoryPlan `json:"memory,omitempty"`
	Fault  *report.Fault      `json:"fault,omitempty"` // why the model cannot be there
}

// Kind is what differs between workers.
type Kind struct {
	Name  string // of the process, as ps shows it; empty: as it was started
	Build string // of this program; the server wants its own
	// Device opens devices; nil: those of package engine.
	Device engine.DeviceFactory
	// Prepare comes before the model is looked at; nil: nothing is to be done.
	Prepare func(*engine.Options) error
	// Sandbox says what the worker needs once its model is open, beside the model's
	// files. Needs, if not nil, tells then what else may be read, and driven.
	Sandbox remote.SandboxOptions
	Needs   func() (read, devices []string)
	// Devices tells of what the model runs on; nil: nothing is known.
	Devices func() []infer.Device
	// Explain puts an error of opening into words; nil: they are good enough.
	Explain func(error) error
}

// Serve opens the model of spec and answers the server until that goes.
func Serve(ctx context.Context, spec Spec, k Kind) error {
	conn, err := remote.Inherited()
	if err != nil {
		return err
	}
	if k.Name != "" {
		// Started from memory the process is called by a number. Where the name
		// cannot be set nothing is lost.
		_ = os.WriteFile("/proc/self/comm", []byte(k.Name), 0)
	}
	// The server ends its workers; a signal to the whole group or session must
	// not cut streams that it is draining.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	w := &worker{spec: spec, kind: k}
	return remote.ServeOpen(ctx, conn, w.open, remote.ServeOptions{
		Build: k.Build, Note: func() string { return w.note.String() }, Progress: w.progress.Share,
	})
}

// worker opens its model, then gives up every right that it no longer needs: a
// model file is foreign data, and nothing it does may reach beyond this process.
type worker struct {
	spec     Spec
	kind     Kind
	note     remote.SandboxReport
	progress Progress
}

// Progress is how much of a model is loaded, 0 to 1. It is safe for concurrent
// use.
type Progress struct{ bits atomic.Uint64 }

// Set and Share write and read it.
func (p *Progress) Set(share float64) { p.bits.Store(math.Float64bits(share)) }
func (p *Progress) Share() float64    { return math.Float64frombits(p.bits.Load()) }

func (w *worker) open(ctx context.Context) (infer.Backend, error) {
	o := w.spec.Options(w.kind.Build)
	o.Progress, o.OpenDevice = w.progress.Set, w.kind.Device
	e, err := w.kind.engine(ctx, o)
	if err != nil {
		return nil, err
	}
	sandbox := w.kind.Sandbox
	sandbox.Read = append(slices.Clone(sandbox.Read), w.spec.Path)
	if w.kind.Needs != nil {
		read, devices := w.kind.Needs()
		sandbox.Read, sandbox.Devices = append(sandbox.Read, read...), append(sandbox.Devices, devices...)
	}
	if w.note, err = remote.Sandbox(sandbox); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if w.kind.Devices == nil {
		return e, nil
	}
	return &telling{e, w.kind}, nil
}

// engine opens the model, with errors in words.
func (k *Kind) engine(ctx context.Context, o engine.Options) (*engine.Engine, error) {
	var err error
	if k.Prepare != nil {
		err = k.Prepare(&o)
	}
	var e *engine.Engine
	if err == nil {
		e, err = engine.Open(ctx, o)
	}
	if err != nil && k.Explain != nil {
		err = k.Explain(err)
	}
	return e, err
}

// telling is a backend that also tells of the hardware.
type telling struct {
	*engine.Engine
	kind Kind
}

func (t *telling) Health(ctx context.Context) infer.Health {
	h := t.Engine.Health(ctx)
	h.Stats.Devices = t.kind.Devices()
	if h.Failed && t.kind.Explain != nil {
		if err := t.Engine.Failed(); err != nil {
			h.Reason = t.kind.Explain(err).Error()
		}
	}
	return h
}
