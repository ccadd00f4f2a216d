package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// sources are part of what a cached answer depends on: what reads the programs'
// output, and how they are called.
//
//go:embed ptxas.go sass.go loops.go
var sources embed.FS

// answer is what is kept of one run of an assembler on one file for one device:
// a pure function of its key, and minutes of work for all files together.
type answer struct {
	Used []resources
	Mix  map[string]mix // by kernel; nil unless the code was read
}

// cache is a folder of answers; "" keeps none.
type cache string

// key names an answer.
func (c cache) key(ptx []byte, version string, cc int, code bool) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %v %d\n", version, cc, code, len(ptx))
	h.Write(ptx)
	files, err := sources.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		text, err := sources.ReadFile(f.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "\n%s %d\n", f.Name(), len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (c cache) get(key string) (*answer, bool) {
	if c == "" {
		return nil, false
	}
	data, err := os.ReadFile(filepath.Join(string(c), key))
	if err != nil {
		return nil, false
	}
	a := &answer{}
	return a, json.Unmarshal(data, a) == nil
}

// put keeps an answer. The file is never seen half written.
func (c cache) put(key string, a *answer) error {
	if c == "" {
		return nil
	}
	if err := os.MkdirAll(string(c), 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(string(c), "new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(string(c), key))
}
