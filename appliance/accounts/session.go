package accounts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

const (
	maxSessions        = 1000
	maxSessionsAccount = 50 // of one account; the one used longest ago goes
	// touchEvery is how exactly the last use of a session and a token is kept.
	touchEvery = time.Minute
)

// session is the stored form; the key is the hash of its secret.
type session struct {
	ID       string     `json:"id"`
	Account  string     `json:"account,omitempty"` // empty: who signs in without one
	Epoch    uint64     `json:"epoch,omitempty"`
	User     string     `json:"user"`
	Role     admin.Role `json:"role,omitempty"` // without an account
	Tenant   string     `json:"tenant,omitempty"`
	Method   string     `json:"method"`
	Issuer   string     `json:"issuer,omitempty"` // of the provider that answers for it
	Link     string     `json:"link,omitempty"`   // kind of the link that opened it
	Key      string     `json:"key,omitempty"`    // id of the passkey that did
	Peer     string     `json:"peer"`
	Created  time.Time  `json:"created"`
	Verified time.Time  `json:"verified"`
	Used     time.Time  `json:"used"`
	Expires  time.Time  `json:"expires"`
}

// Session is one signed-in browser as it is shown.
type Session struct {
	ID      string     `json:"id"`
	User    string     `json:"user"`
	Account string     `json:"account,omitempty"`
	Role    admin.Role `json:"role"`
	Tenant  string     `json:"tenant,omitempty"`
	Method  string     `json:"method"`
	Network string     `json:"network"`
	Created time.Time  `json:"created"`
	Used    time.Time  `json:"last_used"`
	Expires time.Time  `json:"expires"`
	Current bool       `json:"current"` // it is the one that asks
}

var errNoSession = infer.Errorf(infer.CodeUnauthorized, "please sign in")

// sessionFault says why a session is not good; ac is its account. mu is held.
func (a *Accounts) sessionFault(s *session, ac *account) error {
	now, set := a.o.Now(), a.settings.Load()
	switch {
	case !now.Before(s.Expires), now.Sub(s.Used) > set.Idle, now.Sub(s.Created) > set.Lifetime:
		return errNoSession
	case s.Account != "":
		if ac == nil || ac.Disabled || ac.Epoch != s.Epoch || s.Key != "" && !ac.hasKey(s.Key) {
			return errNoSession
		}
	case s.Link == linkFirst:
		// It exists to make the first owner.
		for _, o := range a.byID {
			if o.opens() {
				return errNoSession
			}
		}
	}
	if s.Issuer != "" && s.Issuer != set.OIDC.Issuer {
		return errNoSession
	}
	return nil
}

// caller is who a session stands for.
func (a *Accounts) caller(s *session, ac *account, peer string) admin.Caller {
	c := admin.Caller{User: s.User, Role: s.Role, Tenant: s.Tenant, Method: s.Method, Peer: peer, Session: s.ID, Account: s.Account}
	if ac != nil {
		c.User, c.Role, c.Tenant = ac.Name, ac.Role, ac.Tenant
	}
	c.Fresh = a.o.Now().Sub(s.Verified) < freshFor
	return c
}

// Session finds the session of a cookie. That counts as a use of it, unless peer
// is empty: a page that keeps itself up to date must not keep somebody signed in
// who has gone.
func (a *Accounts) Session(ctx context.Context, secret, peer string) (*admin.Session, error) {
	if len(secret) != 43 {
		return nil, errNoSession
	}
	h := hashOf(secret)
	a.mu.RLock()
	s := a.sessions[h]
	if s == nil {
		a.mu.RUnlock()
		return nil, errNoSession
	}
	ac := a.byID[s.Account]
	err := a.sessionFault(s, ac)
	a.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	if peer != "" && a.o.Now().Sub(s.Used) >= touchEvery {
		a.touchSession(ctx, h)
	}
	return &admin.Session{Caller: a.caller(s, ac, peer), Expires: s.Expires}, nil
}

// touchSession notes that a session is used.
func (a *Accounts) touchSession(ctx context.Context, h string) {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.mu.RLock()
	s := a.sessions[h]
	a.mu.RUnlock()
	if s == nil || a.o.Now().Sub(s.Used) < touchEvery {
		return
	}
	used := *s
	used.Used = a.o.Now()
	if err := a.put(ctx, atSession+h, &used); err != nil {
		a.o.Log.Warn("cannot note the use of a session", "error", err)
		// It goes on in memory: a full disk must not sign people out.
	}
	a.mu.Lock()
	if a.sessions[h] == s {
		a.sessions[h] = &used
	}
	a.mu.Unlock()
}

// begin opens a session for ac, or for s itself without one. The session that
// the browser had before, of the secret old, ends: a secret that somebody else
// may have planted there is worth nothing afterwards.
func (a *Accounts) begin(ctx context.Context, s *session, ac *account, old string) (*admin.Session, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	return a.beginLocked(ctx, s, ac, old)
}

func (a *Accounts) beginLocked(ctx context.Context, s *session, ac *account, old string) (*admin.Session, error) {
	now := a.o.Now()
	s.ID, s.Created, s.Verified, s.Used = newID(), now, now, now
	if s.Expires.IsZero() {
		s.Expires = now.Add(a.settings.Load().Lifetime)
	}
	if ac != nil {
		s.Account, s.Epoch, s.User = ac.ID, ac.Epoch, ac.Name
	}
	a.makeRoom(ctx, s)
	if old != "" {
		a.endLocked(ctx, hashOf(old))
	}
	secret := newSecret()
	if err := a.put(ctx, atSession+hashOf(secret), s); err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.sessions[hashOf(secret)] = s
	a.mu.Unlock()
	c := a.caller(s, ac, s.Peer)
	s.note(ctx, a, &c)
	return &admin.Session{Caller: c, Secret: secret, Expires: s.Expires}, nil
}

// note audits a sign-in.
func (s *session) note(ctx context.Context, a *Accounts, c *admin.Caller) {
	a.record(ctx, store.Audit{Actor: c.Actor(), Action: "account/signin", Subject: c.User, Detail: c.Method + " from " + networkOf(s.Peer) + ", session " + s.ID})
}

// makeRoom ends what has run out and, where there are too many, those used
// longest ago: of the same account first. changing is held.
func (a *Accounts) makeRoom(ctx context.Context, s *session) {
	a.sweep(ctx)
	type entry struct {
		hash string
		s    *session
	}
	var own, all []entry
	a.mu.RLock()
	for h, o := range a.sessions {
		all = append(all, entry{h, o})
		if s.Account != "" && o.Account == s.Account || s.Account == "" && o.Account == "" && o.User == s.User {
			own = append(own, entry{h, o})
		}
	}
	a.mu.RUnlock()
	oldest := func(x, y entry) int { return x.s.Used.Compare(y.s.Used) }
	for len(own) >= maxSessionsAccount || len(own) > 0 && len(all) >= maxSessions {
		slices.SortFunc(own, oldest)
		a.endLocked(ctx, own[0].hash)
		own, all = own[1:], all[1:]
	}
	if len(all) >= maxSessions {
		slices.SortFunc(all, oldest)
		a.endLocked(ctx, all[0].hash)
	}
}

// endLocked ends the session of a hash. changing is held.
func (a *Accounts) endLocked(ctx context.Context, h string) {
	a.mu.Lock()
	_, ok := a.sessions[h]
	delete(a.sessions, h)
	a.mu.Unlock()
	if ok {
		_ = a.o.Storage.Delete(context.WithoutCancel(ctx), atSession+h)
	}
}

// SignOut ends the session of a cookie; an unknown one is no error.
func (a *Accounts) SignOut(ctx context.Context, secret string) error {
	if len(secret) != 43 {
		return nil
	}
	return a.endWhere(ctx, func(h string, _ *session) bool { return h == hashOf(secret) })
}

// endWhere ends the sessions that which picks, on disk first: one that comes
// back at the next start would be worse than one that lives on for an error.
func (a *Accounts) endWhere(ctx context.Context, which func(h string, s *session) bool) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	var hashes []string
	a.mu.RLock()
	for h, s := range a.sessions {
		if which(h, s) {
			hashes = append(hashes, h)
		}
	}
	a.mu.RUnlock()
	var errs []error
	for _, h := range hashes {
		if err := a.o.Storage.Delete(ctx, atSession+h); err != nil && infer.AsError(err).Code != infer.CodeNotFound {
			errs = append(errs, err)
		}
		a.mu.Lock()
		delete(a.sessions, h)
		a.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Sessions lists the open ones, the last used first: those of one user where
// mine is set, and everyone's otherwise.
func (a *Accounts) Sessions(mine *admin.Caller) []Session {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := []Session{}
	for _, s := range a.sessions {
		ac := a.byID[s.Account]
		if a.sessionFault(s, ac) != nil || mine != nil && !s.of(mine) {
			continue
		}
		c := a.caller(s, ac, s.Peer)
		out = append(out, Session{ID: s.ID, User: c.User, Account: s.Account, Role: c.Role, Tenant: c.Tenant, Method: s.Method,
			Network: networkOf(s.Peer), Created: s.Created, Used: s.Used, Expires: s.Expires})
	}
	slices.SortFunc(out, func(x, y Session) int {
		if n := y.Used.Compare(x.Used); n != 0 {
			return n
		}
		return strings.Compare(x.ID, y.ID)
	})
	return out
}

// of says whether a session belongs to who asks.
func (s *session) of(c *admin.Caller) bool {
	if c.Account != "" || s.Account != "" {
		return s.Account == c.Account
	}
	return s.User == c.User && s.Method == c.Method
}

// Revoke ends the session of an id, which must belong to mine where that is set.
func (a *Accounts) Revoke(ctx context.Context, id string, mine *admin.Caller) error {
	found := false
	err := a.endWhere(ctx, func(_ string, s *session) bool {
		hit := s.ID == id && (mine == nil || s.of(mine))
		found = found || hit
		return hit
	})
	if err == nil && !found {
		err = infer.Errorf(infer.CodeNotFound, "there is no session %.32q", id)
	}
	return err
}
