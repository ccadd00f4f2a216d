package config

import (
	"strconv"
	"strings"
	"time"
)

// CUDA is [cuda]: how NVIDIA GPUs are used.
type CUDA struct {
	// Library is the folder or the file of the driver's libcuda.so.1; relative to
	// the data directory. Empty: where the system's loader finds it. Default empty.
	Library string `toml:"library"`
	// Graphs replays the launches of a step as one graph. Off, each kernel is
	// launched by itself: slower, and easier to search for a fault. Default true.
	Graphs bool `toml:"graphs"`
	// Wait is how long a model whose device is "auto" waits for a driver that is
	// not ready while the machine shows a GPU, as after a start of the machine; then
	// it runs on the CPU. 0: not at all. Default 20s.
	Wait Duration `toml:"wait"`
	// Stall is how long a GPU may make no step while work waits; then its worker is
	// replaced: a kernel that never ends cannot be stopped otherwise. A step takes
	// milliseconds. Default 20s.
	Stall Duration `toml:"stall"`
}

func (c *CUDA) setDefaults() {
	c.Graphs, c.Wait, c.Stall = true, Duration(20*time.Second), Duration(20*time.Second)
}

// Devices that a model may name.
const (
	DeviceAuto = "auto"
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// DeviceForms is what CheckDevice takes, in words.
const DeviceForms = `auto, cpu, cuda, cuda:N or a GPU's UUID`

// CheckDevice says whether name is a device that a model may ask for.
func CheckDevice(name string) bool {
	switch name {
	case DeviceAuto, DeviceCPU, DeviceCUDA:
		return true
	}
	if n, ok := strings.CutPrefix(name, DeviceCUDA+":"); ok {
		i, err := strconv.Atoi(n)
		return err == nil && i >= 0 && i < 1024 && n == strconv.Itoa(i)
	}
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if digits, ok := strings.CutPrefix(name, prefix); ok {
			return len(digits) >= 4 && strings.Trim(strings.ToLower(digits), "0123456789abcdef-") == ""
		}
	}
	return false
}
