package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestRun(t *testing.T) {
	from, text := t.TempDir(), bytes.Repeat([]byte("add.s32 %r1, %r2, %r3;\n"), 5000)
	if err := run(from, t.TempDir()); err == nil {
		t.Error("a folder without kernels was taken")
	}
	for _, name := range []string{"a.compute_80.ptx", "b.compute_90.ptx"} {
		if err := os.WriteFile(filepath.Join(from, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var packed [2][]byte
	for i := range packed {
		to := t.TempDir()
		if err := run(from, to); err != nil {
			t.Fatal(err)
		}
		var err error
		if packed[i], err = os.ReadFile(filepath.Join(to, "b.compute_90.ptx")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("the same text gives other bytes the second time")
	}
	r, err := gzip.NewReader(bytes.NewReader(packed[0]))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) || len(packed[0]) > len(text)/10 {
		t.Errorf("%d bytes of %d come back, packed in %d, %v", len(got), len(text), len(packed[0]), err)
	}
}
