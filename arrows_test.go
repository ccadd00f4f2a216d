package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrows says which of our packages a package may import. A key with /* stands
// for everything below it; the longest key that matches counts. The leaf
// engine/infer may be imported by all and is not listed.
var arrows = map[string][]string{
	"hearth":                      {"hearth/appliance"},
	"hearth/appliance":            {"hearth/appliance/*", "hearth/web", "hearth/web/*", "hearth/policy", "hearth/engine", "hearth/engine/*", "hearth/store"},
	"hearth/appliance/config":     {"hearth/appliance/config/edit", "hearth/policy", "hearth/store"},
	"hearth/appliance/config/*":   {},
	"hearth/appliance/certs":      {"hearth/appliance/config", "hearth/appliance/reach"},
	"hearth/appliance/accounts":   {"hearth/store", "hearth/appliance/config", "hearth/appliance/reach", "hearth/web/admin"},
	"hearth/appliance/identity":   {"hearth/policy", "hearth/store", "hearth/appliance/config", "hearth/appliance/reach"},
	"hearth/appliance/reach":      {},
	"hearth/appliance/reach/*":    {},
	"hearth/appliance/observe":    {},
	"hearth/appliance/otlp":       {"hearth/appliance/reach"},
	"hearth/appliance/backup":     {"hearth/store"},
	"hearth/appliance/about":      {},
	"hearth/appliance/progress":   {},
	"hearth/appliance/loadgen":    {"hearth/web/sse"},
	"hearth/appliance/invoice":    {"hearth/store"},
	"hearth/appliance/upstream":   {"hearth/appliance/reach", "hearth/policy", "hearth/store", "hearth/web/*"},
	"hearth/appliance/conform":    {"hearth/policy", "hearth/appliance/upstream", "hearth/web", "hearth/web/*"},
	"hearth/web":                  {"hearth/web/*"},
	"hearth/web/*":                {"hearth/web/sse", "hearth/web/wire", "hearth/web/jsonread", "hearth/web/jsonwrite"},
	"hearth/web/webtest":          {"hearth/web", "hearth/web/*"}, // a Service for tests
	"hearth/policy":               {"hearth/store"},
	"hearth/store":                {},
	"hearth/engine":               {"hearth/engine/*", "hearth/kernels", "hearth/kernels/*"},
	"hearth/engine/infer":         {},
	"hearth/engine/core":          {"hearth/engine/sched", "hearth/engine/sampler", "hearth/engine/output", "hearth/engine/grammar", "hearth/kernels"},
	"hearth/engine/artifact":      {"hearth/engine/weights", "hearth/engine/model"},
	"hearth/engine/model":         {"hearth/engine/weights", "hearth/kernels"},
	"hearth/engine/sampler":       {"hearth/kernels", "hearth/kernels/pick"},
	"hearth/engine/weights":       {"hearth/kernels"},
	"hearth/engine/bench":         {"hearth/engine", "hearth/engine/weights", "hearth/engine/model", "hearth/kernels", "hearth/kernels/*"},
	"hearth/engine/selftest":      {"hearth/engine", "hearth/engine/*", "hearth/kernels", "hearth/kernels/*"},
	"hearth/engine/remote":        {},
	"hearth/engine/replica":       {},
	"hearth/engine/worker":        {"hearth/engine/worker/*"},
	"hearth/engine/worker/host":   {"hearth/engine", "hearth/engine/remote", "hearth/engine/worker/report"},
	"hearth/engine/worker/gpu":    {"hearth/engine", "hearth/engine/remote", "hearth/engine/worker/*", "hearth/kernels", "hearth/kernels/*"},
	"hearth/engine/worker/*":      {},
	"hearth/engine/*":             {"hearth/kernels"},
	"hearth/kernels":              {},
	"hearth/kernels/*":            {"hearth/kernels", "hearth/kernels/*"},
	"hearth/kernels/cuda":         {"hearth/kernels", "hearth/kernels/cuda/kernel"}, // and no driver: main plans memory with it
	"hearth/kernels/cuda/driver":  {"hearth/kernels/cuda/kernel"},
	"hearth/kernels/cuda/kernel":  {"hearth/kernels"},
	"hearth/scripts/*":            {"hearth/*"}, // tools of ours, not part of the product
	"hearth/internal/checkptx":    {"hearth/kernels", "hearth/kernels/*"},
	"hearth/internal/devicecheck": {"hearth/engine/model", "hearth/engine/weights", "hearth/engine/weights/*", "hearth/kernels", "hearth/kernels/*"},
	"hearth/internal/perfsheet":   {"hearth/engine/model", "hearth/engine/weights", "hearth/kernels", "hearth/kernels/*"},
	"hearth/internal/*":           {"hearth/internal/*"},
}

// shared may be imported by everything of ours.
const shared = "hearth/engine/infer"

// onlyIn says which of our packages may import a library, with the reason.
var onlyIn = map[string]struct {
	where  []string
	reason string
}{
	"github.com/prometheus/client_golang": {[]string{"hearth/appliance"}, "parts offer Stats and know no metrics library"},
	"github.com/caddyserver/certmagic":    {[]string{"hearth/appliance/certs"}, "certificates are one part's concern"},
	"github.com/go-webauthn/webauthn":     {[]string{"hearth/appliance/accounts"}, "who may use the control plane is one part's concern"},
	"golang.org/x/oauth2":                 {[]string{"hearth/appliance/accounts"}, "people sign in there only"},
	"github.com/BurntSushi/toml":          {[]string{"hearth/appliance/config", "hearth/appliance/config/edit", "hearth/appliance/invoice"}, "one reader of the one file, its editor, and one of the maps of invoices"},
	"github.com/pelletier/go-toml":        {[]string{"hearth/appliance/config/edit"}, "its parser has no stable API: one package sees it"},
	"github.com/ebitengine/purego":        {[]string{"hearth/kernels/cuda/driver", "hearth/engine/worker/nvml"}, "it makes a binary dynamic: the worker's alone"},
	"go.etcd.io/bbolt":                    {[]string{"hearth/store"}, "the file format belongs to the store"},
	"github.com/NVIDIA/go-nvml":           {[]string{"hearth/engine/worker/nvml"}, "it needs cgo"},
	"net/http":                            {[]string{"hearth/appliance", "hearth/appliance/*", "hearth/web", "hearth/web/*", "hearth/internal/*"}, "policy, store and engine know no HTTP"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	Deps       []string
	CgoFiles   []string
	GoFiles    []string
}

// list runs go list and decodes its stream of objects.
func list(t *testing.T, env []string, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Imports,Deps,CgoFiles,GoFiles"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// rule finds the line of path, or the longest one with a star that covers it.
func rule(path string) (key string, allowed []string, ok bool) {
	if allowed, ok := arrows[path]; ok {
		return path, allowed, true
	}
	for k := range arrows {
		if len(k) > len(key) && match(k, path) {
			key = k
		}
	}
	allowed, ok = arrows[key]
	return key, allowed, ok
}

func match(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(path, base+"/")
	}
	return pattern == path
}

func ours(path string) bool { return path == "hearth" || strings.HasPrefix(path, "hearth/") }

// The imports between our packages follow the table.
func TestArrows(t *testing.T) {
	for _, p := range list(t, nil, "./...") {
		key, allowed, ok := rule(p.ImportPath)
		if !ok {
			t.Errorf("%s has no line in the table of arrows", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			for lib, only := range onlyIn {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.ContainsFunc(only.where, func(w string) bool { return match(w, p.ImportPath) }) &&
					!strings.HasPrefix(p.ImportPath, "hearth/scripts/") {
					t.Errorf("%s must not import %s: %s", p.ImportPath, imp, only.reason)
				}
			}
			if !ours(imp) || imp == shared {
				continue
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return match(a, imp) }) {
				t.Errorf("%s must not import %s (rule %s allows %v)", p.ImportPath, imp, key, allowed)
			}
		}
	}
}

// The shipped binary is static: nothing reachable from main needs cgo or loads
// a library at run time.
func TestStatic(t *testing.T) {
	for _, p := range list(t, []string{"CGO_ENABLED=0"}, "-deps", ".") {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s needs cgo", p.ImportPath)
		}
		if strings.HasPrefix(p.ImportPath, "github.com/ebitengine/purego") {
			t.Errorf("%s makes the binary dynamic", p.ImportPath)
		}
	}
}

// Every package of ours says what it is for.
func TestPackageComments(t *testing.T) {
	for _, p := range list(t, nil, "./...") {
		found := false
		for _, f := range p.GoFiles {
			src, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			found = found || src.Doc != nil && strings.TrimSpace(src.Doc.Text()) != ""
		}
		if !found && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
