package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"time"
)

// keyring is the keys in memory, for Verify. The file is ahead of it only
// within a commit.
type keyring struct {
	mu      sync.RWMutex // guards all
	pepper  []byte       // key of the hashes; constant for the life of the file
	macs    *sync.Pool   // of hash.Hash, keyed with pepper: keying costs as much as a hash
	byID    map[string]*storedKey
	used    map[string]time.Time // last use since the last flush
	flushed time.Time
	changed func() // is told of every change; nil: nobody asks
}

// keyFlush is how often the last uses are written.
const keyFlush = time.Minute

func (r *keyring) replace(pepper []byte, keys map[string]*storedKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pepper = pepper
	r.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, pepper) }}
	r.byID = keys
	if r.used == nil {
		r.used = map[string]time.Time{}
	}
}

// set publishes a changed key. k is not changed afterwards.
func (r *keyring) set(k *storedKey) {
	r.mu.Lock()
	r.byID[k.ID] = k
	changed := r.changed
	r.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (r *keyring) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byID)
}

func (r *keyring) list() []Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]Key, 0, len(r.byID))
	for id, k := range r.byID {
		key := k.Key
		if t, ok := r.used[id]; ok {
			key.LastUsed = t
		}
		out = append(out, key)
	}
	return out
}

// hash is what is kept of a secret. The secrets are random and 256 bits long,
// so a fast keyed hash is enough: there is nothing to guess slowly.
func (r *keyring) hash(id, secret string) []byte {
	r.mu.RLock()
	macs := r.macs
	r.mu.RUnlock()
	m := macs.Get().(hash.Hash)
	defer macs.Put(m)
	m.Reset()
	m.Write([]byte("hearth api key 1\x00" + id + "\x00" + secret))
	return m.Sum(nil)
}

// Verify finds the key of a credential: the public id finds the record, the
// keyed hash of the whole is compared in constant time, also when there is no
// such id. It is false for anything but a live key's present secret; nothing
// tells why. It touches no disk.
func (s *Store) Verify(credential string) (Key, bool) {
	k, _, ok := s.VerifySecret(credential)
	return k, ok
}

// SecretMark tells the secrets of a key apart, in memory only. Zero stands for
// whichever it has.
type SecretMark uint64

func secretMark(hash []byte) SecretMark {
	if len(hash) < 8 {
		return 0
	}
	return SecretMark(binary.BigEndian.Uint64(hash) | 1)
}

// VerifySecret is Verify, which also gives the mark of the secret that was used.
func (s *Store) VerifySecret(credential string) (Key, SecretMark, bool) {
	id, secret, ok := splitCredential(credential)
	r := &s.keys
	now := s.now()
	sum := r.hash(id, secret)
	r.mu.RLock()
	k := r.byID[id]
	if k == nil {
		k = &storedKey{}
	}
	live := ok && k.Live(now)
	match := hmac.Equal(sum, padHash(k.Hash))
	old := hmac.Equal(sum, padHash(k.OldHash)) && now.Before(k.OldUntil)
	key := k.Key
	minute := now.Truncate(time.Minute)
	stale := r.used[id].Before(minute) && k.LastUsed.Before(minute)
	r.mu.RUnlock()
	if !live || !match && !old {
		return Key{}, 0, false
	}
	if stale {
		r.mu.Lock()
		r.used[id] = stamp(minute)
		r.mu.Unlock()
	}
	return key, secretMark(sum), true
}

// LiveKey gives a key if it may be used now, with the secret of that mark: the
// key is live, and the secret is its present one or the one before within its
// time of grace.
func (s *Store) LiveKey(id string, secret SecretMark) (Key, bool) {
	now := s.now()
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	k := s.keys.byID[id]
	if k == nil || !k.Live(now) {
		return Key{}, false
	}
	if secret != 0 && secret != secretMark(k.Hash) && !(secret == secretMark(k.OldHash) && now.Before(k.OldUntil)) {
		return Key{}, false
	}
	return k.Key, true
}

// OnKeyChange has f called after every change of a key, in place of the function
// before. It must not block.
func (s *Store) OnKeyChange(f func()) {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.changed = f
}

// padHash makes the comparison take its time also where there is no hash.
func padHash(h []byte) []byte {
	if len(h) == sha256.Size {
		return h
	}
	return make([]byte, sha256.Size)
}

// splitCredential takes hk_<id>_<secret> apart. Lengths are exact.
func splitCredential(c string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(c, keyPrefix)
	if !ok || len(rest) != keyIDLen+1+secretLen || rest[keyIDLen] != '_' {
		return "", "", false
	}
	return rest[:keyIDLen], rest[keyIDLen+1:], true
}

// flushOp gives an operation that writes the last uses, if it is time.
func (r *keyring) flushOp(now time.Time, force bool) *op {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.used) == 0 || !force && now.Sub(r.flushed) < keyFlush && !now.Before(r.flushed) {
		return nil
	}
	used := r.used
	r.used, r.flushed = map[string]time.Time{}, now
	var changed []*storedKey
	o := newOp(opOther, func(w *writer) error {
		b := w.tx.Bucket(bucketKeys)
		for id, at := range used {
			v := b.Get([]byte(id))
			if v == nil {
				continue
			}
			k, err := decodeKey([]byte(id), v)
			if err != nil {
				return err
			}
			k.LastUsed = at
			data, err := k.encode()
			if err != nil {
				return err
			}
			w.mark(b.Put([]byte(id), data))
			changed = append(changed, k)
		}
		return nil
	})
	o.published = func() {
		for _, k := range changed {
			r.set(k)
		}
	}
	return o
}

// Key gives a key by its public id, from memory.
func (s *Store) Key(id string) (Key, bool) {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	if k := s.keys.byID[id]; k != nil {
		return k.Key, true
	}
	return Key{}, false
}

// Live says whether the key may be used at that time.
func (k *Key) Live(now time.Time) bool {
	return k.ID != "" && !k.Disabled && k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}
