package weights

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path/filepath"
)

// Digest computes the SHA-256 of the model, in lower-case hex, by streaming the
// files. For a single file it is the file's own digest. For several it is that
// of the text "HEX  NAME\n" for each of Files in order, NAME being relative to
// the directory they lie in, with slashes. progress may be nil; it is called
// with the bytes read so far and the total.
func (f *File) Digest(ctx context.Context, progress func(done, total int64)) (string, error) {
	d := digester{ctx: ctx, progress: progress, buf: make([]byte, 1<<20)}
	for _, path := range f.Files {
		file, size, err := openRegular(path)
		if err != nil {
			return "", err
		}
		file.Close()
		d.total += int64(size)
	}
	if f.Format == GGUF && len(f.Files) == 1 {
		h := sha256.New()
		err := d.add(h, f.Files[0])
		return hex.EncodeToString(h.Sum(nil)), err
	}
	dir := f.Path
	if f.Format == GGUF {
		dir = filepath.Dir(f.Path)
	}
	all := sha256.New()
	for _, path := range f.Files {
		one := sha256.New()
		if err := d.add(one, path); err != nil {
			return "", err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%x  %s\n", one.Sum(nil), filepath.ToSlash(name))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// digester streams files into hashes and tells how far it is.
type digester struct {
	ctx         context.Context
	progress    func(done, total int64)
	buf         []byte
	done, total int64
}

func (d *digester) add(h hash.Hash, path string) error {
	file, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		n, err := file.Read(d.buf)
		h.Write(d.buf[:n])
		d.done += int64(n)
		if d.progress != nil && n > 0 {
			d.progress(d.done, d.total)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
