//go:build gpubox

package main

import (
	"flag"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
	"hearth/kernels/kerneltest"
)

// The tests of this file run on a GPU: built with the tag gpubox by
// testdata/device/prepare, run by testdata/device/run.

var (
	library = flag.String("library", "", "the `folder or file` of libcuda.so.1")
	number  = flag.Int("gpu", 0, "which GPU")
)

func onGPU(o cuda.Options) kerneltest.Open {
	return func(t testing.TB) kernels.Device {
		t.Helper()
		d, err := driver.Open(*library)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Devices()
		if err != nil || *number >= len(all) {
			t.Fatalf("GPU %d of %d: %v", *number, len(all), err)
		}
		g, err := d.OpenGPU(all[*number])
		if err != nil {
			t.Fatal(err)
		}
		dev, err := cuda.New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
}

// Every op against the reference in plain Go, with graphs and without.
func TestCases(t *testing.T) {
	kerneltest.Against(t,
		kerneltest.Candidate{Name: "graphs", Quantized: true, Open: onGPU(cuda.Options{})},
		kerneltest.Candidate{Name: "launches", Quantized: true, Open: onGPU(cuda.Options{NoGraphs: true})})
}

// A row's result does not depend on the other rows.
func TestInvariance(t *testing.T) {
	kerneltest.BatchInvariance(t, 11, onGPU(cuda.Options{}), onGPU(cuda.Options{NoGraphs: true}))
}

func TestCopiedBlocks(t *testing.T) { kerneltest.CopiedBlocks(t, onGPU(cuda.Options{})) }
