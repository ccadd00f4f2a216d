package store

import (
	"context"
	"time"
)

// Blobs is a named bucket of small values for another part of the appliance
// (certificates, set-up state, stored responses). Keys are 1 to 1024 bytes,
// values at most MaxBlobBytes. Writes are group-committed with everything else.
type Blobs struct {
	s    *Store
	name string
}

// MaxBlobBytes bounds a value: larger things belong in files.
const MaxBlobBytes = 8 << 20

// Blob is a stored value with the time of its last write.
type Blob struct {
	Key      string    `json:"key"`
	Value    []byte    `json:"value,omitempty"`
	Size     int       `json:"size"`
	Modified time.Time `json:"modified"`
}

// Blobs opens the bucket of that name, made at its first write. Names are
// lower-case words with dashes.
func (s *Store) Blobs(name string) *Blobs { return &Blobs{s, name} }

// Get reads a value. The error is CodeNotFound wrapping fs.ErrNotExist if there
// is none.
func (b *Blobs) Get(ctx context.Context, key string) (Blob, error) { return Blob{}, errClosed }

// Put stores a value durably, replacing what was there.
func (b *Blobs) Put(ctx context.Context, key string, value []byte) error { return errClosed }

// PutNew stores a value only if there is none; else CodeConflict wrapping
// fs.ErrExist.
func (b *Blobs) PutNew(ctx context.Context, key string, value []byte) error { return errClosed }

// Delete removes a value; CodeNotFound wrapping fs.ErrNotExist if there is none.
func (b *Blobs) Delete(ctx context.Context, key string) error { return errClosed }

// List gives the keys that begin with prefix, in order, without values, after
// the key `after`, at most limit (0: 1000).
func (b *Blobs) List(ctx context.Context, prefix, after string, limit int) ([]Blob, error) {
	return nil, errClosed
}
