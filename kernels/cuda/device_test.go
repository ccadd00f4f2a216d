package cuda

import (
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// emulated opens devices over an emulator.
func emulated(o Options, lazy bool) kerneltest.Open {
	if o.Rows == 0 {
		o.Rows, o.Sequences = 208, 40
	}
	return func(t testing.TB) kernels.Device { return openEmulated(t, o, newEmulator(lazy)) }
}

func openEmulated(t testing.TB, o Options, e *emulator) *Device {
	d, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	d.lib = e.library()
	d.images = map[string][]byte{"emulated": nil}
	return d
}

// What is compiled, planned and gathered computes the program.
func TestEmulatedCases(t *testing.T) {
	kerneltest.Against(t, kerneltest.Candidate{Name: "graphs", Open: emulated(Options{}, true)},
		kerneltest.Candidate{Name: "launches", Open: emulated(Options{NoGraphs: true}, false)})
}

func TestEmulatedInvariance(t *testing.T) {
	kerneltest.BatchInvariance(t, 7, emulated(Options{}, true), emulated(Options{NoGraphs: true}, false),
		emulated(Options{Rows: 208, Sequences: 4}, true))
}

func TestEmulatedCopyBlocks(t *testing.T) { kerneltest.CopiedBlocks(t, emulated(Options{}, true)) }
