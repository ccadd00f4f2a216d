package admin

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/url"
	"time"
)

// Accounts finds who is behind a credential of the control plane, and lets
// people in. An old secret is that of the session which a browser had before: it
// ends where another begins, so that a secret that was planted in a browser is
// worth nothing after a sign-in. Peers are network addresses.
type Accounts interface {
	// Session finds the session of a cookie; CodeUnauthorized if there is none.
	// It counts as a use, unless peer is empty.
	Session(ctx context.Context, secret, peer string) (*Session, error)
	// Bearer finds who an API token of the control plane belongs to.
	Bearer(ctx context.Context, token, peer string) (*Caller, error)
	// VerifyPeer finds who a client certificate stands for; nil where none are
	// taken. chain is as the peer sent it, nothing of it is verified.
	VerifyPeer(ctx context.Context, chain []*x509.Certificate, peer string) (*Caller, error)
	// SignOut ends a session; an unknown one is no error.
	SignOut(ctx context.Context, secret string) error
	// HasOwner says whether there is an owner who can sign in.
	HasOwner(ctx context.Context) bool

	// SignIn opens a session with a name and a password, Confirm proves anew who
	// has the session of secret.
	SignIn(ctx context.Context, name, password, peer, old string) (*Session, error)
	Confirm(ctx context.Context, secret, password, peer string) (*Session, error)
	// BeginSignIn and FinishSignIn are a sign-in by passkey, at an origin.
	BeginSignIn(origin string) (Challenge, error)
	FinishSignIn(ctx context.Context, ticket string, answer []byte, peer, old string) (*Session, error)
	// BeginOIDC and FinishOIDC are a sign-in through the OpenID provider, whose
	// button says OIDCLabel, empty without one. binder belongs into a cookie.
	OIDCLabel() string
	BeginOIDC(ctx context.Context, redirect, then string, again bool) (to, binder string, err error)
	FinishOIDC(ctx context.Context, query url.Values, binder, peer, old string) (s *Session, then string, err error)

	// Redeem exchanges the token of a one-time link for a session. Enrolment says
	// what that is there for; the others finish it.
	Redeem(ctx context.Context, token, peer, old string) (*Session, error)
	Enrolment(secret string) (Enrolment, bool)
	Enrol(ctx context.Context, secret, name, password, peer string) (*Session, error)
	BeginEnrol(secret, name, origin string) (Challenge, error)
	FinishEnrol(ctx context.Context, secret, ticket, label string, answer []byte, peer string) (*Session, error)
}

// Session is a signed-in browser.
type Session struct {
	Caller
	// Secret is the cookie's value, set where a session begins.
	Secret  string
	Expires time.Time
}

// Challenge is what a page hands to navigator.credentials, and the ticket that
// comes back with the answer.
type Challenge struct {
	Ticket  string          `json:"ticket"`
	Options json.RawMessage `json:"options"`
}

// Enrolment is what a session that a one-time link opened is there for.
type Enrolment struct {
	First bool   // the first owner is to be made
	Name  string // else: whose account it is
}
