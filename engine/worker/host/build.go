package host

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is the release; the build script sets it by -ldflags -X, in the main
// program and in the GPU worker alike.
var Version = "0.1.0-dev"

// Build tells two builds apart as far as the toolchain noted it. A worker and its
// server must be of one build: they are two programs only where the worker is
// linked otherwise.
func Build() string {
	revision, modified := "", false
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
	}
	return fmt.Sprintf("%s %s %v %s", Version, revision, modified, runtime.Version())
}
