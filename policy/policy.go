package policy

import (
	"context"
	"time"

	"hearth/engine/infer"
	"hearth/store"
)

// Options of New.
type Options struct {
	Store *store.Store
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
	// Local lists the local models that are served without a route.
	Local []string
}

// Policy is the live policy: the present Snapshot and the state of the limits.
// It is safe for concurrent use.
type Policy struct{}

// New builds a policy from a validated configuration.
func New(c Config, o Options) (*Policy, error) { return &Policy{}, nil }

// Reload swaps in a new configuration, or leaves the old one and says why not.
// Running requests keep the snapshot that they began with; rate buckets keep
// their level.
func (p *Policy) Reload(c Config) error { return nil }

// SetLocal changes which local models exist.
func (p *Policy) SetLocal(models []string) {}

// Identity is an authenticated caller.
type Identity struct {
	KeyID  string
	Name   string // of the key
	Tenant string
}

// Authenticate finds the caller behind a credential (the value of a bearer
// token or x-api-key). Every failure is the same CodeUnauthorized; too many from
// one address become CodeRateLimited. A right credential always passes, so that
// nobody can lock out others behind the same address; the secrets have 256 bits,
// damping spares the machine and the log.
func (p *Policy) Authenticate(credential, remoteAddr string) (*Identity, error) {
	return nil, infer.Errorf(infer.CodeUnauthorized, "a valid api key is required")
}

// LimitState is one limit as told to the client; convertible to web.LimitState.
type LimitState struct {
	Kind      string // "requests" or "tokens"
	Limit     int
	Remaining int
	Reset     time.Duration // until full
}

// Admission is a place among the running requests. Release gives the place
// back; it may be called more than once.
type Admission struct {
	ID     Identity
	Limits []LimitState // the tightest of each kind, as of now
}

// Release gives back the concurrency slots.
func (a *Admission) Release() {}

// Admit takes one request from the request-rate limits of key and tenant and a
// slot from their concurrency limits, all or none. Refusals are CodeRateLimited
// with RetryAfter between 1 s and 60 s.
func (p *Policy) Admit(id *Identity) (*Admission, error) { return &Admission{}, nil }

// Route is how a public model name is served.
type Route struct {
	Name       string        // public name of the route
	Class      string        // request class
	Deadline   time.Duration // 0: none of its own
	Candidates []Candidate   // in order; at least one
}

// Candidate is one backend that may serve a route.
type Candidate struct {
	Backend string // "" is the local engine
	Model   string // the model's name there
	Price   store.Price
	Priced  bool // a price is known
}

// Route finds what serves a model name for this caller. CodeModelNotFound if
// nothing has that name or the caller may not use it: names that one may not
// use are not told apart from names that do not exist.
func (p *Policy) Route(id *Identity, model string) (*Route, error) {
	return nil, infer.Errorf(infer.CodeModelNotFound, "no such model")
}

// Models lists the public names that the caller may use, sorted.
func (p *Policy) Models(id *Identity) []string { return nil }

// ReserveRequest says what a request may use at most.
type ReserveRequest struct {
	RequestID       string
	TraceID         string
	Operation       string // "chat", "completion", "embeddings"
	Model           string // as the caller wrote it
	Route           *Route
	PromptTokens    int
	MaxOutputTokens int
	Stream          bool
	Started         time.Time
	Contract        string
}

// Reservation is a durable hold. Exactly one of Settle and Release ends it;
// later calls return store.ErrResolved.
type Reservation struct {
	Row    store.Row    // as held
	Limits []LimitState // after the token limits were charged
}

// Reserve charges the token limits with prompt + maximum output, then holds the
// priced worst case against every budget of the key and its tenant. Errors:
// CodeRateLimited with RetryAfter ≤ 60 s (NoRetry if the request alone is larger
// than the limit), CodeQuota with NoRetry if a budget is exhausted or if there
// is a budget but no price, CodeUnavailable if the ledger takes no new work. A
// refusal is noted in the ledger.
func (p *Policy) Reserve(ctx context.Context, a *Admission, r ReserveRequest) (*Reservation, error) {
	return nil, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Outcome is how a reserved request ended.
type Outcome struct {
	Outcome   store.Outcome
	Finish    string
	ErrorCode string
	Candidate int // index into Route.Candidates of what served it
	Attempts  []store.Attempt
	Usage     infer.Usage
	TTFT      time.Duration
	Contract  string // replaces that of the reservation if set
}

// Settle charges what was used and corrects the token limits by what was not.
func (r *Reservation) Settle(o Outcome) (store.Row, error) { return store.Row{}, nil }

// Release ends the reservation without charge: nothing was dispatched or
// delivered.
func (r *Reservation) Release(o Outcome) (store.Row, error) { return store.Row{}, nil }

// BudgetState is one budget's position in its present window.
type BudgetState struct {
	Tenant                       string
	KeyID                        string // empty: the tenant's own budget
	Budget                       string // id in the ledger
	Period                       store.Period
	Window                       store.Window
	CapNano, SpentNano, HeldNano int64
}

// Budgets lists the positions of all configured budgets.
func (p *Policy) Budgets() ([]BudgetState, error) { return nil, nil }
