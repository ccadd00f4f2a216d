package accounts

import (
	"context"
	"slices"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

var errWrong = infer.Errorf(infer.CodeUnauthorized, "the name or the password is wrong")

func tooMany(wait time.Duration) error {
	return &infer.Error{Code: infer.CodeRateLimited, Message: "too many failed tries, please wait", RetryAfter: max(wait, time.Second)}
}

// SignIn opens a session with a name and a password. old is the secret of the
// session that the browser had.
func (a *Accounts) SignIn(ctx context.Context, name, password, peer, old string) (*admin.Session, error) {
	if len(name) > maxName {
		name = name[:maxName]
	}
	ac := a.byFoldedName(fold(name))
	stale, err := a.checkPassword(ctx, ac, fold(name), password, peer)
	if err != nil {
		return nil, err
	}
	var renewed string
	if stale { // made with parameters of an earlier version
		if renewed, err = a.hasher.hash(ctx, password); err != nil {
			return nil, err
		}
	}
	return a.signedIn(ctx, ac, &session{Method: "password", Peer: peer}, old, func(now *account) error {
		if stale && now.Password == ac.Password {
			now.Password = renewed
		}
		return nil
	})
}

func (a *Accounts) byFoldedName(name string) *account {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byName[name]
}

// checkPassword says whether password is the one of ac, which is nil for a name
// that nobody has. All that are wrong take the same time: one hash.
func (a *Accounts) checkPassword(ctx context.Context, ac *account, name, password, peer string) (stale bool, err error) {
	network := networkOf(peer)
	trusted := ac != nil && slices.Contains(ac.Networks, network)
	t, wait := a.damper.attempt(network, name, ac != nil, trusted)
	if wait > 0 {
		return false, tooMany(wait)
	}
	phc, who, why := "", "", "no account has the name"
	if ac != nil {
		who, why = ac.Name, "wrong password"
		switch {
		case ac.Disabled:
			why = "the account is disabled"
		case ac.Password == "":
			why = "the account has no password"
		default:
			phc = ac.Password
		}
	}
	right, stale, err := a.hasher.check(ctx, phc, password)
	if err != nil {
		t.good() // nothing has been tried
		return false, err
	}
	if !right {
		a.refused(ctx, "password", who, peer, why)
		return false, errWrong
	}
	t.good()
	return stale, nil
}

// signedIn opens the session of an account that has proved itself as it was in
// ac: what has been changed since then counts.
func (a *Accounts) signedIn(ctx context.Context, ac *account, s *session, old string, more func(*account) error) (*admin.Session, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	network := networkOf(s.Peer)
	_, err := a.changeLocked(ctx, ac.ID, func(now *account) error {
		if now.Epoch != ac.Epoch || now.Disabled {
			return errNoSession
		}
		now.SignedIn = a.o.Now()
		now.Networks = slices.DeleteFunc(now.Networks, func(n string) bool { return n == network })
		now.Networks = append(now.Networks, network)
		if n := len(now.Networks); n > maxNetworks {
			now.Networks = now.Networks[n-maxNetworks:]
		}
		return more(now)
	})
	if err != nil {
		return nil, err
	}
	return a.beginLocked(ctx, s, a.get(ac.ID), old)
}

// Confirm proves anew who is signed in, with the account's password: the session
// goes on under another secret.
func (a *Accounts) Confirm(ctx context.Context, secret, password, peer string) (*admin.Session, error) {
	a.mu.RLock()
	s := a.sessions[hashOf(secret)]
	var ac *account
	if s != nil {
		ac = a.byID[s.Account]
	}
	a.mu.RUnlock()
	if s == nil || ac == nil {
		return nil, errNoSession
	}
	return a.SignIn(ctx, ac.Name, password, peer, secret)
}

// Audited is for what the operations of accounts change by themselves.
func (a *Accounts) Audited(ctx context.Context, action, subject, detail string) {
	a.record(ctx, store.Audit{Action: action, Subject: subject, Detail: detail})
}
