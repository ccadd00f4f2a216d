// Package gpulist reads the lists of imagined GPUs that the fakes of NVIDIA's
// libraries are given, so that both tell of the same ones.
package gpulist

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// GPU is one of them.
type GPU struct {
	Compute int // compute capability × 10
	Name    string
	Memory  int64 // bytes
	Used    int64 // bytes that others use
	SMs     int   // multiprocessors
	UUID    [16]byte
	Bus     int // of PCI
	ECC     bool
}

// ID is the UUID as NVIDIA's tools write it.
func (g GPU) ID() string {
	u := g.UUID
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// names of usual GPUs, by compute capability.
var names = map[int]string{70: "Tesla V100-SXM2-16GB", 75: "Tesla T4", 80: "NVIDIA A100-SXM4-80GB", 86: "NVIDIA RTX A6000", 89: "NVIDIA L4", 90: "NVIDIA H200", 100: "NVIDIA B200", 120: "NVIDIA GeForce RTX 5090"}

// Read reads a list: GPUs divided by ";", each a compute capability and fields
// divided by ",": "9.0,memory=1GiB;8.6,sms=4". Empty is one of 8.0, "none" no GPU.
func Read(text string) ([]GPU, error) {
	if text == "none" {
		return nil, nil
	}
	if text == "" {
		text = "8.0"
	}
	var all []GPU
	for i, item := range strings.Split(text, ";") {
		d, err := read(strings.Split(item, ","), i)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func read(fields []string, index int) (GPU, error) {
	d := GPU{Memory: 256 << 20, SMs: 8, Bus: index + 1, UUID: [16]byte{0xfa, 0xce, 0xc0, 0xda, 15: byte(index)}}
	major, minor, ok := strings.Cut(strings.TrimSpace(fields[0]), ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || a < 1 || b < 0 || b > 9 {
		return d, fmt.Errorf("got compute capability %q, wanted for instance 8.0", fields[0])
	}
	d.Compute = 10*a + b
	if d.Name = names[d.Compute]; d.Name == "" {
		d.Name = "NVIDIA GPU"
	}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		var err error
		switch key {
		case "name":
			d.Name = value
		case "memory":
			d.Memory, err = Size(value)
		case "used":
			d.Used, err = Size(value)
		case "sms":
			d.SMs, err = strconv.Atoi(value)
		case "bus":
			d.Bus, err = strconv.Atoi(value)
		case "ecc":
			d.ECC = value == "on"
		case "uuid":
			var id []byte
			if id, err = hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(value, "GPU-"), "-", "")); err == nil && len(id) != 16 {
				err = fmt.Errorf("wanted 32 digits")
			}
			copy(d.UUID[:], id)
		default:
			err = fmt.Errorf("wanted name, memory, used, sms, uuid, bus or ecc")
		}
		if err != nil {
			return d, fmt.Errorf("got %q: %w", f, err)
		}
	}
	if d.Memory < 1<<20 || d.Memory > 1<<38 || d.Used < 0 || d.Used >= d.Memory || d.SMs < 1 || d.SMs > 1024 {
		return d, fmt.Errorf("got %d bytes of memory with %d in use and %d multiprocessors", d.Memory, d.Used, d.SMs)
	}
	return d, nil
}

// Size reads bytes with an optional unit.
func Size(s string) (int64, error) {
	shift := 0
	for _, u := range []struct {
		unit  string
		shift int
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}} {
		if rest, ok := strings.CutSuffix(s, u.unit); ok {
			s, shift = rest, u.shift
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return 0, fmt.Errorf("wanted a size such as 256MiB")
	}
	return n << shift, nil
}

// Visible follows CUDA_VISIBLE_DEVICES: numbers or beginnings of UUIDs, up to the
// first that names no device.
func Visible(all []GPU, text string) []GPU {
	var out []GPU
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		found := -1
		for i, d := range all {
			if strconv.Itoa(i) == item || strings.HasPrefix(item, "GPU-") && strings.HasPrefix(d.ID(), item) {
				found = i
				break
			}
		}
		if found < 0 {
			break
		}
		out = append(out, all[found])
	}
	return out
}
