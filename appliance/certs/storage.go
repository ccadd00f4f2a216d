package certs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
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
// so locks live in memory and none can be left behind by a crash. A certificate
// and its key, which certmagic stores one after the other, become one value: a
// crash between the two would else leave a pair that does not fit together.
type storage struct {
	kv KV

	mu     sync.Mutex // guards below
	locks  map[string]chan struct{}
	staged map[string][]byte // keys whose certificate has not come yet
}

func newStorage(kv KV) *storage {
	return &storage{kv: kv, locks: map[string]chan struct{}{}, staged: map[string][]byte{}}
}

const (
	// certmagicPrefix keeps its keys apart from the authority's.
	certmagicPrefix = "certmagic/"
	sitePrefix      = "certificates/" // where certmagic keeps server certificates
	certSuffix      = ".crt"
	keySuffix       = ".key"
)

// siteCert is where the certificate of a key lies; false if key is something else.
func siteCert(key string) (cert string, ok bool) {
	base, ok := strings.CutSuffix(key, keySuffix)
	return base + certSuffix, ok && strings.HasPrefix(key, sitePrefix)
}

func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	if _, ok := siteCert(key); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.staged[key] = bytes.Clone(value)
		return nil
	}
	base, ok := strings.CutSuffix(key, certSuffix)
	if !ok || !strings.HasPrefix(key, sitePrefix) {
		return s.kv.Put(ctx, certmagicPrefix+key, value)
	}
	s.mu.Lock()
	private := s.staged[base+keySuffix]
	delete(s.staged, base+keySuffix)
	s.mu.Unlock()
	if private == nil {
		return s.kv.Put(ctx, certmagicPrefix+key, value)
	}
	if err := s.kv.Put(ctx, certmagicPrefix+key, slices.Concat(value, []byte("\n"), private)); err != nil {
		return err
	}
	// The key beside it is from before they were kept together.
	if err := s.kv.Delete(ctx, certmagicPrefix+base+keySuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *storage) Load(ctx context.Context, key string) ([]byte, error) {
	if cert, ok := siteCert(key); ok {
		both, err := s.kv.Get(ctx, certmagicPrefix+cert)
		if err == nil {
			if _, private := splitPair(both); private != nil {
				return private, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	v, err := s.kv.Get(ctx, certmagicPrefix+key)
	if err == nil && strings.HasPrefix(key, sitePrefix) && strings.HasSuffix(key, certSuffix) {
		v, _ = splitPair(v)
	}
	return v, err
}

// splitPair parts a value into certificates and the private key behind them, nil
// if there is none.
func splitPair(v []byte) (cert, private []byte) {
	mark := bytes.Index(v, []byte("PRIVATE KEY-----"))
	if mark < 0 {
		return v, nil
	}
	begin := bytes.LastIndex(v[:mark], []byte("-----BEGIN "))
	if begin < 0 {
		return v, nil
	}
	return v[:begin], v[begin:]
}

// Delete removes a key, or everything below it.
func (s *storage) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	delete(s.staged, key)
	s.mu.Unlock()
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
	if cert, ok := siteCert(key); ok {
		if private, err := s.Load(ctx, key); err == nil {
			info, _ := s.Stat(ctx, cert) // its time is the time of both
			return certmagic.KeyInfo{Key: key, Modified: info.Modified, Size: int64(len(private)), IsTerminal: true}, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return certmagic.KeyInfo{}, err
		}
	}
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
