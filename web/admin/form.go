package admin

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"unicode/utf8"

	"hearth/engine/infer"
)

// form carries out the operation that a page posts. Its own fields begin with
// an underscore: _back is the page to go on with. A field _confirm must say what
// _want says, for acts that ask to be typed out. Where assets/pages has a file
// done-OPERATION (slashes as dashes) the result is shown by it, once; else the
// page is shown anew.
func (x *exchange) form() error {
	op := x.s.opt.Operations.Find(x.r.PathValue("operation"))
	if op == nil || op.Run == nil {
		return infer.Errorf(infer.CodeNotFound, "there is no such operation")
	}
	values, err := x.fields()
	if err != nil {
		return err
	}
	back := localPath(values.Get("_back"), "/")
	out, err := x.act(op, values)
	switch {
	case err != nil && x.r.Header.Get("Accept") == "application/json":
		return err
	case asksAgain(err) && x.session != nil:
		return x.redirect("/signin?again=1&then=" + url.QueryEscape(back))
	case err != nil:
		return x.formAgain(op, back, values, err)
	case x.r.Header.Get("Accept") == "application/json":
		return x.json(http.StatusOK, out)
	}
	if file := "done-" + strings.ReplaceAll(op.Name, "/", "-"); x.s.pages.has(file) {
		result, err := asJSON(out)
		if err != nil {
			return err
		}
		x.was = typed(values)
		data := x.frame("Done", "")
		data["result"], data["back"] = result, back
		return x.render(http.StatusOK, file, data)
	}
	return x.redirect(withDone(back, op.Name))
}

// asksAgain says whether an operation asks for a recent proof of who it is.
func asksAgain(err error) bool {
	var e *infer.Error
	return errors.As(err, &e) && e.Code == infer.CodeForbidden && e.Param == "reauthenticate"
}

// act binds and runs.
func (x *exchange) act(op *Operation, values url.Values) (any, error) {
	if want := values.Get("_want"); want != "" && strings.TrimSpace(values.Get("_confirm")) != want {
		return nil, infer.Invalid("confirmation", "type %q to go on", clip(want, 80))
	}
	in := reflect.New(op.In).Interface()
	if err := bind(in, values); err != nil {
		return nil, err
	}
	return x.s.opt.Operations.Call(x.r.Context(), op, in)
}

// formAgain shows the page that the form stood on, with what was wrong and with
// what had been typed.
func (x *exchange) formAgain(op *Operation, back string, values url.Values, err error) error {
	f := x.faultOf(err)
	p, r := x.s.pageAt(x.r.Context(), back)
	if p == nil || !p.Access.Allows(x.caller.Role) {
		x.errorPage(statusOf(f.Code), f)
		return nil
	}
	x.r = r
	x.was = typed(values)
	return x.page(statusOf(f.Code), p, pageData{"fault": f, "failed": op.Name})
}

// typed is what had been typed into a form, to be shown again. Secrets are not
// given back.
func typed(values url.Values) map[string]string {
	was := firsts(values)
	for name := range was {
		if strings.Contains(name, "password") || strings.Contains(name, "secret") || strings.Contains(name, "token") {
			delete(was, name)
		}
	}
	return was
}

// edit shows a page with its form filled in as it is posted, to go on with.
func (x *exchange) edit() error {
	values, err := x.fields()
	if err != nil {
		return err
	}
	p, r := x.s.pageAt(x.r.Context(), "/"+x.r.PathValue("page"))
	if p == nil {
		return infer.Errorf(infer.CodeNotFound, "there is no such page")
	}
	if !p.Access.Allows(x.caller.Role) {
		return infer.Errorf(infer.CodeForbidden, "your role (%s) may not see this page", x.caller.Role)
	}
	x.r, x.was = r, typed(values)
	return x.page(http.StatusOK, p, pageData{})
}

// withDone notes in a local path what has been done.
func withDone(path, name string) string {
	u, err := url.Parse(path)
	if err != nil {
		return "/"
	}
	q := u.Query()
	q.Set("done", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// fields reads a form. A file that comes with it is the text of its field, in
// base64 where it is no text.
func (x *exchange) fields() (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	switch kind {
	case "application/x-www-form-urlencoded":
		body, err := io.ReadAll(x.r.Body)
		if err != nil {
			return nil, bodyError(err)
		}
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, infer.Invalid("body", "cannot be read as a form")
		}
		return v, nil
	case "multipart/form-data":
		return x.multipart()
	}
	return nil, infer.Errorf(infer.CodeMediaType, "cannot read this: wanted a form")
}

func (x *exchange) multipart() (url.Values, error) {
	m, err := x.r.MultipartReader()
	if err != nil {
		return nil, infer.Invalid("body", "cannot be read as a form")
	}
	v := url.Values{}
	for n := 0; ; n++ {
		part, err := m.NextPart()
		if err == io.EOF {
			return v, nil
		}
		if err != nil || n >= 200 {
			return nil, bodyError(err)
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return nil, bodyError(err)
		}
		text := string(b)
		if part.FileName() != "" && !utf8.Valid(b) {
			text = base64.StdEncoding.EncodeToString(b)
		}
		v.Add(part.FormName(), text)
	}
}

// download gives a browser what a streamed operation writes.
func (x *exchange) download() error {
	op := x.s.opt.Operations.Find(x.r.PathValue("operation"))
	if op == nil || op.Method != http.MethodGet {
		return infer.Errorf(infer.CodeNotFound, "there is no such download")
	}
	q, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return infer.Invalid("query", "cannot be read")
	}
	in := reflect.New(op.In).Interface()
	if err := bind(in, q); err != nil {
		return err
	}
	if op.Stream == nil {
		out, err := x.s.opt.Operations.Call(x.r.Context(), op, in)
		if err != nil {
			return err
		}
		return x.json(http.StatusOK, out)
	}
	if err := x.s.opt.Operations.Permit(x.r.Context(), op, in); err != nil {
		return err
	}
	return x.stream(op, in)
}

// play hands a request of the playground to the data plane. Which tenant it is
// charged to stands in X-Hearth-Tenant; a tenant admin's is their own.
func (x *exchange) play() error {
	tenant := x.r.Header.Get("X-Hearth-Tenant")
	if x.caller.Role == TenantAdmin {
		if tenant != "" && tenant != x.caller.Tenant {
			return infer.Errorf(infer.CodeNotFound, "there is no tenant %.64q", tenant)
		}
		tenant = x.caller.Tenant
	}
	if tenant == "" {
		return infer.Invalid("X-Hearth-Tenant", "is needed: whose budget is charged")
	}
	r := x.r.Clone(x.r.Context())
	r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/play"), ""
	r.RequestURI = r.URL.RequestURI()
	for _, h := range []string{"Cookie", "Authorization", "X-Api-Key", "X-Goog-Api-Key", "X-Hearth-Tenant"} {
		r.Header.Del(h)
	}
	x.rec.patient = true // the data plane has bounds of its own
	x.s.opt.Service.Play(x.w, r, x.caller, tenant)
	return nil
}
