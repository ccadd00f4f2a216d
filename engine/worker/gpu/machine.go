// Package gpu is the GPU worker: the engine with the CUDA device, and what is
// asked about GPUs beside serving (list, doctor, bench). It needs the driver's
// libraries at run time and nothing of them to be built.
package gpu

import (
	"fmt"
	"slices"
	"time"

	"hearth/engine/infer"
	"hearth/engine/worker/nvml"
	"hearth/engine/worker/report"
	"hearth/kernels/cuda/driver"
)

// machine is the driver with its GPUs, and the readings if they can be had.
type machine struct {
	driver   *driver.Driver
	gpus     []driver.Device
	readings *nvml.Library
	noNVML   error // why there are no readings
}

// open loads the driver's libraries. path is where they are, see driver.Open.
func open(path string) (*machine, error) {
	d, err := driver.Open(path)
	if err != nil {
		return nil, err
	}
	m := &machine{driver: d}
	if m.gpus, err = d.Devices(); err != nil {
		return nil, err
	}
	if len(m.gpus) == 0 {
		return nil, report.Faultf(report.NoDevice, byCode[100].fix, "the driver shows no GPU")
	}
	m.readings, m.noNVML = nvml.Open(path)
	if m.noNVML != nil && path != "" { // libcuda's folder need not be that of the other library
		if l, err := nvml.Open(""); err == nil {
			m.readings, m.noNVML = l, nil
		}
	}
	return m, nil
}

// nvmlText says how readings are had.
func (m *machine) nvmlText() string {
	if m.noNVML != nil {
		return "no readings: " + m.noNVML.Error()
	}
	return "through " + m.readings.Way()
}

func deviceID(d *driver.Device) string { return fmt.Sprintf("cuda:%d", d.Ordinal) }

// list tells of all GPUs.
func (m *machine) list() *report.List {
	out := &report.List{CUDA: m.driver.VersionString(), Library: m.driver.Path(), NVML: m.nvmlText(), Devices: []report.Device{}}
	if m.readings != nil {
		out.Driver = m.readings.Driver
	}
	for i := range m.gpus {
		out.Devices = append(out.Devices, m.describe(&m.gpus[i]))
	}
	return out
}

func (m *machine) describe(g *driver.Device) report.Device {
	d := report.Device{
		Device: infer.Device{ID: deviceID(g), Kind: "gpu", Name: g.Name, UUID: g.UUID}, Index: g.Ordinal,
		Compute: fmt.Sprintf("%d.%d", g.Compute/10, g.Compute%10), SMs: g.SMs, MemoryBytes: g.Memory, ECC: g.ECC,
		// Two transfers a clock, see the CUDA Programming Guide on memory clocks.
		Bandwidth: 2 * int64(g.MemoryKHz) * 1000 * int64(g.BusBits) / 8,
	}
	if err := g.Supported(); err != nil {
		d.Fault = faultOf(err)
	}
	if m.readings == nil {
		return d
	}
	r, err := m.readings.GPU(g.UUID, d.ID, g.Name)
	if err != nil {
		return d
	}
	defer r.Close()
	d.Device = r.Read(time.Now())
	total, ok := d.Read(infer.ReadMemoryTotal)
	if used, ok2 := d.Read(infer.ReadMemoryUsed); ok && ok2 {
		d.FreeBytes = int64(total - used)
	}
	if on, known := r.MIG(); known {
		d.MIG = "off"
		if on {
			d.MIG = "on"
			d.Fault = firstFault(d.Fault, report.Faultf(report.Busy, "name a partition by its UUID (nvidia-smi -L), or switch MIG off (nvidia-smi -mig 0)",
				"the GPU is divided into partitions (MIG)"))
		}
	}
	return d
}

func firstFault(a, b *report.Fault) *report.Fault {
	if a != nil {
		return a
	}
	return b
}

// find gives the GPU of a name as report.List.Find takes it; empty: the first
// that can be used.
func (m *machine) find(name string) (*driver.Device, error) {
	l := &report.List{}
	for i := range m.gpus {
		g := &m.gpus[i]
		d := report.Device{Device: infer.Device{ID: deviceID(g), UUID: g.UUID}, Index: g.Ordinal}
		if err := g.Supported(); err != nil {
			d.Fault = faultOf(err)
		}
		l.Devices = append(l.Devices, d)
	}
	if name == "" || name == "cuda" {
		i := slices.IndexFunc(l.Devices, func(d report.Device) bool { return d.Fault == nil })
		if i < 0 {
			return nil, l.Devices[0].Fault
		}
		return &m.gpus[i], nil
	}
	d, f := l.Find(name)
	if f != nil {
		return nil, f
	}
	return &m.gpus[d.Index], nil
}
