package admin

import (
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

// Options are what a Server is made of.
type Options struct {
	Service    Service
	Operations *Registry
	// Log receives faults and, at debug level, a line a request. Nil: discarded.
	Log     *slog.Logger
	Version string
	// API is the address of the data plane, for the snippets that people copy.
	API func() string
	// Host says whether the control plane goes by a host name, in small letters and
	// without a port; nil: by every one.
	Host func(name string) bool
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
	if o.API == nil {
		o.API = func() string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
