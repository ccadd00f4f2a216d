package appliance

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

const (
	setupLifetime   = 30 * time.Minute
	sessionLifetime = 12 * time.Hour
	maxSessions     = 1000 // older ones are dropped: a bound, not a policy

	setupBlob      = "token"
	sessionsBucket = "sessions"
	setupBucket    = "setup"
)

var errNoSession = infer.Errorf(infer.CodeUnauthorized, "please sign in")

// setupRecord is the stored half of a set-up token.
type setupRecord struct {
	Hash    string    `json:"hash"` // sha256 of the token, hex
	KeyID   string    `json:"key_id"`
	Tenant  string    `json:"tenant"`
	Expires time.Time `json:"expires"`
}

// newSetupToken makes a one-time token that opens an operator session. Earlier
// tokens stop working. Its session acts for the key keyID where it must be
// charged.
func (a *Appliance) newSetupToken(ctx context.Context, key store.Key) (string, error) {
	token := newSecret()
	rec := setupRecord{Hash: hashOf(token), KeyID: key.ID, Tenant: key.Tenant, Expires: a.now().Add(setupLifetime)}
	b, err := json.Marshal(rec)
	if err != nil {
		return "", err
	}
	return token, a.store.Blobs(setupBucket).Put(ctx, setupBlob, b)
}

func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

func hashOf(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// Setup exchanges the set-up token for an operator session, once.
func (a *Appliance) Setup(ctx context.Context, token, peer string) (*admin.Session, error) {
	a.setup.Lock() // so that a token cannot be used twice at the same time
	defer a.setup.Unlock()
	blobs := a.store.Blobs(setupBucket)
	var rec setupRecord
	if b, err := blobs.Get(ctx, setupBlob); err == nil {
		if err := json.Unmarshal(b.Value, &rec); err != nil {
			return nil, infer.AsError(err)
		}
	}
	right := subtle.ConstantTimeCompare([]byte(hashOf(token)), []byte(rec.Hash)) == 1
	if !right || rec.Hash == "" || a.now().After(rec.Expires) {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the set-up link is not valid: it works once, for %d minutes; `hearth key setup` makes a new one", int(setupLifetime.Minutes()))
	}
	if err := blobs.Delete(ctx, setupBlob); err != nil {
		return nil, err
	}
	a.log.Info("the set-up link was used", "key_id", rec.KeyID)
	return a.newSession(ctx)
}

// sessionRecord is the stored form of a session. The key under which it is kept
// is the hash of its secret.
type sessionRecord struct {
	Expires time.Time `json:"expires"`
}

func (a *Appliance) newSession(ctx context.Context) (*admin.Session, error) {
	s := &admin.Session{Caller: setUpCaller(""), Secret: newSecret(), Expires: a.now().Add(sessionLifetime)}
	b, err := json.Marshal(sessionRecord{Expires: s.Expires})
	if err != nil {
		return nil, err
	}
	a.sweepSessions(ctx)
	return s, a.store.Blobs(sessionsBucket).Put(ctx, hashOf(s.Secret), b)
}

func setUpCaller(peer string) admin.Caller {
	return admin.Caller{User: "set-up", Role: admin.Owner, Method: "set-up", Peer: peer}
}

// sweepSessions drops what has expired, and everything beyond the bound.
func (a *Appliance) sweepSessions(ctx context.Context) {
	blobs := a.store.Blobs(sessionsBucket)
	list, err := blobs.List(ctx, "", "", maxSessions)
	if err != nil {
		return
	}
	full := len(list) >= maxSessions
	for _, e := range list {
		if full || a.now().Sub(e.Modified) > sessionLifetime {
			_ = blobs.Delete(ctx, e.Key) // the next sweep tries again
		}
	}
}

// Session finds the session of a cookie.
func (a *Appliance) Session(ctx context.Context, secret, peer string) (*admin.Session, error) {
	if secret == "" || len(secret) > 128 {
		return nil, errNoSession
	}
	b, err := a.store.Blobs(sessionsBucket).Get(ctx, hashOf(secret))
	if err != nil {
		return nil, errNoSession
	}
	var rec sessionRecord
	if json.Unmarshal(b.Value, &rec) != nil || a.now().After(rec.Expires) {
		return nil, errNoSession
	}
	return &admin.Session{Caller: setUpCaller(peer), Expires: rec.Expires}, nil
}

// Bearer finds whose API token it is.
func (a *Appliance) Bearer(context.Context, string, string) (*admin.Caller, error) {
	return nil, errNoSession
}

// HasOwner says whether there is an account of an owner.
func (a *Appliance) HasOwner(context.Context) bool { return false }

// SignOut ends a session.
func (a *Appliance) SignOut(ctx context.Context, secret string) error {
	if _, err := a.Session(ctx, secret, ""); err != nil {
		return nil
	}
	return a.store.Blobs(sessionsBucket).Delete(ctx, hashOf(secret))
}

// liveKey finds a key that may be used now.
func (a *Appliance) liveKey(ctx context.Context, id string) (store.Key, error) {
	keys, err := a.store.Keys(ctx)
	if err != nil {
		return store.Key{}, err
	}
	for _, k := range keys {
		if k.ID == id && !k.Disabled && k.Revoked.IsZero() && (k.Expires.IsZero() || a.now().Before(k.Expires)) {
			return k, nil
		}
	}
	return store.Key{}, errNoSession
}
