package ptxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
)

func saxpy(n int, x, y kernel.Addr) kernel.Launch {
	return kernel.Launch{Module: "good", Name: "saxpy", Grid: kernel.Dim{X: 2}, Block: kernel.Dim{X: 64}, Params: kernel.Pack(float32(3), x, y, int32(n))}
}

// A clean launch gives its result on both targets.
func TestRun(t *testing.T) {
	seen := 0
	Run(t, Options{Dir: "../testdata"}, func(t testing.TB, m *Machine) {
		seen++
		x, y := m.Floats([]float32{1, 2, 3}), m.Data([]float32{10, 20, 30})
		reps := m.Launch(saxpy(3, x, y), saxpy(3, x, y))
		if got := m.ReadFloats(y, 3); got[0] != 16 || got[1] != 32 || got[2] != 48 {
			t.Errorf("got %v", got)
		}
		if m.Launches != 2 || m.Counts.UniqueSectors != 2*reps[0].Counts.UniqueSectors || m.Counts.WarpInstr == 0 {
			t.Errorf("counts %+v", m.Counts)
		}
	})
	if seen != 2 {
		t.Errorf("ran %d targets", seen)
	}
}

// tape records what a test would say.
type tape struct {
	testing.TB
	said []string
}

func (r *tape) Errorf(format string, args ...any) { r.said = append(r.said, "failed") }

// A finding fails the test; parameters in the wrong place are an error.
func TestRunFails(t *testing.T) {
	r := &tape{TB: t}
	m := New(r, Options{Dir: "../testdata"}, 80)
	m.Launch(saxpy(4, m.Ints([]int32{1, 2, 3}), m.Ints([]int32{1, 2, 3})))
	if len(r.said) != 1 {
		t.Errorf("an access out of bounds did not fail the test: %v", r.said)
	}
	l := saxpy(3, m.Room(12), m.Room(12))
	l.Params = kernel.Pack(m.Room(12), m.Room(12), float32(1), int32(3))
	if _, err := m.Try(l); err == nil || !strings.Contains(err.Error(), "parameter 1 lies at byte 8") && !strings.Contains(err.Error(), "parameter") {
		t.Errorf("parameters in the wrong places: %v", err)
	}
}

// Every kernel that ships parses, for both targets.
func TestShippedParse(t *testing.T) {
	files, err := filepath.Glob("../../cuda/ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX: %v", err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ptx.Parse(src)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		} else if len(m.Kernels()) == 0 {
			t.Errorf("%s: no kernels", filepath.Base(f))
		}
	}
}
