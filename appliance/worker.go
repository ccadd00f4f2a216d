package appliance

import (
	"context"
	"errors"
	"flag"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/remote"
	"hearth/engine/worker/host"
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
				spec, err := host.ParseSpec(args[0])
				if err != nil {
					return usagef("%s: %v", WorkerCommand, err)
				}
				return host.Serve(ctx, spec, host.Kind{Build: host.Build()})
			}
		},
	}
}

func newWorkerSpec(m modelSpec) host.Spec {
	return host.Spec{
		Name: m.Name, Path: m.File, Device: m.Device, Threads: m.Threads, Activations: m.Activations, Context: m.Context,
		KVBytes: int64(m.KVMemory), KVType: m.KVType, MaxSequences: m.MaxSequences, MaxStepTokens: m.StepTokens,
		Queue: m.Queue, NoPrefixCache: !m.PrefixCache, Speculation: m.Speculation, SpeculateTo: m.SpeculationBatch, Licence: m.Licence, Digest: m.Digest,
		Library: m.CUDA.Library, NoGraphs: !m.CUDA.Graphs,
	}
}

// cpuSpec is s for the CPU, which keeps no cache in 8 bits and knows no other
// fast activations than its own.
func cpuSpec(s host.Spec) host.Spec {
	s.Device, s.Library, s.NoGraphs = "cpu", "", false
	if s.KVType == "fp8" || s.KVType == "int8" {
		s.KVType = ""
	}
	if s.Activations == "fast" {
		s.Activations = ""
	}
	return s
}

// openEngine opens a model on the device that it asks for: in worker processes,
// or, where the configuration or the machine wants it so, in this process on the
// CPU.
func (a *Appliance) openEngine(ctx context.Context, m modelSpec) (infer.Backend, error) {
	if err := a.unpack(&m); err != nil {
		return nil, err
	}
	if m.Device == "" {
		m.Device = deviceAuto
	}
	if m.InProcess || !fileExists("/proc/self/exe") {
		return a.openHere(ctx, m)
	}
	if m.Device == deviceCPU {
		return a.openWorker(ctx, m, nil, "")
	}
	return a.openOnGPU(ctx, m)
}

// openHere opens a model inside this process.
func (a *Appliance) openHere(ctx context.Context, m modelSpec) (infer.Backend, error) {
	why := "it is configured to run inside the server"
	if !m.InProcess {
		why = "/proc is not mounted, so that no worker can be started"
	}
	if m.Device != deviceAuto && m.Device != deviceCPU {
		return nil, errors.New("cannot use a GPU: " + why)
	}
	if !m.InProcess {
		a.log.Warn("a model runs inside the server, on the CPU", "model", m.Name, "reason", why)
	}
	o, p := cpuSpec(newWorkerSpec(m)).Options(host.Build()), &host.Progress{}
	o.Progress = p.Set
	reportOpening(ctx, func() infer.Health { return infer.Health{Progress: p.Share()} })
	return engine.Open(ctx, o)
}

// openWorker opens a model in a worker process. gpu is how that is started; nil:
// it is this program again, on the CPU, because of degraded. A model that may
// run on the CPU goes there when the GPU fails.
func (a *Appliance) openWorker(ctx context.Context, m modelSpec, gpu *remote.Command, degraded string) (*remote.Supervisor, error) {
	arg, err := cpuSpec(newWorkerSpec(m)).Argument()
	if err != nil {
		return nil, err
	}
	log := a.log.With("model", m.Name)
	says := func(line string) { log.Warn("worker says", "line", line) }
	o := remote.SupervisorOptions{Build: host.Build(), Log: log, Degraded: degraded}
	cpu := &remote.Command{Args: []string{WorkerCommand, arg}, Stderr: says}
	var launch remote.Launcher = cpu
	if gpu != nil {
		gpu.Stderr = says
		launch, o.Stall = gpu, m.CUDA.Stall.Std()
		if m.Device == deviceAuto {
			o.Fallback, o.FallbackAfter = cpu, gpuTries
		}
	}
	sup := remote.Supervise(launch, o)
	reportOpening(ctx, func() infer.Health { return sup.Health(ctx) })
	if err := sup.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, sup.Close())
	}
	return sup, nil
}

// gpuTries is how many workers in a row may be lost before they are ready until a
// model that may goes to the CPU.
const gpuTries = 3
