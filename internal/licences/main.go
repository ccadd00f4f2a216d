// Licences gathers the licence texts of everything that the release binary is made
// of into appliance/about/licences.json.zst: of each Go module that it links, of
// Go itself, and of what is embedded. Run it from the root after a change of
// go.mod:
//
//	go run ./internal/licences
//
// It takes the texts out of the module cache and needs no network where go build
// needs none.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// entry is as of appliance/about.Licence.
type entry struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	Texts   []text `json:"texts"`
}

type text struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// licenceFile is what files with terms are called.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense|authors\.md)([-._].*)?$`)

const out = "appliance/about/licences.json.zst"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run() error {
	mods, err := modules()
	if err != nil {
		return err
	}
	var all []entry
	for _, m := range mods {
		e := entry{Module: m.Path, Version: m.Version}
		if e.Texts, err = texts(m.Dir); err != nil {
			return err
		}
		if len(e.Texts) == 0 {
			return fmt.Errorf("%s has no licence text in %s", m.Path, m.Dir)
		}
		all = append(all, e)
	}
	root, err := goroot()
	if err != nil {
		return err
	}
	std := entry{Module: "std", Version: "go"}
	if std.Texts, err = texts(root); err != nil || len(std.Texts) == 0 {
		return fmt.Errorf("no licence text of Go in %s: %v", root, err)
	}
	all = append(all, std)
	vendored, err := os.ReadFile("web/admin/assets/vendored.txt")
	if err != nil {
		return err
	}
	all = append(all, entry{"embedded: htmx", "", []text{{"vendored.txt", string(vendored)}}})
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	all = append(all, entry{"hearth", "", []text{{"LICENSE", string(own)}}})
	sort.Slice(all, func(i, j int) bool { return all[i].Module < all[j].Module })
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	packed := z.EncodeAll(b, nil)
	fmt.Printf("%d texts, %d bytes, %d packed\n", len(all), len(b), len(packed))
	return os.WriteFile(out, packed, 0o644)
}

type module struct{ Path, Version, Dir string }

// modules lists those that the release binary and the GPU worker inside it link,
// on every system that they are made for.
func modules() ([]module, error) {
	seen := map[string]module{}
	for _, build := range []struct{ what, arch, cgo string }{{".", "amd64", "0"}, {".", "arm64", "0"}, {"./engine/worker", "amd64", "1"}} {
		cmd := exec.Command("go", "list", "-deps", "-json=Module", build.what)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+build.cgo, "GOOS=linux", "GOARCH="+build.arch)
		cmd.Stderr = os.Stderr
		b, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(b)); ; {
			var p struct {
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			if m := p.Module; m != nil && !m.Main {
				seen[m.Path] = module{m.Path, m.Version, m.Dir}
			}
		}
	}
	var list []module
	for _, m := range seen {
		list = append(list, m)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list, nil
}

func goroot() (string, error) {
	b, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(b)), err
}

// texts reads the files with terms at the top of a module.
func texts(dir string) ([]text, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []text
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, text{e.Name(), strings.ToValidUTF8(string(b), "�")})
	}
	return out, nil
}
