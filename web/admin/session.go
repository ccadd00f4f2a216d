package admin

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"hearth/engine/infer"
)

// cookieName has the __Host- prefix: browsers take it only over TLS (or from
// localhost), for this host alone and for every path.
const cookieName = "__Host-hearth-admin"

// admit finds who asks and whether the route is theirs.
func (x *exchange) admit() error {
	peer, service := x.r.RemoteAddr, x.s.opt.Service
	if bearer, ok := strings.CutPrefix(x.r.Header.Get("Authorization"), "Bearer "); ok {
		c, err := x.s.opt.Service.Bearer(x.r.Context(), bearer, peer)
		if err != nil {
			return err
		}
		x.caller = c
		x.again = func(ctx context.Context) (*Caller, error) { return service.Bearer(ctx, bearer, peer) }
	} else if c, err := x.r.Cookie(cookieName); err == nil && c.Value != "" && len(c.Value) <= 512 {
		if s, err := x.s.opt.Service.Session(x.r.Context(), c.Value, peer); err == nil {
			x.session, x.caller = s, &s.Caller
			x.secret = c.Value
			x.again = func(ctx context.Context) (*Caller, error) { // no use of it, which would keep it alive
				s, err := service.Session(ctx, c.Value, "")
				if err != nil {
					return nil, err
				}
				return &s.Caller, nil
			}
		}
	}
	if x.caller == nil && x.r.TLS != nil && len(x.r.TLS.PeerCertificates) > 0 {
		c, err := x.s.opt.Service.VerifyPeer(x.r.Context(), x.r.TLS.PeerCertificates, peer)
		if err != nil && !x.route.Open {
			return err
		}
		x.caller = c
		chain := x.r.TLS.PeerCertificates
		x.again = func(ctx context.Context) (*Caller, error) { return service.VerifyPeer(ctx, chain, peer) }
	}
	if x.caller != nil {
		x.r = x.r.WithContext(With(x.r.Context(), x.caller))
	}
	switch {
	case x.route.Open:
		return nil
	case x.caller == nil:
		return infer.Errorf(infer.CodeUnauthorized, "please sign in")
	case !x.route.Access.Allows(x.caller.Role):
		return infer.Errorf(infer.CodeForbidden, "your role (%s) may not do this", x.caller.Role)
	}
	return nil
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

// redirect sends a browser to one of our own pages.
func (x *exchange) redirect(path string) error {
	x.w.Header().Set("Location", localPath(path, "/"))
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// localPath is path if it is one of this origin, else other: a redirect never
// leads away.
func localPath(path, other string) string {
	u, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") || u.Host != "" || u.Scheme != "" || len(path) > 2048 {
		return other
	}
	return path
}

// sessionRoutes are what is open to those who are not signed in.
func (s *Server) sessionRoutes() {
	s.handle(Route{Method: "POST", Path: "/signout", Open: true}, func(x *exchange) error {
		if c, err := x.r.Cookie(cookieName); err == nil {
			if err := s.opt.Service.SignOut(x.r.Context(), c.Value); err != nil {
				return err
			}
		}
		x.setCookie(nil)
		return x.redirect("/signin")
	})
	s.signInRoutes()
}
