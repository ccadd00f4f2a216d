package engine

import "hearth/kernels/cpu"

// Machine says how this machine would compute.
type Machine struct {
	Kernels string   // the instruction set in use, for instance "avx2"
	Paths   []string // all that this machine can use
	Threads int      // of a model that names no number
}

// ThisMachine looks at the processor.
func ThisMachine() (Machine, error) {
	d, err := cpu.New(cpu.Options{})
	if err != nil {
		return Machine{}, err
	}
	st := d.Stats()
	return Machine{Kernels: st.Path, Paths: cpu.Paths(), Threads: st.Threads}, d.Close()
}
