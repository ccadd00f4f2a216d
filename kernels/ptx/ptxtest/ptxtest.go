// Package ptxtest runs the launches of the CUDA kernels on the PTX interpreter,
// with every check on, for tests on machines that have no GPU.
//
//	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
//		x := m.Floats([]float32{1, 2, 3})
//		y := m.Room(12)
//		m.Launch(kernel.Launch{…})
//		got := m.ReadFloats(y, 3)
//	})
//
// runs the function once with the PTX of each target. A finding fails the test.
package ptxtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
)

// Targets are the virtual architectures that kernels are compiled for.
var Targets = []int{80, 90}

// Options say how launches run.
type Options struct {
	Memory  int // bytes of device memory; 0 means 64 MiB
	Workers int // goroutines; 0 means 2
	// Unchecked turns findings and counters off: for long runs only, of kernels
	// that other tests watch.
	Unchecked bool
	// Dir is where the PTX lies; empty means the folder of the kernels that ship.
	Dir string
	// Targets to run; empty means all.
	Targets []int
}

// Machine is an interpreter machine with the kernels of one target.
type Machine struct {
	*ptx.Machine
	Target int
	// Counts is the sum over the launches so far; of UniqueSectors too, so that a
	// sector counts once a launch.
	Counts   ptx.Counts
	Launches int

	t      testing.TB
	dir    string
	loaded map[string]*ptx.Loaded
}

// Run calls f once a target, as a subtest where t can have some.
func Run(t testing.TB, opt Options, f func(t testing.TB, m *Machine)) {
	t.Helper()
	targets := opt.Targets
	if len(targets) == 0 {
		targets = Targets
	}
	for _, target := range targets {
		if tt, ok := t.(*testing.T); ok {
			tt.Run(fmt.Sprintf("compute_%d", target), func(t *testing.T) { f(t, New(t, opt, target)) })
		} else {
			f(t, New(t, opt, target))
		}
	}
}

// New makes a machine for one target.
func New(t testing.TB, opt Options, target int) *Machine {
	t.Helper()
	if !slices.Contains(Targets, target) {
		t.Fatalf("there is no PTX for compute_%d", target)
	}
	if opt.Dir == "" {
		opt.Dir = filepath.Join(root(t), "kernels", "cuda", "ptx")
	}
	if opt.Workers == 0 {
		opt.Workers = 2
	}
	mach := ptx.NewMachine(ptx.Options{Checks: !opt.Unchecked, Count: !opt.Unchecked, Workers: opt.Workers, Memory: opt.Memory})
	return &Machine{Machine: mach, Target: target, t: t, dir: opt.Dir, loaded: map[string]*ptx.Loaded{}}
}

// root is the folder of go.mod, above the test's.
func root(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			t.Fatalf("no go.mod above %s", dir)
		}
	}
}

// modules holds what is parsed, by path: modules do not change, and tests of a
// package use the same ones.
var modules sync.Map

func parse(path string) (*ptx.Module, error) {
	type parsed struct {
		m   *ptx.Module
		err error
	}
	f, _ := modules.LoadOrStore(path, sync.OnceValue(func() parsed {
		src, err := os.ReadFile(path)
		if err != nil {
			return parsed{nil, err}
		}
		m, err := ptx.Parse(src)
		if err != nil {
			err = fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		return parsed{m, err}
	}))
	p := f.(func() parsed)()
	return p.m, p.err
}

// Module loads a module of the target, once.
func (m *Machine) Module(name string) *ptx.Loaded {
	m.t.Helper()
	if l := m.loaded[name]; l != nil {
		return l
	}
	mod, err := parse(filepath.Join(m.dir, fmt.Sprintf("%s.compute_%d.ptx", name, m.Target)))
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := m.Load(mod)
	if err != nil {
		m.t.Fatal(err)
	}
	m.loaded[name] = l
	return l
}

// Try runs one launch and returns what it showed.
func (m *Machine) Try(l kernel.Launch) (*ptx.Report, error) {
	m.t.Helper()
	loaded := m.Module(l.Module)
	if k, ok := loaded.Module().Kernel(l.Name); ok {
		if err := offsets(k, l.Params.Offsets); err != nil {
			return nil, err
		}
	}
	rep, err := m.Machine.Launch(loaded, l.Name, ptx.Dim(l.Grid), ptx.Dim(l.Block), l.Shared, l.Params.Data)
	if rep != nil {
		m.Launches++
		m.Counts.Add(rep.Counts)
	}
	return rep, err
}

// offsets checks that the parameters lie where the kernel declares them.
func offsets(k *ptx.Kernel, got []int) error {
	if len(got) != len(k.Params) {
		return fmt.Errorf("%s: got %d parameters, wanted %d", k.Name, len(got), len(k.Params))
	}
	for i, p := range k.Params {
		if got[i] != p.Offset {
			return fmt.Errorf("%s: parameter %d lies at byte %d, wanted %d", k.Name, i, got[i], p.Offset)
		}
	}
	return nil
}

// Launch runs launches in order. A finding or an error fails the test.
func (m *Machine) Launch(launches ...kernel.Launch) []*ptx.Report {
	m.t.Helper()
	var reps []*ptx.Report
	for _, l := range launches {
		rep, err := m.Try(l)
		if rep != nil && len(rep.Findings) > 0 {
			var b strings.Builder
			for _, f := range rep.Findings {
				fmt.Fprintf(&b, "\n\t%v", f)
			}
			m.t.Errorf("%s/%s compute_%d grid %v block %v: %d findings:%s", l.Module, l.Name, m.Target, l.Grid, l.Block, len(rep.Findings)+rep.Dropped, b.String())
		}
		if err != nil {
			m.t.Fatalf("%s/%s compute_%d grid %v block %v: %v", l.Module, l.Name, m.Target, l.Grid, l.Block, err)
		}
		reps = append(reps, rep)
	}
	return reps
}

// Room reserves n bytes that nobody has written.
func (m *Machine) Room(n int) kernel.Addr {
	m.t.Helper()
	a, err := m.Alloc(n)
	if err != nil {
		m.t.Fatal(err)
	}
	return kernel.Addr(a)
}

// Bytes uploads b.
func (m *Machine) Bytes(b []byte) kernel.Addr {
	m.t.Helper()
	a := m.Room(len(b))
	if err := m.Write(uint64(a), b); err != nil {
		m.t.Fatal(err)
	}
	return a
}

// Floats uploads float32 values.
func (m *Machine) Floats(v []float32) kernel.Addr { m.t.Helper(); return m.Data(v) }

// Ints uploads int32 values.
func (m *Machine) Ints(v []int32) kernel.Addr { m.t.Helper(); return m.Data(v) }

// Data uploads a slice of numbers of a fixed size, little endian.
func (m *Machine) Data(v any) kernel.Addr {
	m.t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		m.t.Fatal(err)
	}
	return m.Bytes(b)
}

// ReadBytes downloads n bytes, all of which must have been written.
func (m *Machine) ReadBytes(a kernel.Addr, n int) []byte {
	m.t.Helper()
	b := make([]byte, n)
	if err := m.Read(uint64(a), b); err != nil {
		m.t.Fatal(err)
	}
	return b
}

// ReadFloats downloads n float32 values.
func (m *Machine) ReadFloats(a kernel.Addr, n int) []float32 {
	m.t.Helper()
	b := m.ReadBytes(a, 4*n)
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// ReadInts downloads n int32 values.
func (m *Machine) ReadInts(a kernel.Addr, n int) []int32 {
	m.t.Helper()
	b := m.ReadBytes(a, 4*n)
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
