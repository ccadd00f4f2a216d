package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/engine/remote"
	"hearth/engine/replica"
	"hearth/engine/worker/embedded"
	"hearth/engine/worker/report"
)

const (
	deviceAuto = config.DeviceAuto
	deviceCPU  = config.DeviceCPU
	deviceCUDA = config.DeviceCUDA
)

// gpuHere starts the GPU worker that is linked into this program, with a tag for
// developing on a machine with a GPU; nil: it is another program, inside this.
var gpuHere func(args []string) *remote.Command

// gpuCommand starts the GPU worker with a command and its options.
func gpuCommand(dir dataDir, command string, options any) (*remote.Command, error) {
	arg, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	args := []string{command, string(arg)}
	if gpuHere != nil {
		return gpuHere(args), nil
	}
	program := embedded.Worker()
	if program == "" {
		return nil, report.Faultf(report.NoWorker, "use a release, or build one with scripts/release", "this build carries no GPU worker")
	}
	return &remote.Command{Args: args, Image: &remote.Image{Name: embedded.Name, ELF: program, Dir: dir.join("run")}}, nil
}

// Bounds on how long a GPU worker may take to answer once.
const (
	listTimeout   = 45 * time.Second // the driver's start takes seconds on a machine with many GPUs
	doctorTimeout = 5 * time.Minute  // eight GPUs, whose driver keeps nothing of what it compiles
	benchSlack    = time.Minute
)

// askGPU has a GPU worker answer once. q is a report.Query, or a host.Spec for a
// plan.
func askGPU(ctx context.Context, dir dataDir, command string, q any, limit time.Duration, into any) error {
	c, err := gpuCommand(dir, command, q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := c.RunOnce(ctx)
	if err != nil {
		return report.Faultf(report.CannotStart, "run `hearth doctor`", "%v", err)
	}
	return json.Unmarshal(b, into)
}

// listGPUs lists the GPUs of this machine; what keeps them from being used is the
// list's fault.
func listGPUs(ctx context.Context, dir dataDir, library string) *report.List {
	l := &report.List{}
	if err := askGPU(ctx, dir, gpuList, report.Query{Library: library}, listTimeout, l); err != nil {
		l = &report.List{Fault: asFault(err)}
	}
	if l.Devices == nil {
		l.Devices = []report.Device{}
	}
	return l
}

// Commands of the GPU worker.
const (
	gpuServe  = "serve"
	gpuList   = "list"
	gpuDoctor = "doctor"
	gpuBench  = "bench"
	gpuPlan   = "plan"
)

func asFault(err error) *report.Fault {
	var f *report.Fault
	if errors.As(err, &f) {
		return f
	}
	return report.Faultf(report.Other, "", "%v", err)
}

// gpus is where models are on the GPUs of this machine. It is safe for
// concurrent use.
type gpus struct {
	mu    sync.Mutex     // guards below
	users map[string]int // models on each GPU, by UUID
}

// take chooses up to want GPUs of l for a model: those with the fewest models,
// of these with the most free memory. name is what the model asks for.
func (g *gpus) take(l *report.List, name string, want int) ([]report.Device, *report.Fault) {
	if l.Fault != nil {
		return nil, l.Fault
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var chosen []report.Device
	if name != deviceAuto && name != deviceCUDA {
		d, f := l.Find(name)
		if f != nil {
			return nil, f
		}
		chosen = append(chosen, *d)
	}
	var usable []report.Device
	var fault *report.Fault
	for _, d := range l.Devices {
		switch {
		case d.Fault != nil:
			fault = d.Fault
		case len(chosen) == 0 || d.UUID != chosen[0].UUID:
			usable = append(usable, d)
		}
	}
	slices.SortStableFunc(usable, func(a, b report.Device) int {
		return cmp.Or(cmp.Compare(g.users[a.UUID], g.users[b.UUID]), cmp.Compare(b.FreeBytes, a.FreeBytes))
	})
	chosen = append(chosen, usable[:min(max(0, want-len(chosen)), len(usable))]...)
	if len(chosen) == 0 {
		if fault == nil {
			fault = report.Faultf(report.NoDevice, "run `hearth device doctor`", "there is no GPU")
		}
		return nil, fault
	}
	if g.users == nil {
		g.users = map[string]int{}
	}
	for _, d := range chosen {
		g.users[d.UUID]++
	}
	return chosen, nil
}

func (g *gpus) give(list []report.Device) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range list {
		g.users[d.UUID]--
	}
}

// onGPU is a model that is on GPUs, until it is closed.
type onGPU struct {
	infer.Backend
	give func()
	once sync.Once
}

func (o *onGPU) Close() error {
	defer o.once.Do(o.give)
	return o.Backend.Close()
}

// PID and Note are the worker's.
func (o *onGPU) PID() int {
	if w, ok := o.Backend.(interface{ PID() int }); ok {
		return w.PID()
	}
	return 0
}

func (o *onGPU) Note() string {
	if w, ok := o.Backend.(interface{ Note() string }); ok {
		return w.Note()
	}
	return ""
}

// mayPass are faults that pass by themselves after a start of the machine.
func mayPass(f *report.Fault) bool {
	return f != nil && (f.Code == report.NotReady || f.Code == report.NoDevice)
}

// waitForGPUs lists the GPUs, for a while again and again where the machine shows
// some and the driver is not ready.
func (a *Appliance) waitForGPUs(ctx context.Context, m modelSpec) *report.List {
	for end := time.Now().Add(m.CUDA.Wait.Std()); ; {
		l := listGPUs(ctx, a.dir, m.CUDA.Library)
		if !mayPass(l.Fault) || nvidiaCards(pciDevices) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return l
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// maxWaitForOld bounds how long a model that is loaded anew waits for the memory
// that its predecessor holds.
const maxWaitForOld = time.Minute

// waitForOld waits until what was loaded under a name before has given its memory
// back: a GPU seldom has room for both, and the new one would go to the CPU.
func (m *models) waitForOld(ctx context.Context, name string) {
	t := time.NewTimer(maxWaitForOld)
	defer t.Stop()
	leaves, _ := m.draining(name)
	for _, old := range leaves {
		select {
		case <-old.gone:
		case <-ctx.Done():
			return
		case <-t.C:
			return
		}
	}
}

// openOnGPU opens a model on one or several GPUs, or, if it may, on the CPU with
// the reason.
func (a *Appliance) openOnGPU(ctx context.Context, m modelSpec) (infer.Backend, error) {
	if a.models != nil {
		a.models.waitForOld(ctx, m.Name)
	}
	places, fault := a.gpus.take(a.waitForGPUs(ctx, m), m.Device, max(1, m.Replicas))
	if fault == nil {
		b, err := a.openReplicas(ctx, m, places)
		if err == nil {
			return &onGPU{Backend: b, give: func() { a.gpus.give(places) }}, nil
		}
		a.gpus.give(places)
		if m.Device != deviceAuto || len(places) == 1 { // a single worker went to the CPU by itself, if it could
			return nil, err
		}
		fault = asFault(err)
	}
	if m.Device != deviceAuto {
		return nil, fmt.Errorf("cannot use device %q: %w (%s)", m.Device, fault, fault.Fix)
	}
	return a.openWorker(ctx, m, nil, a.sayCPU(m, fault))
}

// sayCPU tells the operator why a model goes to the CPU. A machine without
// NVIDIA's cards is not worse off for it, unless somebody meant it to have one.
func (a *Appliance) sayCPU(m modelSpec, fault *report.Fault) (degraded string) {
	cards := nvidiaCards(pciDevices)
	if cards == 0 && fault.Code == report.NoWorker {
		return ""
	}
	level := a.log.Info
	if cards > 0 {
		level = a.log.Warn
	}
	level("a model runs on the CPU", "model", m.Name, "reason", string(fault.Code), "error", fault.Text, "fix", fault.Fix)
	return fault.Error()
}

// openReplicas opens a model on each of places. Of several those that cannot be
// opened are left out, unless none can.
func (a *Appliance) openReplicas(ctx context.Context, m modelSpec, places []report.Device) (infer.Backend, error) {
	open := func(m modelSpec, d report.Device) (*remote.Supervisor, error) {
		spec := newWorkerSpec(m)
		spec.Device = d.UUID
		c, err := gpuCommand(a.dir, gpuServe, spec)
		if err != nil {
			return nil, err
		}
		return a.openWorker(ctx, m, c, "")
	}
	if len(places) == 1 {
		return open(m, places[0])
	}
	only := m
	only.Device = deviceCUDA // a replica does not go to the CPU while others have GPUs
	sups, errs := make([]*remote.Supervisor, len(places)), make([]error, len(places))
	var wg sync.WaitGroup
	for i, d := range places {
		wg.Go(func() { sups[i], errs[i] = open(only, d) })
	}
	wg.Wait()
	var members []infer.Backend
	for i, s := range sups {
		if errs[i] == nil {
			members = append(members, s)
			continue
		}
		a.log.Error("a replica cannot be loaded", "model", m.Name, "device", places[i].ID, "error", errs[i])
	}
	if members == nil {
		return nil, errors.Join(errs...)
	}
	return replica.New(members), nil
}
