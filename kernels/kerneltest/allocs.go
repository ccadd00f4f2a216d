package kerneltest

import "testing"

// Allocs is how many objects a step allocates: the fewest of up to five counts of
// 20 steps, which ends at 0. The counter is the whole process's, and the runtime may
// start a thread or end a collection while steps are counted.
func Allocs(step func()) float64 {
	fewest := testing.AllocsPerRun(20, step)
	for range 4 {
		if fewest == 0 {
			break
		}
		fewest = min(fewest, testing.AllocsPerRun(20, step))
	}
	return fewest
}
