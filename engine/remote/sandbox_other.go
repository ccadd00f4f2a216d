//go:build !linux || !(amd64 || arm64)

package remote

import "errors"

// Sandbox does nothing on this system, and says so.
func Sandbox(SandboxOptions) (SandboxReport, error) {
	const why = "this build has it for Linux on amd64 and arm64 only"
	return SandboxReport{Landlock: why, Seccomp: why}, nil
}

func landlockVersion() (int, error) { return 0, errors.New("this system has none") }
