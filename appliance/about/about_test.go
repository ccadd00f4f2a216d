package about

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Every module that the release links, in its GPU worker too, has a licence text
// here, of its version, that is recognized.
func TestEveryModuleHasItsLicence(t *testing.T) {
	all, err := Licences()
	if err != nil {
		t.Fatal(err)
	}
	linked := linkedModules(t, "hearth", "0")
	for path, version := range linkedModules(t, "hearth/engine/worker", "1") {
		linked[path] = version
	}
	for _, path := range []string{"github.com/NVIDIA/go-nvml", "github.com/ebitengine/purego"} {
		if linked[path] == "" {
			t.Errorf("go list does not name %s", path)
		}
	}
	if len(linked) < 10 {
		t.Fatalf("go list names %d modules", len(linked))
	}
	for path, version := range linked {
		i := slices.IndexFunc(all, func(l Licence) bool { return l.Module == path })
		if i < 0 || len(all[i].Texts) == 0 {
			t.Errorf("%s has no licence text: run go run ./internal/licences", path)
		} else if all[i].Version != version {
			t.Errorf("the text of %s is of %s, the program has %s: run go run ./internal/licences", path, all[i].Version, version)
		}
	}
	for _, l := range all {
		if l.ID == "" {
			t.Errorf("the terms of %s are not recognized", l.Module)
		}
	}
	for _, want := range []string{"std", "hearth", "embedded: htmx"} {
		if !slices.ContainsFunc(all, func(l Licence) bool { return l.Module == want }) {
			t.Errorf("there are no terms of %s", want)
		}
	}
	if text := WriteText(all); !strings.Contains(text, "go.etcd.io/bbolt") || !strings.Contains(text, "Permission is hereby granted") {
		t.Error("the text lacks bbolt and its terms")
	}
}

// linkedModules asks go list for the modules of a program, by path.
func linkedModules(t *testing.T, program, cgo string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=Module", program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOOS=linux", "GOARCH=amd64")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				Path, Version string
				Main          bool
			}
		}
		if err := d.Decode(&p); err == io.EOF {
			return linked
		} else if err != nil {
			t.Fatal(err)
		}
		if m := p.Module; m != nil && !m.Main {
			linked[m.Path] = m.Version
		}
	}
}

// The bill is CycloneDX 1.6: the fields that its schema requires, unique
// references, and every dependency declared. The same build gives the same bytes.
func TestSBOM(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-29T12:00:00Z"},
		{Key: "-ldflags", Value: "-X secret.folder=/home/someone"}}, Deps: []*debug.Module{
		{Path: "go.etcd.io/bbolt", Version: "v1.5.0", Sum: "h1:xyz="},
		{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "github.com/BurntSushi/toml", Version: "v1.6.0"}}}}
	parts := []Part{{Kind: "machine-learning-model", Name: "hearth-tiny", SHA256: strings.Repeat("0a", 32), Licence: "Apache-2.0"}}
	a, err := SBOM("1.0.0", info, parts)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := SBOM("1.0.0", info, parts); !bytes.Equal(a, b) {
		t.Error("the same build gives other bytes")
	}
	if bytes.Contains(a, []byte("/home/someone")) {
		t.Error("it tells where it was built")
	}
	var doc struct {
		BOMFormat, SpecVersion, SerialNumber string
		Version                              int
		Metadata                             struct{ Component map[string]any }
		Components                           []map[string]any
		Dependencies                         []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(a, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.6" || doc.Version != 1 || !strings.HasPrefix(doc.SerialNumber, "urn:uuid:") || len(doc.SerialNumber) != 45 {
		t.Errorf("head: %+v", doc)
	}
	refs := map[string]bool{}
	for _, c := range append(doc.Components, doc.Metadata.Component) {
		ref, _ := c["bom-ref"].(string)
		if c["type"] == nil || c["name"] == nil || ref == "" || refs[ref] {
			t.Errorf("component %v", c)
		}
		refs[ref] = true
	}
	for _, want := range []string{"pkg:golang/go.etcd.io/bbolt@v1.5.0", "pkg:golang/github.com/BurntSushi/toml@v1.6.0", "pkg:golang/std@1.26.0", "embedded/hearth-tiny"} {
		if !refs[want] {
			t.Errorf("it lacks %s: %s", want, a)
		}
	}
	for _, d := range doc.Dependencies {
		for _, on := range append(d.DependsOn, d.Ref) {
			if !refs[on] {
				t.Errorf("a dependency on %s, which is not there", on)
			}
		}
	}
}
