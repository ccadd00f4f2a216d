package selftest

import (
	"fmt"
	"math"
	"slices"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
)

// Ways to compute: with float32 activations, which should agree with a float32
// reference to rounding, and as the device does it by default.
const (
	exact     = "f32"
	byDefault = ""
)

// chunkRows bounds the rows of a step, since every row may want its logits.
const chunkRows = 64

// loaded is a model file as a program.
type loaded struct {
	file    *weights.File
	program *kernels.Program
	config  *model.Config
}

func load(path string) (*loaded, error) {
	f, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	p, c, err := model.Build(f, model.Options{})
	if err != nil {
		f.Close()
		return nil, err
	}
	return &loaded{f, p, c}, nil
}

// session feeds one sequence at a time to a device.
type session struct {
	dev    kernels.Device
	vocab  int
	blocks []int32
	n      int // tokens of the present sequence
	top    int // tokens that fit
}

const blockSize = 16

// newSession loads a program for sequences of at most tokens.
func (l *loaded) newSession(t *run, activations string, tokens int) (*session, error) {
	dev, err := cpu.New(cpu.Options{Threads: t.opt.Threads, Activations: activations})
	if err != nil {
		return nil, err
	}
	n := (tokens + blockSize - 1) / blockSize
	// The vectors bound what rounding activations costs: the cache adds nothing to it.
	if err := dev.Load(l.program, kernels.KVConfig{Blocks: n, BlockSize: blockSize, Type: kernels.F32}); err != nil {
		dev.Close()
		return nil, err
	}
	s := &session{dev: dev, vocab: l.program.Vocab, top: n * blockSize}
	for i := range n {
		s.blocks = append(s.blocks, int32(n-1-i)) // not in the order of memory, on purpose
	}
	return s, nil
}

// restart begins a new sequence.
func (s *session) restart() { s.n = 0 }

// feed appends ids to the sequence and calls each with the logits of every one
// of them, in order. The logits are only valid during the call.
func (s *session) feed(ids []int32, each func(i int, logits []float32)) error {
	if s.n+len(ids) > s.top {
		return fmt.Errorf("%d tokens do not fit into %d", s.n+len(ids), s.top)
	}
	for base := 0; base < len(ids); base += chunkRows {
		chunk := ids[base:min(base+chunkRows, len(ids))]
		rows := make([]int32, len(chunk))
		for i := range rows {
			rows[i] = int32(i)
		}
		b := &kernels.Batch{
			Tokens: chunk, LogitRows: rows, Logits: make([]float32, len(chunk)*s.vocab),
			Spans: []kernels.Span{{Len: int32(len(chunk)), Context: int32(s.n), Blocks: s.blocks}},
		}
		if err := s.dev.Step(b); err != nil {
			return err
		}
		s.n += len(chunk)
		for i := range chunk {
			each(base+i, b.Logits[i*s.vocab:(i+1)*s.vocab])
		}
	}
	return nil
}

func argmax(x []float32) int32 {
	best := 0
	for i := range x {
		if x[i] > x[best] {
			best = i
		}
	}
	return int32(best)
}

// logSum is the natural log of the sum of the exponentials.
func logSum(x []float32) float64 {
	top := float64(slices.Max(x))
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
