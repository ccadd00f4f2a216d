//go:build linux

package cpu

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// physicalCores counts the sets of sibling threads that Linux reports; where it
// reports none, every logical CPU counts.
func physicalCores() int {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	sets := make(map[string]bool)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			sets[strings.TrimSpace(string(b))] = true
		}
	}
	if len(sets) == 0 {
		return runtime.NumCPU()
	}
	return min(len(sets), runtime.NumCPU())
}
