package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/ptx"
)

func cases(t *testing.T) []Case {
	t.Helper()
	all, err := Cases()
	if err != nil || len(all) == 0 {
		t.Fatalf("got %d cases: %v", len(all), err)
	}
	return all
}

// The interpreter conforms.
func TestInterpreter(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			g := cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Checks: true, Memory: 1 << 20}})
			r, err := Run(g, &c)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range r.Wrong {
				if i == 6 {
					t.Errorf("and %d more", len(r.Wrong)-i)
					break
				}
				t.Error(w)
			}
		})
	}
}

// instruction finds an instruction's full name in a line of PTX.
var instruction = regexp.MustCompile(`(?:^|[{;])\s*(?:@!?%[\w$]+\s+)?([a-z][a-z0-9_]*(?:(?:\.|::)[a-zA-Z0-9_]+)*)(?:\s|;)`)

// forms are the full names of the instructions in a text.
func forms(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		for _, m := range instruction.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
			all[m[1]] = true
		}
	}
	return all
}

// Every instruction of the kernels that ship has a case.
func TestEveryInstruction(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range cases(t) {
		text := forms(strings.Join(c.PTX, "\n"))
		for _, f := range c.Forms {
			if !text[f] {
				t.Errorf("case %s does not use %s", c.Name, f)
			}
			covered[f] = true
		}
	}
	files, err := filepath.Glob("../../cuda/ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files of PTX: %v", len(files), err)
	}
	missing := map[string][]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for form := range forms(string(b)) {
			if !covered[form] {
				missing[form] = append(missing[form], filepath.Base(f))
			}
		}
	}
	for form, in := range missing {
		t.Errorf("%s has no case; it is in %s", form, strings.Join(in, ", "))
	}
}

// The comparison sees what differs.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		typ, want, got string
		bound          float64
		ok             bool
	}{
		{"bits", "7fffffff", "7fc00000", 0, false},
		{"f32", "7fffffff", "ffc00001", 0, true},
		{"f32", "7fffffff", "7f800000", 0, false},
		{"f32", "0", "80000000", 0, false},
		{"f16", "7fff", "7e00", 0, true},
		{"f16x2", "7fff0001", "7e000001", 0, true},
		{"f16x2", "7fff0001", "7e000002", 0, false},
		{"bf16x2", "17fff", "17f80", 0, false},
		{"relative", "1", "3f800001", 0x1p-22, true},
		{"relative", "1", "3f800004", 0x1p-22, false},
		{"relative", "0", "80000000", 0x1p-22, false},
		{"relative", "NaN", "7fffffff", 0x1p-22, true},
		{"relative", "+Inf", "7f7fffff", 0x1p-22, false},
		{"ulp", "3", "40400001", 1, true},
		{"ulp", "3", "40400002", 1, false},
		{"absolute", "0.5", "3f000010", 0x1p-20, true},
		{"absolute", "0.5", "3f000020", 0x1p-20, false},
	} {
		x := Case{Out: [][]string{{c.want}}, Type: c.typ, Bound: c.bound}
		if wrong := Compare(&x, [][]string{{c.got}}); (len(wrong) == 0) != c.ok {
			t.Errorf("%s: %s for %s: got %v, wanted agreement %v", c.typ, c.got, c.want, wrong, c.ok)
		}
	}
}

// A machine that computes wrongly is found out: each case fails when one bit of
// its wanted output is another.
func TestCasesCanFail(t *testing.T) {
	all := cases(t)
	for i := 0; i < len(all); i += 9 {
		c := all[i]
		g := cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Memory: 1 << 20}})
		r, err := Run(g, &c)
		if err != nil {
			t.Fatal(err)
		}
		r.Out[0] = slices.Clone(r.Out[0])
		r.Out[0][0] = fmt.Sprintf("%x", uint64(0x3c5a11aa)) // of no case
		if len(Compare(&c, r.Out)) == 0 {
			t.Errorf("%s: another first word was not noticed", c.Name)
		}
	}
}

// Results are kept in a form that can be read.
func TestGoldenForm(t *testing.T) {
	want := []Result{{Case: "add.s32", Out: [][]string{{"1"}, {"ffffffff"}}, Wrong: []string{"not kept"}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Golden(b)
	if want[0].Wrong = nil; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Golden(b[:len(b)-5]); err == nil {
		t.Error("a file that breaks off was read")
	}
}

// Where a GPU has been asked, the cases and the interpreter say what it said.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("golden/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("SKIPPED: no GPU's outputs are kept in golden/ yet")
	}
	byName := map[string]Case{}
	for _, c := range cases(t) {
		byName[c.Name] = c
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Golden(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			c, ok := byName[r.Case]
			if !ok {
				continue // a case that has gone
			}
			if wrong := Compare(&c, r.Out); len(wrong) > 0 {
				t.Errorf("%s: %s: the GPU differs: %s", f, r.Case, wrong[0])
			}
			if c.Bound > 0 {
				continue
			}
			c.Out = r.Out
			got, err := Run(cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Memory: 1 << 20}}), &c)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Wrong) > 0 {
				t.Errorf("%s: %s: the interpreter differs from the GPU: %s", f, r.Case, got.Wrong[0])
			}
		}
	}
}
