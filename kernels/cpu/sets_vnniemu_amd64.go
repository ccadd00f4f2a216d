//go:build amd64 && !purego && vnniemu

package cpu

// emulated is the AVX-VNNI set with AVX2 instructions in place of VPDPBUSD, and
// narrower tiles: it tests the generator where there is no such processor. Its
// assembly is made by ISA=vnniemu (see generate.go) and not kept.
func emulated() []candidate {
	s := withInts("vnni-emulated", emuInts, wideTilesOf(emuInts, 2), peakInts, 32)
	return []candidate{{set: &s}}
}
