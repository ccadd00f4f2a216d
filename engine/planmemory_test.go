package engine

import (
	"context"
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// TestPlanMemoryIsWhatLoadingTakes loads tiny models of several types and compares.
func TestPlanMemoryIsWhatLoadingTakes(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.F32, kernels.Q8_0, kernels.Q4_0} {
		o := Options{Path: gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: typ}), KVBytes: 4 << 20, MaxSequences: 4, Threads: 2}
		p, err := PlanMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		last := -1.0
		o.Progress = func(share float64) {
			if share < last || share > 1 {
				t.Errorf("progress went from %v to %v", last, share)
			}
			last = share
		}
		e, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if last != 1 {
			t.Errorf("progress ended at %v", last)
		}
		st := e.dev.Stats()
		if p.WeightBytes != st.WeightBytes || p.KVBytes != st.KVBytes {
			t.Errorf("%v: planned %d and %d bytes of weights and cache, took %d and %d", typ, p.WeightBytes, p.KVBytes, st.WeightBytes, st.KVBytes)
		}
		if p.ScratchBytes < st.ScratchBytes {
			t.Errorf("%v: planned %d bytes of scratch, took %d", typ, p.ScratchBytes, st.ScratchBytes)
		}
		if !p.Fits || p.LargestContext < p.Context || p.TotalBytes != p.WeightBytes+p.KVBytes+p.ScratchBytes+p.ProcessBytes {
			t.Errorf("got %+v", p)
		}
	}
}

func TestPlanMemoryThatDoesNotFit(t *testing.T) {
	o := Options{Path: gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Context: 8192}), KVBytes: 1 << 20}
	p, err := PlanMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	if p.Fits || p.Reason == "" || p.LargestContext <= 0 || p.LargestContext >= 8192 {
		t.Fatalf("got %+v, wanted a smaller context named", p)
	}
	o.Context = p.LargestContext
	if p, err = PlanMemory(o); err != nil || !p.Fits {
		t.Errorf("the context that should fit does not: %+v, %v", p, err)
	}
	if _, err := PlanMemory(Options{Path: "/nonexistent.gguf"}); err == nil {
		t.Error("a file that is not there has a plan")
	}
}
