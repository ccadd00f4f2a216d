package kernel_test

import (
	"os"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
)

// gpu is an interpreter machine for one PTX target.
type gpu struct {
	t      *testing.T
	target kernel.Target
	arch   string
	mach   *ptx.Machine
	loaded map[string]*ptx.Loaded
}

func newGPU(t *testing.T, compute int) *gpu {
	arch := "80"
	if compute >= 90 {
		arch = "90"
	}
	return &gpu{t: t, target: kernel.Target{Compute: compute, SMs: 8, Shared: 99 << 10}, arch: arch,
		mach: ptx.NewMachine(ptx.Options{Checks: true, Count: true, Workers: 2, Memory: 64 << 20}), loaded: map[string]*ptx.Loaded{}}
}

func (g *gpu) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *gpu) alloc(n int64) kernel.Addr {
	g.t.Helper()
	a, err := g.mach.Alloc(int(n))
	g.check(err)
	return kernel.Addr(a)
}

func (g *gpu) upload(b []byte) kernel.Addr {
	g.t.Helper()
	a := g.alloc(int64(len(b)))
	g.check(g.mach.Write(uint64(a), b))
	return a
}

func (g *gpu) module(name string) *ptx.Loaded {
	g.t.Helper()
	if l := g.loaded[name]; l != nil {
		return l
	}
	src, err := os.ReadFile("../ptx/" + name + ".compute_" + g.arch + ".ptx")
	g.check(err)
	m, err := ptx.Parse(src)
	g.check(err)
	l, err := g.mach.Load(m)
	g.check(err)
	g.loaded[name] = l
	return l
}

func (g *gpu) run(ls []kernel.Launch) (sum ptx.Counts) {
	g.t.Helper()
	for _, l := range ls {
		rep, err := g.mach.Launch(g.module(l.Module), l.Name, ptx.Dim(l.Grid), ptx.Dim(l.Block), l.Shared, l.Params.Data)
		g.check(err)
		for _, f := range rep.Findings {
			g.t.Error(l.Name, f)
		}
		if g.t.Failed() {
			g.t.FailNow()
		}
		sum = rep.Counts
	}
	return sum
}
