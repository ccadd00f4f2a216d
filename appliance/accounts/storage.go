package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"hearth/store"
)

// Storage keeps small values, durably. store.Blobs is one.
type Storage interface {
	Get(ctx context.Context, key string) (store.Blob, error)
	Put(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix, after string, limit int) ([]store.Blob, error)
}

// Bucket is the name of the storage that an appliance keeps this in.
const Bucket = "accounts"

// Keys of the storage begin with what they hold.
const (
	atAccount = "account/"
	atSession = "session/"
	atToken   = "token/"
	atLink    = "link/"
)

// load reads all values under a prefix.
func load[T any](ctx context.Context, s Storage, prefix string, each func(key string, v *T)) error {
	for after := ""; ; {
		list, err := s.List(ctx, prefix, after, 500)
		if err != nil {
			return err
		}
		for _, e := range list {
			b, err := s.Get(ctx, e.Key)
			if err != nil {
				return err
			}
			v := new(T)
			if err := json.Unmarshal(b.Value, v); err != nil {
				return fmt.Errorf("cannot read %s: %w", e.Key[:min(len(e.Key), len(prefix)+6)], err)
			}
			each(e.Key[len(prefix):], v)
			after = e.Key
		}
		if len(list) < 500 {
			return nil
		}
	}
}

func (a *Accounts) put(ctx context.Context, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.o.Storage.Put(ctx, key, b)
}

// newSecret has 256 random bits.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// newID names something in public.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// hashOf is how a secret of 256 random bits is kept: it cannot be guessed, so it
// needs no slow hash.
func hashOf(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}
