package appliance

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/cpu"

	"hearth/appliance/about"
	"hearth/engine/infer"
	"hearth/engine/worker/embedded"
	"hearth/web/admin"
)

// aboutProgram is what this program is and where it runs.
type aboutProgram struct {
	buildInfo
	Built      string         `json:"built,omitempty"` // time of the commit, RFC 3339
	Started    time.Time      `json:"started,omitzero"`
	UptimeS    float64        `json:"uptime_s"`
	Host       string         `json:"host"`
	CPUs       int            `json:"cpus"`
	Features   []string       `json:"cpu_features"` // that its kernels can use
	DataDir    string         `json:"data_dir"`
	ConfigFile string         `json:"config_file"`
	Devices    []string       `json:"devices"` // that models run on now
	Modules    []aboutModule  `json:"modules"`
	Embedded   []aboutPart    `json:"embedded"`
	Licences   map[string]int `json:"licences"` // number of parts by SPDX identifier
}

type aboutModule struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Licence string `json:"licence,omitempty"`
}

type aboutPart struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256"`
	Licence string `json:"licence,omitempty"`
}

var (
	opAbout = operation[none, aboutProgram]{
		name: "about/show", place: "GET /about", access: admin.Read,
		summary: "version, build, machine, and what the program is made of",
		run:     aboutNow,
	}
	opAboutLicences = operation[none, []about.Licence]{
		name: "about/licences", place: "GET /about/licences", access: admin.Read,
		summary: "the licence texts of everything in the program",
		run: func(context.Context, *control, none) ([]about.Licence, error) {
			all, err := about.Licences()
			if err != nil {
				return nil, infer.Errorf(infer.CodeInternal, "%v", err)
			}
			return all, nil
		},
	}
	opAboutSBOM = streamOperation[none]{
		operation: operation[none, none]{
			name: "about/sbom", place: "GET /about/sbom", access: admin.Read,
			summary: "the bill of materials, CycloneDX 1.6 JSON",
		},
		stream: func(_ context.Context, _ *control, _ none, w admin.Writer) error {
			b, err := billOfMaterials()
			if err != nil {
				return err
			}
			w.Begin("application/vnd.cyclonedx+json; version=1.6", "hearth-"+Version+".cdx.json")
			_, err = w.Write(b)
			return err
		},
	}
	opAboutLicencesText = streamOperation[none]{
		operation: operation[none, none]{
			name: "about/licences/download", place: "GET /about/licences.txt", access: admin.Read,
			summary: "the licence texts as one file",
		},
		stream: func(_ context.Context, _ *control, _ none, w admin.Writer) error {
			text, err := licencesText()
			if err != nil {
				return err
			}
			w.Begin("text/plain; charset=utf-8", "hearth-"+Version+"-licences.txt")
			_, err = w.Write([]byte(text))
			return err
		},
	}
)

func aboutNow(ctx context.Context, c *control, _ none) (aboutProgram, error) {
	host, _ := os.Hostname() // for people
	a := aboutProgram{buildInfo: readBuild(), Host: host, CPUs: runtime.NumCPU(), Features: cpuFeatures(), DataDir: string(c.dir), ConfigFile: c.file,
		Devices: []string{}, Modules: []aboutModule{}, Embedded: []aboutPart{}, Licences: map[string]int{}}
	if t := buildTime(); !t.IsZero() {
		a.Built = t.UTC().Format(time.RFC3339)
	}
	all, err := about.Licences()
	if err != nil {
		return a, infer.Errorf(infer.CodeInternal, "%v", err)
	}
	ids := map[string]string{}
	for _, l := range all {
		ids[l.Module] = l.ID
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			a.Modules = append(a.Modules, aboutModule{m.Path, m.Version, ids[m.Path]})
			a.Licences[ids[m.Path]]++
		}
	}
	for _, p := range embeddedParts() {
		a.Embedded = append(a.Embedded, aboutPart{p.Name, p.Version, p.SHA256, p.Licence})
	}
	if c.server != nil {
		a.Started, a.UptimeS = c.server.started, c.now().Sub(c.server.started).Seconds()
		for _, m := range c.server.models.states(ctx) {
			if d := m.info.Device; d != "" {
				a.Devices = append(a.Devices, m.info.Name+" on "+d)
			}
		}
	}
	return a, nil
}

// cpuFeatures names what the kernels look for.
func cpuFeatures() []string {
	out := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA}, {"avxvnni", cpu.X86.HasAVXVNNI}, {"avx512f", cpu.X86.HasAVX512F}, {"avx512vnni", cpu.X86.HasAVX512VNNI}, {"asimd", cpu.ARM64.HasASIMD}, {"asimddp", cpu.ARM64.HasASIMDDP}} {
		if f.has {
			out = append(out, f.name)
		}
	}
	return out
}

// embeddedParts lists what is in the program and no Go module.
func embeddedParts() []about.Part {
	var out []about.Part
	if b, err := embeddedFiles.ReadFile("model/hearth-tiny.gguf"); err == nil {
		out = append(out, about.Part{Kind: "machine-learning-model", Name: "hearth-tiny", SHA256: sha256Of(b), Licence: "Apache-2.0", Note: "the model inside the program"})
	}
	out = append(out, workerParts()...)
	for _, a := range admin.Vendored() {
		out = append(out, about.Part{Kind: "library", Name: a.Name, Version: a.Version, SHA256: a.SHA256, Licence: a.Licence, PURL: a.PURL, Note: "embedded in the status page"})
	}
	return out
}

// workerParts are the GPU worker inside the program, and the Go modules that only
// it links. They do not change while the program runs.
var workerParts = sync.OnceValue(func() (out []about.Part) {
	program := embedded.Worker()
	if program == "" {
		return nil
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, program) // a hash takes everything
	out = append(out, about.Part{Kind: "application", Name: embedded.Name, Version: Version, SHA256: hex.EncodeToString(sum.Sum(nil)), Licence: "Apache-2.0", Note: "the GPU worker inside the program"})
	inside, err := buildinfo.Read(strings.NewReader(program))
	if err != nil {
		return out
	}
	ours := map[string]bool{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			ours[m.Path] = true
		}
	}
	ids := licenceIDs()
	for _, m := range inside.Deps {
		if !ours[m.Path] {
			out = append(out, about.Part{Kind: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version, Licence: ids[m.Path], Note: "in the GPU worker"})
		}
	}
	return out
})

// licenceIDs are the SPDX identifiers of modules.
func licenceIDs() map[string]string {
	ids := map[string]string{}
	all, err := about.Licences()
	if err != nil {
		return ids
	}
	for _, l := range all {
		ids[l.Module] = l.ID
	}
	return ids
}

func sha256Of(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// billOfMaterials is that of this very program.
func billOfMaterials() ([]byte, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, infer.Errorf(infer.CodeUnavailable, "this program was built without the information of what is in it")
	}
	return about.SBOM(Version, info, embeddedParts())
}

func licencesText() (string, error) {
	all, err := about.Licences()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(about.WriteText(all)) + "\n", nil
}
