package accounts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// Bounds of what is kept.
const (
	maxAccounts = 1000
	maxPasskeys = 20 // of one account
	maxNetworks = 8  // that an account was signed in from, see damping
	maxName     = 64
)

// Options of Open.
type Options struct {
	Storage Storage
	Log     *slog.Logger
	Now     func() time.Time
	// Audit appends to the audit trail; nil: nothing is written.
	Audit func(context.Context, store.Audit) error
	// Owned is called when there is an owner for the first time; nil: nobody is.
	Owned func()

	hashing *parameters // of passwords, for tests
}

// Accounts is who may use the control plane. It is made by Open and safe for
// concurrent use.
type Accounts struct {
	o        Options
	settings atomic.Pointer[Settings]
	hasher   *hasher
	damper   *damper
	refusals refusals
	pending  *ceremonies // registrations, of who is in
	doors    *ceremonies // sign-ins, which strangers can begin: apart, so that they push out none of those
	oidc     providerHolder
	peers    certificateHolder

	// changing is held while something is written, before mu.
	changing sync.Mutex
	mu       sync.RWMutex // guards the maps; what they point to is never changed
	byID     map[string]*account
	byName   map[string]*account // by folded name
	sessions map[string]*session // by hash of the secret
	tokens   map[string]*token   // by hash of the secret
	links    map[string]*link    // by hash of the secret
}

// Account is one account as it is shown.
type Account struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Role     admin.Role `json:"role"`
	Tenant   string     `json:"tenant,omitempty"` // of a tenant admin
	Created  time.Time  `json:"created"`
	SignedIn time.Time  `json:"last_sign_in,omitzero"`
	Disabled bool       `json:"disabled"`
	// Methods are the ways that this account has to sign in: "password",
	// "passkey", "oidc".
	Methods  []string `json:"methods"`
	Passkeys int      `json:"passkeys"`
	// Invited is until when its invitation may be used, zero without one.
	Invited  time.Time `json:"invited_until,omitzero"`
	Sessions int       `json:"sessions"`
	Tokens   int       `json:"tokens"`
}

// account is the stored form.
type account struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Role     admin.Role `json:"role"`
	Tenant   string     `json:"tenant,omitempty"`
	Created  time.Time  `json:"created"`
	SignedIn time.Time  `json:"signed_in,omitzero"`
	Disabled bool       `json:"disabled,omitempty"`
	Password string     `json:"password,omitempty"` // PHC string
	Changed  time.Time  `json:"password_changed,omitzero"`
	Passkeys []passkey  `json:"passkeys,omitempty"`
	// Subject is the provider's name for them, set at the first sign-in through it.
	Subject string `json:"subject,omitempty"`
	// Networks it was signed in from lately, for damping.
	Networks []string `json:"networks,omitempty"`
	Epoch    uint64   `json:"epoch"`
}

// Open reads what is stored.
func Open(ctx context.Context, o Options) (*Accounts, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := rfc9106
	if o.hashing != nil {
		p = *o.hashing
	}
	a := &Accounts{
		o: o, hasher: newHasher(p), damper: newDamper(o.Now), pending: newCeremonies(o.Now), doors: newCeremonies(o.Now),
		byID: map[string]*account{}, byName: map[string]*account{},
		sessions: map[string]*session{}, tokens: map[string]*token{}, links: map[string]*link{},
	}
	a.settings.Store(&Settings{Idle: time.Hour, Lifetime: 12 * time.Hour})
	return a, errors.Join(
		load(ctx, o.Storage, atAccount, func(_ string, v *account) { a.byID[v.ID], a.byName[fold(v.Name)] = v, v }),
		load(ctx, o.Storage, atSession, func(k string, v *session) { a.sessions[k] = v }),
		load(ctx, o.Storage, atToken, func(k string, v *token) { a.tokens[k] = v }),
		load(ctx, o.Storage, atLink, func(k string, v *link) { a.links[k] = v }),
	)
}

// fold is what two names of one account have in common.
func fold(name string) string { return strings.ToLower(name) }

// checkName says what is wrong with the name of an account.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && strings.ContainsRune("._-@+", c))
	}
	if !ok {
		return infer.Invalid("name", "cannot be used for an account: wanted 1 to %d letters, digits and . _ - @ +, the first a letter or digit", maxName)
	}
	return nil
}

// checkRole says what is wrong with a role and its tenant.
func (a *Accounts) checkRole(role admin.Role, tenant string) error {
	switch {
	case !slices.Contains(admin.Roles(), role):
		return infer.Invalid("role", "got %.32q, wanted one of %q", role, admin.Roles())
	case role != admin.TenantAdmin && tenant != "":
		return infer.Invalid("tenant", "is of no use with the role %s: wanted none", role)
	case role == admin.TenantAdmin && tenant == "":
		return infer.Invalid("tenant", "is missing, which a tenant admin has")
	case role == admin.TenantAdmin && !a.settings.Load().hasTenant(tenant):
		return infer.Invalid("tenant", "no tenant is called %.64q", tenant)
	}
	return nil
}

// view is an account as it is shown. The maps are read.
func (a *Accounts) view(ac *account) Account {
	v := Account{ID: ac.ID, Name: ac.Name, Role: ac.Role, Tenant: ac.Tenant, Created: ac.Created,
		SignedIn: ac.SignedIn, Disabled: ac.Disabled, Methods: []string{}, Passkeys: len(ac.Passkeys)}
	if ac.Password != "" {
		v.Methods = append(v.Methods, "password")
	}
	if len(ac.Passkeys) > 0 {
		v.Methods = append(v.Methods, "passkey")
	}
	if ac.Subject != "" {
		v.Methods = append(v.Methods, "oidc")
	}
	now := a.o.Now()
	for _, l := range a.links {
		if l.Account == ac.ID && l.Epoch == ac.Epoch && now.Before(l.Expires) {
			v.Invited = l.Expires
		}
	}
	for _, s := range a.sessions {
		if s.Account == ac.ID && a.sessionFault(s, ac) == nil {
			v.Sessions++
		}
	}
	for _, t := range a.tokens {
		if t.Account == ac.ID {
			v.Tokens++
		}
	}
	return v
}

// List gives every account by name.
func (a *Accounts) List() []Account {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := make([]Account, 0, len(a.byID))
	for _, ac := range a.byID {
		out = append(out, a.view(ac))
	}
	slices.SortFunc(out, func(x, y Account) int { return strings.Compare(fold(x.Name), fold(y.Name)) })
	return out
}

// Find gives the account of an id or a name.
func (a *Accounts) Find(id string) (Account, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	ac := a.lookup(id)
	if ac == nil {
		return Account{}, noAccount(id)
	}
	return a.view(ac), nil
}

func noAccount(id string) error {
	return infer.Errorf(infer.CodeNotFound, "there is no account %.64q", id)
}

// lookup finds by id or name. mu is held.
func (a *Accounts) lookup(id string) *account {
	if ac := a.byID[id]; ac != nil {
		return ac
	}
	return a.byName[fold(id)]
}

func (a *Accounts) get(id string) *account {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.lookup(id)
}

// HasOwner says whether there is an owner who can sign in: the control plane
// listens to this machine only until then.
func (a *Accounts) HasOwner(context.Context) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, ac := range a.byID {
		if ac.opens() {
			return true
		}
	}
	return false
}

// opens says whether it is an owner who can sign in by what is kept here.
func (ac *account) opens() bool {
	return ac.Role == admin.Owner && !ac.Disabled && (ac.Password != "" || len(ac.Passkeys) > 0)
}

// Create makes an account without a way in yet.
func (a *Accounts) Create(ctx context.Context, name string, role admin.Role, tenant string) (Account, error) {
	return a.create(ctx, &account{Name: name, Role: role, Tenant: tenant})
}

// CreateWith makes an account that signs in with a password.
func (a *Accounts) CreateWith(ctx context.Context, name string, role admin.Role, tenant, password string) (Account, error) {
	if err := firstOf(checkName(name), CheckPassword(name, password)); err != nil {
		return Account{}, err
	}
	phc, err := a.hasher.hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	return a.create(ctx, &account{Name: name, Role: role, Tenant: tenant, Password: phc, Changed: a.o.Now()})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Accounts) create(ctx context.Context, ac *account) (Account, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	return a.createLocked(ctx, ac)
}

func (a *Accounts) createLocked(ctx context.Context, ac *account) (Account, error) {
	if err := firstOf(checkName(ac.Name), a.checkRole(ac.Role, ac.Tenant)); err != nil {
		return Account{}, err
	}
	a.mu.RLock()
	taken, n := a.byName[fold(ac.Name)] != nil, len(a.byID)
	a.mu.RUnlock()
	switch {
	case taken:
		return Account{}, &infer.Error{Code: infer.CodeConflict, Param: "name", Message: "there is an account of that name already"}
	case n >= maxAccounts:
		return Account{}, infer.Errorf(infer.CodeConflict, "there are %d accounts, which is the most", maxAccounts)
	}
	if ac.ID == "" {
		ac.ID = newID()
	}
	ac.Created, ac.Epoch = a.o.Now(), 1
	return a.keep(ctx, ac)
}

// keep writes an account and puts it into force. changing is held.
func (a *Accounts) keep(ctx context.Context, ac *account) (Account, error) {
	if err := a.put(ctx, atAccount+ac.ID, ac); err != nil {
		return Account{}, err
	}
	if ac.opens() && a.o.Owned != nil && !a.HasOwner(ctx) {
		defer a.o.Owned()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byID[ac.ID], a.byName[fold(ac.Name)] = ac, ac
	return a.view(ac), nil
}

// change applies f to a copy of an account and puts it into force. Where f takes
// rights away it raises the epoch.
func (a *Accounts) change(ctx context.Context, id string, f func(ac *account) error) (Account, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	return a.changeLocked(ctx, id, f)
}

func (a *Accounts) changeLocked(ctx context.Context, id string, f func(ac *account) error) (Account, error) {
	old := a.get(id)
	if old == nil {
		return Account{}, noAccount(id)
	}
	ac := *old
	ac.Passkeys, ac.Networks = slices.Clone(old.Passkeys), slices.Clone(old.Networks)
	if err := f(&ac); err != nil {
		return Account{}, err
	}
	if old.opens() && !ac.opens() && !a.otherOwner(ac.ID) {
		return Account{}, lastOwner()
	}
	v, err := a.keep(ctx, &ac)
	if err == nil && ac.Epoch != old.Epoch {
		a.sweep(ctx)
	}
	return v, err
}

func lastOwner() error {
	return infer.Errorf(infer.CodeConflict, "cannot do this to the last owner who can sign in: make another one first")
}

func (a *Accounts) otherOwner(id string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, ac := range a.byID {
		if ac.ID != id && ac.opens() {
			return true
		}
	}
	return false
}

// Change is what Update sets; nil leaves as it is.
type Change struct {
	Role     *admin.Role
	Tenant   *string
	Disabled *bool
}

// Update changes what an account may do. Its sessions and what is left of its
// tokens end with it.
func (a *Accounts) Update(ctx context.Context, id string, c Change) (Account, error) {
	return a.change(ctx, id, func(ac *account) error {
		before := *ac
		if c.Role != nil {
			ac.Role = *c.Role
		}
		if c.Tenant != nil {
			ac.Tenant = *c.Tenant
		}
		if ac.Role != admin.TenantAdmin && ac.Tenant == before.Tenant {
			ac.Tenant = "" // the tenant goes with the role, also where a form repeats it
		}
		if c.Disabled != nil {
			ac.Disabled = *c.Disabled
		}
		if ac.Role != before.Role || ac.Tenant != before.Tenant || ac.Disabled != before.Disabled {
			ac.Epoch++
		}
		return a.checkRole(ac.Role, ac.Tenant)
	})
}

// Delete removes an account for good, with its sessions, tokens and links.
func (a *Accounts) Delete(ctx context.Context, id string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	ac := a.get(id)
	if ac == nil {
		return noAccount(id)
	}
	if ac.opens() && !a.otherOwner(ac.ID) {
		return lastOwner()
	}
	if err := a.o.Storage.Delete(ctx, atAccount+ac.ID); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.byID, ac.ID)
	delete(a.byName, fold(ac.Name))
	a.mu.Unlock()
	a.damper.forget(fold(ac.Name))
	a.sweep(ctx)
	return nil
}

// SetPassword gives an account a new password and ends its sessions. Tokens stay:
// they are secrets of their own, and scripts need not stand still.
func (a *Accounts) SetPassword(ctx context.Context, id, password string) (Account, error) {
	ac := a.get(id)
	if ac == nil {
		return Account{}, noAccount(id)
	}
	if err := CheckPassword(ac.Name, password); err != nil {
		return Account{}, err
	}
	phc, err := a.hasher.hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	return a.change(ctx, ac.ID, func(ac *account) error {
		ac.Password, ac.Changed = phc, a.o.Now()
		ac.Epoch++
		return nil
	})
}

// CheckOwn says whether password is the one of the account, for who changes it.
// Guessing is damped like at the sign-in.
func (a *Accounts) CheckOwn(ctx context.Context, id, password, peer string) error {
	ac := a.get(id)
	if ac == nil {
		return noAccount(id)
	}
	_, err := a.checkPassword(ctx, ac, fold(ac.Name), password, peer)
	return err
}

// sweep removes what can be used no more. It is tidying: whether something may
// be used is decided where it is used. changing is held.
func (a *Accounts) sweep(ctx context.Context) {
	var gone []string
	a.mu.Lock()
	for k, s := range a.sessions {
		if a.sessionFault(s, a.byID[s.Account]) != nil {
			gone = append(gone, atSession+k)
			delete(a.sessions, k)
		}
	}
	for k, t := range a.tokens {
		if a.byID[t.Account] == nil {
			gone = append(gone, atToken+k)
			delete(a.tokens, k)
		}
	}
	for k, l := range a.links {
		if a.linkFault(l) != nil {
			gone = append(gone, atLink+k)
			delete(a.links, k)
		}
	}
	a.mu.Unlock()
	for _, k := range gone {
		_ = a.o.Storage.Delete(context.WithoutCancel(ctx), k) // else the next sweep does
	}
}
