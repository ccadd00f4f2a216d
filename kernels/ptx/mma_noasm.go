//go:build !amd64 || purego

package ptx

const hasAVX = false

func mulAddAVX(*[16][8]float64, *[16][32]float64, *[32][8]float64, int) { panic("BUG: no AVX") }
func widenHalfAVX(*float64, uintptr, *[32]uint32)                       { panic("BUG: no AVX") }
func widenBfloatAVX(*float64, uintptr, *[32]uint32)                     { panic("BUG: no AVX") }
func widenInt8AVX(*float64, uintptr, *[32]uint32)                       { panic("BUG: no AVX") }
