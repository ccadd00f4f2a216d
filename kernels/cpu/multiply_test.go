package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// Whatever kernels a number of rows is divided among, each row has the bits that
// portable kernels give it alone, in all panels: seven, four and two and one that is
// left over, of more columns than are expanded at a time.
func TestMultiplyInt(t *testing.T) {
	const rows, outs = 17, 7 * panelRows
	rng := rand.New(rand.NewPCG(7, 8))
	for _, typ := range kernels.DTypes() {
		s := spec(typ)
		if s == nil {
			continue
		}
		cols := depth + 256
		m := kerneltest.Tensor(rng, "w", typ, outs, cols, 1)
		w := weight{t: &m, stride: panelBytes(&m)}
		w.panels = make([]byte, outs/panelRows*w.stride)
		for p := range outs / panelRows {
			repack(w.panels[p*w.stride:][:w.stride], &m, p)
		}
		lda := cols / 32 * act32Bytes
		act := &actRows{act32: make([]byte, rows*lda)}
		x := make([]float32, cols)
		for r := range rows {
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			portable.quantize32(act.act32[r*lda:][:lda], x)
		}
		want := make([]float32, rows*outs)
		for r := range rows {
			portable.mat(typ, 1, &want[r*outs], 0, &w.panels[0], &act.act32[r*lda], lda, cols/s.values, outs/panelRows)
		}
		for _, path := range Paths() {
			ks, _ := choose(path)
			d := &Device{ks: ks, scratch: []scratch{{expanded: make([]byte, maxTilePanels*cols/s.values*s.expandedBytes())}}}
			for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, rows} {
				t.Run(fmt.Sprintf("%v/%s/rows=%d", typ, path, n), func(t *testing.T) {
					got := register{data: make([]float32, n*outs), width: outs, stride: outs}
					d.multiplyInt(0, &w, &got, act, n, 0, outs/panelRows)
					if !sameBits(got.data, want) {
						t.Error("not the bits of the portable kernels")
					}
				})
			}
		}
	}
}
