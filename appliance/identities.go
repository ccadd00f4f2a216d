package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"hearth/appliance/identity"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web"
)

// openIdentities makes callers known that come without an API key.
func (a *Appliance) openIdentities(context.Context) error {
	s, err := identity.Open(a.config().Identities, identity.Options{
		Log: a.log, Now: a.now, Changed: a.callersChanged,
		Resolve: func(path string) string {
			if filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(filepath.Dir(a.configPath()), path)
		},
	})
	if err != nil {
		return fmt.Errorf("cannot set up the identities: %w", err)
	}
	a.identities = s
	a.onClose(func() error {
		s.Close()
		return nil
	})
	return nil
}

// identify finds the caller behind what it has shown. Where a key or a token
// comes it alone decides, whatever certificate the connection has.
func (a *Appliance) identify(ctx context.Context, c web.Caller) (*policy.Identity, error) {
	id, err := a.whois(ctx, &c)
	if err == nil && id.Kind != policy.KindKey {
		err = a.policy.Vouched(id)
	}
	if errors.Is(err, identity.ErrRefused) {
		err = a.policy.Refuse(c.RemoteAddr)
	}
	if err != nil {
		a.telemetry.denied(infer.AsError(err).Code)
		return nil, err
	}
	return id, nil
}

func (a *Appliance) whois(ctx context.Context, c *web.Caller) (*policy.Identity, error) {
	switch {
	case c.Principal != nil:
		return policy.Console(c.Principal.User, c.Principal.Tenant), nil
	case c.Bearer && strings.Count(c.Credential, ".") > 1 && a.identities.TakesTokens():
		var peer *x509.Certificate
		if len(c.Certificates) > 0 {
			peer = c.Certificates[0]
		}
		return a.identities.Token(ctx, c.Credential, peer)
	case c.Credential == "" && len(c.Certificates) > 0:
		return a.identities.Certificate(c.Certificates)
	}
	return a.policy.Authenticate(c.Credential, c.RemoteAddr)
}

// callersTLS has the data plane ask for a client certificate as long as an
// identity takes some. Who sends none may come with a key or a token. Sessions
// that were begun without being asked are not resumed, since nothing could be
// shown then.
func (a *Appliance) callersTLS() *tls.Config {
	tickets := &tls.Config{} // for its keys
	return a.tlsConfig(func(c *tls.Config) {
		if pool, wanted := a.identities.Authorities(); wanted {
			c.ClientAuth, c.ClientCAs = tls.RequestClientCert, pool
			c.WrapSession, c.UnwrapSession = tickets.EncryptTicket, tickets.DecryptTicket
		}
	})
}
