package engine

import (
	"context"
	"strings"
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// TestCacheTypes: what kv_type names is what the cache takes, in the plan, on the
// device and among the terms; what a CPU does not know is refused.
func TestCacheTypes(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: kernels.Q8_0})
	floats := gguftest.WriteLlama(t, gguftest.Options{Seed: 1})
	packed := func(p gguftest.Packing) string {
		files, _ := gguftest.Packed(gguftest.Options{Seed: 1}, p)
		return gguftest.WriteFiles(t, files)
	}
	fp8, gptq := packed(gguftest.Packing{Method: "fp8"}), packed(gguftest.Packing{Method: "gptq", Bits: 4, Group: 32})
	ordered := packed(gguftest.Packing{Method: "gptq", Bits: 4, Group: 32, Activated: true})
	bf16 := gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: kernels.BF16})
	prints := map[string]bool{}
	for _, c := range []struct {
		path, kv, activations, term string
		bytes                       int64 // of a value
	}{
		{path, "", "", "f16", 2}, {path, "f32", "", "f32", 4}, {path, "bf16", "", "bf16", 2}, {path, "", "f32", "f32", 4},
		{floats, "", "", "f32", 4}, {floats, "f16", "", "f16", 2},
		{bf16, "", "", "f32", 4}, {bf16, "f16", "", "f16", 2}, {bf16, "", "bf16", "f16", 2}, {bf16, "f32", "bf16", "f32", 4},
		// The CPU rounds no inputs of what it multiplies in floating point.
		{fp8, "", "", "f32", 4}, {ordered, "", "", "f32", 4}, {gptq, "", "", "f16", 2},
	} {
		o := Options{Path: c.path, KVType: c.kv, Activations: c.activations, KVBytes: 4 << 20, Threads: 1}
		p, err := PlanMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		values := int64(e.prog.KVValuesPerToken())
		if p.KVTokenBytes != c.bytes*values || e.dev.Stats().KVBytes != p.KVBytes {
			t.Errorf("%+v: planned %d bytes a token and %d in all, took %d", c, p.KVTokenBytes, p.KVBytes, e.dev.Stats().KVBytes)
		}
		term := ""
		for _, x := range e.info.Terms {
			if x.Name == "kv_type" {
				term = x.Value
			}
		}
		if term != c.term {
			t.Errorf("%+v: the terms say %q", c, term)
		}
		if prints[e.info.Fingerprint] {
			t.Errorf("%+v: the fingerprint is another cache's", c)
		}
		prints[e.info.Fingerprint] = true
	}
	for _, kv := range []string{"fp8", "int8", "f64"} {
		if _, err := Open(context.Background(), Options{Path: path, KVType: kv}); err == nil || !strings.Contains(err.Error(), "f16, bf16 and f32") {
			t.Errorf("a cache of %q: got %v", kv, err)
		}
		if _, err := PlanMemory(Options{Path: path, KVType: kv}); err == nil {
			t.Errorf("a cache of %q was planned", kv)
		}
	}
	// What would change nothing is refused rather than ignored.
	if _, err := PlanMemory(Options{Path: path, Activations: "bf16"}); err == nil || !strings.Contains(err.Error(), "this model has none") {
		t.Errorf("a plan with inputs in bf16 of a model without matrices in BF16: got %v", err)
	}
	if _, err := Open(context.Background(), Options{Path: path, Activations: "bf16"}); err == nil || !strings.Contains(err.Error(), "this model has none") {
		t.Errorf("inputs in bf16 for a model without matrices in BF16: got %v", err)
	}
}
