package kernel_test

import (
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ptx/ptxtest"
)

// TestSample: the device chooses what the plain form chooses, over parameters,
// vocabularies that are no multiple of a chunk, ties and masks.
func TestSample(t *testing.T) {
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, vocab := range []int{1, 31, 300, 4096, 9001} {
			const rows = 24
			logits := make([]float32, rows*vocab)
			choices := make([]kernels.Choice, rows)
			for i := range choices {
				choices[i] = kerneltest.RandomChoice(r, vocab, kernel.MaxTop)
				kerneltest.FillLogits(r, logits[i*vocab:(i+1)*vocab], i)
			}
			picks := sample(t, m, logits, choices, vocab)
			for i := range choices {
				kerneltest.Picked(t, &picks[i], &choices[i], logits[i*vocab:(i+1)*vocab])
			}
		}
	})
}

// sample runs the kernels and reads what they chose.
func sample(t testing.TB, m *ptxtest.Machine, logits []float32, choices []kernels.Choice, vocab int) []kernels.Pick {
	rows := len(choices)
	var in kernel.SampleInput
	for i := range choices {
		if err := in.Append(&choices[i], vocab); err != nil {
			t.Fatal(err)
		}
	}
	c := kernel.SampleCall{
		Rows: rows, Vocab: vocab, Logits: kernel.Mat{Addr: m.Floats(logits), Stride: vocab}, Adjusted: m.Room(4 * rows * vocab),
		Records: m.Bytes(in.Records), List: m.Bytes(append(in.List, 0)), Masks: m.Bytes(append(in.Masks, 0)),
		Partials: m.Room(int(kernel.PartialBytes(rows, vocab))), Picks: m.Room(kernel.PickBytes * rows), Top: in.Top,
	}
	ls, err := kernel.Sample(rowsTarget, c)
	m.Launch(launches(t, ls, err)...)
	picks := make([]kernels.Pick, rows)
	for i := range picks {
		b := make([]byte, kernel.PickBytes)
		if choices[i].Logits {
			continue
		}
		if err := m.ReadRaw(uint64(c.Picks)+uint64(kernel.PickBytes*i), b); err != nil {
			t.Fatal(err)
		}
		kernel.ReadPick(&picks[i], &choices[i], b)
	}
	return picks
}
