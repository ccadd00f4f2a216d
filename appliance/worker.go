package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os/signal"
	"sync/atomic"
	"syscall"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/remote"
)

// WorkerCommand is the hidden subcommand that a worker process is started with.
const WorkerCommand = "engine-worker"

// workerCommand is the other end of openWorker: it serves one model on the
// connection that it was started with. Its options are its one argument, as
// JSON.
func workerCommand() *command {
	return &command{
		name: WorkerCommand, args: "OPTIONS", hidden: true,
		short: "serve one model to the server that started this process",
		setup: func(*flag.FlagSet) func(context.Context, *Env, []string) error {
			return func(ctx context.Context, _ *Env, args []string) error {
				if len(args) != 1 {
					return usagef("%s is started by the server only", WorkerCommand)
				}
				var s workerSpec
				if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
					return usagef("%s: cannot read the options: %v", WorkerCommand, err)
				}
				conn, err := remote.Inherited()
				if err != nil {
					return err
				}
				// The server ends its workers; a signal to the whole group or
				// session must not cut streams that it is draining.
				signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
				w := &worker{spec: s}
				return remote.ServeOpen(ctx, conn, w.open, remote.ServeOptions{
					Build: buildID(), Note: func() string { return w.note.String() }, Progress: w.progress.share,
				})
			}
		},
	}
}

// worker opens its model, then gives up every right that it no longer needs: a
// model file is foreign data, and nothing it does may reach beyond this process.
type worker struct {
	spec     workerSpec
	note     remote.SandboxReport
	progress loadProgress
}

// loadProgress is how much of a model is loaded, 0 to 1. It is safe for
// concurrent use.
type loadProgress struct{ bits atomic.Uint64 }

func (p *loadProgress) set(share float64) { p.bits.Store(math.Float64bits(share)) }
func (p *loadProgress) share() float64    { return math.Float64frombits(p.bits.Load()) }

func (w *worker) open(ctx context.Context) (infer.Backend, error) {
	o := w.spec.options()
	o.Progress = w.progress.set
	e, err := engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if w.note, err = remote.Sandbox(remote.SandboxOptions{Read: []string{w.spec.Path}}); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// workerSpec is what a worker needs to open its model.
type workerSpec struct {
	Name          string `json:"name"`
	Path          string `json:"path"`
	Device        string `json:"device,omitempty"`
	Threads       int    `json:"threads,omitempty"`
	Activations   string `json:"activations,omitempty"`
	Context       int    `json:"context,omitempty"`
	KVBytes       int64  `json:"kv_bytes,omitempty"`
	MaxSequences  int    `json:"max_sequences,omitempty"`
	MaxStepTokens int    `json:"max_step_tokens,omitempty"`
	Queue         int    `json:"queue,omitempty"`
	NoPrefixCache bool   `json:"no_prefix_cache,omitempty"`
	Licence       string `json:"licence,omitempty"`
	Digest        string `json:"digest,omitempty"`
}

func newWorkerSpec(m modelSpec) workerSpec {
	return workerSpec{
		Name: m.Name, Path: m.File, Device: m.Device, Threads: m.Threads, Activations: m.Activations, Context: m.Context,
		KVBytes: int64(m.KVMemory), MaxSequences: m.MaxSequences, MaxStepTokens: m.StepTokens,
		Queue: m.Queue, NoPrefixCache: !m.PrefixCache, Licence: m.Licence, Digest: m.Digest,
	}
}

func (s workerSpec) options() engine.Options {
	return engine.Options{
		Name: s.Name, Path: s.Path, Device: s.Device, Threads: s.Threads, Activations: s.Activations, Context: s.Context,
		KVBytes: s.KVBytes, MaxSequences: s.MaxSequences, MaxStepTokens: s.MaxStepTokens,
		QueueLimit: s.Queue, NoPrefixCache: s.NoPrefixCache, Licence: s.Licence, Digest: s.Digest, Build: buildID(),
	}
}

// buildID tells two builds apart as far as the toolchain noted it.
func buildID() string {
	b := readBuild()
	return fmt.Sprintf("%s %s %v %s", b.Version, b.Revision, b.Modified, b.Go)
}

// openEngine opens a model in a worker process of its own, or, where the
// configuration or the machine wants it so, in this process.
func (a *Appliance) openEngine(ctx context.Context, m modelSpec) (infer.Backend, error) {
	if m.Device == "cuda" {
		return nil, errors.New(`this build has no GPU worker, device = "cpu" works`)
	}
	if err := a.unpack(&m); err != nil {
		return nil, err
	}
	s := newWorkerSpec(m)
	if m.InProcess || !fileExists("/proc/self/exe") {
		o, p := s.options(), &loadProgress{}
		o.Progress = p.set
		reportOpening(ctx, func() infer.Health { return infer.Health{Progress: p.share()} })
		return engine.Open(ctx, o)
	}
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	log := a.log.With("model", m.Name)
	sup := remote.Supervise(&remote.Command{
		Args:   []string{WorkerCommand, string(arg)},
		Stderr: func(line string) { log.Warn("worker says", "line", line) },
	}, remote.SupervisorOptions{Build: buildID(), Log: log})
	reportOpening(ctx, func() infer.Health { return sup.Health(ctx) })
	if err := sup.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, sup.Close())
	}
	return sup, nil
}
