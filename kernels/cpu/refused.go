package cpu

// refused is what Refused gives; written by sets.
var refused []string

// Refused lists the kernel sets that this processor has the instructions for and that
// are left out, since they did not give the bits of the portable ones when they were
// tried. The best of Paths is then slower than the processor could be.
func Refused() []string {
	sets()
	return refused
}
