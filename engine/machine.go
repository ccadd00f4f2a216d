package engine

import (
	"strings"

	"hearth/engine/worker/report"
	"hearth/kernels/cpu"
)

// Machine says how this machine would compute.
type Machine struct {
	Kernels string   // the instruction set in use, for instance "avx2"
	Paths   []string // all that this machine can use
	Refused []string // its instruction sets better than that, which gave wrong results when they were tried
	Threads int      // of a model that names no number
}

// ThisMachine looks at the processor.
func ThisMachine() (Machine, error) {
	d, err := cpu.New(cpu.Options{})
	if err != nil {
		return Machine{}, err
	}
	st := d.Stats()
	return Machine{Kernels: st.Path, Paths: cpu.Paths(), Refused: cpu.Refused(), Threads: st.Threads}, d.Close()
}

// slower says why a model computes with less than the processor has: sets of kernels
// that were refused, in place of which another is used; "" where none was.
func slower(refused []string, used string) string {
	if len(refused) == 0 {
		return ""
	}
	return report.Faultf(report.KernelsRefused, "", "kernels for %s do not give the results of the portable ones on this processor and are left out; %s ones are used",
		strings.Join(refused, " and "), used).Error()
}
