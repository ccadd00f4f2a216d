// Perfsheet computes what a token costs at least on GPUs that are not there: it
// has the device compile each model's program to launches, counts what they do
// on the PTX interpreter, and divides by what data sheets say.
//
//	go run ./internal/perfsheet [-only MODEL | -render]
//
// writes kernels/cuda/PERFORMANCE.md, and beside it performance.json, of which it
// is rendered. Launches that the record has already, of PTX that has not changed,
// are not run again.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hearth/kernels"
)

func main() {
	dir := flag.String("dir", "kernels/cuda", "the `folder` to write to")
	again := flag.Bool("render", false, "only render the page from the record again")
	only := flag.String("only", "", "of one `model`, or \"MODEL FORMAT\", printed and not written")
	flag.Parse()
	do := func() error { return run(*dir, *only) }
	if *again {
		do = func() error { return renderAgain(*dir) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, only string) error {
	began := time.Now()
	tmp, err := os.MkdirTemp("", "perfsheet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &build{dir: dir, tmp: tmp, costs: map[string]counted{}, r: &record{Context: context, PTX: map[string]string{}}}
	if b.ptx, err = digests(); err != nil {
		return err
	}
	if old, err := readRecord(filepath.Join(dir, "performance.json")); err == nil {
		b.keep(old)
	}
	known := len(b.costs)
	for i := range shapes {
		if s := &shapes[i]; strings.HasPrefix(only+" ", s.name+" ") || only == "" {
			if err := b.model(s, strings.TrimPrefix(only, s.name)); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if only == "" { // what was counted is kept, should the rest not come to its end
				b.finish()
				if err := b.r.write(filepath.Join(dir, "performance.json")); err != nil {
					return err
				}
			}
		}
	}
	b.finish()
	fmt.Fprintf(os.Stderr, "%d launches, %d of them run now, in %v\n", len(b.r.Costs), len(b.costs)-known, time.Since(began).Round(time.Second))
	if only != "" {
		b.print()
		return nil
	}
	return b.write()
}

// renderAgain writes the page from the record as it is.
func renderAgain(dir string) error {
	r, err := readRecord(filepath.Join(dir, "performance.json"))
	if err != nil {
		return err
	}
	text, err := render(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "PERFORMANCE.md"), []byte(text), 0o644)
}

// build makes a record.
type build struct {
	dir, tmp string
	costs    map[string]counted
	ptx      map[string]string // digests, by name
	r        *record
}

// keep takes over the costs of launches whose PTX is still the same.
func (b *build) keep(old *record) {
	for k, c := range old.Costs {
		if name := ptxOf(k); b.ptx[name] == old.PTX[name] {
			b.costs[k] = c
		}
	}
}

// ptxOf is the PTX file that a launch's key names.
func ptxOf(key string) string {
	parts := strings.SplitN(key, " ", 3)
	return fmt.Sprintf("%s.compute_%s.ptx", parts[1], parts[0])
}

// model counts one model for all GPUs, in one format or all ("").
func (b *build) model(s *shape, format string) error {
	f, p, err := s.open(b.tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, form := range formats {
		if format != "" && form.name != strings.TrimSpace(format) {
			continue
		}
		for _, g := range gpus {
			if b.r.step(s.name, form.name, g) != nil {
				continue // another GPU with the same launches
			}
			st := &stepper{s: s, whole: p, of: form.of, g: g, costs: b.costs}
			step := step{Model: s.name, Format: form.name, Compute: g.compute, SMs: g.sms}
			if step.Calls, step.PerLayer, err = st.step(); err != nil {
				return fmt.Errorf("%s on %s: %w", form.name, g.name, err)
			}
			if step.Weights, err = weightBytes(s, form.of); err != nil {
				return err
			}
			for i := range s.layers {
				step.KV += int64(min(context, cmp.Or(s.windowOf(i), context))) * int64(2*s.kv*s.dim) * 2
			}
			b.r.Steps = append(b.r.Steps, step)
			fmt.Fprintf(os.Stderr, "%s %s %s: %d launches a layer\n", s.name, form.name, g.name, step.PerLayer)
		}
	}
	return nil
}

// weightBytes is the size in the file of the matrices that a token is multiplied
// with.
func weightBytes(s *shape, of typeOf) (int64, error) {
	n := int64(0)
	for _, m := range s.matrices() {
		t, err := of(&kernels.Tensor{Name: m.name, Cols: m.cols}, s)
		if err != nil {
			return 0, err
		}
		n += fileBytes(t, m.rows, m.cols)
	}
	return n, nil
}

// finish leaves in the record the launches of its steps, and their PTX.
func (b *build) finish() {
	b.r.Costs = map[string]counted{}
	for _, s := range b.r.Steps {
		for _, c := range s.Calls {
			b.r.Costs[c.Key] = b.costs[c.Key]
			b.r.PTX[ptxOf(c.Key)] = b.ptx[ptxOf(c.Key)]
		}
	}
}

func (b *build) write() error {
	text, err := render(b.r)
	if err != nil {
		return err
	}
	if err := b.r.write(filepath.Join(b.dir, "performance.json")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "PERFORMANCE.md"), []byte(text), 0o644)
}

// print shows every launch of every step, for whoever works on one.
func (b *build) print() {
	for _, s := range b.r.Steps {
		fmt.Printf("%s %s %d.%d, %d SMs\n", s.Model, s.Format, s.Compute/10, s.Compute%10, s.SMs)
		for _, c := range s.Calls {
			n := b.r.Costs[c.Key].Cost
			fmt.Printf("%5d × warp %9.0f unique %10.0f sectors %.3f waves %.3f half %.0f int8 %.0f whole %v  %s\n",
				c.Times, n.Warp, n.Unique, ratio(n.Sectors, n.Ideal), ratio(n.Waves, n.Least), n.Half, n.Int8, b.r.Costs[c.Key].Whole, c.Key)
		}
	}
}
