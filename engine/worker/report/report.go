// Package report says what a GPU worker tells of the machine, as JSON between
// the worker, which may load the driver's libraries, and the server, which may
// not.
package report

import (
	"fmt"
	"strings"

	"hearth/engine/infer"
)

// Code is the machine-readable kind of a Fault.
type Code string

const (
	NoWorker     Code = "no_gpu_worker"       // this build carries none
	CannotStart  Code = "worker_cannot_start" // no loader, noexec, old C library
	NoDriver     Code = "no_driver"           // the library is not there
	OldDriver    Code = "old_driver"          // it is older than our PTX
	Mismatch     Code = "driver_mismatch"     // library and kernel module are of two versions
	NotReady     Code = "driver_not_ready"    // for instance before the fabric manager has started
	NoDevice     Code = "no_device"           // the driver shows none, or not the one asked for
	Unsupported  Code = "unsupported_gpu"     // older than compute capability 8.0
	PTXRefused   Code = "ptx_refused"         // the driver's compiler does not take our kernels
	WrongArch    Code = "wrong_architecture"  // no kernel for this GPU
	OutOfMemory  Code = "out_of_memory"
	Degraded     Code = "degraded_device" // the GPU itself is at fault
	DeviceFailed Code = "device_failed"   // a kernel failed: the context is lost
	Busy         Code = "device_busy"     // an exclusive mode, or a partition in its place
	// The CPU's kernels for some of its instructions gave wrong results when they were tried.
	KernelsRefused Code = "kernels_refused"
	Other          Code = "gpu_error"
)

// Fault is why a GPU is not used, with what can be done.
type Fault struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

// Error is the code and the text, which CodeOf takes apart.
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Text }

// CodeOf finds the code in the text of a Fault; Other where there is none. The
// text may have words in front.
func CodeOf(text string) Code {
	best, at := Other, len(text)
	for _, c := range codes {
		if i := strings.Index(text, string(c)+": "); i >= 0 && i < at {
			best, at = c, i
		}
	}
	return best
}

var codes = []Code{
	NoWorker, CannotStart, NoDriver, OldDriver, Mismatch, NotReady, NoDevice, Unsupported, PTXRefused, WrongArch, OutOfMemory, Degraded, DeviceFailed, Busy, KernelsRefused, Other,
}

// Faultf makes a Fault.
func Faultf(c Code, fix, format string, args ...any) *Fault {
	return &Fault{Code: c, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// Query is what a worker is asked about.
type Query struct {
	Library string `json:"library,omitempty"` // folder or file of libcuda; empty: where the system's loader finds it
	Device  string `json:"device,omitempty"`  // "cuda:N", "N" or a UUID; empty: all
	Seconds int    `json:"seconds,omitempty"` // of measuring, about; 0: 10
}

// List is what is there.
type List struct {
	CUDA    string   `json:"cuda,omitempty"`    // newest CUDA that the driver knows
	Driver  string   `json:"driver,omitempty"`  // its version
	Library string   `json:"library,omitempty"` // that was loaded
	NVML    string   `json:"nvml,omitempty"`    // how readings are had, or why there are none
	Devices []Device `json:"devices"`
	Fault   *Fault   `json:"fault,omitempty"`
}

// Device is one GPU.
type Device struct {
	infer.Device
	Index       int    `json:"index"`
	Compute     string `json:"compute"` // capability, "9.0"
	SMs         int    `json:"multiprocessors"`
	MemoryBytes int64  `json:"memory_bytes"`
	FreeBytes   int64  `json:"free_bytes"` // 0: not known
	Bandwidth   int64  `json:"bandwidth"`  // of the memory by its clock and width, bytes a second; 0: not known
	MIG         string `json:"mig,omitempty"`
	ECC         bool   `json:"ecc"`
	Fault       *Fault `json:"fault,omitempty"` // why it cannot be used
}

// Find gives the device that is meant by "cuda:N", "N" or a UUID, of which the
// beginning is enough.
func (l *List) Find(name string) (*Device, *Fault) {
	for i := range l.Devices {
		d := &l.Devices[i]
		if name == d.ID || name == fmt.Sprint(d.Index) || len(name) >= len("GPU-")+4 && strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(name)) {
			return d, d.Fault
		}
	}
	var have []string
	for i := range l.Devices {
		have = append(have, l.Devices[i].ID+" ("+l.Devices[i].UUID+")")
	}
	return nil, Faultf(NoDevice, "name one that `hearth device list` shows", "there is no GPU %q; there are: %s", name, strings.Join(have, ", "))
}

// Finding is one thing that was looked at.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // "ok", "warn", "fail"
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Checkup is all that was found of the GPUs.
type Checkup struct {
	Findings []Finding `json:"findings"`
}

// OK, Warn and Fail add a finding.
func (c *Checkup) OK(name, format string, args ...any) { c.add(name, "ok", "", format, args) }

func (c *Checkup) Warn(name, fix, format string, args ...any) {
	c.add(name, "warn", fix, format, args)
}

func (c *Checkup) Fail(name, fix, format string, args ...any) {
	c.add(name, "fail", fix, format, args)
}

func (c *Checkup) add(name, state, fix, format string, args []any) {
	c.Findings = append(c.Findings, Finding{Name: name, State: state, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// Bench is what was measured of one GPU.
type Bench struct {
	Device Device   `json:"device"`
	Copies []Copy   `json:"copies"`
	Rows   []Timing `json:"kernels"`
}

// Copy is the bandwidth of one way.
type Copy struct {
	Way         string  `json:"way"` // "host to device", "device to host", "within the device"
	Bytes       int64   `json:"bytes"`
	BytesPerSec float64 `json:"bytes_per_s"`
}

// Timing is one kernel on one shape against what it cannot go below.
type Timing struct {
	Kernel  string  `json:"kernel"`
	Shape   string  `json:"shape"`
	Seconds float64 `json:"seconds"` // median of a launch
	Bytes   int64   `json:"bytes"`   // that must move
	Flops   int64   `json:"flops"`
	Floor   float64 `json:"floor"` // seconds: the larger of bytes/bandwidth and flops/peak; 0: not known
	Share   float64 `json:"share"` // of the floor that was achieved, 0 to 1
}
