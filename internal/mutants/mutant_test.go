package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutantsApply: each edit's text stands in the sources, and its module and
// tests are there.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cuda := filepath.Join(root, "kernels", "cuda")
	all, err := readMutants(filepath.Join(cuda, "mutants.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	list, err := filepath.Glob(filepath.Join(cuda, "kernel", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(b)
	}
	for i := range all {
		m := &all[i]
		src, err := os.ReadFile(filepath.Join(cuda, m.File))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if edited, err := m.apply(string(src)); err != nil || edited == string(src) {
			t.Errorf("%s: the edit cannot be made: %v", m.Name, err)
		}
		if _, err := os.Stat(filepath.Join(cuda, m.Module+".cu")); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		name, _, _ := strings.Cut(m.Tests, "/")
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("%s: there is no %s", m.Name, name)
		}
		for part := range strings.SplitSeq(m.Tests, "/") {
			if _, err := regexp.Compile(part); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		m    mutant
		want string // empty: an error
	}{
		{mutant{From: "b", To: "x"}, "axcac"},
		{mutant{From: "a", To: "x", Nth: 1}, "xbcac"},
		{mutant{From: "a", To: "x", Nth: 2}, "abcxc"},
		{mutant{From: "a", To: "x"}, ""},
		{mutant{From: "a", To: "x", Nth: 3}, ""},
		{mutant{From: "d", To: "x"}, ""},
	} {
		got, err := c.m.apply("abcac")
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q for %q, place %d: got %q, %v, wanted %q", c.m.To, c.m.From, c.m.Nth, got, err, c.want)
		}
	}
}
