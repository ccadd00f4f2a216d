package certs

import (
	"context"
	"crypto/x509"
	"time"

	"hearth/engine/infer"
)

// rotate makes a new root and keeps the old one beside it. Until the old one is
// retired, clients that trust either accept what is issued: the chain that is
// served holds a link, the new root signed by the old one. Where the old root
// may vouch for no other authority (signsItself), the link is the other way
// round: it goes on signing, and the new root vouches for its key.
func (a *Authority) rotate(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.supplied != nil:
		return infer.Errorf(infer.CodeConflict, "cannot rotate the root: server certificates are signed by the intermediate in tls.issuer_certificate, whose root is not ours")
	case a.old != nil:
		return infer.Errorf(infer.CodeConflict, "cannot rotate the root: the change of %s is not finished, retire the old root first", a.rotated.UTC().Format(time.DateOnly))
	}
	if fault := a.clockFault(); fault != "" {
		return infer.Errorf(infer.CodeUnavailable, "cannot rotate the root: %s", fault)
	}
	before := a.snapshot()
	old := a.root
	next, err := makeRoot(a.now())
	if err != nil {
		return err
	}
	a.root, a.old, a.rotated = next, &old, a.now()
	if err = a.makeIntermediate(); err == nil {
		if signsItself(old.cert) {
			a.link, err = vouch(next, old, a.now())
		} else {
			a.link, err = vouch(old, next, a.now())
		}
	}
	if err == nil {
		err = a.save(ctx)
	}
	if err != nil {
		a.restore(before)
	}
	return err
}

// vouch makes a certificate of by for the key and the name of the authority
// whose root is of.
func vouch(by, of pair, now time.Time) (*x509.Certificate, error) {
	template, err := authorityTemplate(now, rootLifetime, of.cert.Subject)
	if err != nil {
		return nil, err
	}
	template.SubjectKeyId = of.cert.SubjectKeyId
	template.MaxPathLen, template.MaxPathLenZero = of.cert.MaxPathLen, of.cert.MaxPathLenZero
	for _, c := range []*x509.Certificate{by.cert, of.cert} {
		if template.NotAfter.After(c.NotAfter) {
			template.NotAfter = c.NotAfter
		}
	}
	if !template.NotAfter.After(template.NotBefore) { // a root that has expired
		template.NotBefore = template.NotAfter.Add(-backdate)
	}
	return sign(template, of.cert.PublicKey, by)
}

// retire ends the overlap: only the new root is trusted from now on. It gives
// the fingerprint of the one that went.
func (a *Authority) retire(ctx context.Context) (gone string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.old == nil {
		return "", infer.Errorf(infer.CodeConflict, "cannot retire a root: there is only one, rotate it first")
	}
	before := a.snapshot()
	gone = fingerprint(a.old.cert)
	a.old, a.link, a.rotated = nil, nil, time.Time{}
	if err := a.save(ctx); err != nil {
		a.restore(before)
		return "", err
	}
	if _, err := a.kv.Get(ctx, firstRootKey); err == nil {
		if err := a.kv.Delete(ctx, firstRootKey); err != nil {
			return "", err
		}
	}
	return gone, nil
}

// authorityState is what rotate and retire may change.
type authorityState struct {
	root         pair
	intermediate *pair
	old          *pair
	link         *x509.Certificate
	rotated      time.Time
}

func (a *Authority) snapshot() authorityState {
	return authorityState{a.root, a.intermediate, a.old, a.link, a.rotated}
}

func (a *Authority) restore(s authorityState) {
	a.root, a.intermediate, a.old, a.link, a.rotated = s.root, s.intermediate, s.old, s.link, s.rotated
}
