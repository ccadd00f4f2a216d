//go:build linux

package fakecudatest

import (
	"testing"

	"hearth/kernels/ptx/conformance"
)

// The cases of the ISA run on what the driver binding opens, as they will on a GPU.
func TestConformance(t *testing.T) {
	if !inChild(t, "PASS: TestConformance", "FAKECUDA_DEVICES=9.0,memory=32MiB", "FAKECUDA_STREAMS=eager") {
		return
	}
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	_, g := open(t)
	defer g.Close()
	for i := range all {
		r, err := conformance.Run(g, &all[i])
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Wrong) > 0 {
			t.Errorf("%s: %s", r.Case, r.Wrong[0])
		}
	}
}
