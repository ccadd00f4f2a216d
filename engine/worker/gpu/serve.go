package gpu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/remote"
	"hearth/engine/worker/host"
	"hearth/engine/worker/nvml"
	"hearth/engine/worker/report"
	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
)

// server is a worker that serves one model on one GPU.
type server struct {
	spec host.Spec
	m    *machine
	gpu  *driver.Device
	read *nvml.GPU // nil: no readings
}

// serve answers the server that started this process, until that goes.
func serve(ctx context.Context, arg, build string) error {
	spec, err := host.ParseSpec(arg)
	if err != nil {
		return err
	}
	s := &server{spec: spec}
	return host.Serve(ctx, spec, host.Kind{
		Name: "hearth-gpu", Build: build, Prepare: s.prepare, Device: s.device, Explain: explain, Devices: s.devices,
		Sandbox: remote.SandboxOptions{ExecutableMemory: true},
		Needs:   s.needs,
	})
}

// prepare finds the GPU before the model is looked at.
func (s *server) prepare(o *engine.Options) error {
	var err error
	if s.m, err = open(s.spec.Library); err != nil {
		return err
	}
	if s.gpu, err = s.m.find(s.spec.Device); err != nil {
		return err
	}
	if s.m.readings != nil {
		// Without readings the model runs all the same.
		s.read, _ = s.m.readings.GPU(s.gpu.UUID, deviceID(s.gpu), s.gpu.Name)
	}
	o.Hardware = fmt.Sprintf("cuda %s", s.gpu.Name)
	return nil
}

// device takes the GPU into use.
func (s *server) device(o engine.Options) (kernels.Device, error) {
	if o.Activations == "f32" {
		return nil, report.Faultf(report.Other, `set activations = "q8", or device = "cpu"`, `a GPU does not compute with activations = "f32"`)
	}
	if o.Activations == "bf16" {
		return nil, report.Faultf(report.Other, `set activations = "fast", or device = "cpu"`, `a GPU does not compute with activations = "bf16"`)
	}
	g, err := s.m.driver.OpenGPU(*s.gpu)
	if err != nil {
		return nil, err
	}
	return cuda.New(g, cuda.Options{
		NoGraphs: s.spec.NoGraphs, Fast: o.Activations == "fast", KV: o.KVType,
		Rows: o.MaxStepTokens, Sequences: o.MaxSequences, Context: o.Context,
		Release: o.Release(), Progress: o.Loaded(),
	})
}

// plan says what a model would take on its GPU, or why it cannot be there.
func plan(arg, build string) (*host.Plan, error) {
	spec, err := host.ParseSpec(arg)
	if err != nil {
		return nil, err
	}
	s, o := &server{spec: spec}, spec.Options(build)
	o.OpenDevice = s.device
	var p *engine.MemoryPlan
	if err = s.prepare(&o); err == nil {
		p, err = engine.PlanDeviceMemory(o)
	}
	return &host.Plan{Memory: p, Fault: faultOf(err)}, nil
}

// devices tells of the one GPU.
func (s *server) devices() []infer.Device {
	if s.read != nil {
		return []infer.Device{s.read.Read(time.Now())}
	}
	if s.gpu == nil {
		return nil
	}
	return []infer.Device{{ID: deviceID(s.gpu), Kind: "gpu", Name: s.gpu.Name, UUID: s.gpu.UUID}}
}

// Files that the driver opens after its start, as far as they are there: its
// devices, its own and the kernel's settings, and its libraries.
var (
	driverDevices = []string{"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dxg", "/dev/shm"}
	driverFiles   = []string{"/proc", "/sys", "/etc/nvidia*", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/nvidia", "/usr/local/nvidia", "/run/nvidia*"}
)

// needs names what the sandbox leaves to the driver.
func (s *server) needs() (read, devices []string) {
	if dir := s.spec.Library; dir != "" {
		read = append(read, dir)
	}
	return append(read, existing(driverFiles)...), existing(driverDevices)
}

func existing(patterns []string) (list []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(p)
		for _, f := range found {
			if _, err := os.Stat(f); err == nil {
				list = append(list, f)
			}
		}
	}
	return list
}
