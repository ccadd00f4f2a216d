// Package selftest compares this build, on this machine, with expected results
// that others computed: token ids, rendered prompts, dequantized blocks, logits
// and continuations. It reads the vector files of a folder and the models they
// belong to, and serves as a burn-in of a box as well as a test of the code.
//
// A vector file is JSON with a head and a list of cases; larger arrays lie in a
// raw file of little-endian float32 beside it. What is exact must be equal;
// where arithmetic may differ the bound stands at the check.
package selftest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options of Run.
type Options struct {
	Vectors string   // folder with the folders tokenizer, chat, quants, tiny, tiny-gguf, real
	Models  string   // folder with the models
	Groups  []string // which of those folders; empty: all that are there
	Threads int      // of the CPU device; 0: its own choice
	// Progress is told of each file before it is run, with how many files come
	// before it and how many there are; nil: nobody.
	Progress func(group, file string, done, total int)
}

// Group is the result of one folder of vectors.
type Group struct {
	Name     string   `json:"name"`
	Cases    int      `json:"cases"`
	Passed   int      `json:"passed"`
	Failures []string `json:"failures"`
	// Skipped names what could not be run, with the reason: a model that is not
	// there, a type that this build does not have.
	Skipped []string `json:"skipped,omitempty"`
}

// Report is the result of a run.
type Report struct {
	Groups []Group `json:"groups"`
}

// OK says that something was run and nothing failed.
func (r *Report) OK() bool {
	cases := 0
	for _, g := range r.Groups {
		cases += g.Cases
		if g.Passed != g.Cases {
			return false
		}
	}
	return cases > 0
}

// errSkip marks a file that cannot be run here.
var errSkip = errors.New("skipped")

func skipf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkip, fmt.Sprintf(format, args...))
}

// groups are the known folders, in the order in which they are run: what later
// ones need, earlier ones have checked.
var groups = []struct {
	name string
	run  func(ctx context.Context, t *run, path string) error
}{
	{"quants", runQuants},
	{"tokenizer", runTokenizer},
	{"chat", runChat},
	{"tiny", runTiny},
	{"tiny-gguf", runTinyGGUF},
	{"real", runReal},
}

// Names lists the groups.
func Names() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// run is the state of one group.
type run struct {
	opt   Options
	file  string // base name of the present vector file, without extension
	group *Group
}

// check counts a case; fault is empty if it passed.
func (t *run) check(name, fault string) {
	t.group.Cases++
	if fault == "" {
		t.group.Passed++
		return
	}
	t.group.Failures = append(t.group.Failures, t.file+"/"+name+": "+fault)
}

// Run runs the vectors. The error is about not being able to, or ctx; what
// failed stands in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	report := &Report{}
	done, total := 0, 0
	for _, g := range groups {
		if files, err := filepath.Glob(filepath.Join(o.Vectors, g.name, "*.json")); err == nil && (len(o.Groups) == 0 || slices.Contains(o.Groups, g.name)) {
			total += len(files)
		}
	}
	for _, g := range groups {
		if len(o.Groups) > 0 && !slices.Contains(o.Groups, g.name) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(o.Vectors, g.name, "*.json"))
		if err != nil {
			return nil, fmt.Errorf("cannot list the vectors: %w", err)
		}
		if len(files) == 0 {
			continue
		}
		t := &run{opt: o, group: &Group{Name: g.name, Failures: []string{}}}
		for _, path := range files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t.file = strings.TrimSuffix(filepath.Base(path), ".json")
			if o.Progress != nil {
				o.Progress(g.name, t.file, done, total)
			}
			done++
			switch err := g.run(ctx, t, path); {
			case errors.Is(err, errSkip):
				t.group.Skipped = append(t.group.Skipped, t.file+": "+strings.TrimPrefix(err.Error(), errSkip.Error()+": "))
			case err != nil && ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				t.check("file", err.Error())
			}
		}
		report.Groups = append(report.Groups, *t.group)
	}
	if len(report.Groups) == 0 {
		return nil, fmt.Errorf("there are no vectors in %s: wanted folders such as %s", o.Vectors, strings.Join(Names(), ", "))
	}
	return report, nil
}

// readJSON reads a vector file.
func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// array is a reference into the raw file beside a vector file.
type array struct {
	Offset int   `json:"offset"` // in floats
	Shape  []int `json:"shape"`  // row-major
}

// floats is such a raw file.
type floats []float32

func readFloats(path string) (floats, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := make(floats, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out, nil
}

// at gives the values of a reference.
func (f floats) at(a array) ([]float32, error) {
	n := 1
	for _, d := range a.Shape {
		if d < 0 || d > len(f) {
			return nil, fmt.Errorf("array of shape %v does not fit into its file", a.Shape)
		}
		n *= d
		if n > len(f) {
			return nil, fmt.Errorf("array of shape %v does not fit into its file", a.Shape)
		}
	}
	if a.Offset < 0 || a.Offset > len(f)-n {
		return nil, fmt.Errorf("array at %d of shape %v does not fit into its file", a.Offset, a.Shape)
	}
	return f[a.Offset : a.Offset+n], nil
}

// findModel finds a model file: at its path below the models folder, else by
// its name anywhere in it.
func (t *run) findModel(name string) (string, error) {
	name, _, _ = strings.Cut(name, " ") // a remark may follow
	path := filepath.Join(t.opt.Models, filepath.FromSlash(name))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	found := ""
	base := filepath.Base(name)
	_ = filepath.WalkDir(t.opt.Models, func(p string, d fs.DirEntry, err error) error {
		if err == nil && found == "" && d.Name() == base && !d.IsDir() {
			found = p
			return fs.SkipAll
		}
		return nil // what cannot be read cannot be found
	})
	if found == "" {
		return "", skipf("the model %s is not in %s", name, t.opt.Models)
	}
	return found, nil
}

// worst is the largest absolute difference; infinite if the lengths differ, NaN
// counts as infinite.
func worst(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	w := 0.0
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if d != d {
			return math.Inf(1)
		}
		w = max(w, d)
	}
	return w
}

// within is the fault of a difference above a bound.
func within(what string, got, bound float64) string {
	if got <= bound {
		return ""
	}
	return fmt.Sprintf("%s differ by %.3g, wanted at most %.3g", what, got, bound)
}
