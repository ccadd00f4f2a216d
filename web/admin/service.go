package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Service is what the control plane stands on, beside its operations.
type Service interface {
	Accounts
	// Play serves a request of the playground as the data plane would, for
	// c acting for tenant, which c may: limits, budgets and the ledger hold.
	// The path of r is one of the data plane.
	Play(w http.ResponseWriter, r *http.Request, c *Caller, tenant string)
}

// Accounts finds who is behind a credential of the control plane.
type Accounts interface {
	// Session finds the session of a cookie; CodeUnauthorized if there is none.
	Session(ctx context.Context, secret, peer string) (*Session, error)
	// Bearer finds who an API token of the control plane belongs to.
	Bearer(ctx context.Context, token, peer string) (*Caller, error)
	// SignOut ends a session; an unknown one is no error.
	SignOut(ctx context.Context, secret string) error
	// Setup exchanges the one-time token of the set-up link for a session.
	Setup(ctx context.Context, token, peer string) (*Session, error)
	// HasOwner says whether there is an account of an owner.
	HasOwner(ctx context.Context) bool
}

// Session is a signed-in browser.
type Session struct {
	Caller
	// Secret is the cookie's value, set where a session begins.
	Secret  string
	Expires time.Time
}

// Options are what a Server is made of.
type Options struct {
	Service    Service
	Operations *Registry
	// Log receives faults and, at debug level, a line a request. Nil: discarded.
	Log     *slog.Logger
	Version string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (o *Options) check() error {
	if o.Service == nil || o.Operations == nil {
		return errors.New("cannot make the control plane: no service or no operations given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
