package remote

import "strings"

// SandboxOptions say what a worker still needs once its model is open.
type SandboxOptions struct {
	// Read are files and directories that may still be opened for reading, for
	// instance the model's. Nothing may be opened for writing.
	Read []string
	// Devices are files that may be opened for reading and writing and driven by
	// ioctl, as the driver of an accelerator does also after its start. Where
	// there are any and the kernel lacks Landlock, any file may be opened for
	// writing: system call filters cannot look at a path.
	Devices []string
	// ExecutableMemory leaves mapping memory as executable allowed, which the
	// drivers of an accelerator need.
	ExecutableMemory bool
}

// SandboxReport says what the kernel took on. An empty reason means that the
// part is in force on every thread.
type SandboxReport struct {
	LandlockABI int    // 0: none
	Landlock    string // why files and TCP are not confined, "" if they are
	Seccomp     string // why system calls are not filtered, "" if they are
}

// String is one line for the operator.
func (r SandboxReport) String() string {
	var missing []string
	for _, p := range []struct{ name, why string }{{"landlock", r.Landlock}, {"seccomp", r.Seccomp}} {
		if p.why != "" {
			missing = append(missing, p.name+": "+p.why)
		}
	}
	if missing == nil {
		return "sandboxed"
	}
	return "not fully sandboxed: " + strings.Join(missing, "; ")
}
