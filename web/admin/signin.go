package admin

import (
	"net/http"
	"strings"
)

// signInRoutes are the ways in.
func (s *Server) signInRoutes() {
	s.handle(Route{Method: "GET", Path: "/signin", Open: true}, func(x *exchange) error {
		return x.render(http.StatusOK, "signin", x.frame("Sign in", ""))
	})
	s.handle(Route{Method: "GET", Path: "/setup", Open: true}, func(x *exchange) error {
		return x.render(http.StatusOK, "setup", x.frame("Set up", ""))
	})
	s.handle(Route{Method: "POST", Path: "/setup", Open: true}, func(x *exchange) error {
		values, err := x.fields()
		if err != nil {
			return err
		}
		session, err := s.opt.Service.Setup(x.r.Context(), strings.TrimSpace(values.Get("token")), x.r.RemoteAddr)
		if err != nil {
			return err
		}
		x.setCookie(session)
		return x.redirect("/")
	})
}
