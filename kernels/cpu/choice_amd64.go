//go:build amd64 && !purego

package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
)

// candidates lists what this processor can run, best first. Those with VPDPBUSD must
// show that they agree.
var candidates = sync.OnceValue(func() []candidate {
	x := &cpu.X86
	var has features
	has.avx2 = x.HasAVX2 && x.HasFMA && x.HasF16C
	has.avxVNNI = has.avx2 && x.HasAVXVNNI
	has.vnni = has.avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasBMI1 && x.HasBMI2
	has.bf16 = has.vnni && x.HasAVX512BF16
	agrees := func(s *kernelSet) func() bool { return sync.OnceValue(func() bool { return agree(s, &portable) }) }
	ints := agrees(&vnni)
	return candidatesOf(has, ints, sync.OnceValue(func() bool { return ints() && bf16.bf16.fit() }), agrees(&avxVNNI))
})

// features of a processor: avxVNNI and vnni come with avx2, bf16 with vnni.
type features struct{ avx2, avxVNNI, vnni, bf16 bool }

// candidatesOf orders the sets for a processor.
func candidatesOf(has features, vnniAgrees, bf16Agrees, avxVNNIAgrees func() bool) (all []candidate) {
	if has.bf16 {
		all = append(all, candidate{&bf16, bf16Agrees})
	}
	if has.vnni {
		all = append(all, candidate{&vnni, vnniAgrees})
	}
	if has.avxVNNI {
		all = append(all, candidate{&avxVNNI, avxVNNIAgrees})
	}
	if has.avx2 {
		all = append(append(all, candidate{set: &avx2}), emulated()...)
	}
	return append(all, candidate{set: &portable})
}
