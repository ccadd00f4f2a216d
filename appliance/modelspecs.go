package appliance

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/artifact"
	"hearth/policy"
)

// embeddedFiles has the model inside the binary, model/hearth-tiny.gguf.
//
//go:embed model
var embeddedFiles embed.FS

// specs lists what a configuration serves: its [[model]] tables, and with
// library.serve the installed models that no table points to.
func (a *Appliance) specs(c *config.Config) []modelSpec {
	installed, err := a.artifacts.List()
	if err != nil {
		a.log.Error("cannot list the installed models", "error", err)
	}
	var specs []modelSpec
	pointed := map[string]bool{}
	cuda := c.CUDA
	if cuda.Library != "" {
		cuda.Library = a.dir.resolve(cuda.Library)
	}
	if a.opt.CUDAGraphs != "" {
		cuda.Graphs = a.opt.CUDAGraphs == "on"
	}
	for _, m := range c.Models {
		s := modelSpec{Model: m, CUDA: cuda}
		if m.Device == "" {
			s.Device = a.opt.Device
		}
		a.locate(&s, installed)
		pointed[m.Path] = true
		specs = append(specs, s)
	}
	for _, man := range installed {
		taken := slices.ContainsFunc(specs, func(s modelSpec) bool { return s.Name == man.Name })
		if !c.Library.Serve || pointed[man.Name] || taken {
			continue
		}
		s := modelSpec{Model: config.NewModel(man.Name, man.Name), CUDA: cuda}
		s.Device = a.opt.Device
		a.locate(&s, installed)
		specs = append(specs, s)
	}
	return a.models.overrides.on(specs, func(name string) (modelSpec, bool) {
		s := modelSpec{Model: config.NewModel(name, name), CUDA: cuda}
		s.Device = a.opt.Device
		a.locate(&s, installed)
		return s, slices.ContainsFunc(installed, func(m artifact.Manifest) bool { return m.Name == name })
	})
}

// locate finds the file of a model: embedded, installed, or by its path.
func (a *Appliance) locate(s *modelSpec, installed []artifact.Manifest) {
	if s.Path == config.EmbeddedPath {
		s.File = config.EmbeddedPath // unpacked when it is opened
		return
	}
	for _, man := range installed {
		if man.Name == s.Path {
			if file, err := a.artifacts.Path(man.Name); err == nil {
				s.File, s.Digest, s.Licence = file, man.Digest, man.Licence.ID
				return
			}
		}
	}
	s.File = a.dir.resolve(s.Path)
}

func specNames(specs []modelSpec) []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// policyConfig is the policy part of a configuration, with the price of "*"
// given to every local model that has none.
func policyConfig(c *config.Config, specs []modelSpec) policy.Config {
	out := c.Config
	out.Prices = nil
	var any *policy.PriceConfig
	priced := map[string]bool{}
	for _, p := range c.Prices {
		if p.Model == config.AnyModel {
			any = &p
			continue
		}
		priced[p.Model] = true
		out.Prices = append(out.Prices, p)
	}
	if any == nil {
		return out
	}
	for _, s := range specs {
		if !priced[s.Name] {
			p := *any
			p.Model = s.Name
			out.Prices = append(out.Prices, p)
		}
	}
	return out
}

// unpack gives the embedded model a file of its own, since the engine maps files.
func (a *Appliance) unpack(m *modelSpec) (err error) {
	if m.File == config.EmbeddedPath {
		m.File, err = a.unpackEmbedded()
	}
	return err
}

// unpackEmbedded puts the embedded model into the data directory, since the
// engine maps files, and returns its path. The name has the digest, so that
// another release's model is another file.
func (a *Appliance) unpackEmbedded() (string, error) {
	name, data, err := embeddedModel()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	dir := a.dir.embedded()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot unpack the embedded model: %w", err)
	}
	file := path.Join(dir, strings.TrimSuffix(name, ".gguf")+"-"+hex.EncodeToString(sum[:8])+".gguf")
	if have, err := os.ReadFile(file); err == nil && sha256.Sum256(have) == sum {
		return file, nil
	}
	return file, writeFile(file, data, 0o600)
}

// embeddedModel finds the one .gguf file inside the binary.
func embeddedModel() (name string, data []byte, err error) {
	entries, err := embeddedFiles.ReadDir("model")
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ".gguf" {
			data, err := embeddedFiles.ReadFile("model/" + e.Name())
			return e.Name(), data, err
		}
	}
	return "", nil, errors.New("this build carries no model: install one with `hearth model add`")
}

// HasEmbeddedModel says whether this build carries a model.
func HasEmbeddedModel() bool {
	_, _, err := embeddedModel()
	return err == nil
}
