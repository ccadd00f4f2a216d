//go:build amd64 && !purego

package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
)

// sets lists what this processor can run, best first; the first is what is taken
// unasked. Few who change a kernel have each processor at hand, so those of AVX-512
// must show, once in each process, that they agree with the portable ones.
var sets = sync.OnceValue(func() []*kernelSet {
	x := &cpu.X86
	var has features
	has.avx2 = x.HasAVX2 && x.HasFMA && x.HasF16C
	has.vnni = has.avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasBMI1 && x.HasBMI2
	has.bf16 = has.vnni && x.HasAVX512BF16
	ints := sync.OnceValue(func() bool { return agree(&vnni, &portable) })
	var all []*kernelSet
	all, refused = setsFor(has, ints, func() bool { return ints() && bf16.bf16.fit() })
	return all
})

// features of a processor, each with what the one before it takes.
type features struct{ avx2, vnni, bf16 bool }

// setsFor orders the sets for a processor, and names those which do not agree with
// the portable one. It asks about a set only where the processor can run it.
func setsFor(has features, vnniAgrees, bf16Agrees func() bool) (all []*kernelSet, refused []string) {
	for _, c := range []struct {
		set    *kernelSet
		has    bool
		agrees func() bool
	}{{&bf16, has.bf16, bf16Agrees}, {&vnni, has.vnni, vnniAgrees}} {
		switch {
		case !c.has:
		case c.agrees():
			all = append(all, c.set)
		default:
			refused = append(refused, c.set.name)
		}
	}
	if has.avx2 {
		all = append(append(all, &avx2), emulated()...)
	}
	return append(all, &portable), refused
}
