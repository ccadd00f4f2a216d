package appliance

import (
	"context"
	"errors"
	"time"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/worker/host"
	"hearth/engine/worker/report"
)

// planTimeout is how long a GPU worker may take to plan: the driver's start, and
// the tables of a file.
const planTimeout = time.Minute

// planSpec plans a model where it would be opened: on a GPU, or where there is
// none for it, if it may, on the CPU. now is how it is: one that is on a GPU may
// have no room there a second time.
func planSpec(ctx context.Context, dir dataDir, g *gpus, s modelSpec, now infer.Health) (modelPlan, error) {
	if s.Device == "" {
		s.Device = deviceAuto
	}
	note, there := "", now.Ready && now.Device != deviceCPU
	if s.Device != deviceCPU && !s.InProcess {
		p, fault := planOnGPU(ctx, dir, g, s)
		if fault == nil && (p.Fits || there || s.Device != deviceAuto) {
			out := newModelPlan(s.Name, p)
			out.Loaded = now.Ready
			return out, nil
		}
		if fault == nil {
			fault = report.Faultf(report.OutOfMemory, "", "%s", p.Reason)
		}
		if s.Device != deviceAuto {
			return modelPlan{}, infer.Errorf(infer.CodeUnavailable, "cannot plan for device %q: %v (%s)", s.Device, fault, fault.Fix)
		}
		if fault.Code != report.NoWorker || nvidiaCards(pciDevices) > 0 { // a build without the worker is meant for the CPU
			note = fault.Error()
		}
	}
	p, err := engine.PlanMemory(cpuSpec(newWorkerSpec(s)).Options(host.Build()))
	if err != nil {
		return modelPlan{}, &infer.Error{Code: infer.CodeInvalid, Message: err.Error()}
	}
	out := newModelPlan(s.Name, p)
	out.Loaded, out.Note = now.Ready, note
	return out, nil
}

// planOnGPU asks a GPU worker about the GPU that the model would be given.
func planOnGPU(ctx context.Context, dir dataDir, g *gpus, s modelSpec) (*engine.MemoryPlan, *report.Fault) {
	places, fault := g.take(listGPUs(ctx, dir, s.CUDA.Library), s.Device, 1)
	if fault != nil {
		return nil, fault
	}
	g.give(places) // a plan is no model: others choose as if it were not there
	spec := newWorkerSpec(s)
	spec.Device = places[0].UUID
	var p host.Plan
	if err := askGPU(ctx, dir, gpuPlan, spec, planTimeout, &p); err != nil {
		return nil, asFault(err)
	}
	if p.Memory == nil && p.Fault == nil {
		return nil, asFault(errors.New("the worker told no plan"))
	}
	return p.Memory, p.Fault
}
