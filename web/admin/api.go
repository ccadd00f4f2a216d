package admin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
)

// apiPrefix is where the API begins.
const apiPrefix = "/api"

// apiRoutes places every operation that has a place.
func (s *Server) apiRoutes() {
	for _, op := range s.opt.Operations.All() {
		if op.Path == "" {
			continue
		}
		s.handle(Route{Method: op.Method, Path: apiPrefix + op.Path, Operation: op.Name, Access: op.Access},
			func(x *exchange) error { return x.api(op) })
	}
	document := s.document()
	s.handle(Route{Method: "GET", Path: apiPrefix + "/openapi.json", Access: ReadTenant}, func(x *exchange) error {
		return x.bytes("application/json", document)
	})
}

// api carries out an operation for a program.
func (x *exchange) api(op *Operation) error {
	in := reflect.New(op.In).Interface()
	if err := x.input(op, in); err != nil {
		return err
	}
	ctx := x.r.Context()
	if op.Stream != nil {
		if err := x.s.opt.Operations.Permit(ctx, op, in); err != nil {
			return err
		}
		return x.stream(op, in)
	}
	out, err := x.s.opt.Operations.Call(ctx, op, in)
	if err != nil {
		return err
	}
	if t, ok := out.(interface{ ETag() string }); ok {
		x.w.Header().Set("ETag", strconv.Quote(t.ETag()))
	}
	return x.json(http.StatusOK, out)
}

// input reads what op is to work on: path, query or JSON body, and If-Match.
func (x *exchange) input(op *Operation, in any) error {
	values := url.Values{}
	if op.Method == http.MethodGet {
		q, err := url.ParseQuery(x.r.URL.RawQuery)
		if err != nil {
			return infer.Invalid("query", "cannot be read")
		}
		values = q
	} else {
		body, err := io.ReadAll(x.r.Body)
		if err != nil {
			return bodyError(err)
		}
		if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); len(body) > 0 && kind != "application/json" {
			return infer.Invalid("content-type", "cannot read this: wanted application/json")
		}
		if len(body) > 0 {
			if err := decode(body, in); err != nil {
				return err
			}
		}
	}
	if m := x.r.Header.Get("If-Match"); m != "" {
		if _, ok := field(op.In, "if_match"); !ok {
			return infer.Invalid("If-Match", "is not looked at here")
		}
		values.Set("if_match", strings.Trim(strings.TrimPrefix(m, "W/"), `"`))
	}
	for _, name := range pathNames(op.Path) {
		values.Set(name, x.r.PathValue(name))
	}
	return bind(in, values)
}

// pathNames lists the parts of a path in braces.
func pathNames(path string) []string {
	var names []string
	for _, part := range strings.Split(path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.TrimSuffix(strings.Trim(part, "{}"), "..."))
		}
	}
	return names
}

func bodyError(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return infer.Errorf(infer.CodeTooLarge, "cannot take the body: it has more than %d bytes", big.Limit)
	}
	return infer.Invalid("body", "cannot be read")
}

// stream lets a large answer go out as it is made.
func (x *exchange) stream(op *Operation, in any) error {
	x.rec.patient = true
	w := &streamWriter{x: x}
	err := op.Stream(x.r.Context(), in, w)
	if err != nil && !w.begun {
		return err
	}
	if err != nil {
		x.s.log.Warn("a download of the control plane broke off", "operation", op.Name, "error", err)
		panic(http.ErrAbortHandler) // a cut answer must not look whole
	}
	return nil
}

type streamWriter struct {
	x     *exchange
	begun bool
}

// Begin writes the head.
func (w *streamWriter) Begin(mediaType, fileName string) {
	h := w.x.w.Header()
	h.Set("Content-Type", mediaType)
	if fileName != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName}))
	}
	w.begun = true
	w.x.w.WriteHeader(http.StatusOK)
}

// Write writes a piece of the body.
func (w *streamWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.Begin("application/octet-stream", "")
	}
	// The next piece may be long in coming: the deadline goes with each.
	_ = w.x.rec.rc.SetWriteDeadline(time.Now().Add(writeTime))
	defer w.x.rec.rc.SetWriteDeadline(time.Time{})
	return w.x.w.Write(b)
}

func (x *exchange) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(append(b, '\n')) // the caller may have gone
	return nil
}

func (x *exchange) bytes(mediaType string, b []byte) error {
	h := x.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(b)
	}
	return nil
}

// Fault is an error as the API tells it.
type Fault struct {
	Code      infer.Code `json:"code"`
	Message   string     `json:"message"`
	Param     string     `json:"param,omitempty"`
	RequestID string     `json:"request_id,omitempty"`
	// Details, of a configuration: its faults, one by one, or a diff.
	Details any `json:"details,omitempty"`
}

// faultOf turns an error into what may be told. Causes that are not of our own
// making go to the log.
func (x *exchange) faultOf(err error) Fault {
	f := Fault{RequestID: x.id}
	var detailed interface{ Details() any }
	if errors.As(err, &detailed) {
		f.Details = detailed.Details()
	}
	var e *infer.Error
	switch {
	case errors.As(err, &e):
		f.Code, f.Message, f.Param = e.Code, e.Message, e.Param
		if e.Cause != nil && e.Code == infer.CodeInternal {
			x.s.log.Error("the control plane failed", "request_id", x.id, "path", x.route.Path, "error", e.Cause)
		}
	case f.Details != nil:
		f.Code, f.Message = infer.CodeInvalid, err.Error()
	default:
		x.s.log.Error("the control plane failed", "request_id", x.id, "path", x.route.Path, "error", err)
		f.Code, f.Message = infer.CodeInternal, "an internal fault happened; the log tells more under the id "+x.id
	}
	return f
}

// statusOf is the HTTP status of an error's code.
func statusOf(c infer.Code) int {
	switch c {
	case infer.CodeInvalid, infer.CodeUnsupported:
		return http.StatusBadRequest
	case infer.CodeUnauthorized:
		return http.StatusUnauthorized
	case infer.CodeForbidden:
		return http.StatusForbidden
	case infer.CodeNotFound:
		return http.StatusNotFound
	case infer.CodeMethod:
		return http.StatusMethodNotAllowed
	case infer.CodeConflict:
		return http.StatusConflict
	case infer.CodeMediaType:
		return http.StatusUnsupportedMediaType
	case infer.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case infer.CodeRateLimited, infer.CodeQuota:
		return http.StatusTooManyRequests
	case infer.CodeUnavailable, infer.CodeOverloaded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers with an error: a page for browsers that look at pages, JSON for
// everyone else.
func (x *exchange) fail(err error) {
	f := x.faultOf(err)
	x.retryAfter(err)
	if x.wantsPage() {
		if f.Code == infer.CodeUnauthorized && x.caller == nil && x.r.Method == http.MethodGet {
			to := "/signin"
			if at := x.r.URL.RequestURI(); at != "/" {
				to += "?then=" + url.QueryEscape(at)
			}
			if !x.s.opt.Service.HasOwner(x.r.Context()) {
				to = "/setup"
			}
			_ = x.redirect(to)
			return
		}
		x.errorPage(statusOf(f.Code), f)
		return
	}
	_ = x.json(statusOf(f.Code), struct {
		Error Fault `json:"error"`
	}{f})
}

// retryAfter says when to try again, where the error knows.
func (x *exchange) retryAfter(err error) {
	var e *infer.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds()+0.999)))
	}
}

// wantsPage says whether who asks is a person with a browser.
func (x *exchange) wantsPage() bool {
	return !strings.HasPrefix(x.r.URL.Path, apiPrefix+"/") && strings.Contains(x.r.Header.Get("Accept"), "text/html")
}
