package kerneltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/ref"
)

// FillLogits makes l normal, rounded so that many are equal, of great range, or flat.
func FillLogits(r *rand.Rand, l []float32, kind int) {
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

// RandomChoice uses any of what a choice can ask for, up to top alternatives.
func RandomChoice(r *rand.Rand, vocab, top int) kernels.Choice {
	some := func() bool { return r.IntN(3) == 0 }
	c := kernels.Choice{TopP: 1, Temperature: float32(r.IntN(4)) / 2, Uniform: r.Float64()}
	if some() {
		c.TopP = float32(0.1 + 0.85*r.Float64())
	}
	if r.IntN(20) == 0 {
		c.TopP = 0 // the likeliest
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
		c.Logprob, c.Top = true, r.IntN(top+1)
	}
	c.Logits = r.IntN(8) == 0
	return c
}

// Picked compares what a device picked with what the plain form picks.
func Picked(t testing.TB, got *kernels.Pick, c *kernels.Choice, logits []float32) {
	t.Helper()
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

// Chooses checks that a device picks the tokens that the plain form picks of the
// logits that it gives, whatever the number of rows, and gives logits where they
// are wanted.
func Chooses(t *testing.T, open Open) {
	p := Model(Shape{Vocab: 1100, Width: 64, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 32, FFN: 96, Type: kernels.F32, Head: kernels.F32}, 9)
	d := open(t)
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 32, BlockSize: 16, Type: kernels.F32}); err != nil {
		t.Fatal(err)
	}
	top := d.(kernels.Chooser).MaxTop()
	r := rand.New(rand.NewPCG(4, 4))
	for round := range 40 {
		rows := 1 + round%9
		s := Step{Tokens: make([]int32, rows)}
		for i := range rows {
			s.Tokens[i] = int32(r.IntN(p.Vocab))
			s.Spans = append(s.Spans, kernels.Span{Row: int32(i), Len: 1, Blocks: []int32{int32(i)}})
		}
		b := s.Batch(p)
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		logits := slices.Clone(b.Logits)
		clear(b.Logits)
		b.Picks, b.Choices = make([]kernels.Pick, rows), make([]kernels.Choice, rows)
		for i := range rows {
			b.Choices[i].Logits = r.IntN(4) == 0 // known before, the rest with Prepare
		}
		prepared := 0
		b.Prepare = func() {
			prepared++
			for i := range b.Choices {
				wanted := b.Choices[i].Logits
				b.Choices[i] = RandomChoice(r, p.Vocab, min(top, 20))
				b.Choices[i].Logits = wanted
			}
		}
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		if prepared != 1 {
			t.Fatalf("choices were prepared %d times, want once", prepared)
		}
		given := 0
		for i := range b.Choices {
			row := logits[i*p.Vocab:][:p.Vocab]
			if b.Choices[i].Logits {
				if !slices.Equal(b.Logits[given*p.Vocab:][:p.Vocab], row) {
					t.Fatalf("round %d: the logits of row %d are not those of the step before", round, i)
				}
				given++
				continue
			}
			Picked(t, &b.Picks[i], &b.Choices[i], row)
		}
	}
}
