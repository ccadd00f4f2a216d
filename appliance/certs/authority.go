package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"sync"
	"time"

	"hearth/engine/infer"
)

const (
	rootLifetime         = 10 * 365 * 24 * time.Hour
	intermediateLifetime = 2 * 365 * 24 * time.Hour
	// backdate lets a client whose clock is a little behind accept a new
	// certificate.
	backdate = 5 * time.Minute

	stateKey = "authority/state" // all of it, one value: never half
	// firstRootKey is where the first releases kept a root that signed server
	// certificates directly: certificate and key, PEM. It stays until that root
	// is retired, so that an older binary still finds it.
	firstRootKey = "authority/root"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Authority is the appliance's own certificate authority: a root (EC P-256), an
// intermediate that signs server certificates, and, while roots are being
// changed, the root before with a certificate that links the two. It is safe
// for concurrent use.
type Authority struct {
	kv    KV
	now   func() time.Time
	built time.Time // a clock before this is wrong; zero: not known

	mu           sync.Mutex // guards below
	root         pair
	intermediate *pair // nil: the root signs itself, see signsItself
	old          *pair // the root before, until it is retired
	link         *x509.Certificate
	rotated      time.Time
	supplied     *supplied // a site's own intermediate; it signs instead
}

// openAuthority loads the authority from kv or makes one. What happened is noted
// in log.
func openAuthority(ctx context.Context, kv KV, now func() time.Time, built time.Time, log *eventLog) (*Authority, error) {
	a := &Authority{kv: kv, now: now, built: built}
	err := a.load(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		err = a.begin(ctx, log)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot set up the certificate authority: %w", err)
	}
	if now().After(a.root.cert.NotAfter) && a.old == nil {
		if err := a.rotate(ctx); err != nil {
			return nil, fmt.Errorf("cannot replace the root certificate, which expired on %s: %w", a.root.cert.NotAfter.Format(time.DateOnly), err)
		}
		log.add(ctx, Event{Kind: EventRotated, Source: sourceAuthority, Note: "the root before had expired", Fingerprint: fingerprint(a.root.cert), NotAfter: a.root.cert.NotAfter})
	}
	return a, a.upkeep(ctx, log)
}

// begin makes a first root, or takes over the one that an earlier release made:
// people have trusted it, so it stays.
func (a *Authority) begin(ctx context.Context, log *eventLog) error {
	first, err := a.kv.Get(ctx, firstRootKey)
	kind := EventTakenOver
	if errors.Is(err, fs.ErrNotExist) {
		if fault := a.clockFault(); fault != "" {
			return errors.New(fault)
		}
		kind = EventIssued
		a.root, err = makeRoot(a.now())
	} else if err == nil {
		a.root, err = parsePair(first)
	}
	if err != nil {
		return err
	}
	if !signsItself(a.root.cert) {
		if err := a.makeIntermediate(); err != nil {
			return err
		}
	}
	if err := a.save(ctx); err != nil {
		return err
	}
	log.add(ctx, Event{Kind: kind, Source: sourceAuthority, Fingerprint: fingerprint(a.root.cert), NotAfter: a.root.cert.NotAfter})
	return nil
}

// signsItself says whether a root may have no intermediate below it: those of
// the first releases have a path length of zero (RFC 5280 §4.2.1.9), which
// clients hold against everything but a server certificate.
func signsItself(root *x509.Certificate) bool {
	return root.BasicConstraintsValid && root.MaxPathLen == 0 && root.MaxPathLenZero
}

// sign makes a certificate for pub with template and gives it back parsed.
func sign(template *x509.Certificate, pub any, by pair) (*x509.Certificate, error) {
	parent := by.cert
	if parent == nil {
		parent = template // a root
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, by.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// authorityTemplate is what roots, intermediates and links have in common.
func authorityTemplate(now time.Time, life time.Duration, subject pkix.Name) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}, nil
}

// named is a subject of ours; some random bits set those of two appliances apart
// in a trust store.
func named(what string) (pkix.Name, error) {
	id, err := newSerial()
	if err != nil {
		return pkix.Name{}, err
	}
	return pkix.Name{Organization: []string{"Hearth"}, CommonName: fmt.Sprintf("Hearth %s %x", what, id.Bytes()[:4])}, nil
}

// makeRoot makes a root without a bound on the path below it, so that it can
// vouch for the one that comes after it. It carries no name constraints: names
// change, and a root that people have trusted should not have to.
func makeRoot(now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	subject, err := named("local authority")
	if err != nil {
		return pair{}, err
	}
	template, err := authorityTemplate(now, rootLifetime, subject)
	if err != nil {
		return pair{}, err
	}
	template.MaxPathLen = -1
	cert, err := sign(template, key.Public(), pair{key: key})
	return pair{cert, key}, err
}

// makeIntermediate makes a new one below the root of the day, with a key of its
// own. Certificates of the one before stay valid: their chain goes with them.
func (a *Authority) makeIntermediate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	subject, err := named("intermediate")
	if err != nil {
		return err
	}
	template, err := authorityTemplate(a.now(), intermediateLifetime, subject)
	if err != nil {
		return err
	}
	template.MaxPathLenZero = true
	if template.NotAfter.After(a.root.cert.NotAfter) {
		template.NotAfter = a.root.cert.NotAfter
	}
	cert, err := sign(template, key.Public(), a.root)
	if err != nil {
		return err
	}
	a.intermediate = &pair{cert, key}
	return nil
}

// upkeep renews the intermediate when a third of its life is left.
func (a *Authority) upkeep(ctx context.Context, log *eventLog) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.intermediate == nil || a.clockFault() != "" {
		return nil
	}
	due := renewalTime(a.intermediate.cert)
	// Below a root that ends as soon, a new one would be no better.
	if a.now().Before(due) || !a.root.cert.NotAfter.After(a.intermediate.cert.NotAfter) {
		return nil
	}
	before := a.intermediate
	err := a.makeIntermediate()
	if err == nil {
		err = a.save(ctx)
	}
	if err != nil {
		a.intermediate = before
		return fmt.Errorf("cannot renew the intermediate certificate: %w", err)
	}
	log.add(ctx, Event{Kind: EventIntermediate, Source: sourceAuthority, Fingerprint: fingerprint(a.intermediate.cert), NotAfter: a.intermediate.cert.NotAfter})
	return nil
}

// renewalTime is when a third of the life of c is left.
func renewalTime(c *x509.Certificate) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotAfter.Add(-time.Duration(float64(life) * renewalRatio))
}

// clockFault says what is wrong with the clock, if it can be seen to be: what is
// issued now would be of no use to clients whose clocks are right.
func (a *Authority) clockFault() string {
	now := a.now()
	const tell = "the clock says %s, which is before %s (%s): set the clock"
	if now.Before(a.built) {
		return fmt.Sprintf(tell, now.UTC().Format(time.DateTime), "this program was built", a.built.UTC().Format(time.DateTime))
	}
	if a.root.cert != nil && now.Before(a.root.cert.NotBefore) {
		return fmt.Sprintf(tell, now.UTC().Format(time.DateTime), "the root certificate was made", a.root.cert.NotBefore.UTC().Format(time.DateTime))
	}
	return ""
}

// Clock says what is wrong with the clock, if it can be seen to be.
func (a *Authority) Clock() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clockFault()
}

// use has s sign in place of our own intermediate; nil: ours signs. It gives
// what signed before.
func (a *Authority) use(s *supplied) (before *supplied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, a.supplied = a.supplied, s
	return before
}

// signer is what signs server certificates now, and the certificates that a
// client needs between one and a root that it trusts.
func (a *Authority) signer() (by pair, chain []*x509.Certificate) {
	linked := a.link != nil && a.now().Before(a.link.NotAfter)
	switch {
	case a.supplied != nil:
		return a.supplied.pair, a.supplied.chain
	case linked && signsItself(a.old.cert):
		// The old root cannot vouch for another authority; the new one vouches for
		// it, until it is retired.
		return *a.old, []*x509.Certificate{a.link}
	case a.intermediate == nil:
		return a.root, nil
	case linked:
		return *a.intermediate, []*x509.Certificate{a.intermediate.cert, a.link}
	}
	return *a.intermediate, []*x509.Certificate{a.intermediate.cert}
}

// roots are what clients should trust, the newest first.
func (a *Authority) roots() []*x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.supplied != nil {
		return a.supplied.roots
	}
	all := []*x509.Certificate{a.root.cert}
	if a.old != nil {
		all = append(all, a.old.cert)
	}
	return all
}

// rootPEM is roots as a file.
func (a *Authority) rootPEM() []byte {
	var out []byte
	for _, c := range a.roots() {
		out = append(out, pemOf(c)...)
	}
	return out
}

// issue signs a server certificate for pub and gives it with its chain, PEM. The
// root is not in it: a client that does not know it must not learn it here.
func (a *Authority) issue(template *x509.Certificate, pub any) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if fault := a.clockFault(); fault != "" {
		return nil, infer.Errorf(infer.CodeUnavailable, "cannot issue a certificate: %s", fault)
	}
	by, chain := a.signer()
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	if !template.NotAfter.After(a.now()) {
		return nil, infer.Errorf(infer.CodeUnavailable, "cannot issue a certificate: %s ended on %s", by.cert.Subject.CommonName, by.cert.NotAfter.Format(time.DateOnly))
	}
	cert, err := sign(template, pub, by)
	if err != nil {
		return nil, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	out := pemOf(cert)
	for _, c := range chain {
		out = append(out, pemOf(c)...)
	}
	return out, nil
}

// newSerial is 127 random bits, never zero (RFC 5280 §4.1.2.2).
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	return n.Add(n, new(big.Int).Lsh(big.NewInt(1), 126)), nil
}
