package admin

import (
	"net/http"
	"strings"

	"hearth/engine/infer"
)

// afterIdentity is the second step of the guided set-up.
const afterIdentity = "/setup/certificate"

// setUpRoutes are what one-time links lead to: the set-up by the first owner,
// invitations, and the way back in for who has the machine.
func (s *Server) setUpRoutes() {
	open := func(method, path string, h func(*exchange) error) {
		s.handle(Route{Method: method, Path: path, Open: true}, h)
	}
	open("GET", "/setup", func(x *exchange) error { return x.setUpPage(http.StatusOK, "", nil) })
	open("POST", "/setup", (*exchange).setUp)
	open("POST", "/setup/passkey/begin", (*exchange).beginSetUpPasskey)
	open("POST", "/setup/passkey/finish", (*exchange).finishSetUpPasskey)
}

// setUpPage asks for the token of the link, and then for the first credential of
// the account that it is for.
func (x *exchange) setUpPage(status int, name string, fault *Fault) error {
	e, enrols := x.s.opt.Service.Enrolment(x.secret)
	title := "Set up"
	if enrols && !e.First {
		title, name = "Welcome", e.Name
	}
	data := x.frame(title, "")
	delete(data, "me")
	data["enrols"], data["first"], data["name"] = enrols, e.First, name
	data["owned"] = x.s.opt.Service.HasOwner(x.r.Context())
	if fault != nil {
		data["fault"] = fault
	}
	return x.render(status, "setup", data)
}

// setUp takes a token, or the password of the account that is set up.
func (x *exchange) setUp() error {
	v, err := x.fields()
	if err != nil {
		return err
	}
	token, name := strings.TrimSpace(v.Get("token")), strings.TrimSpace(v.Get("name"))
	var s *Session
	to := "/"
	if token != "" {
		if s, err = x.s.opt.Service.Redeem(x.r.Context(), token, x.r.RemoteAddr, x.cookie()); err == nil {
			if _, enrols := x.s.opt.Service.Enrolment(s.Secret); enrols {
				to = "/setup"
			}
		}
	} else {
		e, _ := x.s.opt.Service.Enrolment(x.secret)
		if e.First {
			to = afterIdentity
		}
		if p := v.Get("password"); v.Has("repeated") && p != v.Get("repeated") {
			err = infer.Invalid("repeated", "is not the same password")
		} else {
			s, err = x.s.opt.Service.Enrol(x.r.Context(), x.secret, name, p, x.r.RemoteAddr)
		}
	}
	if err != nil {
		if !x.wantsPage() {
			return err
		}
		f := x.faultOf(err)
		x.retryAfter(err)
		return x.setUpPage(statusOf(f.Code), name, &f)
	}
	x.setCookie(s)
	return x.redirect(to)
}

func (x *exchange) beginSetUpPasskey() error {
	origin, err := x.origin()
	if err != nil {
		return err
	}
	a, err := x.answer()
	if err != nil {
		return err
	}
	c, err := x.s.opt.Service.BeginEnrol(x.secret, strings.TrimSpace(a.Name), origin)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, c)
}

func (x *exchange) finishSetUpPasskey() error {
	a, err := x.answer()
	if err != nil {
		return err
	}
	to := "/"
	if e, _ := x.s.opt.Service.Enrolment(x.secret); e.First {
		to = afterIdentity
	}
	s, err := x.s.opt.Service.FinishEnrol(x.r.Context(), x.secret, a.Ticket, a.Label, a.Credential, x.r.RemoteAddr)
	if err != nil {
		return err
	}
	x.setCookie(s)
	return x.goOn(to)
}
