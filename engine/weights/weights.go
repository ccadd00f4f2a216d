// Package weights reads model files: GGUF version 2 and 3, and Hugging Face
// directories of safetensors with their config.json and tokenizer files. Both
// come out as one File: metadata, tokenizer source, chat templates and tensors
// that are views of a read-only mapping.
//
// A model file is hostile input. Every count, offset and size is checked with
// overflow-safe arithmetic against the bytes that are really there before it is
// used, and nothing is allocated in proportion to a number that was only claimed.
package weights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hearth/kernels"
)

// Format is the container that a model came in.
type Format string

const (
	GGUF        Format = "gguf"
	Safetensors Format = "safetensors"
)

// Tensor is a weight with the shape that the file states. Rows is the product
// of all dimensions but the last, Cols the last (the fastest varying) one.
type Tensor struct {
	kernels.Tensor
	Shape []int // row-major, outermost first; GGUF's ne reversed

	// unpack makes the data of a weight that the file holds in parts (AWQ, GPTQ,
	// FP8). Data is nil until File.Load.
	unpack func(dst []byte) error
	parts  [][]byte // of the mapping
}

// File is an opened model. It is safe for concurrent reads. Tensor data and
// Metadata arrays are views of a mapping and invalid after Close; everything
// else is a copy.
type File struct {
	Path    string // as given to Open
	Format  Format
	Size    int64    // bytes of all weight files
	Files   []string // the files that make up the model, absolute or as Path is, in digest order
	Tensors []Tensor // GGUF: in file order; safetensors: by name

	Meta *Metadata // GGUF key-values; nil for safetensors
	HF   *HF       // configuration files of a Hugging Face directory; nil for GGUF

	Scheme string // of a quantized Hugging Face model: "AWQ", "GPTQ-INT4", "FP8" …; else ""

	Tokenizer Tokenizer
	Templates []Template // the default one first, if there is one
	About     About

	raw      []rawTensor // parts of weights, until they are joined
	byName   map[string]int
	mappings []*mapping
}

// HF holds the configuration files of a Hugging Face directory as they are;
// nil where a file is absent.
type HF struct {
	Config           []byte // config.json, always present
	GenerationConfig []byte // generation_config.json
	Pooling          []byte // 1_Pooling/config.json of sentence-transformers
}

// Tokenizer is the raw source of a tokenizer: Vocabulary for GGUF, else the
// bytes of tokenizer.json and its companions. A file without any has all nil.
type Tokenizer struct {
	Vocabulary       *Vocabulary
	JSON             []byte // tokenizer.json
	Config           []byte // tokenizer_config.json
	SpecialTokensMap []byte // special_tokens_map.json
}

// About is what a file says of itself, for people. Empty where it is silent.
type About struct {
	Name        string
	Author      string
	Licence     string // SPDX-like id, for instance "apache-2.0"
	LicenceName string // full name, where a custom licence has one
	LicenceLink string
	Source      string // where it says it came from
}

// Open maps a .gguf file or a directory with config.json and safetensors.
func Open(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open model: %w", err)
	}
	f := &File{Path: path}
	switch {
	case st.IsDir():
		err = f.openDirectory()
	case st.Mode().IsRegular() && strings.EqualFold(filepath.Ext(path), ".safetensors"):
		err = errors.New("a single .safetensors file has no configuration; give the directory that holds it and config.json")
	case st.Mode().IsRegular():
		err = f.openGGUF()
	default:
		err = errors.New("neither a regular file nor a directory")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open model %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Load makes the data of a tensor that Tensor gave: a view of the mapping, or,
// where the file holds a weight in parts, memory of its own, once. It is not safe
// for concurrent use.
func (f *File) Load(t *Tensor) error {
	if t.Data != nil || t.unpack == nil {
		return nil
	}
	data := make([]byte, t.Rows*t.Type.RowBytes(t.Cols))
	if err := t.unpack(data); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	t.Data = data
	for _, p := range t.parts {
		f.Release(p)
	}
	return nil
}

// Template finds a chat template by name; "" is the default one.
func (f *File) Template(name string) (string, bool) {
	if name == "" {
		name = DefaultTemplate
	}
	for i := range f.Templates {
		if f.Templates[i].Name == name {
			return f.Templates[i].Text, true
		}
	}
	return "", false
}

// Release tells that a tensor's Data will not be read again soon, so that its
// pages can leave memory. Data that is no view of a mapping is left alone.
func (f *File) Release(data []byte) {
	for _, m := range f.mappings {
		m.release(data)
	}
}

// Close unmaps the files. Tensor data must not be used afterwards.
func (f *File) Close() error {
	var errs []error
	for _, m := range f.mappings {
		errs = append(errs, m.close())
	}
	f.mappings = nil
	f.Tensors = nil
	return errors.Join(errs...)
}
