// Package artifact keeps installed models: a directory with one folder a model,
// holding its files and a manifest.
package artifact

import (
	"context"
	"errors"
	"time"
)

// Manifest describes an installed model. It is stored as manifest.json.
type Manifest struct {
	Version       int       `json:"version"` // of this format: 1
	Name          string    `json:"name"`
	Path          string    `json:"path"` // of the .gguf file, or "." for a safetensors directory; relative to the model's folder
	Format        string    `json:"format"`
	Architecture  string    `json:"architecture"`
	Quantization  string    `json:"quantization"`
	Parameters    int64     `json:"parameters"`
	ContextLength int       `json:"context_length"`
	Size          int64     `json:"size"`   // bytes of all files
	Digest        string    `json:"digest"` // sha256 of the weights artifact, hex; see weights.File.Digest
	Licence       Licence   `json:"licence"`
	Source        string    `json:"source"` // base name of what was installed
	SourceDigest  string    `json:"source_digest,omitempty"` // sha256 of an archive that it came from, hex
	Added         time.Time `json:"added"`
}

// Licence is what the artifact says of its terms.
type Licence struct {
	ID    string   `json:"id,omitempty"`   // for instance "apache-2.0"
	Name  string   `json:"name,omitempty"` // where a custom licence has a name
	Link  string   `json:"link,omitempty"`
	From  string   `json:"from,omitempty"`  // what stated it: "general.license", "README.md", "METADATA" …
	Files []string `json:"files,omitempty"` // licence texts kept beside the model
}

var (
	// ErrExists: a model of that name is installed.
	ErrExists = errors.New("a model of that name is already installed")
	// ErrNotFound: no model of that name is installed.
	ErrNotFound = errors.New("no such model is installed")
	// ErrDigest: the artifact is not the expected one.
	ErrDigest = errors.New("digest differs from the expected one")
)

// AddOptions adjust Add.
type AddOptions struct {
	Name   string // "" derives one from the file name
	Digest string // expected sha256 in hex, of PATH itself or of the weights artifact; "" for none
	// Progress, if set, is called with bytes done and the total, which may grow.
	Progress func(done, total int64)
	// MaxBytes bounds what an archive may unpack to; 0 means 256 GiB.
	MaxBytes int64
	// Now gives the time for Manifest.Added; nil means time.Now.
	Now func() time.Time
}

// Store is a directory of models.
type Store struct{ dir string }

// Open uses dir, making it if needed, and clears what an interrupted Add left.
func Open(dir string) (*Store, error) { return nil, errors.New("not implemented") }

// Add installs path: a .gguf file, a safetensors directory, or an archive (zip,
// wheel, tar, tar.gz) that holds one. On error nothing is left behind.
func (s *Store) Add(ctx context.Context, path string, o AddOptions) (*Manifest, error) {
	return nil, errors.New("not implemented")
}

// List gives all installed models by name.
func (s *Store) List() ([]Manifest, error) { return nil, errors.New("not implemented") }

// Show gives the manifest of one model.
func (s *Store) Show(name string) (*Manifest, error) { return nil, errors.New("not implemented") }

// Path is what weights.Open takes for the model.
func (s *Store) Path(name string) (string, error) { return "", errors.New("not implemented") }

// Remove deletes a model.
func (s *Store) Remove(name string) error { return errors.New("not implemented") }
