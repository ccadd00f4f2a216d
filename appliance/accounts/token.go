package accounts

import (
	"context"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// TokenPrefix begins every API token of the control plane, so that scanners for
// leaked secrets, and people, know one.
const TokenPrefix = "ha_"

const (
	maxTokens    = 1000
	maxTokenLife = 400 * 24 * time.Hour
	// DefaultTokenLife is that of a token for which nothing else was asked.
	DefaultTokenLife = 90 * 24 * time.Hour
)

// token is the stored form; the key is the hash of its secret. It belongs to an
// account and may do no more than that may now.
type token struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Account string     `json:"account"`
	Role    admin.Role `json:"role"`
	Tenant  string     `json:"tenant,omitempty"`
	Created time.Time  `json:"created"`
	Used    time.Time  `json:"used,omitzero"`
	Network string     `json:"network,omitempty"`
	Expires time.Time  `json:"expires"`
}

// Token is a token as it is shown.
type Token struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	User    string     `json:"user"` // name of the account that it belongs to
	Account string     `json:"account"`
	Role    admin.Role `json:"role"`
	Tenant  string     `json:"tenant,omitempty"`
	Created time.Time  `json:"created"`
	Used    time.Time  `json:"last_used,omitzero"`
	Network string     `json:"last_network,omitempty"`
	Expires time.Time  `json:"expires"`
	State   string     `json:"state"` // "live", "expired", "idle" where its account may do less than it or is disabled
}

// NewToken is a token with its secret, which is shown once.
type NewToken struct {
	Token
	Secret string `json:"secret"`
}

// covers says whether who has one role may hand out the other.
func covers(have admin.Role, haveTenant string, want admin.Role, tenant string) bool {
	switch have {
	case admin.Owner:
		return true
	case admin.Operator:
		return want != admin.Owner
	case admin.Auditor:
		return want == admin.Auditor
	case admin.TenantAdmin:
		return want == admin.TenantAdmin && tenant == haveTenant
	}
	return false
}

// CreateToken makes a token of the account id. An empty role is the account's
// own, a life of zero is DefaultTokenLife.
func (a *Accounts) CreateToken(ctx context.Context, id, name string, role admin.Role, tenant string, life time.Duration) (NewToken, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	ac := a.get(id)
	if ac == nil {
		return NewToken{}, noAccount(id)
	}
	if role == "" {
		role, tenant = ac.Role, ac.Tenant
	}
	if role == admin.TenantAdmin && tenant == "" {
		tenant = ac.Tenant
	}
	if life == 0 {
		life = DefaultTokenLife
	}
	name = strings.TrimSpace(name)
	switch err := a.checkRole(role, tenant); {
	case err != nil:
		return NewToken{}, err
	case name == "" || len(name) > maxName || !legible(name):
		return NewToken{}, infer.Invalid("name", "cannot be used for a token: wanted 1 to %d bytes without control characters", maxName)
	case life < time.Minute || life > maxTokenLife:
		return NewToken{}, infer.Invalid("life_ns", "got %s, wanted 1m to %s", life, maxTokenLife)
	case ac.Disabled || !covers(ac.Role, ac.Tenant, role, tenant):
		return NewToken{}, infer.Errorf(infer.CodeForbidden, "cannot make a token that may do more than its account (%s)", ac.Role)
	}
	a.sweepTokens(ctx)
	a.mu.RLock()
	n := len(a.tokens)
	a.mu.RUnlock()
	if n >= maxTokens {
		return NewToken{}, infer.Errorf(infer.CodeConflict, "there are %d tokens, which is the most: revoke some", maxTokens)
	}
	t := &token{ID: newID(), Name: name, Account: ac.ID, Role: role, Tenant: tenant, Created: a.o.Now(), Expires: a.o.Now().Add(life)}
	secret := TokenPrefix + newSecret()
	if err := a.put(ctx, atToken+hashOf(secret), t); err != nil {
		return NewToken{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[hashOf(secret)] = t
	return NewToken{Token: a.showToken(t), Secret: secret}, nil
}

// sweepTokens drops what expired a month ago. changing is held.
func (a *Accounts) sweepTokens(ctx context.Context) {
	a.mu.RLock()
	var old []string
	for h, t := range a.tokens {
		if a.o.Now().Sub(t.Expires) > 30*24*time.Hour {
			old = append(old, h)
		}
	}
	a.mu.RUnlock()
	for _, h := range old {
		_ = a.dropToken(ctx, h) // else the next sweep does
	}
}

func (a *Accounts) dropToken(ctx context.Context, h string) error {
	if err := a.o.Storage.Delete(ctx, atToken+h); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.tokens, h)
	a.mu.Unlock()
	return nil
}

// showToken is a token as it is shown. mu is held.
func (a *Accounts) showToken(t *token) Token {
	v := Token{ID: t.ID, Name: t.Name, Account: t.Account, Role: t.Role, Tenant: t.Tenant, Created: t.Created,
		Used: t.Used, Network: t.Network, Expires: t.Expires, State: "live"}
	ac := a.byID[t.Account]
	if ac != nil {
		v.User = ac.Name
	}
	switch {
	case !a.o.Now().Before(t.Expires):
		v.State = "expired"
	case ac == nil || ac.Disabled || !covers(ac.Role, ac.Tenant, t.Role, t.Tenant):
		v.State = "idle"
	}
	return v
}

// Tokens lists the tokens of one account, or of all where account is empty, by
// time of making.
func (a *Accounts) Tokens(account string) []Token {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := []Token{}
	for _, t := range a.tokens {
		if account == "" || t.Account == account {
			out = append(out, a.showToken(t))
		}
	}
	slices.SortFunc(out, func(x, y Token) int {
		if n := x.Created.Compare(y.Created); n != 0 {
			return n
		}
		return strings.Compare(x.ID, y.ID)
	})
	return out
}

// RevokeToken ends a token, which must belong to account where that is set.
func (a *Accounts) RevokeToken(ctx context.Context, id, account string) (Token, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.mu.RLock()
	var hash string
	var shown Token
	for h, t := range a.tokens {
		if t.ID == id && (account == "" || t.Account == account) {
			hash, shown = h, a.showToken(t)
		}
	}
	a.mu.RUnlock()
	if hash == "" {
		return Token{}, infer.Errorf(infer.CodeNotFound, "there is no token %.32q", id)
	}
	shown.State = "revoked"
	return shown, a.dropToken(ctx, hash)
}

// Bearer finds who a token belongs to.
func (a *Accounts) Bearer(ctx context.Context, secret, peer string) (*admin.Caller, error) {
	wrong := infer.Errorf(infer.CodeUnauthorized, "the token is not valid")
	if !strings.HasPrefix(secret, TokenPrefix) || len(secret) != len(TokenPrefix)+43 {
		return nil, wrong
	}
	h := hashOf(secret)
	a.mu.RLock()
	t := a.tokens[h]
	var shown Token
	if t != nil {
		shown = a.showToken(t)
	}
	a.mu.RUnlock()
	if t == nil {
		a.refused(ctx, "token", "", peer, "nobody has it")
		return nil, wrong
	}
	if shown.State != "live" {
		a.refused(ctx, "token", shown.User, peer, "token "+t.ID+" is "+shown.State)
		return nil, wrong
	}
	if a.o.Now().Sub(t.Used) >= touchEvery {
		a.touchToken(ctx, h, networkOf(peer))
	}
	return &admin.Caller{User: shown.User + "/" + t.Name, Role: t.Role, Tenant: t.Tenant, Method: "token", Peer: peer, Account: t.Account}, nil
}

// touchToken notes that a token is used.
func (a *Accounts) touchToken(ctx context.Context, h, network string) {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.mu.RLock()
	t := a.tokens[h]
	a.mu.RUnlock()
	if t == nil || a.o.Now().Sub(t.Used) < touchEvery {
		return
	}
	used := *t
	used.Used, used.Network = a.o.Now(), network
	if err := a.put(ctx, atToken+h, &used); err != nil {
		a.o.Log.Warn("cannot note the use of a token", "error", err)
	}
	a.mu.Lock()
	if a.tokens[h] == t {
		a.tokens[h] = &used
	}
	a.mu.Unlock()
}
