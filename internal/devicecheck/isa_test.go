package main

import (
	"testing"

	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/ptx"
)

// The interpreter in a GPU's place conforms; on 8.0 some cases are left out.
func TestConform(t *testing.T) {
	for _, compute := range []int{80, 90} {
		g := cudatest.New(cudatest.Options{Compute: compute, Machine: ptx.Options{Memory: 1 << 20}})
		results, wrong, err := conform(g)
		if err != nil || wrong != 0 || len(results) < 20 {
			t.Errorf("%d: %d results, %d wrong, %v", compute, len(results), wrong, err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
