//go:build gpubox

package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
	"hearth/kernels/kerneltest"
)

// The tests of this file run on a GPU: built with the tag gpubox by
// testdata/device/prepare, run by testdata/device/run. The same file then has the
// commands too: two would be twice as much to send to a machine with a GPU.

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.NArg() > 0 {
		main()
		return
	}
	if err := hold(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hold takes the GPU into use until the process ends: its context is then made
// once, and not for each case.
func hold() error {
	d, g, err := flags.open()
	if err != nil {
		return err
	}
	_, err = d.OpenGPU(g)
	return err
}

func onGPU(o cuda.Options) kerneltest.Open {
	return func(t testing.TB) kernels.Device {
		t.Helper()
		d, err := driver.Open(flags.driver)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Devices()
		if err != nil || flags.gpu >= len(all) {
			t.Fatalf("GPU %d of %d: %v", flags.gpu, len(all), err)
		}
		g, err := d.OpenGPU(all[flags.gpu])
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
