package ptx

import (
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"
)

// bench is a machine with one module, and short ways to use them.
type bench struct {
	t testing.TB
	m *Machine
	l *Loaded
}

func open(t testing.TB, file string, opt Options) *bench {
	t.Helper()
	src, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, mod, opt)
}

func load(t testing.TB, mod *Module, opt Options) *bench {
	t.Helper()
	m := NewMachine(opt)
	l, err := m.Load(mod)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, m, l}
}

var watched = Options{Checks: true, Count: true, Workers: 2, MaxSteps: 1 << 22}

// put uploads values.
func (b *bench) put(v any) uint64 {
	b.t.Helper()
	n := binary.Size(v)
	a, err := b.m.Alloc(n)
	if err != nil {
		b.t.Fatal(err)
	}
	buf, _ := binary.Append(nil, binary.LittleEndian, v)
	if err := b.m.Write(a, buf); err != nil {
		b.t.Fatal(err)
	}
	return a
}

// room reserves n bytes.
func (b *bench) room(n int) uint64 {
	b.t.Helper()
	a, err := b.m.Alloc(n)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// get downloads into v, a slice.
func (b *bench) get(addr uint64, v any) {
	b.t.Helper()
	buf := make([]byte, binary.Size(v))
	if err := b.m.Read(addr, buf); err != nil {
		b.t.Fatal(err)
	}
	if _, err := binary.Decode(buf, binary.LittleEndian, v); err != nil {
		b.t.Fatal(err)
	}
}

// params packs arguments by their kinds.
func (b *bench) params(name string, args []any) []byte {
	b.t.Helper()
	k, ok := b.l.m.Kernel(name)
	if !ok || len(k.Params) != len(args) {
		b.t.Fatalf("%s: wrong kernel or number of arguments", name)
	}
	p := make([]byte, k.ParamBytes)
	for i, a := range args {
		buf, err := binary.Append(nil, binary.LittleEndian, a)
		if err != nil || len(buf) != k.Params[i].Size {
			b.t.Fatalf("%s: argument %d is %T, wanted %d bytes", name, i, a, k.Params[i].Size)
		}
		copy(p[k.Params[i].Offset:], buf)
	}
	return p
}

// launch runs a kernel and gives its report.
func (b *bench) launch(name string, grid, block Dim, shared uint32, args ...any) *Report {
	b.t.Helper()
	r, err := b.m.Launch(b.l, name, grid, block, shared, b.params(name, args))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// clean runs a kernel that must be without findings.
func (b *bench) clean(name string, grid, block Dim, shared uint32, args ...any) *Report {
	b.t.Helper()
	r := b.launch(name, grid, block, shared, args...)
	for _, f := range r.Findings {
		b.t.Errorf("%s: %v", name, f)
	}
	return r
}

// faulty runs a kernel that must be reported for just this, with words of text.
func (b *bench) faulty(name string, kind Kind, text string, grid, block Dim, args ...any) {
	b.t.Helper()
	r := b.launch(name, grid, block, 0, args...)
	found := false
	for _, f := range r.Findings {
		found = found || f.Kind == kind && strings.Contains(f.Detail, text)
		if f.Kind != kind && f.Kind != Uninitialised { // what was not written for the fault may be missed later
			b.t.Errorf("%s: also %v", name, f)
		}
	}
	if !found {
		b.t.Errorf("%s: no %s with %q in %v", name, kind, text, r.Findings)
	}
}

func bf16(f float32) uint16 { return uint16(floatToBfloat(math.Float32bits(f))) }

func unbf16(h uint16) float32 { return bfloatToFloat(uint32(h)) }

// noise is a small deterministic generator.
type noise uint64

func (r *noise) next() uint32 {
	*r = *r*6364136223846793005 + 1442695040888963407
	return uint32(*r >> 33)
}

func (r *noise) float() float32 { return float32(r.next()%2001)/1000 - 1 }
