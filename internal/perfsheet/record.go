package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"hearth/kernels/cuda"
)

// record is all that PERFORMANCE.md is rendered from. It is committed beside it,
// so that a test can tell, without running a kernel, whether both still fit.
type record struct {
	Context int               // tokens in the cache of the sequence whose next token is computed
	PTX     map[string]string // SHA-256 of each PTX file that was run, by its name
	Costs   map[string]counted
	Steps   []step
}

// counted is the cost of one launch, by the key of its calls.
type counted struct {
	Cost  cost `json:"cost"`
	Whole bool `json:"whole"` // every block was run; else a sample was, and the rest taken alike
}

// step is the computation of one token of one sequence.
type step struct {
	Model    string `json:"model"`
	Format   string `json:"format"`
	Compute  int    `json:"compute"` // of the GPU that the launches are for
	SMs      int    `json:"sms"`
	Weights  int64  `json:"weights"`   // bytes of the weights that a token needs, as the file has them
	KV       int64  `json:"kv"`        // bytes of keys and values that a token needs
	PerLayer int    `json:"per_layer"` // launches of one layer
	Calls    []call `json:"calls"`
}

// call is a launch that happens so often in a step.
type call struct {
	Key   string `json:"key"`
	Times int    `json:"times"`
	cost  cost
}

// step finds the step for a GPU.
func (r *record) step(model, format string, g gpu) *step {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Model == model && s.Format == format && s.Compute == g.compute && s.SMs == g.sms {
			return s
		}
	}
	return nil
}

// counted tells whether a model is in the record, and shapes lists those that are.
func (r *record) counted(s *shape) bool {
	return slices.ContainsFunc(r.Steps, func(st step) bool { return st.Model == s.name })
}

func (r *record) shapes() (all []*shape) {
	for i := range shapes {
		if r.counted(&shapes[i]) {
			all = append(all, &shapes[i])
		}
	}
	return all
}

func readRecord(file string) (*record, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &record{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	for i := range r.Steps {
		for j := range r.Steps[i].Calls {
			c := &r.Steps[i].Calls[j]
			got, ok := r.Costs[c.Key]
			if !ok {
				return nil, fmt.Errorf("cannot read %s: it has no cost of %q", file, c.Key)
			}
			c.cost = got.Cost
		}
	}
	return r, nil
}

// write puts every launch and every step on a line of its own.
func (r *record) write(file string) error {
	var out bytes.Buffer
	line := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return b
	}
	fmt.Fprintf(&out, "{\"Context\": %d,\n\"PTX\": {", r.Context)
	list := func(keys []string, value func(string) any) {
		for i, k := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, "\n %s: %s", line(k), line(value(k)))
		}
		out.WriteString("\n},\n")
	}
	list(slices.Sorted(maps.Keys(r.PTX)), func(k string) any { return r.PTX[k] })
	out.WriteString("\"Costs\": {")
	list(slices.Sorted(maps.Keys(r.Costs)), func(k string) any { return r.Costs[k] })
	out.WriteString("\"Steps\": [")
	for i, s := range r.Steps {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "\n %s", line(s))
	}
	out.WriteString("\n]}\n")
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// digests are the SHA-256 of the PTX files that this program carries, by name.
func digests() (map[string]string, error) {
	all := map[string]string{}
	for _, target := range []int{80, 90} {
		images, err := cuda.Images(target)
		if err != nil {
			return nil, err
		}
		for module, text := range images {
			sum := sha256.Sum256(text)
			all[fmt.Sprintf("%s.compute_%d.ptx", module, target)] = hex.EncodeToString(sum[:])
		}
	}
	return all, nil
}
