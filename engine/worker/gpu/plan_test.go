package gpu

import (
	"strings"
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/engine/worker/host"
	"hearth/engine/worker/report"
	"hearth/kernels"
)

// A model is planned for the memory of its GPU and the type of its cache.
func TestPlan(t *testing.T) {
	file := gguftest.WriteLlama(t, gguftest.Options{Type: kernels.Q8_0, Layers: 3, Hidden: 128, FFN: 256, Heads: 4, KVHeads: 2, Context: 2048})
	plan := func(spec host.Spec, env ...string) host.Plan {
		t.Helper()
		spec.Path = file
		if spec.Device == "" {
			spec.Device = "0"
		}
		var p host.Plan
		if stderr, err := ask(t, &p, CommandPlan, spec, append([]string{twoGPUs}, env...)...); err != nil {
			t.Fatal(err, stderr)
		}
		return p
	}
	half, eight := plan(host.Spec{}), plan(host.Spec{KVType: "fp8"})
	if half.Fault != nil || half.Memory == nil || eight.Memory == nil {
		t.Fatalf("%+v and %+v", half, eight)
	}
	// 3 layers, 2 heads of 32 values, keys and values of 2 bytes.
	p := half.Memory
	if p.Device != "cuda:0" || !p.Fits || p.KVTokenBytes != 3*2*32*2*2 || eight.Memory.KVTokenBytes*2 != p.KVTokenBytes {
		t.Errorf("a token takes %d and %d bytes, %+v", p.KVTokenBytes, eight.Memory.KVTokenBytes, p)
	}
	if p.KVBytes != int64(p.KVBlocks*p.BlockTokens)*p.KVTokenBytes || p.TotalBytes != p.WeightBytes+p.KVBytes+p.ScratchBytes || p.TotalBytes > p.Available || p.Available > 1<<30 {
		t.Errorf("got %+v", p)
	}
	if p.Context != 2048 || p.LargestContext != 2048 || p.FullSequences < 1 {
		t.Errorf("got %+v", p)
	}
	if same := plan(host.Spec{Context: p.Context}); same.Memory == nil || *same.Memory != *p {
		t.Errorf("with the context that is served anyway: %+v, wanted %+v", same.Memory, p)
	}
	if small := plan(host.Spec{}, "FAKECUDA_DEVICES=8.0,memory=262MiB"); small.Memory == nil || small.Memory.Fits || small.Memory.Reason == "" {
		t.Errorf("on a GPU that has not enough: %+v", small.Memory)
	}
	for want, env := range map[report.Code]string{report.NoDevice: "FAKECUDA_DEVICES=none", report.OldDriver: "FAKECUDA_DRIVER_VERSION=11040"} {
		if got := plan(host.Spec{}, env); got.Fault == nil || got.Fault.Code != want || got.Fault.Fix == "" {
			t.Errorf("%s: %+v", env, got.Fault)
		}
	}
	if got := plan(host.Spec{Device: "cuda:1"}); got.Fault == nil || got.Fault.Code != report.Unsupported {
		t.Errorf("a GPU that is too old: %+v", got.Fault)
	}
	var none host.Plan
	if stderr, err := ask(t, &none, CommandPlan, host.Spec{Path: file + ".none", Device: "0"}, twoGPUs); err != nil || none.Fault == nil || !strings.Contains(none.Fault.Text, file) {
		t.Errorf("a file that is not there: %+v, %v %s", none.Fault, err, stderr)
	}
}
