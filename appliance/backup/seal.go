package backup

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/argon2"
)

// An encrypted backup is a header and chunks. The key comes from the passphrase
// by argon2id (RFC 9106) with a salt of its own, so no two files share a key. Each
// chunk of 64 KiB is sealed with AES-256-GCM; its nonce is its number and whether
// it is the last (the STREAM construction of Hoang, Reyhanitabar, Rogaway and
// Vizár, "Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance",
// 2015), so that chunks cannot be left out, moved or cut off unnoticed. The header
// is additional data of every chunk.
//
//	0   8  "hearthE1"
//	8   4  argon2id: passes, little endian
//	12  4  argon2id: memory in KiB
//	16  1  argon2id: lanes
//	17  3  zero
//	20  16 salt
//	36     chunks: 65536 bytes and 16 of tag; the last one is shorter, at least a tag
const (
	sealMagic   = "hearthE1"
	sealHeader  = 36
	sealChunk   = 64 << 10
	minPass     = 8
	maxPass     = 1024
	sealPasses  = 3
	sealMemory  = 64 << 10 // KiB; with four lanes the second choice of RFC 9106 §4
	sealLanes   = 4
	maxPasses   = 16
	maxMemory   = 1 << 20 // KiB
	maxLanes    = 16
	nonceOfLast = 11
)

// ErrPassphrase: the backup is encrypted, and the passphrase does not open it.
var ErrPassphrase = errors.New("the passphrase does not open this backup, or the backup is damaged")

// ErrNoPassphrase: the backup is encrypted, and no passphrase was given.
var ErrNoPassphrase = errors.New("this backup is encrypted: a passphrase is needed")

// CheckPassphrase says why a passphrase cannot be used.
func CheckPassphrase(p string) error {
	if len(p) < minPass || len(p) > maxPass {
		return fmt.Errorf("cannot use a passphrase of %d bytes, wanted %d to %d", len(p), minPass, maxPass)
	}
	return nil
}

func newAEAD(pass string, header []byte) (cipher.AEAD, error) {
	passes, memory, lanes := binary.LittleEndian.Uint32(header[8:]), binary.LittleEndian.Uint32(header[12:]), header[16]
	if passes < 1 || passes > maxPasses || memory < 8*uint32(max(lanes, 1)) || memory > maxMemory || lanes < 1 || lanes > maxLanes ||
		header[17] != 0 || header[18] != 0 || header[19] != 0 {
		return nil, fmt.Errorf("cannot read this backup: its key takes %d passes over %d KiB in %d lanes, at most %d, %d and %d are done",
			passes, memory, lanes, maxPasses, maxMemory, maxLanes)
	}
	key := argon2.IDKey([]byte(pass), header[20:sealHeader], passes, memory, lanes, 32)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func chunkNonce(n uint64, last bool) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[3:], n)
	if last {
		nonce[nonceOfLast] = 1
	}
	return nonce
}

// sealer encrypts what is written to it; Close writes the last chunk.
type sealer struct {
	w      io.Writer
	aead   cipher.AEAD
	header []byte
	buf    []byte // plain text of the chunk that is gathered
	out    []byte
	n      uint64
}

func newSealer(w io.Writer, pass string) (*sealer, error) {
	if err := CheckPassphrase(pass); err != nil {
		return nil, err
	}
	h := make([]byte, sealHeader)
	copy(h, sealMagic)
	binary.LittleEndian.PutUint32(h[8:], sealPasses)
	binary.LittleEndian.PutUint32(h[12:], sealMemory)
	h[16] = sealLanes
	rand.Read(h[20:])
	aead, err := newAEAD(pass, h)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(h)
	return &sealer{w: w, aead: aead, header: h, buf: make([]byte, 0, sealChunk)}, err
}

func (s *sealer) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(s.buf) == sealChunk { // there is more, so this is not the last
			if err := s.flush(false); err != nil {
				return 0, err
			}
		}
		k := min(sealChunk-len(s.buf), len(b))
		s.buf, b = append(s.buf, b[:k]...), b[k:]
	}
	return n, nil
}

func (s *sealer) flush(last bool) error {
	s.out = s.aead.Seal(s.out[:0], chunkNonce(s.n, last), s.buf, s.header)
	s.n++
	s.buf = s.buf[:0]
	_, err := s.w.Write(s.out)
	return err
}

// Close writes the last chunk. It does not close what is below.
func (s *sealer) Close() error { return s.flush(true) }

// opener decrypts.
type opener struct {
	r      io.Reader
	aead   cipher.AEAD
	header []byte
	in     []byte // one chunk and one byte of the next
	have   int
	out    []byte
	plain  []byte // not read yet
	n      uint64
	ended  bool
}

// unseal gives the plain archive of r, which may be encrypted, and whether it is.
func unseal(r io.Reader, pass string) (io.Reader, bool, error) {
	h := make([]byte, sealHeader)
	n, err := io.ReadFull(r, h)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false, fmt.Errorf("cannot read the backup: %w", err)
	}
	if !bytes.HasPrefix(h[:n], []byte(sealMagic)) {
		return io.MultiReader(bytes.NewReader(h[:n]), r), false, nil
	}
	if err != nil {
		return nil, true, ErrPassphrase
	}
	if pass == "" {
		return nil, true, ErrNoPassphrase
	}
	if len(pass) > maxPass {
		return nil, true, ErrPassphrase
	}
	aead, err := newAEAD(pass, h)
	if err != nil {
		return nil, true, err
	}
	return &opener{r: r, aead: aead, header: h, in: make([]byte, sealChunk+aead.Overhead()+1)}, true, nil
}

func (o *opener) Read(b []byte) (int, error) {
	for len(o.plain) == 0 {
		if o.ended {
			return 0, io.EOF
		}
		if err := o.chunk(); err != nil {
			return 0, err
		}
	}
	n := copy(b, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// chunk opens the next one. Whether it is the last shows in whether anything
// follows it.
func (o *opener) chunk() error {
	n, err := io.ReadFull(o.r, o.in[o.have:])
	n += o.have
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		o.ended = true
	case err != nil:
		return fmt.Errorf("cannot read the backup: %w", err)
	default:
		n-- // the byte of the next
	}
	o.out, err = o.aead.Open(o.out[:0], chunkNonce(o.n, o.ended), o.in[:n], o.header)
	if err != nil {
		return ErrPassphrase
	}
	o.plain, o.in[0], o.have = o.out, o.in[len(o.in)-1], 1
	o.n++
	return nil
}
