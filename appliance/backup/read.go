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
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a frame may ask of its reader.
const maxWindow = 64 << 20

// Reader reads a backup from its beginning to its end.
type Reader struct {
	Head      Head
	Encrypted bool

	z       *zstd.Decoder
	tar     *tar.Reader
	members []Member
}

// NewReader begins to read a backup and checks that this build can. Close ends it.
func NewReader(r io.Reader, passphrase string) (*Reader, error) {
	plain, encrypted, err := unseal(r, passphrase)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("cannot read the backup: %w", err)
	}
	b := &Reader{z: z, tar: tar.NewReader(z), Encrypted: encrypted}
	if err := b.head(); err != nil {
		z.Close()
		return nil, err
	}
	return b, nil
}

// Close frees what reading took.
func (b *Reader) Close() { b.z.Close() }

func (b *Reader) head() error {
	h, err := b.next()
	if errors.Is(err, ErrPassphrase) {
		return err
	}
	if err != nil || h.Name != headName {
		return fmt.Errorf("cannot read this file: it is not a backup of an appliance (%w)", errors.Join(err, errors.New("wanted a tar archive in zstd that begins with "+headName)))
	}
	var data bytes.Buffer
	if err := b.copy(&data, h); err != nil {
		return err
	}
	if err := json.Unmarshal(data.Bytes(), &b.Head); err != nil {
		return fmt.Errorf("cannot read the backup: %s: %w", headName, err)
	}
	return b.Head.check()
}

// next gives the header of the next member, within bounds.
func (b *Reader) next() (*tar.Header, error) {
	h, err := b.tar.Next()
	if err != nil {
		return nil, err
	}
	switch {
	case len(b.members) >= maxMembers:
		return nil, fmt.Errorf("cannot read the backup: it has more than %d members", maxMembers)
	case h.Typeflag != tar.TypeReg || !memberName.MatchString(h.Name):
		return nil, fmt.Errorf("cannot read the backup: its member %.64q is not a plain file", h.Name)
	case h.Size < 0 || h.Size > limit(h.Name):
		return nil, fmt.Errorf("cannot read the backup: its member %s has %d bytes, at most %d are read", h.Name, h.Size, limit(h.Name))
	}
	for _, m := range b.members {
		if m.Name == h.Name {
			return nil, fmt.Errorf("cannot read the backup: it has %s twice", h.Name)
		}
	}
	return h, nil
}

// copy reads a member to w and notes its digest.
func (b *Reader) copy(w io.Writer, h *tar.Header) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), b.tar)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("cannot read %s of the backup: %w", h.Name, err)
	}
	b.members = append(b.members, Member{h.Name, n, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// Extract gives every member after the head to put, whose writer it closes, and
// returns the manifest once all of it has been found to be as that says. A nil
// writer drops the member, checked all the same.
func (b *Reader) Extract(ctx context.Context, put func(name string, size int64) (io.WriteCloser, error)) (Manifest, error) {
	var m Manifest
	for {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		h, err := b.next()
		if err != nil {
			return m, fmt.Errorf("cannot read the backup: its end is missing: %w", err)
		}
		if h.Name == finalName {
			return b.final(h)
		}
		if err := b.one(ctx, h, put); err != nil {
			return m, err
		}
	}
}

func (b *Reader) one(ctx context.Context, h *tar.Header, put func(string, int64) (io.WriteCloser, error)) error {
	w, err := put(h.Name, h.Size)
	if err != nil {
		return err
	}
	if w == nil {
		return b.copy(io.Discard, h)
	}
	err = b.copy(&ctxWriter{ctx, w}, h)
	return errors.Join(err, w.Close())
}

type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// final reads the manifest and compares it with what came before.
func (b *Reader) final(h *tar.Header) (Manifest, error) {
	var m Manifest
	found := b.members
	var data bytes.Buffer
	if err := b.copy(&data, h); err != nil {
		return m, err
	}
	if err := json.Unmarshal(data.Bytes(), &m); err != nil {
		return m, fmt.Errorf("cannot read the manifest of the backup: %w", err)
	}
	if m.Head != b.Head {
		return m, errors.New("the manifest of the backup is of another one than its head")
	}
	if len(m.Members) != len(found) {
		return m, fmt.Errorf("the backup has %d members, its manifest lists %d", len(found), len(m.Members))
	}
	for i, f := range found {
		if m.Members[i] != f {
			return m, fmt.Errorf("%s of the backup is damaged: it has %d bytes with SHA-256 %s, its manifest says %s with %d bytes and %s",
				f.Name, f.Size, f.SHA256, m.Members[i].Name, m.Members[i].Size, m.Members[i].SHA256)
		}
	}
	if _, err := b.tar.Next(); !errors.Is(err, io.EOF) {
		return m, errors.Join(errors.New("the backup has something behind its manifest"), err)
	}
	if n, err := io.Copy(io.Discard, b.z); err != nil || n > 0 {
		return m, errors.Join(errors.New("the backup has something behind its end"), err)
	}
	return m, nil
}

// Unpack writes the members of the backup at path into dir, each synced, and
// checks them against the manifest. What it wrote before an error is left there.
func Unpack(ctx context.Context, path, passphrase, dir string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("cannot open the backup: %w", err)
	}
	defer f.Close()
	r, err := NewReader(f, passphrase)
	if err != nil {
		return Manifest{}, err
	}
	defer r.Close()
	m, err := r.Extract(ctx, func(name string, _ int64) (io.WriteCloser, error) {
		out, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cannot unpack the backup: %w", err)
		}
		return &synced{out}, nil
	})
	if err != nil {
		return m, err
	}
	for _, name := range []string{Database, Config} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return m, fmt.Errorf("the backup has no %s", name)
		}
	}
	return m, syncDir(dir)
}

// synced is a file that is synced before it is closed.
type synced struct{ *os.File }

func (s *synced) Close() error {
	err := s.File.Sync()
	return errors.Join(err, s.File.Close())
}

// ReadHead tells what a backup is without reading it all. With an encrypted one
// and no passphrase the error is ErrNoPassphrase.
func ReadHead(path, passphrase string) (Head, bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return Head{}, false, err
	}
	defer f.Close()
	r, err := NewReader(f, passphrase)
	if err != nil {
		return Head{}, errors.Is(err, ErrNoPassphrase), err
	}
	defer r.Close()
	return r.Head, r.Encrypted, nil
}
