// Package conformance holds what instructions do: for each form that our kernels
// use, and their relatives, a small kernel, its input and the output that the PTX
// ISA manual asks for, as data. The interpreter of package ptx is held to it by
// tests, a GPU by the device script, with the same Run; what a GPU gave can be
// kept beside it as golden data.
//
// The data are made by package derive, by arithmetic of its own.
package conformance

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"hearth/kernels/cuda/kernel"
)

// Case is one kernel, called test, that every thread of one block runs: thread t
// reads the slots of In[t] and writes those of Out[t]. A slot is 8 bytes; what
// is narrower lies in its low bytes, the rest of an output slot stays zero.
type Case struct {
	Name   string
	Forms  []string // the instructions that it is about, fully spelled
	Target int      // the least compute capability × 10 that has them
	PTX    []string // lines
	In     [][]string
	Out    [][]string // hexadecimal, or the decimal number where Bound is set
	// Type says how an output slot is compared. "bits": as it is. "f32", "f16",
	// "bf16", "f16x2", "bf16x2": as it is, but any NaN does for a NaN (PTX ISA 7.8,
	// 5.2.2: payloads are unspecified). "relative" and "absolute": a float32 that
	// differs from Out by Bound at most; "ulp": by Bound units of its last place.
	Type  string
	Bound float64 `json:",omitempty"`
}

//go:embed data
var data embed.FS

// Cases are all, by family.
func Cases() ([]Case, error) {
	var all []Case
	files, err := data.ReadDir("data")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := data.ReadFile(path.Join("data", f.Name()))
		if err != nil {
			return nil, err
		}
		var some []Case
		if err := json.Unmarshal(b, &some); err != nil {
			return nil, fmt.Errorf("conformance: %s: %w", f.Name(), err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// Result is what a GPU gave for a case.
type Result struct {
	Case  string
	Out   [][]string // as in Case, but always hexadecimal
	Wrong []string   `json:"-"` // how it differs; empty: it conforms
}

// Run runs one case. The error is that of the GPU; what it computes wrongly is in
// the result. The caller leaves out cases whose Target the GPU does not reach.
func Run(g kernel.GPU, c *Case) (r *Result, err error) {
	in, err := pack(c.In)
	if err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", c.Name, err)
	}
	size := len(c.Out) * len(c.Out[0]) * 8
	out := make([]byte, size)
	err = g.Do(func() error { return run(g, c, in, out) })
	if err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", c.Name, err)
	}
	r = &Result{Case: c.Name}
	for t := range c.Out {
		var row []string
		for s := range c.Out[t] {
			row = append(row, strconv.FormatUint(word(out[(t*len(c.Out[t])+s)*8:]), 16))
		}
		r.Out = append(r.Out, row)
	}
	r.Wrong = Compare(c, r.Out)
	return r, nil
}

func word(b []byte) (v uint64) {
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

// pack lays slots out as a kernel reads them.
func pack(rows [][]string) ([]byte, error) {
	var b []byte
	for _, row := range rows {
		for _, s := range row {
			v, err := strconv.ParseUint(s, 16, 64)
			if err != nil {
				return nil, err
			}
			for i := range 8 {
				b = append(b, byte(v>>(8*i)))
			}
		}
	}
	return b, nil
}

// run does what needs the GPU's thread.
func run(g kernel.GPU, c *Case, in, out []byte) error {
	module := "conformance " + c.Name
	if err := g.Load(module, []byte(strings.Join(c.PTX, "\n")+"\n")); err != nil {
		return err
	}
	src, err := g.Alloc(int64(max(len(in), 8)))
	if err != nil {
		return err
	}
	defer g.Free(src)
	dst, err := g.Alloc(int64(len(out)))
	if err != nil {
		return err
	}
	defer g.Free(dst)
	host, err := g.HostAlloc(max(len(in), len(out)))
	if err != nil {
		return err
	}
	defer g.HostFree(host)
	copy(host, in)
	work, err := g.Prepare([]kernel.Launch{{Module: module, Name: "test", Grid: kernel.Dim{X: 1, Y: 1, Z: 1},
		Block: kernel.Dim{X: uint32(len(c.Out)), Y: 1, Z: 1}, Params: kernel.Pack(src, dst)}})
	if err != nil {
		return err
	}
	defer work.Release()
	for _, f := range []func() error{
		func() error { return g.Fill(dst, 0, int64(len(out))) },
		func() error { return g.Upload(src, host[:len(in)]) },
		work.Run,
		func() error { return g.Mark(0) }, func() error { return g.Wait(0) },
		func() error { return g.Download(host[:len(out)], dst) },
		func() error { return g.Mark(0) }, func() error { return g.Wait(0) },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	copy(out, host)
	return nil
}

// Compare says how an output, in hexadecimal, differs from what the case asks for.
func Compare(c *Case, out [][]string) (wrong []string) {
	if len(out) != len(c.Out) {
		return []string{fmt.Sprintf("got %d threads, wanted %d", len(out), len(c.Out))}
	}
	for t := range c.Out {
		for s := range c.Out[t] {
			got, err := strconv.ParseUint(out[t][s], 16, 64)
			if err != nil {
				return append(wrong, err.Error())
			}
			if !c.agrees(got, c.Out[t][s]) {
				in := ""
				if t < len(c.In) {
					in = strings.Join(c.In[t], " ")
				}
				wrong = append(wrong, fmt.Sprintf("thread %d slot %d, input %s: got %x, wanted %s", t, s, in, got, c.Out[t][s]))
			}
		}
	}
	return wrong
}

func (c *Case) agrees(got uint64, text string) bool {
	if c.Bound > 0 {
		want, err := strconv.ParseFloat(text, 64)
		return err == nil && near(c.Type, math.Float32frombits(uint32(got)), want, c.Bound)
	}
	want, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return false
	}
	switch c.Type {
	case "f32":
		return same(got, want, 32, 23)
	case "f16":
		return same(got, want, 16, 10)
	case "bf16":
		return same(got, want, 16, 7)
	case "f16x2":
		return same(got&0xffff, want&0xffff, 16, 10) && same(got>>16, want>>16, 16, 10)
	case "bf16x2":
		return same(got&0xffff, want&0xffff, 16, 7) && same(got>>16, want>>16, 16, 7)
	}
	return got == want
}

// same compares floats of a number of bits and of mantissa bits.
func same(a, b uint64, bits, mantissa int) bool {
	nan := func(v uint64) bool {
		inf := (uint64(1)<<(bits-1-mantissa) - 1) << mantissa
		return v>>bits == 0 && v&^(1<<(bits-1)) > inf
	}
	return a == b || nan(a) && nan(b)
}

// near compares a float32 with a number.
func near(kind string, got float32, want, bound float64) bool {
	g := float64(got)
	switch {
	case math.IsNaN(want):
		return math.IsNaN(g)
	case math.IsInf(want, 0) || want == 0:
		return g == want && math.Signbit(g) == math.Signbit(want)
	case kind == "absolute":
		return math.Abs(g-want) <= bound
	case kind == "ulp":
		_, e := math.Frexp(want)
		return math.Abs(g-want) <= bound*math.Ldexp(1, max(e-1, -126)-23)
	}
	return math.Abs(g-want) <= bound*math.Abs(want)
}

// Golden reads the results of a GPU as they are kept: a JSON array.
func Golden(b []byte) ([]Result, error) {
	var all []Result
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("conformance: golden data: %w", err)
	}
	return all, nil
}
