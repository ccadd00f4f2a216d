package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Blobs is a named bucket of small values for another part of the appliance
// (certificates, set-up state, stored responses). Keys are 1 to 1024 bytes,
// values at most MaxBlobBytes. Writes are group-committed with everything else.
type Blobs struct {
	s    *Store
	name []byte
}

const (
	// MaxBlobBytes bounds a value: larger things belong in files.
	MaxBlobBytes = 8 << 20
	maxBlobKey   = 1024
)

// Blob is a stored value with the time of its last write.
type Blob struct {
	Key      string    `json:"key"`
	Value    []byte    `json:"value,omitempty"`
	Size     int       `json:"size"`
	Modified time.Time `json:"modified"`
}

// Blobs opens the bucket of that name, made at its first write. Names are short
// words of printable ASCII; anything else is a programming error.
func (s *Store) Blobs(name string) *Blobs {
	if !plain(name, 64) {
		panic("BUG: a blob bucket named " + name)
	}
	return &Blobs{s, []byte(name)}
}

func blobName(bucket []byte, key string) string {
	return "blob " + string(bucket) + "/" + clip(key, 200)
}

func checkBlobKey(key string) error {
	if key == "" || len(key) > maxBlobKey {
		return infer.Invalid("key", "cannot store under a key of %d bytes: want 1 to %d", len(key), maxBlobKey)
	}
	return nil
}

func noBlob(key string) error {
	return &infer.Error{Code: infer.CodeNotFound, Message: "nothing is stored under that key", Cause: fs.ErrNotExist}
}

func openBlob(bucket []byte, key string, v []byte) (Blob, error) {
	v, err := unseal(blobName(bucket, key), []byte(key), v)
	if err != nil {
		return Blob{}, err
	}
	if len(v) < 8 {
		return Blob{}, &DamageError{blobName(bucket, key), errShort}
	}
	return Blob{Key: key, Value: v[8:], Size: len(v) - 8,
		Modified: time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC()}, nil
}

// Get reads a value. The error is CodeNotFound wrapping fs.ErrNotExist if there
// is none.
func (b *Blobs) Get(ctx context.Context, key string) (Blob, error) {
	var out Blob
	err := b.s.view(ctx, func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketBlobs).Bucket(b.name)
		if bucket == nil {
			return noBlob(key)
		}
		v := bucket.Get([]byte(key))
		if v == nil {
			return noBlob(key)
		}
		var err error
		out, err = openBlob(b.name, key, v)
		out.Value = bytes.Clone(out.Value)
		return err
	})
	return out, readError(err)
}

// Put stores a value durably, replacing what was there.
func (b *Blobs) Put(ctx context.Context, key string, value []byte) error {
	return b.put(ctx, key, value, false)
}

// PutNew stores a value only if there is none; else CodeConflict wrapping
// fs.ErrExist.
func (b *Blobs) PutNew(ctx context.Context, key string, value []byte) error {
	return b.put(ctx, key, value, true)
}

func (b *Blobs) put(ctx context.Context, key string, value []byte, fresh bool) error {
	if err := checkBlobKey(key); err != nil {
		return err
	}
	if len(value) > MaxBlobBytes {
		return infer.Errorf(infer.CodeTooLarge, "cannot store %d bytes: want at most %d", len(value), MaxBlobBytes)
	}
	body := append(be64(uint64(b.s.now().UnixNano())), value...)
	body = seal([]byte(key), body)
	return b.s.do(ctx, newOp(opOther, func(w *writer) error {
		bucket, err := w.tx.Bucket(bucketBlobs).CreateBucketIfNotExists(b.name)
		if err != nil {
			w.mark(err)
			return nil
		}
		if fresh && bucket.Get([]byte(key)) != nil {
			return &infer.Error{Code: infer.CodeConflict, Message: "something is stored under that key already", Cause: fs.ErrExist}
		}
		w.mark(bucket.Put([]byte(key), body))
		return nil
	}))
}

// Delete removes a value; CodeNotFound wrapping fs.ErrNotExist if there is none.
func (b *Blobs) Delete(ctx context.Context, key string) error {
	if err := checkBlobKey(key); err != nil {
		return err
	}
	return b.s.do(ctx, newOp(opOther, func(w *writer) error {
		bucket := w.tx.Bucket(bucketBlobs).Bucket(b.name)
		if bucket == nil || bucket.Get([]byte(key)) == nil {
			return noBlob(key)
		}
		w.mark(bucket.Delete([]byte(key)))
		return nil
	}))
}

// List gives the keys that begin with prefix, in order, without values, after
// the key `after`, at most limit (0: 1000).
func (b *Blobs) List(ctx context.Context, prefix, after string, limit int) ([]Blob, error) {
	if limit <= 0 {
		limit = 1000
	}
	out := []Blob{}
	err := b.s.view(ctx, func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketBlobs).Bucket(b.name)
		if bucket == nil {
			return nil
		}
		c := bucket.Cursor()
		from := max(prefix, after)
		for k, v := c.Seek([]byte(from)); k != nil && len(out) < limit; k, v = c.Next() {
			if !bytes.HasPrefix(k, []byte(prefix)) {
				break
			}
			if after != "" && string(k) <= after {
				continue
			}
			blob, err := openBlob(b.name, string(k), v)
			if err != nil {
				return err
			}
			blob.Value = nil
			out = append(out, blob)
		}
		return nil
	})
	return out, readError(err)
}
