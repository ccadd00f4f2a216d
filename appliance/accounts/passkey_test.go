package accounts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"hearth/engine/infer"
	"hearth/web/admin"
)

const origin = "https://box.example:8444"

// authenticator is one in software, with attestation "none" (WebAuthn L3 §6).
type authenticator struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	id      []byte
	user    []byte
	counter uint32
	// What a wrong one does.
	origin, rp string
	flags      byte
	change     func(client map[string]any)
}

const (
	flagUP, flagUV, flagAT = 1, 4, 64
)

func newAuthenticator(t *testing.T) *authenticator {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id)
	return &authenticator{t: t, key: k, id: id, origin: origin, rp: "box.example", flags: flagUP | flagUV}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (a *authenticator) client(kind, challenge string) []byte {
	c := map[string]any{"type": kind, "challenge": challenge, "origin": a.origin, "crossOrigin": false}
	if a.change != nil {
		a.change(c)
	}
	b, err := json.Marshal(c)
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

func (a *authenticator) data(flags byte) []byte {
	h := sha256.Sum256([]byte(a.rp))
	a.counter++
	return binary.BigEndian.AppendUint32(append(h[:], flags), a.counter)
}

func (a *authenticator) marshal(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// create answers navigator.credentials.create.
func (a *authenticator) create(c admin.Challenge) []byte {
	a.t.Helper()
	var o struct {
		Challenge string
		User      struct{ ID string }
		RP        struct{ ID string }
	}
	if err := json.Unmarshal(c.Options, &o); err != nil || o.RP.ID != "box.example" {
		a.t.Fatalf("%s: %v", c.Options, err)
	}
	a.user, _ = base64.RawURLEncoding.DecodeString(o.User.ID)
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	cose := a.marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	data := a.data(a.flags | flagAT)
	data = append(data, make([]byte, 16)...) // AAGUID
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.id)))
	data = append(append(data, a.id...), cose...)
	return a.answer(map[string]any{
		"clientDataJSON":    b64(a.client("webauthn.create", o.Challenge)),
		"attestationObject": b64(a.marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})),
		"transports":        []string{"internal"},
	})
}

// get answers navigator.credentials.get.
func (a *authenticator) get(c admin.Challenge) []byte {
	a.t.Helper()
	var o struct{ Challenge string }
	if err := json.Unmarshal(c.Options, &o); err != nil {
		a.t.Fatal(err)
	}
	client, data := a.client("webauthn.get", o.Challenge), a.data(a.flags)
	h := sha256.Sum256(client)
	signed := sha256.Sum256(append(append([]byte{}, data...), h[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.answer(map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(sig), "userHandle": b64(a.user)})
}

func (a *authenticator) answer(response map[string]any) []byte {
	b, err := json.Marshal(map[string]any{"id": b64(a.id), "rawId": b64(a.id), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{}})
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// register adds the authenticator to an account.
func (w *world) register(name string, a *authenticator) Passkey {
	w.t.Helper()
	c, err := w.BeginPasskey(name, origin, "session")
	if err != nil {
		w.t.Fatal(err)
	}
	k, err := w.FinishPasskey(w.ctx, name, c.Ticket, "session", "laptop", a.create(c))
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

func (w *world) usePasskey(a *authenticator) (*admin.Session, error) {
	w.t.Helper()
	c, err := w.BeginSignIn(origin)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.FinishSignIn(w.ctx, c.Ticket, a.get(c), peer, "")
}

func TestPasskey(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	laptop, phone := newAuthenticator(t), newAuthenticator(t)
	one := w.register("alice", laptop)
	two := w.register("alice", phone)
	w.reopen()
	s, err := w.usePasskey(laptop)
	if err != nil || s.User != "alice" || s.Method != "passkey" || !s.Fresh {
		t.Fatalf("%+v, %v", s, err)
	}
	other, err := w.usePasskey(phone)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := w.Passkeys("alice")
	if len(list) != 2 || list[0].Host != "box.example" || list[0].Used.IsZero() || list[0].Name != "laptop" {
		t.Errorf("%+v", list)
	}
	if k, err := w.RenamePasskey(w.ctx, "alice", two.ID, "phone"); err != nil || k.Name != "phone" {
		t.Error(k, err)
	}
	if _, err := w.RemovePasskey(w.ctx, "alice", one.ID); err != nil {
		t.Fatal(err)
	}
	if w.in(s) || !w.in(other) {
		t.Error("its session lives on, or another's ended")
	}
	if _, err := w.usePasskey(laptop); err == nil {
		t.Error("a removed passkey works")
	}
	if a, _ := w.Find("alice"); a.Passkeys != 1 || len(a.Methods) != 2 {
		t.Errorf("%+v", a)
	}
}

// The first owner and the invited may begin with a passkey alone, which then
// cannot be taken away.
func TestEnrolWithPasskey(t *testing.T) {
	w := newWorld(t)
	link, _, _ := w.NewSetUp(w.ctx)
	s, err := w.Redeem(w.ctx, link, peer, "")
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthenticator(t)
	c, err := w.BeginEnrol(s.Secret, "alice", origin)
	if err != nil {
		t.Fatal(err)
	}
	in, err := w.FinishEnrol(w.ctx, s.Secret, c.Ticket, "", a.create(c), peer)
	if err != nil || in.User != "alice" || in.Role != admin.Owner || w.in(s) || !w.HasOwner(w.ctx) || w.owned != 1 {
		t.Fatalf("%+v, %v", in, err)
	}
	if !w.in(in) {
		t.Error("not in")
	}
	if _, err := w.usePasskey(a); err != nil {
		t.Error(err)
	}
	list, _ := w.Passkeys("alice")
	_, err = w.RemovePasskey(w.ctx, "alice", list[0].ID)
	wantCode(t, err, infer.CodeConflict)

	if _, err := w.Create(w.ctx, "bob", admin.Auditor, ""); err != nil {
		t.Fatal(err)
	}
	link, _, _ = w.Invite(w.ctx, "bob")
	if s, err = w.Redeem(w.ctx, link, peer, ""); err != nil {
		t.Fatal(err)
	}
	// A passkey that somebody has is nobody else's.
	c, _ = w.BeginEnrol(s.Secret, "", origin)
	_, err = w.FinishEnrol(w.ctx, s.Secret, c.Ticket, "", a.create(c), peer)
	wantCode(t, err, infer.CodeConflict)
	b := newAuthenticator(t)
	c, _ = w.BeginEnrol(s.Secret, "mallory", origin)
	if in, err = w.FinishEnrol(w.ctx, s.Secret, c.Ticket, "", b.create(c), peer); err != nil || in.User != "bob" {
		t.Errorf("%+v, %v", in, err)
	}
}

// What an authenticator or a page in between does wrong is refused.
func TestWrongPasskeys(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("bob", admin.Auditor, "")
	a := newAuthenticator(t)
	w.register("alice", a)
	sound := *a
	for name, spoil := range map[string]func(x *authenticator){
		"another origin":        func(x *authenticator) { x.origin = "https://evil.example" },
		"another port":          func(x *authenticator) { x.origin = "https://box.example:1" },
		"plain http":            func(x *authenticator) { x.origin = "http://box.example:8444" },
		"another host":          func(x *authenticator) { x.rp = "evil.example" },
		"nobody there":          func(x *authenticator) { x.flags = flagUV },
		"not verified":          func(x *authenticator) { x.flags = flagUP },
		"another key":           func(x *authenticator) { x.key = newAuthenticator(t).key },
		"an unknown credential": func(x *authenticator) { x.id = newAuthenticator(t).id },
		"another account":       func(x *authenticator) { x.user = []byte(w.get("bob").ID) },
		"no account":            func(x *authenticator) { x.user = nil },
		"another ceremony":      func(x *authenticator) { x.change = func(c map[string]any) { c["type"] = "webauthn.create" } },
		"another challenge":     func(x *authenticator) { x.change = func(c map[string]any) { c["challenge"] = b64(make([]byte, 32)) } },
		"a frame elsewhere": func(x *authenticator) {
			x.change = func(c map[string]any) { c["crossOrigin"], c["topOrigin"] = true, "https://evil.example" }
		},
	} {
		w.pass(10 * time.Minute)
		x := sound
		spoil(&x)
		if _, err := w.usePasskey(&x); code(err) != infer.CodeUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.pass(time.Hour)
	a.counter = 100
	if _, err := w.usePasskey(a); err != nil {
		t.Fatal(err)
	}
	a.counter = 50
	if _, err := w.usePasskey(a); err == nil {
		t.Error("a copy whose counter is behind works")
	}
	a.counter = 200
	c, _ := w.BeginSignIn(origin)
	answer := a.get(c)
	if _, err := w.FinishSignIn(w.ctx, c.Ticket, answer, peer, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.FinishSignIn(w.ctx, c.Ticket, answer, peer, ""); err == nil {
		t.Error("an answer works twice")
	}
	c, _ = w.BeginSignIn(origin)
	w.pass(ceremonyLife)
	if _, err := w.FinishSignIn(w.ctx, c.Ticket, a.get(c), peer, ""); err == nil {
		t.Error("an answer works after its time")
	}
	for _, junk := range []string{"", "{}", "null", `{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"AA","authenticatorData":"AA","signature":"AA","userHandle":"AA"}}`} {
		c, _ := w.BeginSignIn(origin)
		if _, err := w.FinishSignIn(w.ctx, c.Ticket, []byte(junk), peer, ""); err == nil {
			t.Errorf("%q works", junk)
		}
		w.pass(10 * time.Minute)
	}
	c, _ = w.BeginPasskey("bob", origin, "session of bob")
	if _, err := w.FinishPasskey(w.ctx, "alice", c.Ticket, "session of alice", "", newAuthenticator(t).create(c)); err == nil {
		t.Error("a registration was finished by another session")
	}
	b := newAuthenticator(t)
	w.register("bob", b)
	if _, err := w.Update(w.ctx, "bob", Change{Disabled: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.usePasskey(b); code(err) != infer.CodeUnauthorized {
		t.Errorf("a disabled account signs in by passkey: %v", err)
	}
}

func TestPasskeyOrigins(t *testing.T) {
	w := newWorld(t)
	for o, ok := range map[string]bool{
		"https://localhost:8444": true, "http://localhost:8444": true, "https://box.lan": true, "https://BOX.example:1": true,
		"https://127.0.0.1:8444": false, "https://[::1]:8444": false, "http://box.lan": false, "": false, "null": false, "file://": false,
		"https://box.lan/path": false, "https://user@box.lan": false, "javascript:alert(1)": false,
	} {
		if _, err := w.BeginSignIn(o); (err == nil) != ok {
			t.Errorf("%s: %v", o, err)
		}
	}
}

func FuzzPasskeyAnswer(f *testing.F) {
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t)
		c, _ := w.BeginSignIn(origin)
		if _, err := w.FinishSignIn(w.ctx, c.Ticket, b, peer, ""); err == nil {
			t.Error("signed in")
		}
	})
}
