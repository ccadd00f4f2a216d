// Package artifact keeps installed models: a directory with one folder a model,
// which holds the model's files and a manifest. Models come from files,
// directories or archives that may be hostile: names inside an archive never
// become paths (only a fixed set of names is written, through os.Root), sizes
// are bounded while they unpack, and nothing is visible under its name before
// it has been read back, checked and synced.
package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Manifest describes an installed model. It is stored as manifest.json.
type Manifest struct {
	Version       int       `json:"version"` // of this format: 1
	Name          string    `json:"name"`
	Path          string    `json:"path"`   // of the .gguf file, or "." for a safetensors directory; relative to the model's folder
	Format        string    `json:"format"` // "gguf" or "safetensors"
	Architecture  string    `json:"architecture"`
	Quantization  string    `json:"quantization"`
	Parameters    int64     `json:"parameters"`
	ContextLength int       `json:"context_length"`
	ChatTemplate  bool      `json:"chat_template"` // the model brings one
	Size          int64     `json:"size"`          // bytes of the weight files
	Digest        string    `json:"digest"`        // sha256 of the model, hex; see weights.File.Digest
	Licence       Licence   `json:"licence"`
	Source        string    `json:"source"`                  // base name of what was installed
	SourceDigest  string    `json:"source_digest,omitempty"` // sha256 of an archive that it came from, hex
	Added         time.Time `json:"added"`
}

// Licence is what the artifact says of its terms.
type Licence struct {
	ID    string   `json:"id,omitempty"`   // for instance "apache-2.0"
	Name  string   `json:"name,omitempty"` // where a custom licence has a name
	Link  string   `json:"link,omitempty"`
	From  string   `json:"from,omitempty"`  // what stated it: "general.license", "README.md" or "METADATA"
	Files []string `json:"files,omitempty"` // licence texts kept beside the model, relative to its folder
}

var (
	// ErrExists: a model of that name is installed.
	ErrExists = errors.New("a model of that name is already installed")
	// ErrNotFound: no model of that name is installed.
	ErrNotFound = errors.New("no such model is installed")
	// ErrDigest: the artifact is not the expected one.
	ErrDigest = errors.New("the digest differs from the expected one")
)

const (
	manifestName = "manifest.json"
	manifestSize = 1 << 20 // bound when reading one
	tempPrefix   = ".adding-"
	trashPrefix  = ".removing-"
	maxName      = 128
)

// Store is a directory of models. It is safe for concurrent use, also by several
// processes.
type Store struct {
	dir  string
	root *os.Root
}

// Open uses dir, making it if needed, and clears what an interrupted Add or
// Remove left.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot open the models directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the models directory: %w", err)
	}
	s := &Store{dir: dir, root: root}
	if err := s.clean(); err != nil {
		root.Close()
		return nil, fmt.Errorf("cannot clear the models directory: %w", err)
	}
	return s, nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

// checkName keeps model names usable as folder names, in URLs and on a command
// line.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a model name has 1 to %d characters, got %d", maxName, len(name))
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-+", rune(c))) {
			return fmt.Errorf("model name %q: wanted letters, digits and . _ - + after the first letter or digit", name)
		}
	}
	return nil
}

// List gives all installed models by name. Folders with a damaged manifest are
// left out and named in the error, beside the models that are sound.
func (s *Store) List() ([]Manifest, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("cannot list models: %w", err)
	}
	var all []Manifest
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || checkName(e.Name()) != nil {
			continue
		}
		m, err := s.Show(e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Manifest) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// Show gives the manifest of one model.
func (s *Store) Show(name string) (*Manifest, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	f, err := s.root.Open(name + "/" + manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	defer f.Close()
	b, err := readBounded(f, manifestSize)
	if err != nil {
		return nil, fmt.Errorf("model %q: %s: %w", name, manifestName, err)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("model %q: %s: %w", name, manifestName, err)
	}
	if m.Version != 1 || m.Name != name || m.Path != "." && (m.Path != filepath.Base(m.Path) || !filepath.IsLocal(m.Path)) {
		return nil, fmt.Errorf("model %q: %s has version %d, name %q and path %q, which do not fit", name, manifestName, m.Version, m.Name, m.Path)
	}
	return &m, nil
}

// Path is what weights.Open takes for the model.
func (s *Store) Path(name string) (string, error) {
	m, err := s.Show(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(s.dir, name, m.Path), nil
}

// Remove deletes a model. It disappears at once; its files then follow.
func (s *Store) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	trash := trashPrefix + randomHex()
	err := s.root.Rename(name, trash)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("model %q: %w", name, ErrNotFound)
	}
	if err == nil {
		err = errors.Join(s.sync("."), s.root.RemoveAll(trash))
	}
	if err != nil {
		return fmt.Errorf("cannot remove model %q: %w", name, err)
	}
	return nil
}

// clean removes what no running Add owns any more.
func (s *Store) clean() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, trashPrefix):
			errs = append(errs, s.root.RemoveAll(name))
		case strings.HasPrefix(name, tempPrefix) && e.IsDir() && s.abandoned(name+lockSuffix):
			errs = append(errs, s.root.RemoveAll(name), ignoreAbsent(s.root.Remove(name+lockSuffix)))
		}
	}
	return errors.Join(errs...)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sync makes the entries of a directory durable.
func (s *Store) sync(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
