package web

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// cookieName has the __Host- prefix: browsers take it only over TLS (or from
// localhost), for this host alone and for every path.
const cookieName = "__Host-hearth"

// maxFormBytes bounds what a sign-in sends.
const maxFormBytes = 8 << 10

// cookie is the session that a browser shows, or nothing.
func (x *exchange) cookie() string {
	c, err := x.r.Cookie(cookieName)
	if err != nil || len(c.Value) > 512 {
		return ""
	}
	return c.Value
}

// setCookie gives a session to the browser; nil takes it away.
func (x *exchange) setCookie(s *Session) {
	c := &http.Cookie{Name: cookieName, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if s == nil {
		c.MaxAge = -1
	} else {
		c.Value, c.Expires = s.Secret, s.Expires
	}
	http.SetCookie(x.w, c)
}

// session finds the session of the browser; nil if there is none.
func (x *exchange) session() *Session {
	secret := x.cookie()
	if secret == "" {
		return nil
	}
	s, err := x.s.opt.Service.Session(x.r.Context(), secret)
	if err != nil {
		return nil
	}
	return s
}

// viewer is who looks at the status: a signed-in browser, or a key used from
// this machine itself. It answers where there is neither.
func (x *exchange) viewer() *Session {
	if s := x.session(); s != nil {
		return s
	}
	key, e := credential(x.r.Header)
	switch {
	case e != nil:
	case key == "":
		e = infer.Errorf(infer.CodeUnauthorized, "please sign in")
	case !onLoopback(x.r):
		e = infer.Errorf(infer.CodeForbidden, "a key shows the status only to this machine itself; sign in with it instead")
	}
	if e != nil {
		x.fail(e)
		return nil
	}
	if !x.admit() {
		return nil
	}
	return &Session{Tenant: x.grant.Tenant, KeyID: x.grant.KeyID}
}

// setup exchanges the one-time token of the set-up link for a session. The
// token comes in the fragment of the link, which browsers send to nobody; a
// script on the page posts it here.
func (x *exchange) setup() {
	x.exchangeSecret("token", func(token string) (*Session, error) {
		return x.s.opt.Service.Setup(x.r.Context(), token)
	})
}

// signIn takes an API key, or a set-up token that was pasted in its place.
func (x *exchange) signIn() {
	x.exchangeSecret("secret", func(secret string) (*Session, error) {
		c, e := x.caller()
		if e != nil {
			return nil, e
		}
		c.Credential, c.Session = secret, ""
		s, err := x.s.opt.Service.SignIn(x.r.Context(), c)
		if err != nil && infer.AsError(err).Code == infer.CodeUnauthorized {
			if s, serr := x.s.opt.Service.Setup(x.r.Context(), secret); serr == nil {
				return s, nil
			}
		}
		return s, err
	})
}

func (x *exchange) exchangeSecret(field string, open func(string) (*Session, error)) {
	if err := x.fromOurPage(); err != nil {
		x.fail(err)
		return
	}
	peer, _, _ := net.SplitHostPort(x.r.RemoteAddr)
	if wait := x.s.guard.wait(peer); wait > 0 {
		x.fail(&infer.Error{Code: infer.CodeRateLimited, Message: "too many failed sign-ins, wait a minute", RetryAfter: wait})
		return
	}
	secret, form, err := x.secret(field)
	if err != nil {
		x.fail(err)
		return
	}
	s, err := open(secret)
	if err != nil {
		x.s.guard.failed(peer)
		if form {
			x.page(http.StatusUnauthorized, "signin", signInData{Failed: infer.AsError(err).Message})
			return
		}
		x.fail(err)
		return
	}
	x.setCookie(s)
	if form {
		x.redirect("/")
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// fromOurPage holds a state-changing request of a browser against our origin.
func (x *exchange) fromOurPage() error {
	if err := x.s.cross.Check(x.r); err != nil {
		return infer.Errorf(infer.CodeForbidden, "cannot sign in or out from the page of another origin")
	}
	// A proxy on this machine speaks TLS for us.
	if x.r.TLS == nil && !peerOnLoopback(x.r) {
		return infer.Errorf(infer.CodeForbidden, "cannot sign in without TLS, except on this machine itself")
	}
	return nil
}

// secret reads one field of a small JSON body or form.
func (x *exchange) secret(field string) (secret string, form bool, err error) {
	if x.bodyDone {
		return "", false, infer.Invalid(field, "cannot sign in: got no %s", field)
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, maxFormBytes+1))
	x.bodyIn += int64(len(body))
	if err != nil {
		return "", false, bodyError(err)
	}
	if len(body) > maxFormBytes {
		return "", false, tooLarge(maxFormBytes)
	}
	x.bodyDone = true
	_ = x.w.rc.SetReadDeadline(time.Time{})
	if form = strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"); form {
		q, err := url.ParseQuery(string(body))
		if err != nil {
			return "", true, infer.Invalid(field, "cannot read the form")
		}
		secret = q.Get(field)
	} else {
		v, err := jsonread.Parse(body, jsonread.Limits{Depth: 2})
		if err != nil {
			return "", false, err
		}
		if m, ok := v.Get(field); ok {
			if secret, err = m.Str(); err != nil {
				return "", false, err
			}
		}
	}
	if secret = strings.TrimSpace(secret); secret == "" {
		return "", form, infer.Invalid(field, "cannot sign in: got no %s", field)
	}
	return secret, form, nil
}

// signOut ends the session.
func (x *exchange) signOut() {
	if err := x.fromOurPage(); err != nil {
		x.fail(err)
		return
	}
	if c := x.cookie(); c != "" {
		if err := x.s.opt.Service.SignOut(x.r.Context(), c); err != nil {
			x.fail(err)
			return
		}
	}
	x.setCookie(nil)
	x.redirect("/")
}

// redirect sends a browser to one of our own pages after a form.
func (x *exchange) redirect(path string) {
	x.w.Header().Set("Location", path)
	x.w.Header().Set("Content-Length", "0")
	x.w.WriteHeader(http.StatusSeeOther)
}

// signInGuard slows down guessing: so many failures of an address in a minute.
// The secrets have 128 bits and more, so this spares the log and the disk
// rather than the secrets.
type signInGuard struct {
	max int
	now func() time.Time

	mu    sync.Mutex // guards what follows
	since time.Time
	by    map[string]int
}

// guardAddresses bounds the table; beyond it all newcomers share one entry.
const guardAddresses = 4096

func (g *signInGuard) turnLocked() {
	if now := g.now(); now.Sub(g.since) >= time.Minute || g.by == nil {
		g.since, g.by = now, map[string]int{}
	}
}

// wait is how long an address must wait before it may try; 0 if it may.
func (g *signInGuard) wait(peer string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turnLocked()
	if g.by[peer] < g.max && g.by[""] < guardAddresses {
		return 0
	}
	return max(time.Second, time.Minute-g.now().Sub(g.since))
}

func (g *signInGuard) failed(peer string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turnLocked()
	if _, ok := g.by[peer]; !ok && len(g.by) >= guardAddresses {
		peer = ""
	}
	g.by[peer]++
}
