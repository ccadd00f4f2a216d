package bench

import (
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

func TestRunMeasuresEveryCase(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{Type: kernels.Q8_0})
	res, err := Run(t.Context(), Options{
		Path: path, Prefill: 20, Decode: 3, Depth: 17, Batch: []int{1, 3}, Repeat: 2,
		Threads: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.PrefillTokS) != 2 || len(res.DecodeTokS["1"]) != 2 || len(res.DecodeTokS["3"]) != 2 || res.PrefillTokS[0] <= 0 {
		t.Errorf("%+v", res)
	}
}
