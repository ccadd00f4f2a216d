package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"hearth/store"
)

// Source is what a backup is made of.
type Source struct {
	Head Head
	// Copy writes the database, as store.Store.Copy does.
	Copy func(ctx context.Context, begin func(store.Summary, int64) (io.Writer, error)) error
	// Files are small files, by member name; they are read whole.
	Files   []File
	Models  []Model
	Outside []string
}

// File is a file of the appliance.
type File struct{ Name, Path string }

// writer is an archive that is being written.
type writer struct {
	tar *tar.Writer
	m   Manifest
}

// Write makes a backup. passphrase may be empty: then it is not encrypted.
func Write(ctx context.Context, w io.Writer, src *Source, passphrase string) (Manifest, error) {
	var ends []io.Closer // from the outermost inwards
	if passphrase != "" {
		s, err := newSealer(w, passphrase)
		if err != nil {
			return Manifest{}, err
		}
		ends, w = append(ends, s), s
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return Manifest{}, err
	}
	defer z.Close()
	a := &writer{tar: tar.NewWriter(z), m: Manifest{Head: src.Head, Models: src.Models, Outside: src.Outside, Members: []Member{}}}
	a.m.Format = Format
	ends = append(ends, z, a.tar)
	if err := a.all(ctx, src); err != nil {
		return a.m, err
	}
	for i := len(ends) - 1; i >= 0; i-- {
		if err := ends[i].Close(); err != nil {
			return a.m, err
		}
	}
	return a.m, nil
}

func (a *writer) all(ctx context.Context, src *Source) error {
	if err := a.document(headName, a.m.Head); err != nil {
		return err
	}
	var sum hash.Hash
	var size int64
	err := src.Copy(ctx, func(s store.Summary, n int64) (io.Writer, error) {
		a.m.Ledger, sum, size = s, sha256.New(), n
		return io.MultiWriter(a.tar, sum), a.header(Database, n)
	})
	if err != nil {
		return err
	}
	a.m.Members = append(a.m.Members, Member{Database, size, hex.EncodeToString(sum.Sum(nil))})
	for _, f := range src.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := readBounded(f.Path, maxFile)
		if err != nil {
			return fmt.Errorf("cannot back up %s: %w", f.Path, err)
		}
		if err := a.member(f.Name, data); err != nil {
			return err
		}
	}
	return a.document(finalName, a.m)
}

func (a *writer) header(name string, size int64) error {
	return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: a.m.Created.Truncate(time.Second)})
}

func (a *writer) document(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return a.member(name, append(b, '\n'))
}

// member writes a small file. The manifest does not list itself.
func (a *writer) member(name string, data []byte) error {
	if !memberName.MatchString(name) {
		panic("BUG: a member of a backup called " + name)
	}
	if err := a.header(name, int64(len(data))); err != nil {
		return err
	}
	if _, err := a.tar.Write(data); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	a.m.Members = append(a.m.Members, Member{name, int64(len(data)), hex.EncodeToString(sum[:])})
	return nil
}

// WriteFile makes a backup at path in one step: a crash or an error leaves the
// old file or none, never a part.
func WriteFile(ctx context.Context, path string, src *Source, passphrase string) (Manifest, int64, error) {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return Manifest{}, 0, writeError(path, err)
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	m, err := Write(ctx, f, src, passphrase)
	if err == nil {
		err = f.Sync()
	}
	size := int64(0)
	if st, serr := f.Stat(); serr == nil {
		size = st.Size()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return m, size, writeError(path, err)
}

// unfinished begins the names of backups that are being written.
const unfinished = ".unfinished-"

// Sweep removes what writers that died have left in dir. Nobody may be writing
// there.
func Sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, p := range left {
		err = errors.Join(err, os.RemoveAll(p))
	}
	return err
}

func writeError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("cannot write the backup %s: the disk is full; nothing of it is left", path)
	}
	return fmt.Errorf("cannot write the backup %s: %w", path, err)
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, most+1))
	if n > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b.Bytes(), err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
