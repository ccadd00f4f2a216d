package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// maxPasskeyAnswer bounds what an authenticator sends.
const maxPasskeyAnswer = 64 << 10

// passkey is the stored form. Its RP is the host that the page was opened at:
// authenticators show a passkey to no other.
type passkey struct {
	ID      string              `json:"id"`
	Name    string              `json:"name"`
	RP      string              `json:"rp"`
	Created time.Time           `json:"created"`
	Used    time.Time           `json:"used,omitzero"`
	Key     webauthn.Credential `json:"key"`
}

// Passkey is a passkey as it is shown.
type Passkey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Host    string    `json:"host"` // that it works at
	Created time.Time `json:"created"`
	Used    time.Time `json:"last_used,omitzero"`
	Synced  bool      `json:"synced"` // kept by a provider on several devices
}

// holder is an account as the library sees it.
type holder struct {
	id   []byte
	name string
	keys []webauthn.Credential
}

func (h *holder) WebAuthnID() []byte                         { return h.id }
func (h *holder) WebAuthnName() string                       { return h.name }
func (h *holder) WebAuthnDisplayName() string                { return h.name }
func (h *holder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

// handle is what authenticators call the account: its id, which says nothing of
// its name (WebAuthn L3 §14.6.1).
func handle(id string) []byte { return []byte(id) }

func holderOf(ac *account, rp string) *holder {
	h := &holder{id: handle(ac.ID), name: ac.Name}
	for _, k := range ac.Passkeys {
		if k.RP == rp {
			h.keys = append(h.keys, k.Key)
		}
	}
	return h
}

// relyingParty is the library set up for one origin.
func relyingParty(origin string) (*webauthn.WebAuthn, string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil || len(origin) > 300 {
		return nil, "", infer.Invalid("origin", "cannot be used for passkeys: wanted https://HOST or https://HOST:PORT")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case net.ParseIP(host) != nil:
		return nil, "", infer.Invalid("origin", "cannot use passkeys at an address: open the page by a name, for instance localhost")
	case u.Scheme != "https" && !(u.Scheme == "http" && (host == "localhost" || strings.HasSuffix(host, ".localhost"))):
		return nil, "", infer.Invalid("origin", "cannot use passkeys without TLS, except at localhost")
	}
	rk := true
	w, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Hearth", RPOrigins: []string{u.Scheme + "://" + strings.ToLower(u.Host)},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: &rk, ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired, // a passkey is the only factor
		},
	})
	if err != nil {
		return nil, "", infer.Invalid("origin", "cannot be used for passkeys: %v", err)
	}
	return w, host, nil
}

// registration is a passkey that is being made.
type registration struct {
	account string // id; of one that is to be made where first is set
	name    string
	first   bool
	origin  string
	data    webauthn.SessionData
}

// BeginPasskey begins to make a passkey for an account, at the origin that the
// page was opened at. bound is something that only the same caller can show.
func (a *Accounts) BeginPasskey(id, origin, bound string) (admin.Challenge, error) {
	ac := a.get(id)
	if ac == nil {
		return admin.Challenge{}, noAccount(id)
	}
	if len(ac.Passkeys) >= maxPasskeys {
		return admin.Challenge{}, infer.Errorf(infer.CodeConflict, "an account has %d passkeys at most: remove one", maxPasskeys)
	}
	return a.beginRegistration(ac, &registration{account: ac.ID, name: ac.Name}, origin, bound)
}

func (a *Accounts) beginRegistration(ac *account, r *registration, origin, bound string) (admin.Challenge, error) {
	w, rp, err := relyingParty(origin)
	if err != nil {
		return admin.Challenge{}, err
	}
	h := holderOf(ac, rp)
	o, data, err := w.BeginRegistration(h, webauthn.WithExclusions(webauthn.Credentials(h.keys).CredentialDescriptors()))
	if err != nil {
		return admin.Challenge{}, infer.AsError(err)
	}
	r.origin, r.data = origin, *data
	return challenge(a.pending, o.Response, bound, r)
}

func challenge(c *ceremonies, options any, bound string, state any) (admin.Challenge, error) {
	b, err := json.Marshal(options)
	if err != nil {
		return admin.Challenge{}, err
	}
	ch := admin.Challenge{Ticket: newSecret(), Options: b}
	c.begin(ch.Ticket, bound, state)
	return ch, nil
}

// errPasskey is what people are told; the log has why.
func (a *Accounts) errPasskey(err error) error {
	var p *protocol.Error
	why := err.Error()
	if errors.As(err, &p) {
		why += ": " + p.DevInfo
	}
	a.o.Log.Debug("a passkey was refused", "error", why)
	return infer.Errorf(infer.CodeUnauthorized, "the passkey was not accepted")
}

// attested checks what came back from making a passkey.
func (a *Accounts) attested(r *registration, ac *account, answer []byte, name string) (passkey, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		name = "passkey of " + a.o.Now().Format("2006-01-02")
	}
	if err := checkLabel(name); err != nil {
		return passkey{}, err
	}
	if len(answer) > maxPasskeyAnswer {
		return passkey{}, infer.Errorf(infer.CodeTooLarge, "cannot take an answer of %d bytes", len(answer))
	}
	w, rp, err := relyingParty(r.origin)
	if err != nil {
		return passkey{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return passkey{}, a.errPasskey(err)
	}
	key, err := w.CreateCredential(holderOf(ac, rp), r.data, parsed)
	if err != nil {
		return passkey{}, a.errPasskey(err)
	}
	key.Attestation = webauthn.CredentialAttestation{} // it was asked for none, and nothing is done with it
	return passkey{ID: newID(), Name: name, RP: rp, Created: a.o.Now(), Key: *key}, nil
}

func checkLabel(name string) error {
	if name == "" || len(name) > maxName || !legible(name) {
		return infer.Invalid("name", "cannot be used: wanted 1 to %d bytes without control characters", maxName)
	}
	return nil
}

// legible says whether a text is one line that does nothing to what shows it: no
// control character, none that turns the direction of what stands around it.
func legible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// FinishPasskey takes the authenticator's answer and adds the passkey.
func (a *Accounts) FinishPasskey(ctx context.Context, id, ticket, bound, name string, answer []byte) (Passkey, error) {
	r, err := end[*registration](a.pending, ticket, bound)
	if err != nil {
		return Passkey{}, err
	}
	ac := a.get(id)
	if ac == nil || r.first || r.account != ac.ID {
		return Passkey{}, infer.Errorf(infer.CodeUnauthorized, "the passkey was begun for another account")
	}
	k, err := a.attested(r, ac, answer, name)
	if err != nil {
		return Passkey{}, err
	}
	_, err = a.change(ctx, ac.ID, func(ac *account) error { return a.addKey(ac, k) })
	return k.show(), err
}

// addKey adds a passkey that nobody has yet.
func (a *Accounts) addKey(ac *account, k passkey) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, o := range a.byID {
		for _, have := range o.Passkeys {
			if bytes.Equal(have.Key.ID, k.Key.ID) {
				return infer.Errorf(infer.CodeConflict, "that passkey is registered already")
			}
		}
	}
	if len(ac.Passkeys) >= maxPasskeys {
		return infer.Errorf(infer.CodeConflict, "an account has %d passkeys at most: remove one", maxPasskeys)
	}
	ac.Passkeys = append(ac.Passkeys, k)
	return nil
}

// BeginEnrol begins the first passkey of the account that a link's session, of
// the secret, is there for.
func (a *Accounts) BeginEnrol(secret, name, origin string) (admin.Challenge, error) {
	e, ok := a.Enrolment(secret)
	if !ok {
		return admin.Challenge{}, errNoSession
	}
	if !e.First {
		ac := a.get(e.Name)
		if ac == nil {
			return admin.Challenge{}, errNoSession
		}
		return a.beginRegistration(ac, &registration{account: ac.ID, name: ac.Name}, origin, secret)
	}
	if err := checkName(name); err != nil {
		return admin.Challenge{}, err
	}
	id := newID()
	return a.beginRegistration(&account{ID: id, Name: name}, &registration{account: id, name: name, first: true}, origin, secret)
}

// FinishEnrol adds the first passkey, makes the account where it is that of the
// first owner, and signs in.
func (a *Accounts) FinishEnrol(ctx context.Context, secret, ticket, label string, answer []byte, peer string) (*admin.Session, error) {
	r, err := end[*registration](a.pending, ticket, secret)
	if err != nil {
		return nil, err
	}
	k, err := a.attested(r, &account{ID: r.account, Name: r.name}, answer, label)
	if err != nil {
		return nil, err
	}
	return a.enrol(ctx, secret, r.name, &session{Method: "passkey", Key: k.ID, Peer: peer}, func(ac *account) error {
		if r.first {
			ac.ID = r.account // the authenticator knows it by that
		}
		return a.addKey(ac, k)
	})
}

// assertion is a sign-in by passkey that is under way.
type assertion struct {
	origin string
	data   webauthn.SessionData
}

// BeginSignIn begins a sign-in by passkey, of whom nobody knows yet.
func (a *Accounts) BeginSignIn(origin string) (admin.Challenge, error) {
	w, _, err := relyingParty(origin)
	if err != nil {
		return admin.Challenge{}, err
	}
	o, data, err := w.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return admin.Challenge{}, infer.AsError(err)
	}
	return challenge(a.doors, o.Response, "", &assertion{origin, *data})
}

// FinishSignIn takes the authenticator's answer and opens a session. old is the
// secret of the session that the browser had.
func (a *Accounts) FinishSignIn(ctx context.Context, ticket string, answer []byte, peer, old string) (*admin.Session, error) {
	t, wait := a.damper.attempt(networkOf(peer), "", false, false)
	if wait > 0 {
		return nil, tooMany(wait)
	}
	ac, key, err := a.asserted(ticket, answer)
	if err != nil {
		who := ""
		if ac != nil {
			who = ac.Name
		}
		a.refused(ctx, "passkey", who, peer, "not accepted")
		return nil, err
	}
	t.good()
	return a.signedIn(ctx, ac, &session{Method: "passkey", Key: keyOf(ac, key), Peer: peer}, old, func(now *account) error {
		for i := range now.Passkeys {
			if k := &now.Passkeys[i]; bytes.Equal(k.Key.ID, key.ID) {
				k.Used = a.o.Now()
				k.Key.Authenticator.SignCount = key.Authenticator.SignCount
				k.Key.Flags = key.Flags
				return nil
			}
		}
		return errNoSession // it has just been removed
	})
}

// asserted checks an authenticator's answer at a sign-in. The account is set
// where it is known, also with an error.
func (a *Accounts) asserted(ticket string, answer []byte) (*account, *webauthn.Credential, error) {
	s, err := end[*assertion](a.doors, ticket, "")
	if err != nil {
		return nil, nil, err
	}
	if len(answer) > maxPasskeyAnswer {
		return nil, nil, infer.Errorf(infer.CodeTooLarge, "cannot take an answer of %d bytes", len(answer))
	}
	w, rp, err := relyingParty(s.origin)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return nil, nil, a.errPasskey(err)
	}
	var ac *account
	key, err := w.ValidateDiscoverableLogin(func(_, user []byte) (webauthn.User, error) {
		a.mu.RLock()
		ac = a.byID[string(user)]
		a.mu.RUnlock()
		if ac == nil {
			return nil, errors.New("there is no such account")
		}
		if ac.Disabled {
			return nil, errors.New("the account is disabled")
		}
		return holderOf(ac, rp), nil
	}, s.data, parsed)
	if err != nil {
		return ac, nil, a.errPasskey(err)
	}
	if key.Authenticator.CloneWarning {
		// WebAuthn L3 §7.2 step 22 leaves it to us: a key that exists twice is no proof.
		return ac, nil, a.errPasskey(errors.New("its counter went back: there is a copy of it"))
	}
	return ac, key, nil
}

// keyOf is our id of a credential.
func keyOf(ac *account, key *webauthn.Credential) string {
	for i := range ac.Passkeys {
		if bytes.Equal(ac.Passkeys[i].Key.ID, key.ID) {
			return ac.Passkeys[i].ID
		}
	}
	return ""
}

func (ac *account) hasKey(id string) bool {
	return slices.ContainsFunc(ac.Passkeys, func(k passkey) bool { return k.ID == id })
}

func (k *passkey) show() Passkey {
	return Passkey{ID: k.ID, Name: k.Name, Host: k.RP, Created: k.Created, Used: k.Used, Synced: k.Key.Flags.BackupState}
}

// Passkeys lists those of an account.
func (a *Accounts) Passkeys(id string) ([]Passkey, error) {
	ac := a.get(id)
	if ac == nil {
		return nil, noAccount(id)
	}
	out := []Passkey{}
	for i := range ac.Passkeys {
		out = append(out, ac.Passkeys[i].show())
	}
	return out, nil
}

// RenamePasskey gives a passkey another name.
func (a *Accounts) RenamePasskey(ctx context.Context, id, key, name string) (Passkey, error) {
	name = strings.TrimSpace(name)
	if err := checkLabel(name); err != nil {
		return Passkey{}, err
	}
	var out Passkey
	_, err := a.change(ctx, id, func(ac *account) error {
		i := slices.IndexFunc(ac.Passkeys, func(k passkey) bool { return k.ID == key })
		if i < 0 {
			return noPasskey(key)
		}
		ac.Passkeys[i].Name = name
		out = ac.Passkeys[i].show()
		return nil
	})
	return out, err
}

// RemovePasskey forgets a passkey; the sessions that it opened end. The last way
// in stays.
func (a *Accounts) RemovePasskey(ctx context.Context, id, key string) (Passkey, error) {
	var out Passkey
	_, err := a.change(ctx, id, func(ac *account) error {
		i := slices.IndexFunc(ac.Passkeys, func(k passkey) bool { return k.ID == key })
		if i < 0 {
			return noPasskey(key)
		}
		if len(ac.Passkeys) == 1 && ac.Password == "" && ac.Subject == "" {
			return infer.Errorf(infer.CodeConflict, "cannot remove the last way to sign in: give the account a password or another passkey first")
		}
		out = ac.Passkeys[i].show()
		ac.Passkeys = slices.Delete(ac.Passkeys, i, i+1)
		return nil
	})
	return out, err
}

func noPasskey(id string) error {
	return infer.Errorf(infer.CodeNotFound, "there is no passkey %.32q", id)
}
