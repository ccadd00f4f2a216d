package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hearth/kernels"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// openDirectory reads a Hugging Face directory. Only names that the layout
// fixes, or shards that the index names and that lie directly in it, are opened.
func (f *File) openDirectory() error {
	f.Format, f.HF = Safetensors, &HF{}
	for _, file := range []struct {
		name  string
		dst   *[]byte
		limit int
	}{
		{"config.json", &f.HF.Config, maxConfigBytes},
		{"generation_config.json", &f.HF.GenerationConfig, maxConfigBytes},
		{"1_Pooling/config.json", &f.HF.Pooling, maxConfigBytes},
		{"tokenizer.json", &f.Tokenizer.JSON, maxVocabBytes},
		{"tokenizer_config.json", &f.Tokenizer.Config, maxVocabBytes},
		{"special_tokens_map.json", &f.Tokenizer.SpecialTokensMap, maxConfigBytes},
	} {
		var err error
		if *file.dst, err = readSmall(f.inside(file.name), file.limit); err != nil {
			return err
		}
		if *file.dst != nil && !json.Valid(*file.dst) {
			return fmt.Errorf("%s is not valid JSON", file.name)
		}
	}
	if f.HF.Config == nil {
		return errors.New("the directory has no config.json")
	}
	scheme, err := readScheme(f.HF.Config)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if err := f.openWeights(scheme != nil); err != nil {
		return err
	}
	if scheme != nil {
		f.Scheme = scheme.name()
		if err := f.joinPacked(scheme); err != nil {
			return err
		}
	}
	if err := f.indexTensors(); err != nil {
		return err
	}
	if f.Templates, err = directoryTemplates(f.Path, f.Tokenizer.Config); err != nil {
		return err
	}
	f.About = f.directoryAbout()
	return f.listFiles()
}

func (f *File) inside(name string) string {
	return filepath.Join(f.Path, filepath.FromSlash(name))
}

// openWeights maps model.safetensors, or the shards that the index names.
func (f *File) openWeights(packed bool) error {
	if _, err := os.Stat(f.inside(singleFile)); err == nil {
		f.Tensors, f.raw, err = f.mapSafetensors(singleFile, packed)
		return err
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	index, err := readSmall(f.inside(indexFile), maxHeaderBytes)
	if err != nil {
		return err
	}
	if index == nil {
		if found, _ := filepath.Glob(f.inside("*.bin")); len(found) > 0 {
			return fmt.Errorf("the directory has only pickled weights (%s), which are not supported; wanted %s", filepath.Base(found[0]), singleFile)
		}
		return fmt.Errorf("the directory has neither %s nor %s", singleFile, indexFile)
	}
	owner, shards, err := parseIndex(index)
	if err != nil {
		return fmt.Errorf("%s: %w", indexFile, err)
	}
	for _, shard := range shards {
		tensors, raw, err := f.mapSafetensors(shard, packed)
		if err != nil {
			return err
		}
		names := make([]string, 0, len(tensors)+len(raw))
		for i := range tensors {
			names = append(names, tensors[i].Name)
		}
		for i := range raw {
			names = append(names, raw[i].name)
		}
		for _, name := range names {
			if owner[name] != shard {
				return fmt.Errorf("%s: tensor %q is in %s, but the index says %q", indexFile, name, shard, owner[name])
			}
			delete(owner, name)
		}
		f.Tensors, f.raw = append(f.Tensors, tensors...), append(f.raw, raw...)
	}
	if len(owner) > 0 {
		missing := make([]string, 0, len(owner))
		for name := range owner {
			missing = append(missing, name)
		}
		first := slices.Min(missing)
		return fmt.Errorf("%s: tensor %q is not in %s", indexFile, first, owner[first])
	}
	slices.SortFunc(f.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// parseIndex gives the shard of each tensor, and the shards in order of name.
func parseIndex(index []byte) (owner map[string]string, shards []string, err error) {
	owner = map[string]string{}
	err = eachMember(index, func(name string, d *json.Decoder) error {
		if name != "weight_map" {
			var other json.RawMessage
			return d.Decode(&other)
		}
		return d.Decode(&owner)
	})
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for tensor, shard := range owner {
		if shard != filepath.Base(shard) || !strings.HasSuffix(shard, ".safetensors") || strings.ContainsAny(shard, "/\\\x00") {
			return nil, nil, fmt.Errorf("tensor %q is said to be in %q, wanted the name of a .safetensors file in the same directory", tensor, shard)
		}
		if !seen[shard] {
			seen[shard] = true
			shards = append(shards, shard)
		}
	}
	if len(shards) == 0 {
		return nil, nil, errors.New("no weight_map")
	}
	if len(shards) > maxShards {
		return nil, nil, fmt.Errorf("%d shards, more than the %d allowed", len(shards), maxShards)
	}
	slices.Sort(shards)
	return owner, shards, nil
}

func (f *File) mapSafetensors(name string, packed bool) ([]Tensor, []rawTensor, error) {
	m, err := mapFile(f.inside(name))
	if err != nil {
		return nil, nil, err
	}
	f.mappings = append(f.mappings, m)
	f.Files = append(f.Files, f.inside(name))
	f.Size += int64(len(m.data))
	tensors, raw, err := parseSafetensors(m.data, packed)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return tensors, raw, nil
}

// listFiles sets Files to everything that decides what the model answers, in
// order of relative name.
func (f *File) listFiles() error {
	names := []string{
		"config.json", "generation_config.json", "1_Pooling/config.json",
		"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
		"chat_template.json", "chat_template.jinja",
	}
	if len(f.mappings) > 1 || !slices.Contains(f.Files, f.inside(singleFile)) {
		names = append(names, indexFile)
	}
	entries, err := os.ReadDir(f.inside("additional_chat_templates"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jinja") {
			names = append(names, "additional_chat_templates/"+e.Name())
		}
	}
	for _, name := range names {
		if st, err := os.Stat(f.inside(name)); err == nil && st.Mode().IsRegular() {
			f.Files = append(f.Files, f.inside(name))
		}
	}
	slices.Sort(f.Files)
	return nil
}

// directoryAbout takes what the model card says in its front matter.
func (f *File) directoryAbout() About {
	a := About{Name: filepath.Base(filepath.Clean(f.Path))}
	card, err := os.Open(f.inside("README.md"))
	if err != nil {
		return a
	}
	defer card.Close()
	if _, err := regularSize(card); err != nil {
		return a
	}
	head, _ := io.ReadAll(io.LimitReader(card, 64<<10))
	fields := FrontMatter(head)
	a.Licence, a.LicenceName, a.LicenceLink = fields["license"], fields["license_name"], fields["license_link"]
	a.Source = fields["base_model"]
	return a
}

// FrontMatter reads the top-level scalars of a model card's YAML head, the lines
// between two lines "---". Of a list it takes the first item. It is not a YAML
// parser: anything else is left out.
func FrontMatter(card []byte) map[string]string {
	fields := map[string]string{}
	lines := strings.Split(strings.ReplaceAll(string(card), "\r\n", "\n"), "\n")
	if len(lines) == 0 || lines[0] != "---" {
		return fields
	}
	open := "" // the key whose list may follow
	for _, line := range lines[1:] {
		if line == "---" {
			return fields
		}
		if item, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "- "); ok && open != "" {
			fields[open], open = scalar(item), ""
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || key == "" || key[0] == ' ' || key[0] == '#' {
			continue
		}
		open = ""
		if value = scalar(value); value != "" {
			fields[key] = value
		} else {
			open = key
		}
	}
	return map[string]string{} // the head was never closed
}

func scalar(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	return s
}

// DTypeBytes sums the bytes of all tensors by type.
func (f *File) DTypeBytes() map[kernels.DType]int64 {
	sum := map[kernels.DType]int64{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		sum[t.Type] += int64(t.Rows) * int64(t.Type.RowBytes(t.Cols))
	}
	return sum
}
