package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"hearth/engine/infer"
)

const (
	// binderName is the cookie that binds a sign-in through the provider to the
	// browser. It is sent along from the provider's page, which a strict one is not.
	binderName = "__Host-hearth-oidc"
	binderLife = 5 * 60 // seconds, as long as the sign-in may take
	// maxCredential bounds what a page sends of a passkey.
	maxCredential = 64 << 10
)

// signInRoutes are the ways in.
func (s *Server) signInRoutes() {
	open := func(method, path string, h func(*exchange) error) {
		s.handle(Route{Method: method, Path: path, Open: true}, h)
	}
	open("GET", "/signin", (*exchange).signInPage)
	open("POST", "/signin", (*exchange).signIn)
	open("POST", "/signin/passkey/begin", (*exchange).beginPasskey)
	open("POST", "/signin/passkey/finish", (*exchange).finishPasskey)
	open("GET", "/signin/oidc", (*exchange).beginOIDC)
	open("GET", "/signin/oidc/callback", (*exchange).finishOIDC)
	s.setUpRoutes()
}

// signInPage shows the ways in. Who is in already goes on, unless a new proof is
// asked for.
func (x *exchange) signInPage() error {
	q := x.r.URL.Query()
	again := q.Has("again") && x.session != nil
	switch {
	case x.caller != nil && !again:
		return x.redirect(localPath(q.Get("then"), "/"))
	case x.caller == nil && !x.s.opt.Service.HasOwner(x.r.Context()) && x.s.opt.Service.OIDCLabel() == "":
		return x.redirect("/setup")
	}
	return x.showSignIn(http.StatusOK, q.Get("then"), "", again, nil)
}

// showSignIn renders the page; name was typed before, fault is what was wrong.
func (x *exchange) showSignIn(status int, then, name string, again bool, fault *Fault) error {
	title := "Sign in"
	if again {
		title, name = "Confirm that it is you", x.caller.User
	}
	data := x.frame(title, "")
	delete(data, "me") // no menu around a sign-in
	data["then"], data["name"], data["again"], data["oidc"] = localPath(then, "/"), name, again, x.s.opt.Service.OIDCLabel()
	data["password"] = !again || x.caller.Account != ""
	if fault != nil {
		data["fault"] = fault
	}
	return x.render(status, "signin", data)
}

// signIn takes a name and a password.
func (x *exchange) signIn() error {
	v, err := x.fields()
	if err != nil {
		return err
	}
	then, again := localPath(v.Get("then"), "/"), v.Get("again") != "" && x.session != nil
	var s *Session
	if again {
		s, err = x.s.opt.Service.Confirm(x.r.Context(), x.secret, v.Get("password"), x.r.RemoteAddr)
	} else {
		s, err = x.s.opt.Service.SignIn(x.r.Context(), strings.TrimSpace(v.Get("name")), v.Get("password"), x.r.RemoteAddr, x.cookie())
	}
	if err != nil {
		if !x.wantsPage() {
			return err
		}
		f := x.faultOf(err)
		x.retryAfter(err)
		return x.showSignIn(statusOf(f.Code), then, strings.TrimSpace(v.Get("name")), again, &f)
	}
	x.setCookie(s)
	return x.redirect(then)
}

// cookie is the secret that the browser shows, whether or not it is good.
func (x *exchange) cookie() string {
	c, err := x.r.Cookie(cookieName)
	if err != nil || len(c.Value) > 128 {
		return ""
	}
	return c.Value
}

// origin is that of the page that asks, as the browser says: it must be ours.
func (x *exchange) origin() (string, error) {
	o := x.r.Header.Get("Origin")
	u, err := url.Parse(o)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, x.r.Host) {
		return "", infer.Errorf(infer.CodeForbidden, "a passkey is used from a page of this server only")
	}
	return u.Scheme + "://" + u.Host, nil
}

// passkeyAnswer is what a page posts.
type passkeyAnswer struct {
	Name       string          `json:"name,omitempty"` // of the account, of the passkey
	Label      string          `json:"label,omitempty"`
	Ticket     string          `json:"ticket,omitempty"`
	Credential json.RawMessage `json:"credential,omitempty"`
	Then       string          `json:"then,omitempty"`
}

// answer reads what a script of our pages posts.
func (x *exchange) answer() (a passkeyAnswer, err error) {
	if !strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/json") {
		return a, infer.Errorf(infer.CodeMediaType, "cannot read this: wanted application/json")
	}
	b, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxCredential))
	if err != nil {
		return a, bodyError(err)
	}
	return a, decode(b, &a)
}

func (x *exchange) beginPasskey() error {
	origin, err := x.origin()
	if err != nil {
		return err
	}
	c, err := x.s.opt.Service.BeginSignIn(origin)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, c)
}

func (x *exchange) finishPasskey() error {
	a, err := x.answer()
	if err != nil {
		return err
	}
	s, err := x.s.opt.Service.FinishSignIn(x.r.Context(), a.Ticket, a.Credential, x.r.RemoteAddr, x.cookie())
	if err != nil {
		return err
	}
	x.setCookie(s)
	return x.goOn(localPath(a.Then, "/"))
}

// goOn tells a script where to go.
func (x *exchange) goOn(to string) error {
	return x.json(http.StatusOK, map[string]string{"to": to})
}

// beginOIDC sends the browser to the provider.
func (x *exchange) beginOIDC() error {
	q := x.r.URL.Query()
	scheme := "https://"
	if x.r.TLS == nil && x.r.Header.Get("X-Forwarded-Proto") != "https" {
		scheme = "http://"
	}
	to, binder, err := x.s.opt.Service.BeginOIDC(x.r.Context(), scheme+x.r.Host+"/signin/oidc/callback", localPath(q.Get("then"), "/"), q.Has("again"))
	if err != nil {
		return err
	}
	http.SetCookie(x.w, &http.Cookie{Name: binderName, Value: binder, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: binderLife})
	x.w.Header().Set("Location", to) // the provider's, from its own discovery document
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// finishOIDC takes the browser back. It comes from another site, so a strict
// cookie would not be sent to where we would redirect it; a page of ours that
// goes on by itself is not another site.
func (x *exchange) finishOIDC() error {
	binder := ""
	if c, err := x.r.Cookie(binderName); err == nil && len(c.Value) <= 128 {
		binder = c.Value
	}
	http.SetCookie(x.w, &http.Cookie{Name: binderName, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1})
	s, then, err := x.s.opt.Service.FinishOIDC(x.r.Context(), x.r.URL.Query(), binder, x.r.RemoteAddr, x.cookie())
	if err != nil {
		if !x.wantsPage() {
			return err
		}
		f := x.faultOf(err)
		x.retryAfter(err)
		return x.showSignIn(statusOf(f.Code), "/", "", false, &f)
	}
	x.setCookie(s)
	data := x.frame("Signed in", "")
	delete(data, "me")
	data["then"] = localPath(then, "/")
	return x.render(http.StatusOK, "signedin", data)
}
