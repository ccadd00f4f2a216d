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

// compareAll compares every model and tells of all that differ.
func (o *options) compareAll(files []string) error {
	if len(files) == 0 {
		return fmt.Errorf("cannot compare tokens: got no model")
	}
	if o.tokens < 1 {
		return fmt.Errorf("cannot compare tokens: got %d of them, wanted 1 or more", o.tokens)
	}
	var faults []error
	for _, file := range files {
		if err := o.compare(file); err != nil {
			fmt.Println("FAIL", err)
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// compare runs one model. The CPU's tokens are given to both, so that one place
// where they differ does not make the rest differ.
func (o *options) compare(file string) error {
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
	equal, worst, err := follow(host, dev, p, o.tokens, blocks)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d of %d tokens equal, logits at most %.4f apart, loaded in %v\n", file, equal, o.tokens, worst, loaded.Round(time.Millisecond))
	if equal < o.tokens {
		return fmt.Errorf("%s: %d of %d tokens differ from the CPU's", file, o.tokens-equal, o.tokens)
	}
	return nil
}

// follow continues by n tokens on both devices and counts where the likeliest is
// the same. worst is the largest difference of two logits.
func follow(host, dev kernels.Device, p *kernels.Program, n, blocks int) (equal int, worst float64, err error) {
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
			return 0, 0, err
		}
		batch.Logits = b
		if err := dev.Step(&batch); err != nil {
			return 0, 0, err
		}
		at += len(tokens)
		for i := range a {
			worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
		}
		next := likeliest(a)
		if likeliest(b) == next {
			equal++
		}
		tokens = []int32{next}
	}
	return equal, worst, nil
}

func likeliest(logits []float32) int32 {
	return int32(slices.Index(logits, slices.Max(logits)))
}
