package accounts

import (
	"context"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// Kinds of one-time links.
const (
	linkFirst      = "first"      // makes the first owner; dies when there is one
	linkRecovery   = "recovery"   // signs in as owner, made by who owns the machine
	linkInvitation = "invitation" // lets somebody into their new account
)

// How long links, and what they open, are good for.
const (
	SetUpLifetime      = 30 * time.Minute
	InvitationLifetime = 72 * time.Hour
	enrolLifetime      = time.Hour
)

// link is the stored half of a one-time link; the key is the hash of its token.
type link struct {
	Kind    string    `json:"kind"`
	Account string    `json:"account,omitempty"`
	Epoch   uint64    `json:"epoch,omitempty"`
	Expires time.Time `json:"expires"`
}

// linkFault says why a link is not good. mu is held.
func (a *Accounts) linkFault(l *link) error {
	gone := infer.Errorf(infer.CodeUnauthorized, "the link is not valid: it works once, and only for a while")
	if !a.o.Now().Before(l.Expires) {
		return gone
	}
	switch l.Kind {
	case linkFirst:
		for _, ac := range a.byID {
			if ac.opens() {
				return gone
			}
		}
	case linkInvitation:
		if ac := a.byID[l.Account]; ac == nil || ac.Disabled || ac.Epoch != l.Epoch {
			return gone
		}
	}
	return nil
}

// NewSetUp makes the token of a set-up link. While there is no owner it leads to
// making one; afterwards it signs in as owner, for who has the machine but no
// way in. Earlier ones stop working.
func (a *Accounts) NewSetUp(ctx context.Context) (token string, expires time.Time, err error) {
	l := &link{Kind: linkRecovery, Expires: a.o.Now().Add(SetUpLifetime)}
	if !a.HasOwner(ctx) {
		l.Kind = linkFirst
	}
	token, err = a.keepLink(ctx, l, func(o *link) bool { return o.Kind != linkInvitation })
	return token, l.Expires, err
}

// Invite makes the token of a link that lets somebody into an account. An earlier
// one stops working.
func (a *Accounts) Invite(ctx context.Context, id string) (token string, expires time.Time, err error) {
	ac := a.get(id)
	if ac == nil {
		return "", time.Time{}, noAccount(id)
	}
	if ac.Disabled {
		return "", time.Time{}, infer.Errorf(infer.CodeConflict, "cannot invite to a disabled account")
	}
	l := &link{Kind: linkInvitation, Account: ac.ID, Epoch: ac.Epoch, Expires: a.o.Now().Add(InvitationLifetime)}
	token, err = a.keepLink(ctx, l, func(o *link) bool { return o.Account == ac.ID })
	return token, l.Expires, err
}

// keepLink stores a link in place of those that replaced picks.
func (a *Accounts) keepLink(ctx context.Context, l *link, replaced func(*link) bool) (string, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.sweep(ctx)
	a.mu.RLock()
	var old []string
	for h, o := range a.links {
		if replaced(o) {
			old = append(old, h)
		}
	}
	a.mu.RUnlock()
	for _, h := range old {
		if err := a.dropLink(ctx, h); err != nil {
			return "", err
		}
	}
	token := newSecret()
	if err := a.put(ctx, atLink+hashOf(token), l); err != nil {
		return "", err
	}
	a.mu.Lock()
	a.links[hashOf(token)] = l
	a.mu.Unlock()
	return token, nil
}

// dropLink forgets a link, on disk first. changing is held.
func (a *Accounts) dropLink(ctx context.Context, h string) error {
	if err := a.o.Storage.Delete(ctx, atLink+h); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.links, h)
	a.mu.Unlock()
	return nil
}

// Redeem exchanges the token of a link for a session, once. old is the secret of
// the session that the browser had.
func (a *Accounts) Redeem(ctx context.Context, token, peer, old string) (*admin.Session, error) {
	t, wait := a.damper.attempt(networkOf(peer), "", false, false)
	if wait > 0 {
		return nil, tooMany(wait)
	}
	s, err := a.redeem(ctx, token, peer, old)
	if err != nil {
		if infer.AsError(err).Code == infer.CodeUnauthorized {
			a.refused(ctx, "one-time link", "", peer, "it is not valid")
		}
		return nil, err
	}
	t.good()
	return s, nil
}

func (a *Accounts) redeem(ctx context.Context, token, peer, old string) (*admin.Session, error) {
	if len(token) > 128 {
		token = ""
	}
	h := hashOf(token)
	a.changing.Lock() // so that no token is used twice at the same time
	defer a.changing.Unlock()
	a.mu.RLock()
	l := a.links[h]
	if l == nil {
		l = &link{} // expired long ago
	}
	err, ac := a.linkFault(l), a.byID[l.Account]
	a.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	if err := a.dropLink(ctx, h); err != nil {
		return nil, err
	}
	s := &session{Method: "set-up", Link: l.Kind, Peer: peer, Expires: a.o.Now().Add(enrolLifetime)}
	switch l.Kind {
	case linkFirst, linkRecovery:
		s.User, s.Role = l.Kind+" link", admin.Owner
	case linkInvitation:
		s.Method = "invitation"
	}
	return a.beginLocked(ctx, s, ac, old)
}

// Enrolment says what a session is there for; false for one that no link opened,
// or that has nothing left to do.
func (a *Accounts) Enrolment(secret string) (admin.Enrolment, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := a.sessions[hashOf(secret)]
	if s == nil || a.sessionFault(s, a.byID[s.Account]) != nil {
		return admin.Enrolment{}, false
	}
	switch s.Link {
	case linkFirst:
		return admin.Enrolment{First: true}, true
	case linkInvitation:
		return admin.Enrolment{Name: s.User}, true
	}
	return admin.Enrolment{}, false
}

// Enrol gives the account that a link's session is there for a password, makes
// it first where it is that of the first owner, and signs in. secret is the
// cookie's; the session ends and another begins.
func (a *Accounts) Enrol(ctx context.Context, secret, name, password, peer string) (*admin.Session, error) {
	e, ok := a.Enrolment(secret)
	if !ok {
		return nil, errNoSession
	}
	if !e.First {
		name = e.Name
	}
	if err := firstOf(checkName(name), CheckPassword(name, password)); err != nil {
		return nil, err
	}
	phc, err := a.hasher.hash(ctx, password)
	if err != nil {
		return nil, err
	}
	return a.enrol(ctx, secret, name, &session{Method: "password", Peer: peer}, func(ac *account) error {
		ac.Password, ac.Changed = phc, a.o.Now()
		return nil
	})
}

// enrol gives the first credential. It checks anew that the session may: of two
// at the same time the second finds an owner, or another epoch.
func (a *Accounts) enrol(ctx context.Context, secret, name string, s *session, give func(*account) error) (*admin.Session, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	e, ok := a.Enrolment(secret)
	if !ok {
		return nil, errNoSession
	}
	var v Account
	var err error
	now := a.o.Now()
	if e.First {
		ac := &account{Name: name, Role: admin.Owner, SignedIn: now}
		if err := give(ac); err != nil {
			return nil, err
		}
		v, err = a.createLocked(ctx, ac)
	} else {
		v, err = a.changeLocked(ctx, name, func(ac *account) error {
			ac.Epoch++
			ac.SignedIn = now
			return give(ac)
		})
	}
	if err != nil {
		return nil, err
	}
	a.sweep(ctx) // the link's session, and every other that was to make the first owner
	if e.First {
		a.record(ctx, store.Audit{Actor: "set-up link from " + networkOf(s.Peer), Action: "account/create", Subject: v.Name, Detail: "the first owner, with a " + s.Method})
	} else {
		a.record(ctx, store.Audit{Actor: v.Name + " (invitation) from " + networkOf(s.Peer), Action: "account/enrol", Subject: v.Name, Detail: s.Method})
	}
	return a.beginLocked(ctx, s, a.get(v.ID), secret)
}
