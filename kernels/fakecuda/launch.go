//go:build linux

package main

import (
	"strings"
	"time"

	"hearth/kernels/ptx"
)

// launchArgs are those of cuLaunchKernel; params are a copy, packed.
type launchArgs struct {
	grid, block ptx.Dim
	shared      uint32
	params      []byte
}

// launch is cuLaunchKernel.
func (l *library) launch(s *stream, f *function, a launchArgs) result {
	threads := uint64(a.block.X) * uint64(a.block.Y) * uint64(a.block.Z)
	switch {
	case f.m.ctx != s.ctx:
		return invalidHandle
	case a.grid.X == 0 || a.grid.Y == 0 || a.grid.Z == 0 || threads == 0:
		return invalidValue
	case a.grid.X > 1<<31-1 || a.grid.Y > 65535 || a.grid.Z > 65535 || a.block.X > 1024 || a.block.Y > 1024 || a.block.Z > 64 || threads > 1024:
		return invalidValue
	case threads > uint64(f.kernel.MaxThreads):
		return invalidValue
	case int64(a.shared) > int64(f.maxDynamic):
		return invalidValue
	case s.ctx.blocksPerSM(int(threads), l.registers, f.kernel.StaticShared+int(a.shared)) == 0:
		return outOfResources
	}
	return l.enqueue(s, op{name: f.kernel.Name, run: func() result { return l.run(s, f, a) }})
}

// run is a kernel on the device.
func (l *library) run(s *stream, f *function, a launchArgs) result {
	l.counts["launch"]++
	n := l.counts["launch"]
	for _, h := range l.hangs {
		if h.hits("launch", n) {
			l.tracef("kernel %d %s never ends", n, f.kernel.Name)
			s.stuck = true
			return success
		}
	}
	for _, e := range l.errors {
		if e.hits("launch", n) {
			l.tracef("kernel %d %s fails with %d", n, f.kernel.Name, e.result)
			return e.result
		}
	}
	time.Sleep(l.delay)
	l.tracef("kernel %d %s %v %v %d", n, f.kernel.Name, a.grid, a.block, a.shared)
	rep, err := s.ctx.machine.Launch(f.m.loaded, f.kernel.Name, a.grid, a.block, a.shared, a.params)
	r := success
	if rep != nil {
		for i, x := range rep.Findings {
			if i < 8 {
				complain("kernel %s, launch %d, grid %v, block %v: %v", f.kernel.Name, n, a.grid, a.block, x)
			}
			r = worse(r, faultOf(x.Kind))
		}
	}
	if err != nil {
		complain("kernel %s, launch %d, grid %v, block %v: %v", f.kernel.Name, n, a.grid, a.block, err)
		if r == success {
			r = errorOf(err)
		}
	}
	return r
}

// worse keeps the first fault, unless a later one is an illegal address.
func worse(a, b result) result {
	if a == success || b == illegalAddress {
		return b
	}
	return a
}

// faultOf is what a GPU would say of a finding. It sees few of them: what it would
// not see fails as an unspecified launch failure.
func faultOf(k ptx.Kind) result {
	switch k {
	case ptx.OutOfBounds, ptx.ReadOnly:
		return illegalAddress
	case ptx.Misaligned:
		return misaligned
	}
	return launchFailed
}

// errorOf is faultOf where the interpreter could not go on.
func errorOf(err error) result {
	switch s := err.Error(); {
	case strings.Contains(s, string(ptx.OutOfBounds)):
		return illegalAddress
	case strings.Contains(s, string(ptx.Misaligned)):
		return misaligned
	case strings.Contains(s, "deadlock"), strings.Contains(s, "steps"):
		return launchTimeout
	}
	return launchFailed
}
