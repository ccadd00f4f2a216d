package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
	"hearth/kernels/ref"
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
				choices[i] = randomChoice(r, vocab)
				fillLogits(r, logits[i*vocab:(i+1)*vocab], i)
			}
			picks := sample(t, m, logits, choices, vocab)
			for i := range choices {
				compare(t, &picks[i], &choices[i], logits[i*vocab:(i+1)*vocab])
			}
		}
	})
}

// fillLogits: normal, rounded so that many are equal, of great range, or flat.
func fillLogits(r *rand.Rand, l []float32, kind int) {
	for i := range l {
		x := r.NormFloat64() * 3
		switch kind % 4 {
		case 1:
			x = math.Round(x)
		case 2:
			x *= 20
		case 3:
			x = float64(r.IntN(2))
		}
		l[i] = float32(x)
	}
}

func randomChoice(r *rand.Rand, vocab int) kernels.Choice {
	some := func() bool { return r.IntN(3) == 0 }
	c := kernels.Choice{TopP: 1, Temperature: float32(r.IntN(4)) / 2, Uniform: r.Float64()}
	if some() {
		c.TopP = float32(0.1 + 0.85*r.Float64())
	}
	if some() {
		c.TopK = int32(1 + r.IntN(40))
	}
	if some() {
		c.MinP = float32(r.Float64() / 4)
	}
	if some() {
		for tok := int32(0); int(tok) < vocab; tok += 1 + int32(r.IntN(vocab)) {
			c.Adjust = append(c.Adjust, kernels.Adjust{Token: tok, Divide: 0.5 + r.Float32(), Add: float32(r.NormFloat64())})
		}
		if n := len(c.Adjust); n > 1 {
			c.Adjust[n-1].Add = float32(math.Inf(-1))
		}
	}
	if some() {
		c.Allowed = make([]uint32, (vocab+31)/32)
		for i := range c.Allowed {
			c.Allowed[i] = r.Uint32() | 1
		}
	}
	if some() {
		c.Logprob, c.Top = true, r.IntN(kernel.MaxTop+1)
	}
	c.Logits = r.IntN(8) == 0
	return c
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

func compare(t testing.TB, got *kernels.Pick, c *kernels.Choice, logits []float32) {
	if c.Logits {
		return
	}
	var want kernels.Pick
	if err := ref.Choose(&want, c, logits); err != nil {
		t.Fatal(err)
	}
	if got.Token != want.Token && !borderline(c, logits, got.Token) {
		t.Fatalf("token %d was chosen, want %d, by %+v", got.Token, want.Token, *c)
	}
	if len(got.Top) != len(want.Top) && c.Top <= len(logits) {
		t.Fatalf("%d alternatives, want %d", len(got.Top), len(want.Top))
	}
	if c.Logprob && got.Token == want.Token && math.Abs(float64(got.Logprob-want.Logprob)) > 2e-5*(1+math.Abs(float64(want.Logprob))) {
		t.Fatalf("log-probability %v, want %v", got.Logprob, want.Logprob)
	}
	for i := range want.Top {
		if got.Top[i].Token != want.Top[i].Token || math.Abs(float64(got.Top[i].Logprob-want.Top[i].Logprob)) > 2e-5*(1+math.Abs(float64(want.Top[i].Logprob))) {
			t.Fatalf("alternative %d is %v, want %v", i, got.Top[i], want.Top[i])
		}
	}
}

// borderline says whether the plain form would choose token if the point of the
// distribution or a share were off by rounding.
func borderline(c *kernels.Choice, logits []float32, token int32) bool {
	for _, d := range []float64{-1e-6, 1e-6} {
		for _, e := range []float32{-1e-6, 0, 1e-6} {
			near := *c
			near.Uniform = min(max(0, c.Uniform+d), 1-1e-9)
			if near.TopP < 1 {
				near.TopP += e
			}
			near.MinP *= 1 + e
			var p kernels.Pick
			if err := ref.Choose(&p, &near, logits); err == nil && p.Token == token {
				return true
			}
		}
	}
	return false
}
