package remote

import (
	"os"
	"strings"
)

// SandboxAvailable says what the kernel offers to confine workers with, without
// confining anything.
func SandboxAvailable() SandboxReport {
	r := SandboxReport{Landlock: "this system has none", Seccomp: "this system has none"}
	if b, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail"); err == nil && strings.Contains(string(b), "errno") {
		r.Seccomp = ""
	}
	abi, err := landlockVersion()
	if err != nil {
		r.Landlock = err.Error()
	} else {
		r.LandlockABI, r.Landlock = abi, ""
	}
	return r
}
