// Packptx compresses the compiled kernels for the build of a release: 15 MB of
// text that an assembler reads become 3 MB. The files that are committed, and
// compared with what their sources give, stay as they are.
//
//	packptx FROM TO
//
// writes a compressed copy of each *.ptx of folder FROM into folder TO under the
// same name, and prints the object of paths that go build's -overlay wants. The
// same files give the same bytes.
package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: packptx FROM TO")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot compress the kernels:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.ptx"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there is no .ptx in %s", from)
	}
	replace := map[string]string{}
	for _, file := range files {
		replace[file] = filepath.Join(to, filepath.Base(file))
		if err := pack(file, replace[file]); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"Replace": replace})
}

func pack(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
