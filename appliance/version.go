package appliance

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"hearth/engine/worker/embedded"
	"hearth/engine/worker/host"
)

// Version is the release.
var Version = host.Version

// buildInfo says what this binary is made of.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	CGO      bool   `json:"cgo"` // a release is built without
	GPU      bool   `json:"gpu"` // it carries a GPU worker
}

func readBuild() buildInfo {
	b := buildInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, GPU: gpuHere != nil || embedded.Worker() != ""}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "CGO_ENABLED":
			b.CGO = s.Value == "1"
		}
	}
	return b
}

// labels is b as /version and the build metric show it.
func (b buildInfo) labels() map[string]string {
	return map[string]string{
		"version": b.Version, "revision": b.Revision, "go": b.Go, "platform": b.Platform,
		"modified": fmt.Sprint(b.Modified), "cgo": fmt.Sprint(b.CGO), "gpu": fmt.Sprint(b.GPU),
	}
}

func versionCommand() *command {
	return &command{
		name: "version", short: "show what this binary is",
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			asJSON := fs.Bool("json", false, "print one JSON document")
			bill := fs.Bool("sbom", false, "print the bill of materials, CycloneDX 1.6 JSON")
			terms := fs.Bool("licences", false, "print the licence texts of everything in this binary")
			return func(_ context.Context, env *Env, _ []string) error {
				switch {
				case *bill:
					doc, err := billOfMaterials()
					if err == nil {
						_, err = fmt.Fprintf(env.Stdout, "%s\n", doc)
					}
					return err
				case *terms:
					text, err := licencesText()
					if err == nil {
						_, err = fmt.Fprint(env.Stdout, text)
					}
					return err
				}
				b := readBuild()
				if *asJSON {
					return printJSON(env.Stdout, b)
				}
				gpu := "without a GPU worker"
				if b.GPU {
					gpu = "with a GPU worker"
				}
				_, err := fmt.Fprintf(env.Stdout, "hearth %s (%s, %s, %s)\n", b.Version, b.Platform, b.Go, gpu)
				return err
			}
		},
	}
}
