package weights

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// shardName is the naming rule of split GGUF files: PREFIX-00001-of-00003.gguf.
var shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

func (f *File) openGGUF() error {
	h, err := f.mapGGUF(f.Path)
	if err != nil {
		return err
	}
	f.Format, f.Meta, f.Tensors = GGUF, h.meta, h.tensors
	if err := f.openShards(); err != nil {
		return err
	}
	if err := f.indexTensors(); err != nil {
		return err
	}
	if f.Tokenizer.Vocabulary, err = readVocabulary(f.Meta); err != nil {
		return err
	}
	if f.Templates, err = ggufTemplates(f.Meta); err != nil {
		return err
	}
	f.About, err = ggufAbout(f.Meta)
	return err
}

func (f *File) mapGGUF(path string) (*ggufHeader, error) {
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	f.mappings = append(f.mappings, m)
	f.Files = append(f.Files, path)
	f.Size += int64(len(m.data))
	return parseGGUF(m.data)
}

// openShards adds the other files of a split model, which lie beside the first.
func (f *File) openShards() error {
	count, err := f.Meta.Int("split.count", 0)
	if err != nil || count <= 1 {
		return err
	}
	no, err := f.Meta.Int("split.no", 0)
	if err != nil {
		return err
	}
	if count > maxShards {
		return fmt.Errorf("metadata split.count is %d, more than the %d allowed", count, maxShards)
	}
	dir, base := filepath.Split(f.Path)
	m := shardName.FindStringSubmatch(base)
	if m == nil || m[3] != fmt.Sprintf("%05d", count) {
		return fmt.Errorf("the model is split into %d files, but its name is not of the form NAME-00001-of-%05d.gguf", count, count)
	}
	if n, _ := strconv.Atoi(m[2]); n != 1 || no != 0 {
		return fmt.Errorf("this is part %d of a model split into %d files; open the first, %s-00001-of-%05d.gguf", no+1, count, m[1], count)
	}
	for i := int64(2); i <= count; i++ {
		part := fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i, count)
		h, err := f.mapGGUF(filepath.Join(dir, part))
		if err != nil {
			return fmt.Errorf("part %s of the split model: %w", part, err)
		}
		no, errNo := h.meta.Int("split.no", -1)
		n, errCount := h.meta.Int("split.count", -1)
		if err := errors.Join(errNo, errCount); err != nil {
			return fmt.Errorf("part %s of the split model: %w", part, err)
		}
		if no != i-1 || n != count {
			return fmt.Errorf("part %s of the split model says it is part %d of %d, wanted %d of %d", part, no+1, n, i, count)
		}
		f.Tensors = append(f.Tensors, h.tensors...)
	}
	want, err := f.Meta.Int("split.tensors.count", int64(len(f.Tensors)))
	if err == nil && want != int64(len(f.Tensors)) {
		err = fmt.Errorf("the parts of the split model hold %d tensors, wanted %d", len(f.Tensors), want)
	}
	return err
}

// indexTensors fills byName; names are unique over all files of a model.
func (f *File) indexTensors() error {
	if len(f.Tensors) > maxTensors {
		return fmt.Errorf("%d tensors, more than the %d allowed", len(f.Tensors), maxTensors)
	}
	f.byName = make(map[string]int, len(f.Tensors))
	for i := range f.Tensors {
		name := f.Tensors[i].Name
		if _, dup := f.byName[name]; dup {
			return fmt.Errorf("tensor %q occurs twice", name)
		}
		f.byName[name] = i
	}
	return nil
}

func ggufAbout(m *Metadata) (About, error) {
	var a About
	var errs []error
	text := func(dst *string, keys ...string) {
		for _, key := range keys {
			s, err := m.String(key, "")
			errs = append(errs, err)
			if *dst == "" {
				*dst = s
			}
		}
	}
	text(&a.Name, "general.name", "general.basename")
	text(&a.Author, "general.author", "general.organization")
	text(&a.Licence, "general.license")
	text(&a.LicenceName, "general.license.name")
	text(&a.LicenceLink, "general.license.link")
	text(&a.Source, "general.repo_url", "general.url", "general.source.repo_url", "general.source.url")
	return a, errors.Join(errs...)
}
