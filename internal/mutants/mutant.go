package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// mutant is one edit of a kernel source and the tests that must see it.
type mutant struct {
	Name string `json:"name"` // unique
	What string `json:"what"` // what the edit does to the kernel
	File string `json:"file"` // in kernels/cuda: the source or a header
	From string `json:"from"` // text that must stand there
	To   string `json:"to"`
	Nth  int    `json:"nth,omitempty"` // which occurrence, from 1; 0: it must be the only one
	// Module is the source that is compiled; empty: File without .cu.
	Module string `json:"module,omitempty"`
	// Tests is a regular expression of the tests, as -test.run takes it. They run for
	// one target.
	Tests string `json:"tests"`
}

func readMutants(path string) ([]mutant, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []mutant
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	seen := map[string]bool{}
	for i := range all {
		m := &all[i]
		if m.Name == "" || m.What == "" || m.File == "" || m.From == "" || m.From == m.To || m.Tests == "" || seen[m.Name] {
			return nil, fmt.Errorf("cannot use mutant %d, %q: every field is needed, and the name only once", i, m.Name)
		}
		seen[m.Name] = true
		if m.Module == "" {
			m.Module = strings.TrimSuffix(m.File, ".cu")
		}
	}
	return all, nil
}

// apply makes the edit in the text of m's file.
func (m *mutant) apply(src string) (string, error) {
	n := strings.Count(src, m.From)
	switch {
	case m.Nth == 0 && n != 1, m.Nth > n:
		return "", fmt.Errorf("got %d places of %q in %s, wanted %d", n, m.From, m.File, max(1, m.Nth))
	}
	at := 0
	for range max(1, m.Nth) - 1 {
		at += strings.Index(src[at:], m.From) + len(m.From)
	}
	at += strings.Index(src[at:], m.From)
	return src[:at] + m.To + src[at+len(m.From):], nil
}
