package store

import (
	"context"
	"time"

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
	Zone    string `json:"zone,omitempty"` // IANA name; empty: the tenant's
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
	LastUsed time.Time   `json:"last_used,omitzero"` // to the minute, written with delay
}

// NewKey is what CreateKey and RotateKey return. Secret is the whole credential
// (hk_<id>_<secret>); it is not stored and cannot be had again.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

// CreateKey makes a key. Of k are used Tenant, Name, Expires, Models, Limits and
// Budgets; the rest is set by the store.
func (s *Store) CreateKey(ctx context.Context, k Key) (NewKey, error) {
	return NewKey{}, infer.Errorf(infer.CodeUnavailable, "the key store is not open")
}

// RotateKey gives a key a new secret. The old one stays valid for grace.
func (s *Store) RotateKey(ctx context.Context, id string, grace time.Duration) (NewKey, error) {
	return NewKey{}, infer.Errorf(infer.CodeUnavailable, "the key store is not open")
}

// UpdateKey changes a key's Name, Expires, Disabled, Models, Limits and Budgets
// to those of k, found by k.ID.
func (s *Store) UpdateKey(ctx context.Context, k Key) (Key, error) {
	return Key{}, infer.Errorf(infer.CodeUnavailable, "the key store is not open")
}

// RevokeKey disables a key for good. It stays listed, for the ledger's sake.
func (s *Store) RevokeKey(ctx context.Context, id string) (Key, error) {
	return Key{}, infer.Errorf(infer.CodeUnavailable, "the key store is not open")
}

// Keys lists all keys, ordered by creation.
func (s *Store) Keys(ctx context.Context) ([]Key, error) { return nil, errClosed }

// Verify finds the key of a credential: the public id finds the record, the
// keyed hash of the whole is compared in constant time, also when there is no
// such id. It is false for anything but a live key's present secret; nothing
// tells why. It touches no disk.
func (s *Store) Verify(credential string) (Key, bool) { return Key{}, false }
