package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// zipFile is a zip archive; wheels are zip archives.
type zipFile struct {
	file    *os.File
	entries []entry
	files   map[string]*zip.File
}

func openZip(f *os.File, size, limit int64) (*zipFile, error) {
	r, err := zip.NewReader(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("damaged zip archive: %w", err)
	}
	z := &zipFile{file: f, files: map[string]*zip.File{}}
	if err := z.index(r, limit); err != nil {
		f.Close()
		return nil, err
	}
	return z, nil
}

func (z *zipFile) index(r *zip.Reader, limit int64) error {
	if len(r.File) > maxEntries {
		return fmt.Errorf("the archive has %d entries, more than the %d allowed", len(r.File), maxEntries)
	}
	left := uint64(limit)
	for _, f := range r.File {
		name, err := cleanName(f.Name)
		if err != nil {
			return err
		}
		if !f.Mode().IsRegular() {
			continue
		}
		if f.UncompressedSize64 > left {
			return fmt.Errorf("the archive unpacks to more than the %d bytes allowed", limit)
		}
		left -= f.UncompressedSize64
		if z.files[name] != nil {
			return fmt.Errorf("entry %q occurs twice", name)
		}
		z.files[name] = f
		z.entries = append(z.entries, entry{name, int64(f.UncompressedSize64)})
	}
	return nil
}

func (z *zipFile) close() error { return z.file.Close() }

func (z *zipFile) list(ctx context.Context) ([]entry, error) { return z.entries, ctx.Err() }

func (z *zipFile) extract(ctx context.Context, wanted map[string]bool, write func(e entry, r io.Reader) error) error {
	for _, e := range z.entries {
		if !wanted[e.name] {
			continue
		}
		r, err := z.files[e.name].Open()
		if err != nil {
			return fmt.Errorf("entry %q: %w", e.name, err)
		}
		if err := errors.Join(write(e, r), r.Close()); err != nil {
			return fmt.Errorf("entry %q: %w", e.name, err)
		}
	}
	return ctx.Err()
}

// tarball is a tar archive, maybe compressed. Its table of contents is spread
// over all of it, so it is read once to list and once to extract.
type tarball struct {
	file  *os.File
	gzip  bool
	limit int64 // of uncompressed bytes
}

func (t *tarball) close() error { return t.file.Close() }

// walk goes through all regular files. Everything that is unpacked counts
// against the limit, wanted or not.
func (t *tarball) walk(ctx context.Context, visit func(e entry, r io.Reader) error) error {
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var r io.Reader = t.file
	if t.gzip {
		z, err := gzip.NewReader(t.file)
		if err != nil {
			return fmt.Errorf("damaged gzip file: %w", err)
		}
		defer z.Close()
		r = z
	}
	bounded := &boundedReader{ctx: ctx, r: r, left: t.limit, limit: t.limit}
	tr := tar.NewReader(bounded)
	seen := map[string]bool{}
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("damaged tar archive: %w", err)
		}
		if n >= maxEntries {
			return fmt.Errorf("the archive has more than %d entries", maxEntries)
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue // links and devices are never followed or made
		}
		if seen[name] {
			return fmt.Errorf("entry %q occurs twice", name)
		}
		seen[name] = true
		if err := visit(entry{name, h.Size}, tr); err != nil {
			return fmt.Errorf("entry %q: %w", name, err)
		}
	}
}

func (t *tarball) list(ctx context.Context) (all []entry, err error) {
	err = t.walk(ctx, func(e entry, _ io.Reader) error {
		all = append(all, e)
		return nil
	})
	return all, err
}

func (t *tarball) extract(ctx context.Context, wanted map[string]bool, write func(e entry, r io.Reader) error) error {
	return t.walk(ctx, func(e entry, r io.Reader) error {
		if !wanted[e.name] {
			return nil
		}
		return write(e, r)
	})
}

// boundedReader fails, rather than ends, past its limit.
type boundedReader struct {
	ctx         context.Context
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the archive unpacks to more than the %d bytes allowed", b.limit)
	}
	return n, err
}
