package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Bounds on an archive.
const (
	maxEntries   = 100_000
	maxEntryName = 1024
	// The most that an archive may unpack to follows from its size, since trained
	// weights hardly compress: a larger ratio is an accident or an attack.
	maxRatio    = 64
	ratioFree   = 1 << 30   // this much is allowed whatever the ratio
	maxUnpacked = 256 << 30 // and never more than this
)

// entry is a regular file inside a source.
type entry struct {
	name string // clean, relative, with slashes
	size int64  // as claimed; writing checks it
}

// source is where a model comes from.
type source interface {
	// list gives all regular files.
	list(ctx context.Context) ([]entry, error)
	// extract calls write for each file that is wanted, in the source's order.
	extract(ctx context.Context, wanted map[string]bool, write func(e entry, r io.Reader) error) error
	close() error
}

// openSource finds out by its content what path is.
func openSource(path string, limit int64) (s source, archive bool, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	if st.IsDir() {
		return &folder{dir: path}, false, nil
	}
	if !st.Mode().IsRegular() {
		return nil, false, errors.New("neither a regular file nor a directory")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	var head [512]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		f.Close()
		return nil, false, err
	}
	if limit == 0 {
		limit = min(maxUnpacked, st.Size()*maxRatio+ratioFree)
	}
	magic := func(m string) bool { return bytes.HasPrefix(head[:n], []byte(m)) }
	switch {
	case magic("GGUF"):
		f.Close()
		return &folder{dir: filepath.Dir(path), only: filepath.Base(path)}, false, nil
	case magic("PK\x03\x04"):
		s, err := openZip(f, st.Size(), limit)
		return s, true, err
	case magic("\x1f\x8b"):
		return &tarball{file: f, gzip: true, limit: limit}, true, nil
	case n == len(head) && string(head[257:262]) == "ustar":
		return &tarball{file: f, limit: limit}, true, nil
	}
	f.Close()
	return nil, false, errors.New("not a GGUF file, a zip or wheel, a tar or a tar.gz")
}

// cleanName makes an archive's name for a file safe to reason about. It never
// becomes a path; still, a name that tries to leave the archive is refused
// rather than repaired, since no honest archive has one.
func cleanName(name string) (string, error) {
	if len(name) > maxEntryName {
		return "", fmt.Errorf("an entry's name has %d bytes, more than the %d allowed", len(name), maxEntryName)
	}
	if strings.ContainsAny(name, "\\\x00") || path.IsAbs(name) {
		return "", fmt.Errorf("entry %q has a name that is not a relative path", name)
	}
	clean := path.Clean(name)
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", fmt.Errorf("entry %q points outside the archive", name)
	}
	return clean, nil
}

// readBounded reads all of r, which must have at most limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}

// folder is a directory on disk, or with only set a single GGUF file in one and
// the other parts of its split.
type folder struct {
	dir, only string
}

func (f *folder) close() error { return nil }

// list gives the files of the directory and of the two subfolders that the
// Hugging Face layout knows. Links are followed: this is the operator's own
// directory, and the cache of huggingface_hub consists of links.
func (f *folder) list(ctx context.Context) ([]entry, error) {
	var all []entry
	for _, sub := range []string{"", "additional_chat_templates", "1_Pooling"} {
		entries, err := os.ReadDir(filepath.Join(f.dir, sub))
		if sub != "" && errors.Is(err, os.ErrNotExist) || f.only != "" && sub != "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if f.only != "" && !samePart(f.only, e.Name()) {
				continue
			}
			st, err := os.Stat(filepath.Join(f.dir, sub, e.Name()))
			if err == nil && st.Mode().IsRegular() {
				all = append(all, entry{path.Join(sub, e.Name()), st.Size()})
			}
			if len(all) > maxEntries {
				return nil, fmt.Errorf("more than %d files", maxEntries)
			}
		}
	}
	return all, ctx.Err()
}

func (f *folder) extract(ctx context.Context, wanted map[string]bool, write func(e entry, r io.Reader) error) error {
	all, err := f.list(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		if !wanted[e.name] {
			continue
		}
		r, err := os.Open(filepath.Join(f.dir, filepath.FromSlash(e.name)))
		if err != nil {
			return err
		}
		if err := errors.Join(write(e, r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}
