package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hearth/appliance/accounts"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// accountID names an account by its id or its name.
type accountID struct {
	ID string `json:"id"`
}

// newAccount is the input of account/create. Without a password the answer has
// an invitation.
type newAccount struct {
	Name     string     `json:"name"`
	Role     admin.Role `json:"role"`
	Tenant   string     `json:"tenant,omitempty"`
	Password string     `json:"password,omitempty"`
}

// invited is an account with the link that lets somebody into it, shown once.
type invited struct {
	accounts.Account
	InvitationURL string `json:"invitation_url,omitempty"`
}

type accountChange struct {
	ID       string      `json:"id"`
	Role     *admin.Role `json:"role,omitempty"`
	Tenant   *string     `json:"tenant,omitempty"`
	Disabled *bool       `json:"disabled,omitempty"`
}

// passwordChange is the input of account/password. Without an id it is the
// caller's own, which asks for the current one unless they have just signed in.
type passwordChange struct {
	ID       string `json:"id,omitempty"`
	Current  string `json:"current_password,omitempty"`
	Password string `json:"password"`
}

// self is who asks, with their account where they have one.
type self struct {
	User    string            `json:"user"`
	Role    admin.Role        `json:"role"`
	Tenant  string            `json:"tenant,omitempty"`
	Method  string            `json:"method"`
	Fresh   bool              `json:"fresh"` // proved who they are a short time ago
	Session string            `json:"session,omitempty"`
	Account *accounts.Account `json:"account,omitempty"`
}

var (
	opAccountMe = operation[none, self]{
		name: "account/me", place: "GET /account", access: admin.Self, scope: everyTenant[none],
		summary: "who asks, and what they may do", run: whoAsks,
	}
	opAccountList = operation[none, []accounts.Account]{
		name: "account/list", place: "GET /accounts", access: admin.Read,
		summary: "list the accounts of the control plane",
		run: func(ctx context.Context, c *control, _ none) ([]accounts.Account, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return nil, err
			}
			return acc.List(), nil
		},
	}
	opAccountShow = operation[accountID, accounts.Account]{
		name: "account/show", place: "GET /accounts/{id}", access: admin.Read,
		summary: "one account, by id or name",
		run: func(ctx context.Context, c *control, r accountID) (accounts.Account, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return accounts.Account{}, err
			}
			return acc.Find(r.ID)
		},
	}
	opAccountCreate = operation[newAccount, invited]{
		name: "account/create", place: "POST /accounts", access: admin.Own, fresh: true,
		summary: "make an account; without a password the answer has a link that invites to it",
		run:     createAccount,
		subject: func(r newAccount) string { return r.Name },
		detail: func(r newAccount, out invited) string {
			how := "with a password"
			if out.InvitationURL != "" {
				how = "with an invitation"
			}
			return roleText(out.Role, out.Tenant) + ", " + how
		},
	}
	opAccountInvite = operation[accountID, invited]{
		name: "account/invite", place: "POST /accounts/{id}/invite", access: admin.Own, fresh: true,
		summary: "make a link that lets somebody into an account, once",
		run:     inviteToAccount,
		subject: func(r accountID) string { return r.ID },
	}
	opAccountUpdate = operation[accountChange, accounts.Account]{
		name: "account/update", place: "POST /accounts/{id}", access: admin.Own, fresh: true,
		summary: "change the role or tenant of an account, or disable it; its sessions end",
		run: func(ctx context.Context, c *control, r accountChange) (accounts.Account, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return accounts.Account{}, err
			}
			return acc.Update(ctx, r.ID, accounts.Change{Role: r.Role, Tenant: r.Tenant, Disabled: r.Disabled})
		},
		subject: func(r accountChange) string { return r.ID },
		detail: func(_ accountChange, out accounts.Account) string {
			s := out.Name + ": " + roleText(out.Role, out.Tenant)
			if out.Disabled {
				s += ", disabled"
			}
			return s
		},
	}
	opAccountDelete = operation[accountID, none]{
		name: "account/delete", place: "DELETE /accounts/{id}", access: admin.Own, fresh: true,
		summary: "remove an account with its sessions and tokens, for good",
		run: func(ctx context.Context, c *control, r accountID) (none, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return none{}, err
			}
			return none{}, acc.Delete(ctx, r.ID)
		},
		subject: func(r accountID) string { return r.ID },
	}
	opAccountPassword = operation[passwordChange, accounts.Account]{
		name: "account/password", place: "POST /account/password", access: admin.Self, scope: everyTenant[passwordChange],
		summary: "set one's own password, or as the owner that of an account; its sessions end",
		run:     setPassword,
		// Who it was stands in the record's actor; the subject is theirs or the id.
		subject: func(r passwordChange) string {
			if r.ID == "" {
				return "own account"
			}
			return r.ID
		},
	}
)

func roleText(role admin.Role, tenant string) string {
	if tenant != "" {
		return string(role) + " of " + tenant
	}
	return string(role)
}

// whoAsks tells a caller of themselves; on the socket, of the machine's owner.
func whoAsks(ctx context.Context, c *control, _ none) (self, error) {
	caller := admin.From(ctx)
	if caller == nil {
		return self{User: store.Actor(ctx), Role: admin.Owner, Method: "socket", Fresh: true}, nil
	}
	s := self{User: caller.User, Role: caller.Role, Tenant: caller.Tenant, Method: caller.Method, Fresh: caller.Fresh, Session: caller.Session}
	if caller.Account == "" {
		return s, nil
	}
	acc, err := c.accounts(ctx)
	if err != nil {
		return self{}, err
	}
	own, err := acc.Find(caller.Account)
	s.Account = &own
	return s, err
}

func createAccount(ctx context.Context, c *control, r newAccount) (out invited, err error) {
	acc, err := c.accounts(ctx)
	if err != nil {
		return invited{}, err
	}
	if r.Password != "" {
		out.Account, err = acc.CreateWith(ctx, r.Name, r.Role, r.Tenant, r.Password)
		return out, err
	}
	if c.server == nil || c.server.console == nil {
		return invited{}, infer.Invalid("password", "is needed: there is no page that an invitation could lead to")
	}
	if out.Account, err = acc.Create(ctx, r.Name, r.Role, r.Tenant); err != nil {
		return invited{}, err
	}
	return inviteToAccount(ctx, c, accountID{out.ID})
}

func inviteToAccount(ctx context.Context, c *control, r accountID) (invited, error) {
	if c.server == nil || c.server.console == nil {
		return invited{}, errNoServer
	}
	acc, err := c.accounts(ctx)
	if err != nil {
		return invited{}, err
	}
	token, _, err := acc.Invite(ctx, r.ID)
	if err != nil {
		return invited{}, err
	}
	who, err := acc.Find(r.ID)
	return invited{who, c.server.adminURL() + setupFragment + token}, err
}

// setPassword holds the caller to their own account, unless they are an owner
// who has just proved it.
func setPassword(ctx context.Context, c *control, r passwordChange) (accounts.Account, error) {
	acc, err := c.accounts(ctx)
	if err != nil {
		return accounts.Account{}, err
	}
	caller := admin.From(ctx)
	if caller == nil { // the machine's owner
		return acc.SetPassword(ctx, r.ID, r.Password)
	}
	who, id := accounts.Account{}, r.ID
	if id == "" {
		id = caller.Account
	}
	if who, err = acc.Find(id); err != nil && caller.Role == admin.Owner {
		return who, err
	}
	own := err == nil && who.ID == caller.Account
	switch {
	case caller.Method == "token":
		return accounts.Account{}, admin.NotFresh(caller)
	case id == "" || !own && caller.Role != admin.Owner:
		return accounts.Account{}, infer.Errorf(infer.CodeForbidden, "only the owner may set the password of others")
	case own && r.Current != "":
		if err := acc.CheckOwn(ctx, who.ID, r.Current, caller.Peer); err != nil {
			return accounts.Account{}, err
		}
	case !caller.Fresh:
		return accounts.Account{}, admin.NotFresh(caller)
	}
	return acc.SetPassword(ctx, who.ID, r.Password)
}

// own is the caller's account.
func (c *control) own(ctx context.Context) (*accounts.Accounts, *admin.Caller, error) {
	caller := admin.From(ctx)
	if caller == nil || caller.Account == "" {
		return nil, nil, infer.Errorf(infer.CodeConflict, "you have no account here, whose that could be")
	}
	acc, err := c.accounts(ctx)
	return acc, caller, err
}

type passkeyBegin struct {
	// Origin of the page, https://HOST:PORT: the passkey works at that host only.
	Origin string `json:"origin"`
}

type passkeyFinish struct {
	Ticket     string          `json:"ticket"`
	Name       string          `json:"name,omitempty"`
	Credential json.RawMessage `json:"credential"`
}

type passkeyName struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

var (
	opPasskeyList = operation[none, []accounts.Passkey]{
		name: "passkey/list", place: "GET /passkeys", access: admin.Self, scope: everyTenant[none],
		summary: "list one's own passkeys",
		run: func(ctx context.Context, c *control, _ none) ([]accounts.Passkey, error) {
			acc, caller, err := c.own(ctx)
			if err != nil {
				return []accounts.Passkey{}, nil // who has no account has none
			}
			return acc.Passkeys(caller.Account)
		},
	}
	opPasskeyBegin = operation[passkeyBegin, admin.Challenge]{
		name: "passkey/begin", place: "POST /passkeys/begin", access: admin.Self, fresh: true, scope: everyTenant[passkeyBegin],
		summary: "begin to make a passkey for one's own account, in a browser",
		run: func(ctx context.Context, c *control, r passkeyBegin) (admin.Challenge, error) {
			acc, caller, err := c.own(ctx)
			if err != nil {
				return admin.Challenge{}, err
			}
			return acc.BeginPasskey(caller.Account, r.Origin, caller.Session)
		},
	}
	opPasskeyFinish = operation[passkeyFinish, accounts.Passkey]{
		name: "passkey/finish", place: "POST /passkeys", access: admin.Self, fresh: true, scope: everyTenant[passkeyFinish],
		summary: "add the passkey that the browser has made",
		run: func(ctx context.Context, c *control, r passkeyFinish) (accounts.Passkey, error) {
			acc, caller, err := c.own(ctx)
			if err != nil {
				return accounts.Passkey{}, err
			}
			return acc.FinishPasskey(ctx, caller.Account, r.Ticket, caller.Session, r.Name, r.Credential)
		},
		subject: func(passkeyFinish) string { return "own account" },
		detail:  func(_ passkeyFinish, out accounts.Passkey) string { return "passkey " + out.ID + " for " + out.Host },
	}
	opPasskeyRename = operation[passkeyName, accounts.Passkey]{
		name: "passkey/rename", place: "POST /passkeys/{id}", access: admin.Self, scope: everyTenant[passkeyName],
		summary: "give one of one's own passkeys another name",
		run: func(ctx context.Context, c *control, r passkeyName) (accounts.Passkey, error) {
			acc, caller, err := c.own(ctx)
			if err != nil {
				return accounts.Passkey{}, err
			}
			return acc.RenamePasskey(ctx, caller.Account, r.ID, r.Name)
		},
		subject: func(r passkeyName) string { return "passkey " + r.ID },
	}
	opPasskeyRemove = operation[passkeyName, accounts.Passkey]{
		name: "passkey/remove", place: "DELETE /passkeys/{id}", access: admin.Self, fresh: true, scope: everyTenant[passkeyName],
		summary: "forget one of one's own passkeys; sessions that it opened end",
		run: func(ctx context.Context, c *control, r passkeyName) (accounts.Passkey, error) {
			acc, caller, err := c.own(ctx)
			if err != nil {
				return accounts.Passkey{}, err
			}
			return acc.RemovePasskey(ctx, caller.Account, r.ID)
		},
		subject: func(r passkeyName) string { return "passkey " + r.ID },
	}
)

// listOthers asks for one's own, or for everyone's where one may see that.
type listOthers struct {
	All bool `json:"all,omitempty"`
}

// mayList says whether the caller sees those of all.
func (l listOthers) mayList(ctx context.Context) (everyone bool, err error) {
	c := admin.From(ctx)
	if c == nil {
		return true, nil
	}
	if l.All && c.Role != admin.Owner && c.Role != admin.Auditor {
		return false, infer.Errorf(infer.CodeForbidden, "only the owner and auditors see those of others")
	}
	return l.All, nil
}

// reach is whose sessions and tokens a caller may end: nil is everyone's.
func reach(ctx context.Context) *admin.Caller {
	if c := admin.From(ctx); c != nil && c.Role != admin.Owner {
		return c
	}
	return nil
}

var (
	opSessionList = operation[listOthers, []accounts.Session]{
		name: "session/list", place: "GET /sessions", access: admin.Self, scope: everyTenant[listOthers],
		summary: "list the browsers that are signed in: one's own, or with all everyone's",
		run: func(ctx context.Context, c *control, r listOthers) ([]accounts.Session, error) {
			everyone, err := r.mayList(ctx)
			if err != nil {
				return nil, err
			}
			acc, err := c.accounts(ctx)
			if err != nil {
				return nil, err
			}
			caller := admin.From(ctx)
			mine := caller
			if everyone {
				mine = nil
			}
			out := acc.Sessions(mine)
			for i := range out {
				out[i].Current = caller != nil && out[i].ID == caller.Session
			}
			return out, nil
		},
	}
	opSessionRevoke = operation[accountID, none]{
		name: "session/revoke", place: "DELETE /sessions/{id}", access: admin.Self, scope: everyTenant[accountID],
		summary: "sign a browser out: one's own, or as the owner any",
		run: func(ctx context.Context, c *control, r accountID) (none, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return none{}, err
			}
			return none{}, acc.Revoke(ctx, r.ID, reach(ctx))
		},
		subject: func(r accountID) string { return "session " + r.ID },
	}
	opTokenList = operation[listOthers, []accounts.Token]{
		name: "token/list", place: "GET /tokens", access: admin.Self, scope: everyTenant[listOthers],
		summary: "list API tokens of the control plane: one's own, or with all everyone's",
		run: func(ctx context.Context, c *control, r listOthers) ([]accounts.Token, error) {
			everyone, err := r.mayList(ctx)
			if err != nil {
				return nil, err
			}
			acc, err := c.accounts(ctx)
			switch caller := admin.From(ctx); {
			case err != nil:
				return nil, err
			case everyone:
				return acc.Tokens(""), nil
			case caller.Account == "":
				return []accounts.Token{}, nil
			default:
				return acc.Tokens(caller.Account), nil
			}
		},
	}
	opTokenCreate = operation[newToken, accounts.NewToken]{
		name: "token/create", place: "POST /tokens", access: admin.Self, fresh: true, scope: everyTenant[newToken],
		summary: "make an API token of the control plane; the secret is in this answer only",
		run:     createToken,
		subject: func(r newToken) string { return r.Name },
		detail: func(_ newToken, out accounts.NewToken) string {
			return fmt.Sprintf("token %s of %s: %s, until %s", out.ID, out.User, roleText(out.Role, out.Tenant), out.Expires.UTC().Format(time.RFC3339))
		},
	}
	opTokenRevoke = operation[accountID, accounts.Token]{
		name: "token/revoke", place: "DELETE /tokens/{id}", access: admin.Self, scope: everyTenant[accountID],
		summary: "end an API token of the control plane: one's own, or as the owner any",
		run: func(ctx context.Context, c *control, r accountID) (accounts.Token, error) {
			acc, err := c.accounts(ctx)
			if err != nil {
				return accounts.Token{}, err
			}
			of := ""
			if caller := reach(ctx); caller != nil {
				if of = caller.Account; of == "" {
					return accounts.Token{}, infer.Errorf(infer.CodeNotFound, "there is no token %.32q", r.ID)
				}
			}
			return acc.RevokeToken(ctx, r.ID, of)
		},
		subject: func(r accountID) string { return "token " + r.ID },
	}
)

// newToken is the input of token/create.
type newToken struct {
	Name string `json:"name"`
	// Account it belongs to, by name; only the machine's owner names one.
	Account string     `json:"account,omitempty"`
	Role    admin.Role `json:"role,omitempty"` // empty: that of the account
	Tenant  string     `json:"tenant,omitempty"`
	// Life is how long it is good; zero: 90 days.
	Life time.Duration `json:"life_ns,omitempty"`
}

func createToken(ctx context.Context, c *control, r newToken) (accounts.NewToken, error) {
	of := r.Account
	if caller := admin.From(ctx); caller != nil {
		switch {
		case caller.Account == "":
			return accounts.NewToken{}, infer.Errorf(infer.CodeConflict, "a token belongs to an account, and you have none here")
		case of != "" && of != caller.Account && of != caller.User:
			return accounts.NewToken{}, infer.Invalid("account", "cannot be another one: a token is made for one's own account")
		}
		of = caller.Account
	}
	acc, err := c.accounts(ctx)
	if err != nil {
		return accounts.NewToken{}, err
	}
	if of == "" {
		return accounts.NewToken{}, infer.Invalid("account", "is missing: whose token it is")
	}
	return acc.CreateToken(ctx, of, r.Name, r.Role, r.Tenant, r.Life)
}
