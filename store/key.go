package store

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Limits bound how fast a key or tenant may ask. Zero means no limit.
type Limits struct {
	RequestsPerMinute int `json:"requests_per_minute,omitempty" toml:"requests_per_minute"`
	TokensPerMinute   int `json:"tokens_per_minute,omitempty" toml:"tokens_per_minute"`
	Concurrency       int `json:"concurrency,omitempty" toml:"concurrency"`
}

// KeyBudget is a cap on what one key may spend in each window.
type KeyBudget struct {
	Period  Period `json:"period"`
	CapNano int64  `json:"cap_nano"`
}

// Key is an API key without its secret.
type Key struct {
	ID       string      `json:"id"` // public part
	Tenant   string      `json:"tenant"`
	Name     string      `json:"name"`
	Created  time.Time   `json:"created"`
	Expires  time.Time   `json:"expires,omitzero"` // zero: never
	Disabled bool        `json:"disabled,omitempty"`
	Revoked  time.Time   `json:"revoked,omitzero"`
	Rotated  time.Time   `json:"rotated,omitzero"`
	Models   []string    `json:"models,omitempty"` // allowed names, "prefix*" allowed; empty: the tenant's
	Limits   Limits      `json:"limits,omitzero"`
	Budgets  []KeyBudget `json:"budgets,omitempty"`
	// What its requests may be, beyond the models. Empty: as the tenant's.
	Tools       []string `json:"tools,omitempty"`        // names that may be offered, "prefix*" allowed
	DataClasses []string `json:"data_classes,omitempty"` // of the routes that it may use
	Regions     []string `json:"regions,omitempty"`      // in which it may be served
	Effects     []string `json:"effects,omitempty"`      // effect classes: "read-only", "effectful"

	LastUsed time.Time `json:"last_used,omitzero"` // to the minute, written with delay
}

// NewKey is what CreateKey and RotateKey return. Secret is the whole credential
// (hk_<id>_<secret>); it is not stored and cannot be had again.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

// Effect classes of requests.
const (
	EffectReadOnly  = "read-only" // repetition is safe
	EffectEffectful = "effectful"
)

const (
	keyPrefix   = "hk_"
	keyIDLen    = 12 // base32 characters: 60 bits, unique by construction and checked
	secretLen   = 52 // base32 characters of 32 random bytes
	maxKeys     = 100_000
	maxKeyList  = 256 // models or budgets of one key
	maxKeyName  = 200
	maxKeyGrace = 30 * 24 * time.Hour
)

var base32lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// storedKey is a key as it lies in the file.
type storedKey struct {
	Key
	Hash     []byte    `json:"hash"` // HMAC-SHA256 of the secret under the pepper
	OldHash  []byte    `json:"old_hash,omitempty"`
	OldUntil time.Time `json:"old_until,omitzero"` // the secret before the last rotation is good until then

	note string // of the change that is being made, for the audit trail
}

func keyName(id string) string { return fmt.Sprintf("api key %.32q", id) }

func (k *storedKey) encode() ([]byte, error) {
	b, err := json.Marshal(k)
	return seal([]byte(k.ID), b), err
}

func decodeKey(id, v []byte) (*storedKey, error) {
	name := keyName(string(id))
	v, err := unseal(name, id, v)
	if err != nil {
		return nil, err
	}
	k := &storedKey{}
	if err := json.Unmarshal(v, k); err != nil {
		return nil, &DamageError{name, err}
	}
	if k.ID != string(id) {
		return nil, &DamageError{name, fmt.Errorf("it calls itself %.32q", k.ID)}
	}
	return k, nil
}

func loadKeys(tx *bolt.Tx) (map[string]*storedKey, error) {
	keys := map[string]*storedKey{}
	err := tx.Bucket(bucketKeys).ForEach(func(id, v []byte) error {
		k, err := decodeKey(id, v)
		if err == nil {
			keys[k.ID] = k
		}
		return err
	})
	return keys, err
}

// check refuses what a key cannot be.
func (k *Key) check(old Key) error {
	if k.Tenant == "" || len(k.Tenant) > maxKeyName || !plain(k.Tenant, maxKeyName) {
		return infer.Invalid("tenant", "cannot give a key to tenant %.64q: want 1 to %d printable ASCII characters", k.Tenant, maxKeyName)
	}
	if clip(k.Name, maxKeyName) != k.Name {
		return infer.Invalid("name", "cannot name a key so: want at most %d bytes of UTF-8", maxKeyName)
	}
	// A name from before this was asked stays until it is changed.
	if k.Name != old.Name && !legible(k.Name) {
		return infer.Invalid("name", "cannot name a key so: want no control characters, it is shown on terminals")
	}
	for _, l := range []struct {
		what string
		list []string
	}{{"models", k.Models}, {"tools", k.Tools}, {"data_classes", k.DataClasses}, {"regions", k.Regions}, {"effects", k.Effects}} {
		if i := slices.IndexFunc(l.list, func(m string) bool { return !legible(m) }); i >= 0 {
			return infer.Invalid(l.what, "cannot allow %.64q: want no control characters", l.list[i])
		}
		if len(l.list) > maxKeyList || slices.ContainsFunc(l.list, func(m string) bool { return m == "" || clip(m, maxString) != m }) {
			return infer.Invalid(l.what, "cannot allow these: want at most %d names of 1 to %d bytes", maxKeyList, maxString)
		}
	}
	for _, e := range k.Effects {
		if e != EffectReadOnly && e != EffectEffectful {
			return infer.Invalid("effects", "cannot allow effect class %.32q: want %s or %s", e, EffectReadOnly, EffectEffectful)
		}
	}
	if l := k.Limits; l.RequestsPerMinute < 0 || l.TokensPerMinute < 0 || l.Concurrency < 0 {
		return infer.Invalid("limits", "cannot set a negative limit")
	}
	if len(k.Budgets) > maxPostings/2 {
		return infer.Invalid("budgets", "cannot set %d budgets: want at most %d", len(k.Budgets), maxPostings/2)
	}
	for i, b := range k.Budgets {
		if b.CapNano < 0 || b.Period != Day && b.Period != Month && b.Period != Total {
			return infer.Invalid("budgets", "cannot set a budget of period %.16q and cap %d: want day, month or total and a cap of at least 0", b.Period, b.CapNano)
		}
		if slices.ContainsFunc(k.Budgets[:i], func(o KeyBudget) bool { return o.Period == b.Period }) {
			return infer.Invalid("budgets", "cannot set two budgets of period %s", b.Period)
		}
	}
	k.Expires = stamp(k.Expires)
	return nil
}

// newSecret makes the random part of a credential.
func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base32lower.EncodeToString(b)
}

// CreateKey makes a key. Of k are used Tenant, Name, Expires, Disabled, Models,
// Limits, Budgets, Tools, DataClasses, Regions and Effects; the rest is set by
// the store. As names who does it.
func (s *Store) CreateKey(ctx context.Context, k Key) (NewKey, error) {
	if err := k.check(Key{}); err != nil {
		return NewKey{}, err
	}
	secret := newSecret()
	stored := &storedKey{Key: Key{Tenant: k.Tenant, Name: k.Name, Created: stamp(s.now().Truncate(time.Second)), Expires: k.Expires,
		Disabled: k.Disabled, Models: slices.Clone(k.Models), Limits: k.Limits, Budgets: slices.Clone(k.Budgets),
		Tools: slices.Clone(k.Tools), DataClasses: slices.Clone(k.DataClasses), Regions: slices.Clone(k.Regions), Effects: slices.Clone(k.Effects)}}
	err := s.changeKey(ctx, "key/create", func(w *writer) (*storedKey, error) {
		b := w.tx.Bucket(bucketKeys)
		if s.keys.len() >= maxKeys {
			return nil, infer.Errorf(infer.CodeConflict, "cannot create another key: there are %d", maxKeys)
		}
		for stored.ID == "" || b.Get([]byte(stored.ID)) != nil {
			stored.ID = strings.ToLower(rand.Text())[:keyIDLen]
		}
		stored.Hash = s.keys.hash(stored.ID, secret)
		return stored, nil
	})
	return NewKey{stored.Key, keyPrefix + stored.ID + "_" + secret}, err
}

// RotateKey gives a key a new secret. The old one stays valid for grace, at
// most 30 days.
func (s *Store) RotateKey(ctx context.Context, id string, grace time.Duration) (NewKey, error) {
	if grace < 0 || grace > maxKeyGrace {
		return NewKey{}, infer.Invalid("grace", "cannot keep the old secret for %v: want 0 to %v", grace, maxKeyGrace)
	}
	secret := newSecret()
	k, err := s.editKey(ctx, "key/rotate", id, func(k *storedKey) error {
		if !k.Revoked.IsZero() {
			return infer.Errorf(infer.CodeConflict, "cannot rotate key %s: it is revoked", id)
		}
		k.OldHash, k.OldUntil = nil, time.Time{}
		if grace > 0 {
			k.OldHash, k.OldUntil = k.Hash, stamp(s.now().Add(grace))
		}
		k.Hash = s.keys.hash(id, secret)
		k.Rotated = stamp(s.now().Truncate(time.Second))
		return nil
	})
	if err != nil {
		return NewKey{}, err
	}
	return NewKey{k, keyPrefix + id + "_" + secret}, nil
}

// UpdateKey changes what CreateKey sets, except the tenant, to that of k, found
// by k.ID.
func (s *Store) UpdateKey(ctx context.Context, k Key) (Key, error) {
	return s.editKey(ctx, "key/update", k.ID, func(old *storedKey) error {
		k.Tenant = old.Tenant
		if err := k.check(old.Key); err != nil {
			return err
		}
		old.take(&k)
		return nil
	})
}

// EditKey changes what UpdateKey changes by edit, which sees the key as it is; no
// other change comes between. action stands in the audit trail with what edit says
// of it. A revoked key is CodeConflict.
func (s *Store) EditKey(ctx context.Context, action, id string, edit func(k *Key) (note string, err error)) (Key, error) {
	return s.editKey(ctx, action, id, func(old *storedKey) error {
		if !old.Revoked.IsZero() {
			return infer.Errorf(infer.CodeConflict, "cannot change key %s: it is revoked", id)
		}
		k := old.Key
		note, err := edit(&k)
		if err != nil {
			return err
		}
		k.Tenant = old.Tenant
		if err := k.check(old.Key); err != nil {
			return err
		}
		old.note = note
		old.take(&k)
		return nil
	})
}

// take sets what may be changed of a key to that of k.
func (old *storedKey) take(k *Key) {
	old.Name, old.Expires, old.Disabled = k.Name, k.Expires, k.Disabled
	old.Models, old.Limits, old.Budgets = slices.Clone(k.Models), k.Limits, slices.Clone(k.Budgets)
	old.Tools, old.DataClasses = slices.Clone(k.Tools), slices.Clone(k.DataClasses)
	old.Regions, old.Effects = slices.Clone(k.Regions), slices.Clone(k.Effects)
}

// RevokeKey disables a key for good and forgets its hashes. It stays listed,
// for the ledger's sake.
func (s *Store) RevokeKey(ctx context.Context, id string) (Key, error) {
	return s.editKey(ctx, "key/revoke", id, func(k *storedKey) error {
		if k.Revoked.IsZero() {
			k.Revoked = stamp(s.now().Truncate(time.Second))
		}
		k.Disabled, k.Hash, k.OldHash = true, nil, nil
		return nil
	})
}

// editKey changes a stored key in one transaction.
func (s *Store) editKey(ctx context.Context, action, id string, edit func(*storedKey) error) (Key, error) {
	var out Key
	err := s.changeKey(ctx, action, func(w *writer) (*storedKey, error) {
		v := w.tx.Bucket(bucketKeys).Get([]byte(clip(id, maxString)))
		if v == nil || id == "" {
			return nil, infer.Errorf(infer.CodeNotFound, "there is no key %.32q", id)
		}
		k, err := decodeKey([]byte(id), v)
		if err != nil {
			return nil, readError(err)
		}
		if err := edit(k); err != nil {
			return nil, err
		}
		out = k.Key
		return k, nil
	})
	return out, err
}

// changeKey writes the key that change gives together with its audit record, and
// publishes it to Verify after the commit.
func (s *Store) changeKey(ctx context.Context, action string, change func(w *writer) (*storedKey, error)) error {
	var k *storedKey
	o := newOp(opOther, func(w *writer) (err error) {
		if k, err = change(w); err != nil {
			return err
		}
		data, err := k.encode()
		if err != nil {
			return infer.AsError(err)
		}
		w.mark(w.tx.Bucket(bucketKeys).Put([]byte(k.ID), data))
		w.audited(Audit{Actor: Actor(ctx), Action: action, Subject: k.ID, Detail: clip("tenant "+k.Tenant+k.note, maxString)})
		return nil
	})
	o.published = func() { s.keys.set(k) }
	return s.do(ctx, o)
}

// Keys lists all keys, ordered by creation.
func (s *Store) Keys(ctx context.Context) ([]Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, readError(err)
	}
	keys := s.keys.list()
	slices.SortFunc(keys, func(a, b Key) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return keys, nil
}
