package certs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// KV is the durable key-value store behind the certificates. An absent key is
// an error that wraps fs.ErrNotExist.
type KV interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error
	// List gives all keys with the prefix, sorted.
	List(ctx context.Context, prefix string) ([]Entry, error)
}

// Entry describes a stored value.
type Entry struct {
	Key      string
	Size     int64
	Modified time.Time
}

// storage implements certmagic.Storage. The database belongs to one process,
// so locks live in memory and none can be left behind by a crash.
type storage struct {
	kv KV

	mu    sync.Mutex // guards locks
	locks map[string]chan struct{}
}

func newStorage(kv KV) *storage { return &storage{kv: kv, locks: map[string]chan struct{}{}} }

// certmagicPrefix keeps its keys apart from the authority's.
const certmagicPrefix = "certmagic/"

func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	return s.kv.Put(ctx, certmagicPrefix+key, value)
}

func (s *storage) Load(ctx context.Context, key string) ([]byte, error) {
	return s.kv.Get(ctx, certmagicPrefix+key)
}

// Delete removes a key, or everything below it.
func (s *storage) Delete(ctx context.Context, key string) error {
	below, err := s.kv.List(ctx, certmagicPrefix+key+"/")
	if err != nil {
		return err
	}
	for _, e := range append(below, Entry{Key: certmagicPrefix + key}) {
		if err := s.kv.Delete(ctx, e.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// List gives the keys below prefix; without recursive only direct children,
// folders among them.
func (s *storage) List(ctx context.Context, prefix string, recursive bool) ([]string, error) {
	base := certmagicPrefix + prefix
	if prefix != "" {
		base += "/"
	}
	entries, err := s.kv.List(ctx, base)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fs.ErrNotExist
	}
	var keys []string
	for _, e := range entries {
		rest := strings.TrimPrefix(e.Key, base)
		if !recursive {
			rest, _, _ = strings.Cut(rest, "/")
		}
		k := path.Join(prefix, rest)
		if n := len(keys); n == 0 || keys[n-1] != k {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func (s *storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	entries, err := s.kv.List(ctx, certmagicPrefix+key)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	for _, e := range entries {
		switch rest := strings.TrimPrefix(e.Key, certmagicPrefix+key); {
		case rest == "":
			return certmagic.KeyInfo{Key: key, Modified: e.Modified, Size: e.Size, IsTerminal: true}, nil
		case rest[0] == '/':
			return certmagic.KeyInfo{Key: key}, nil
		}
	}
	return certmagic.KeyInfo{}, fs.ErrNotExist
}

func (s *storage) Lock(ctx context.Context, name string) error {
	for {
		s.mu.Lock()
		held, ok := s.locks[name]
		if !ok {
			s.locks[name] = make(chan struct{})
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.locks[name]
	if !ok {
		return fs.ErrNotExist
	}
	close(held)
	delete(s.locks, name)
	return nil
}
