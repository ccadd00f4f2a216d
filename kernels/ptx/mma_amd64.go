//go:build !purego

package ptx

import "golang.org/x/sys/cpu"

// hasAVX says that the processor has what mma_amd64.s needs.
var hasAVX = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C

//go:noescape
func mulAddAVX(acc *[16][8]float64, a *[16][32]float64, b *[32][8]float64, k int)

//go:noescape
func widenHalfAVX(dst *float64, stride uintptr, src *[32]uint32)

//go:noescape
func widenBfloatAVX(dst *float64, stride uintptr, src *[32]uint32)

//go:noescape
func widenInt8AVX(dst *float64, stride uintptr, src *[32]uint32)
