package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

// The pages are rendered here for every role, with what operations give in full,
// with nothing, and with markup in every text, and the HTML is held to account.

// fakeService signs in whoever's cookie is the name of a role.
type fakeService struct{ Service }

func (fakeService) Session(_ context.Context, secret, _ string) (*Session, error) {
	for _, r := range Roles() {
		if string(r) == secret {
			c := Caller{User: "ada", Role: r, Method: "password", Fresh: true}
			if r == TenantAdmin {
				c.Tenant = "acme"
			}
			return &Session{Caller: c, Secret: secret}, nil
		}
	}
	return nil, infer.Errorf(infer.CodeUnauthorized, "no such session")
}

func (fakeService) HasOwner(context.Context) bool { return true }

// sampleSets are what operations give, by name, as JSON.
var sampleSets = []map[string]string{servingSamples}

func sample(name string) (string, bool) {
	for _, set := range sampleSets {
		if s, ok := set[name]; ok {
			return s, true
		}
	}
	return "", false
}

var (
	postedTo  = regexp.MustCompile(`action="/do/([a-z_/-]+)"`)
	askedFor  = regexp.MustCompile(`\.x\.May "([a-z_/-]+)"`)
	downloads = regexp.MustCompile(`"/get/([a-z_/-]+)`)
)

// usedOperations are those that pages read, post to, ask for and download.
func usedOperations(t testing.TB) (reads map[string]Access, changes map[string]bool) {
	reads, changes = map[string]Access{}, map[string]bool{}
	for _, p := range allPages() {
		for _, rd := range p.Reads {
			reads[rd.Op] = ReadTenant
		}
	}
	err := fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".html") {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		for _, re := range []*regexp.Regexp{postedTo, askedFor, downloads} {
			for _, m := range re.FindAllStringSubmatch(string(b), -1) {
				changes[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return reads, changes
}

// fakeOperations answer with what give makes of their sample.
func fakeOperations(t testing.TB, give func(name, sample string) (any, error)) *Registry {
	reads, changes := usedOperations(t)
	inputs := reflect.TypeFor[map[string]any]()
	scope := func(context.Context, string, any) error { return nil }
	var ops []*Operation
	for name := range reads {
		text, ok := sample(name)
		if !ok {
			t.Errorf("operation %s has no sample: add one, so that its page is tested", name)
			text = "{}"
		}
		ops = append(ops, &Operation{Name: name, Method: "GET", Path: "/" + name, Summary: "sample", Access: ReadTenant, In: inputs, Out: reflect.TypeFor[any](), Scope: scope,
			Run: func(_ context.Context, in any) (any, error) {
				out, err := give(name, text)
				return asked(out, *in.(*map[string]any)), err
			}})
	}
	for name := range changes {
		if _, ok := reads[name]; ok {
			continue
		}
		text, ok := sample(name)
		if !ok {
			text = "{}"
		}
		ops = append(ops, &Operation{Name: name, Method: "POST", Path: "/" + name, Summary: "sample", Access: OperateTenant, In: inputs, Out: reflect.TypeFor[any](), Scope: scope,
			Run: func(context.Context, any) (any, error) { return give(name, text) }})
	}
	return NewRegistry(ops...)
}

// asked is out, and one element of it where a list was asked for one tenant.
func asked(out any, in map[string]any) any {
	if l, ok := out.([]any); ok && in["tenant"] != nil && len(l) > 0 {
		return l[:1]
	}
	return out
}

var sampleTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newTestServer(t testing.TB, give func(name, sample string) (any, error)) *Server {
	t.Helper()
	s, err := New(Options{Service: fakeService{}, Operations: fakeOperations(t, give), Version: "1.2.3", Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})), Now: func() time.Time { return sampleTime }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// get asks for a page as a role would.
func get(s *Server, role Role, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost"+path, nil)
	r.RemoteAddr = "127.0.0.1:1000"
	r.Header.Set("Accept", "text/html")
	r.AddCookie(&http.Cookie{Name: cookieName, Value: string(role)})
	w := httptest.NewRecorder()
	s.serve(w, r)
	return w
}

// decoded is a sample as it is.
func decoded(_, text string) (any, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// emptied is what a fresh appliance gives: lists without elements.
func emptied(name, text string) (any, error) {
	v, err := decoded(name, text)
	return hollow(v), err
}

func hollow(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e = hollow(e); e != nil {
				out[k] = e
			}
		}
		return out
	case []any:
		return []any{}
	case json.Number:
		return json.Number("0")
	case string:
		return ""
	}
	return v
}

const hostileText = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}javascript:alert(3)`

// hostile has markup in every text but times, each text another one.
func hostile(name, text string) (any, error) {
	v, err := decoded(name, text)
	n := 0
	return spoil(v, &n), err
}

func spoil(v any, n *int) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = spoil(v[k], n)
		}
	case []any:
		for i, e := range v {
			v[i] = spoil(e, n)
		}
	case string:
		if _, isTime := moment(v); !isTime {
			*n++
			return hostileText + strconv.Itoa(*n)
		}
	}
	return v
}

// failing is an appliance of which nothing works.
func failing(name, _ string) (any, error) {
	return nil, infer.Errorf(infer.CodeUnavailable, "%s does not work", name)
}

// nulls is emptied with null for every list, as Go writes one that was never made.
func nulls(name, text string) (any, error) {
	v, err := emptied(name, text)
	return unlist(v), err
}

func unlist(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = unlist(e)
		}
	case []any:
		return nil
	}
	return v
}

// address is a page's path with something in its variable parts.
func address(p *Page) string {
	return regexp.MustCompile(`\{[a-z.]+\}`).ReplaceAllString(p.Path, "some-id")
}

func TestEveryPageForEveryRole(t *testing.T) {
	kinds := map[string]func(string, string) (any, error){"full": decoded, "empty": emptied, "hostile": hostile, "nulls": nulls}
	for kind, give := range kinds {
		s := newTestServer(t, give)
		for _, p := range allPages() {
			for _, role := range Roles() {
				t.Run(fmt.Sprintf("%s %s %s", p.File, role, kind), func(t *testing.T) {
					w := get(s, role, address(p))
					want := http.StatusOK
					if !p.Access.Allows(role) {
						want = http.StatusForbidden
					}
					if w.Code != want {
						t.Fatalf("got status %d, wanted %d", w.Code, want)
					}
					checkHTML(t, w.Body.String())
				})
			}
		}
	}
}

// TestPagesWhoseOperationsFail: what is optional is told as failed, the rest
// makes an error page; neither is broken.
func TestPagesWhoseOperationsFail(t *testing.T) {
	s := newTestServer(t, failing)
	for _, p := range allPages() {
		w := get(s, Owner, address(p))
		if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: got status %d", p.Path, w.Code)
		}
		checkHTML(t, w.Body.String())
	}
}

// TestPagesByThemselves: every file that a page names is there, every path is
// there once, and live parts stand in what they are live in.
func TestPagesByThemselves(t *testing.T) {
	all, err := loadPages()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range allPages() {
		if seen[p.Path] || !all.has(p.File) || p.Title == "" {
			t.Errorf("page %s: twice, without a title or without its file %s", p.Path, p.File)
		}
		seen[p.Path] = true
	}
}

// TestWeight: everything that a browser loads for any page, compressed.
func TestWeight(t *testing.T) {
	s := newTestServer(t, decoded)
	assets := 0
	for name, b := range s.pages.files {
		if z := s.pages.gzip[name](); z != nil {
			b = z
		}
		assets += len(b)
	}
	for _, p := range allPages() {
		body := get(s, Owner, address(p)).Body.Bytes()
		if z := squeezed(body); z != nil {
			body = z
		}
		if total := assets + len(body); total > 100_000 {
			t.Errorf("%s weighs %d bytes with all assets, wanted at most 100 000", p.Path, total)
		}
	}
}
