// Package about says what this program is made of: the licences of everything in
// it, and a bill of materials (CycloneDX 1.6, ECMA-424).
package about

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packed is made by internal/licences.
//
//go:embed licences.json.zst
var packed []byte

// Licence is the terms of one thing that is in the program.
type Licence struct {
	// Module is a Go module's path, "std" (Go itself and its standard library),
	// "hearth", or "embedded: …".
	Module  string `json:"module"`
	Version string `json:"version,omitempty"`
	// ID is the SPDX identifier that the text is recognized as; empty: none.
	ID    string `json:"id,omitempty"`
	Texts []Text `json:"texts"`
}

// Text is one file with terms.
type Text struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

var unpack = sync.OnceValues(func() ([]Licence, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the licences: %w", err)
	}
	var all []Licence
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("cannot read the licences: %w", err)
	}
	for i := range all {
		all[i].ID = identify(all[i].Texts)
	}
	return all, nil
})

// Licences lists all terms by module.
func Licences() ([]Licence, error) {
	all, err := unpack()
	return slices.Clone(all), err
}

// WriteText gives all terms as one text.
func WriteText(all []Licence) string {
	var b strings.Builder
	for _, l := range all {
		head := strings.TrimSpace(l.Module + " " + l.Version)
		if l.ID != "" {
			head += " (" + l.ID + ")"
		}
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", strings.Repeat("=", 80), head, strings.Repeat("=", 80))
		for _, t := range l.Texts {
			fmt.Fprintf(&b, "--- %s ---\n\n%s\n\n", t.Name, strings.TrimSpace(t.Text))
		}
	}
	return b.String()
}

// identify recognizes the usual licences by what only they say. Where several
// texts are there, all that are recognized count.
func identify(texts []Text) string {
	var ids []string
	for _, t := range texts {
		if id := identifyText(t.Text); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND ")
}

func identifyText(s string) string {
	s = strings.ToLower(strings.Join(strings.Fields(s), " "))
	has := func(words string) bool { return strings.Contains(s, words) }
	switch {
	case has("apache license version 2.0") || has("apache license, version 2.0"):
		return "Apache-2.0"
	case has("mozilla public license") && has("2.0"):
		return "MPL-2.0"
	case has("redistribution and use in source and binary forms") && has("neither the name"):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission is hereby granted, free of charge"):
		return "MIT"
	case has("permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted") && !has("provided that the above copyright"):
		return "0BSD"
	case has("permission to use, copy, modify, and/or distribute this software") || has("permission to use, copy, modify, and distribute this software"):
		return "ISC"
	case has("this is free and unencumbered software"):
		return "Unlicense"
	case has("cc0 1.0 universal"):
		return "CC0-1.0"
	}
	return ""
}
