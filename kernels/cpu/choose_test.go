package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
	"hearth/kernels/pick"
)

func TestChooses(t *testing.T) {
	for _, path := range Paths() {
		for _, threads := range []int{1, 3} {
			kerneltest.Chooses(t, open(Options{Threads: threads, Path: path}))
		}
	}
}

// Every path's loops give the bits of the portable ones, and pick what the plain
// form picks, also from rows as long as a vocabulary.
func TestPicking(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, path := range Paths() {
		ks, _ := choose(path)
		p := pick.Picker{Loops: pick.Loops{Largest: ks.largest, Powers: ks.powers}}
		for _, n := range []int{1, 7, 8, 15, 16, 17, 100, 1024, 1039, 9001} {
			for kind := range 8 {
				x := make([]float32, n)
				kerneltest.FillLogits(r, x, kind)
				if kind > 3 {
					x[r.IntN(n)] = float32(math.NaN())
					x[r.IntN(n)] = float32(math.Inf(-1))
				}
				top := portable.largest(x)
				if got := ks.largest(x); got != top {
					t.Fatalf("%s: the largest of %d is %v, portable %v", path, n, got, top)
				}
				got, want := make([]float32, n), make([]float32, n)
				a, b := ks.powers(got, x, top, 0.7), powers(want, x, top, 0.7)
				if a != b || !slices.Equal(got, want) {
					t.Fatalf("%s: the powers of %d are not the portable ones", path, n)
				}
				if kind > 3 {
					continue
				}
				var out kernels.Pick
				c := kerneltest.RandomChoice(r, n, 20)
				p.Pick(&out, &c, slices.Clone(x))
				kerneltest.Picked(t, &out, &c, x)
			}
		}
	}
}

// A row without a number, or of infinities, still gives a token.
func TestPickingOddRows(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, row := range []struct {
		logits []float32
		want   int32 // −1: any
	}{{[]float32{nan, nan}, -1}, {[]float32{-inf, -inf}, -1}, {[]float32{1, inf, 2}, 1}, {[]float32{nan, 3, -inf}, 1}} {
		for _, c := range []kernels.Choice{{TopP: 1}, {TopP: 1, Temperature: 1, Uniform: 0.5}, {TopP: 0.5, TopK: 3, MinP: 0.1, Temperature: 1, Uniform: 0.5, Logprob: true, Top: 2}} {
			var out kernels.Pick
			p := pick.Picker{Loops: pick.Loops{Largest: portable.largest, Powers: portable.powers}}
			p.Pick(&out, &c, slices.Clone(row.logits))
			if out.Token < 0 || int(out.Token) >= len(row.logits) || row.want >= 0 && out.Token != row.want {
				t.Errorf("of %v token %d was picked, want %d", row.logits, out.Token, row.want)
			}
		}
	}
}

func BenchmarkPick(b *testing.B) {
	const vocab = 49152
	logits, buf := make([]float32, vocab), make([]float32, vocab)
	kerneltest.FillLogits(rand.New(rand.NewPCG(1, 2)), logits, 0)
	for _, c := range []struct {
		name   string
		choice kernels.Choice
	}{
		{"greedy", kernels.Choice{}},
		{"all", kernels.Choice{Temperature: 1, TopP: 1}},
		{"top_p", kernels.Choice{Temperature: 1, TopP: 0.95}},
		{"top_k", kernels.Choice{Temperature: 1, TopP: 1, TopK: 40}},
		{"logprobs", kernels.Choice{Temperature: 1, TopP: 1, Logprob: true, Top: 20}},
	} {
		for _, path := range Paths() {
			b.Run(c.name+"/"+path, func(b *testing.B) {
				ks, _ := choose(path)
				p := pick.Picker{Loops: pick.Loops{Largest: ks.largest, Powers: ks.powers}}
				var out kernels.Pick
				for i := 0; b.Loop(); i++ {
					copy(buf, logits)
					c.choice.Uniform = float64(i%97) / 97
					p.Pick(&out, &c.choice, buf)
				}
			})
		}
	}
}
