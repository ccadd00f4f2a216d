package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"hearth/kernels/cuda/kernel"
)

const stale = "run go run ./internal/perfsheet"

func committed(t *testing.T) *record {
	t.Helper()
	r, err := readRecord("../../kernels/cuda/performance.json")
	if err != nil {
		t.Fatalf("%v: %s", err, stale)
	}
	return r
}

// The page is what its record renders, and the record is of the PTX that ships.
func TestSheetIsFresh(t *testing.T) {
	r := committed(t)
	want, err := render(r)
	if err != nil {
		t.Fatalf("%v: %s", err, stale)
	}
	if got, err := os.ReadFile("../../kernels/cuda/PERFORMANCE.md"); err != nil || string(got) != want {
		t.Errorf("PERFORMANCE.md is not what performance.json renders (%v): %s", err, stale)
	}
	now, err := digests()
	if err != nil {
		t.Fatal(err)
	}
	for name, was := range r.PTX {
		if now[name] != was {
			t.Errorf("%s is not the PTX that was counted: %s", name, stale)
		}
	}
	for k := range r.Costs {
		if r.PTX[ptxOf(k)] == "" {
			t.Errorf("the launch %s is of no PTX of the record", k)
		}
	}
}

// The device compiles the models to the launches of the record, and asks for no
// more shared memory than the kernels' budgets are for. Each format for one GPU,
// for time; nothing runs.
func TestStepsAreFresh(t *testing.T) {
	r := committed(t)
	most := budgets(t)
	for i := range shapes {
		s := &shapes[i]
		f, p, err := s.open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for j, form := range formats {
			g := gpus[(i+j)%4]
			want := r.step(s.name, form.name, g)
			if want == nil {
				t.Errorf("%s %s on %s is not recorded: %s", s.name, form.name, g.name, stale)
				continue
			}
			seen := func(l *kernel.Launch) {
				if n, ok := most[fmt.Sprint(l.Module, " ", l.Name, " ", g.compute)]; !ok || int(l.Shared) > n {
					t.Errorf("%s %s asks for %d bytes of shared memory, its budget is for %d: .ci/ptx --update", l.Module, l.Name, l.Shared, n)
				}
			}
			st := &stepper{s: s, whole: p, of: form.of, g: g, costs: r.Costs, seen: seen, known: true}
			calls, perLayer, err := st.step()
			if err != nil {
				t.Errorf("%s %s on %s: %v: %s", s.name, form.name, g.name, err, stale)
				continue
			}
			got, _ := json.Marshal(calls)
			was, _ := json.Marshal(want.Calls)
			if string(got) != string(was) || perLayer != want.PerLayer {
				t.Errorf("%s %s on %s: the launches are not those of the record: %s", s.name, form.name, g.name, stale)
			}
		}
	}
}

// budgets are the bounds of dynamic shared memory, by module, kernel and compute
// capability × 10.
func budgets(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile("../../kernels/cuda/budgets.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Module, Kernel string
		On             map[string]struct{ Dynamic int }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	most := map[string]int{}
	for _, b := range list {
		for on, l := range b.On {
			most[b.Module+" "+b.Kernel+" "+on] = l.Dynamic
		}
	}
	return most
}

// Every aim that is missed is told.
func TestMisses(t *testing.T) {
	g := gpu{sms: 1, bandwidth: 1e9, clock: 1e9, half: 1e12, int8: 1e12}
	good := call{Key: "80 m k 1x1x1", Times: 1, cost: cost{Unique: 1e6, Warp: 4e6, Sectors: 10, Ideal: 10, Waves: 20, Least: 20}}
	st := func(edit func(*step, *cost)) *step {
		c := good
		s := &step{Weights: 1e6, PerLayer: 6}
		edit(s, &c.cost)
		s.Calls = []call{c}
		return s
	}
	for what, c := range map[string]struct {
		edit func(*step, *cost)
		want string
	}{
		"nothing":  {func(*step, *cost) {}, ""},
		"issue":    {func(_ *step, c *cost) { c.Warp = 5.2e6 }, "issue 1.30 × memory"},
		"launches": {func(s *step, _ *cost) { s.PerLayer = 7 }, "7 launches of a layer"},
		"bytes":    {func(s *step, _ *cost) { s.Weights = 0.9e6 }, "1.111 × the bytes"},
		"sectors":  {func(_ *step, c *cost) { c.Sectors = 12 }, "k: 1.20 × the sectors"},
		"passes":   {func(_ *step, c *cost) { c.Waves = 22 }, "k: 1.10 × the passes"},
	} {
		got, err := misses(st(c.edit), g)
		if err != nil || strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %v, %v, wanted %q", what, got, err, c.want)
		}
	}
}

// A matrix instruction's operations follow from its name.
func TestMatrix(t *testing.T) {
	for op, want := range map[string]cost{
		"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": {Half: 4096},
		"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32":     {Int8: 8192},
	} {
		n, of, err := matrix(op)
		var got cost
		if err == nil {
			*of(&got) += n
		}
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, wanted %+v", op, got, err, want)
		}
	}
	if _, _, err := matrix("mma.sync.aligned"); err == nil {
		t.Error("an instruction without a shape was accepted")
	}
}
