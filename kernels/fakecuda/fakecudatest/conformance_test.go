//go:build linux

package fakecudatest

import (
	"os"
	"path/filepath"
	"testing"

	"hearth/kernels/ptx/conformance"
)

// The cases of the ISA run on what the driver binding opens, as they will on a GPU.
func TestConformance(t *testing.T) {
	if !inChild(t, " 0 differ\n", "FAKECUDA_DEVICES=9.0,memory=32MiB", "FAKECUDA_STREAMS=eager") {
		return
	}
	_, g := open(t)
	defer g.Close()
	if err := conformance.Check(g, g.Context.GPU().Compute, os.Stdout, filepath.Join(t.TempDir(), "golden.jsonl")); err != nil {
		t.Error(err)
	}
}
