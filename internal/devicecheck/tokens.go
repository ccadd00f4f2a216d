package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
	"hearth/kernels/cuda"
)

const (
	blockSize = 16
	prompt    = 48 // tokens of the text that is continued
)

// continueAll compares every model and tells of all that differ.
func (o *options) continueAll(files []string) error {
	if len(files) == 0 {
		return fmt.Errorf("cannot compare tokens: got no model")
	}
	if o.tokens < 1 {
		return fmt.Errorf("cannot compare tokens: got %d of them, wanted 1 or more", o.tokens)
	}
	var faults []error
	for _, file := range files {
		if err := o.continueOne(file); err != nil {
			fmt.Println("FAIL", err)
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// continueOne runs one model. The CPU's tokens are given to both, so that one place
// where they differ does not make the rest differ.
func (o *options) continueOne(file string) error {
	f, err := weights.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	p, _, err := model.Build(f, model.Options{})
	if err != nil {
		return err
	}
	d, g, err := o.open()
	if err != nil {
		return err
	}
	gpu, err := d.OpenGPU(g)
	if err != nil {
		return err
	}
	dev, err := cuda.New(gpu, cuda.Options{})
	if err != nil {
		return errors.Join(err, gpu.Close())
	}
	defer dev.Close()
	host, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer host.Close()
	blocks := (prompt + o.tokens + blockSize - 1) / blockSize
	began := time.Now()
	// Keys and values as the CPU has them, so that the matrices alone are compared.
	kv := kernels.KVConfig{Blocks: blocks, BlockSize: blockSize, Type: kernels.F32}
	if err := errors.Join(dev.Load(p, kv), host.Load(p, kv)); err != nil {
		return err
	}
	loaded := time.Since(began)
	got, err := follow(host, dev, p, o.tokens, blocks)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d of %d tokens equal, %d near-ties, logits at most %.4f apart, loaded in %v\n", file, got.equal, o.tokens, got.ties, got.worst, loaded.Round(time.Millisecond))
	if n := o.tokens - got.equal - got.ties; n > 0 {
		return fmt.Errorf("%s: %d of %d tokens differ from the CPU's", file, n, o.tokens)
	}
	return nil
}

// tie is how near two logits of the CPU are between which the order of sums
// decides.
const tie = 2e-3

// followed is what follow found.
type followed struct {
	equal int     // steps whose likeliest token is the same
	ties  int     // where it is not, and the CPU's two are as near as tie
	worst float64 // the largest difference of two logits
}

// follow continues by n tokens on both devices.
func follow(host, dev kernels.Device, p *kernels.Program, n, blocks int) (f followed, err error) {
	table := make([]int32, blocks)
	for i := range table {
		table[i] = int32(i)
	}
	tokens := make([]int32, prompt) // any will do, within the vocabulary
	for i := range tokens {
		tokens[i] = int32((i*7919 + 3) % p.Vocab)
	}
	a, b := make([]float32, p.Vocab), make([]float32, p.Vocab)
	at := 0
	for range n {
		batch := kernels.Batch{Tokens: tokens, Spans: []kernels.Span{{Len: int32(len(tokens)), Context: int32(at), Blocks: table}}, LogitRows: []int32{int32(len(tokens) - 1)}}
		batch.Logits = a
		if err := host.Step(&batch); err != nil {
			return f, err
		}
		batch.Logits = b
		if err := dev.Step(&batch); err != nil {
			return f, err
		}
		at += len(tokens)
		for i := range a {
			f.worst = max(f.worst, math.Abs(float64(a[i])-float64(b[i])))
		}
		next, other := likeliest(a), likeliest(b)
		switch {
		case other == next:
			f.equal++
		case a[next]-a[other] <= tie:
			f.ties++
		}
		tokens = []int32{next}
	}
	return f, nil
}

func likeliest(logits []float32) int32 {
	return int32(slices.Index(logits, slices.Max(logits)))
}
