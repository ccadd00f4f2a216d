package certs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// note keeps what certmagic tells.
func (m *Manager) note(ctx context.Context, source, event string, data map[string]any) {
	name, _ := data["identifier"].(string)
	e := Event{Source: source, Name: name}
	switch renewal, _ := data["renewal"].(bool); event {
	case "cert_obtained":
		e.Kind = EventIssued
		if renewal {
			e.Kind = EventRenewed
		}
		e.Issuer, _ = data["issuer"].(string)
		if path, ok := data["certificate_path"].(string); ok {
			if text, err := m.storage.Load(ctx, path); err == nil {
				if chain, err := parseChainPEM(text); err == nil {
					e.Fingerprint, e.NotAfter = fingerprint(chain[0]), chain[0].NotAfter.UTC()
				}
			}
		}
	case "cert_failed":
		e.Kind = EventFailed
		if err, ok := data["error"].(error); ok {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return // the server ends, or somebody renews by hand
			}
			e.Error = err.Error()
			if tell, ok := ctx.Value(failureKey{}).(context.CancelCauseFunc); ok {
				tell(err)
			}
		}
	default:
		return
	}
	m.events.add(ctx, e)
}

// failureKey is the context key under which a failed attempt is told of.
type failureKey struct{}

// renewOnce makes one attempt to renew, or to obtain, the certificate for name
// and has it answer handshakes in place of the one before without a gap.
func (m *Manager) renewOnce(ctx context.Context, c *managed, name string) error {
	err := attempt(ctx, c.Config, name)
	if err != nil && c.second != nil && forgotten(err) {
		err = attempt(ctx, c.second, name)
	}
	if err != nil {
		return fmt.Errorf("cannot renew the certificate for %s: %w", name, err)
	}
	before := c.cache.AllMatchingCertificates(name)
	now, err := c.CacheManagedCertificate(context.WithoutCancel(ctx), name)
	if err != nil {
		return fmt.Errorf("cannot use the renewed certificate for %s: %w", name, err)
	}
	var gone []string
	for _, old := range before {
		if old.Hash() != now.Hash() && slices.Contains(old.Names, name) {
			gone = append(gone, old.Hash())
		}
	}
	c.cache.Remove(gone)
	return nil
}

// forgotten says whether err comes from an ACME authority that knows less than it
// did, for instance since it was set up anew. Where our account is gone certmagic
// makes another and fails all the same; where the certificate to be replaced is
// unknown, or replaced already, the order must not name it (RFC 9773 §5).
func forgotten(err error) bool {
	var p acme.Problem
	if errors.As(err, &p) {
		return p.Type == acme.ProblemTypeMalformed || p.Type == "urn:ietf:params:acme:error:alreadyReplaced"
	}
	return strings.Contains(err.Error(), "no certificate chains")
}

// attempt renews in storage. Of certmagic's ways, one asks for input on the
// terminal and the other goes on trying: it is stopped by the first failure.
func attempt(ctx context.Context, c *certmagic.Config, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := c.RenewCertAsync(context.WithValue(ctx, failureKey{}, cancel), name, true)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Renew replaces certificates now, whether or not it is time: the one that
// covers name, or with an empty name all that are in use. Files are read again.
func (m *Manager) Renew(ctx context.Context, name string) error {
	name = strings.ToLower(name)
	found, err := m.renewOwn(ctx, name)
	errs := []error{err}
	if a := m.acme.Load(); a != nil && (name == "" || slices.Contains(a.names, name)) {
		found = true
		errs = append(errs, m.renewACME(ctx, a, name))
	}
	if !found {
		return infer.Errorf(infer.CodeNotFound, "cannot renew: no certificate in use is for %.80q", name)
	}
	return errors.Join(errs...)
}

// renewOwn renews what takes no network.
func (m *Manager) renewOwn(ctx context.Context, name string) (found bool, err error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	var errs []error
	if name == "" || slices.Contains(m.localNames, name) {
		found = true
		errs = append(errs, m.renewOnce(ctx, m.local, localSubject))
	}
	if m.files != nil && (name == "" || covers(m.files.get().Leaf, name)) {
		found = true
		errs = append(errs, m.checkFiles(ctx, true))
	}
	return found, errors.Join(errs...)
}

// renewACME orders name anew, or with an empty one all names.
func (m *Manager) renewACME(ctx context.Context, a *acmeState, name string) error {
	a.renewing.Lock()
	defer a.renewing.Unlock()
	a.pause()
	var errs []error
	for _, n := range a.names {
		if name == "" || name == n {
			errs = append(errs, m.renewOnce(ctx, a.managed, n))
		}
	}
	return errors.Join(append(errs, a.order(m.background))...)
}

// Rotate makes a new root beside the one that is there. Clients that trust either
// are served until Retire.
func (m *Manager) Rotate(ctx context.Context) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if err := m.authority.rotate(ctx); err != nil {
		return err
	}
	root := m.authority.roots()[0]
	m.events.add(ctx, Event{Kind: EventRotated, Source: sourceAuthority, Fingerprint: fingerprint(root), NotAfter: root.NotAfter.UTC()})
	return errors.Join(m.tellRoots(), m.refit(ctx))
}

// Retire ends the overlap of two roots: from now on only the newer one is of use.
func (m *Manager) Retire(ctx context.Context) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	gone, err := m.authority.retire(ctx)
	if err != nil {
		return err
	}
	m.events.add(ctx, Event{Kind: EventRetired, Source: sourceAuthority, Fingerprint: gone})
	// What is served still has the old root in its chain.
	return errors.Join(m.tellRoots(), m.renewOnce(ctx, m.local, localSubject))
}

// upkeep looks after what certmagic does not: files and our own intermediate.
func (m *Manager) upkeep() {
	defer close(m.done)
	files := time.NewTicker(recheck)
	defer files.Stop()
	if m.files == nil && m.issuer == nil {
		files.Stop()
	}
	slow := time.NewTicker(10 * time.Minute)
	defer slow.Stop()
	for {
		select {
		case <-m.background.Done():
			return
		case <-files.C:
			m.checkAll(m.background)
		case <-slow.C:
			if err := m.authority.upkeep(m.background, m.events); err != nil {
				m.events.add(m.background, Event{Kind: EventFailed, Source: sourceAuthority, Error: err.Error()})
			}
		}
	}
}

// checkAll takes changed files. What is wrong with them has been noted.
func (m *Manager) checkAll(ctx context.Context) {
	if m.files != nil {
		_ = m.checkFiles(ctx, false)
	}
	if m.issuer == nil {
		return
	}
	changed, err := m.issuer.check(ctx, false)
	if err != nil || !changed {
		return
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	s := m.issuer.get()
	m.authority.use(s)
	m.events.add(ctx, Event{Kind: EventReloaded, Source: sourceAuthority, Name: m.issuer.cert, Fingerprint: fingerprint(s.cert), NotAfter: s.cert.NotAfter.UTC()})
	if err := errors.Join(m.tellRoots(), m.renewOnce(ctx, m.local, localSubject)); err != nil {
		m.log.Error("cannot go over to the changed issuer", "error", err)
	}
}

func (m *Manager) checkFiles(ctx context.Context, force bool) error {
	changed, err := m.files.check(ctx, force)
	if changed {
		leaf := m.files.get().Leaf
		m.events.add(ctx, Event{Kind: EventReloaded, Source: config.TLSFiles, Name: m.files.cert, Fingerprint: fingerprint(leaf), NotAfter: leaf.NotAfter.UTC()})
	}
	return err
}

// Restore has the authority sign as m wants it to, after another manager that was
// opened with m as its Prior has been given up.
func (m *Manager) Restore() {
	if m.issuer == nil {
		m.authority.use(nil)
		return
	}
	m.authority.use(m.issuer.get())
}
