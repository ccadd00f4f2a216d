package appliance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/store"
	"hearth/web/admin"
)

var writeAccess = flag.Bool("write-access", false, "write testdata/access.txt anew from the routes")

// visitors are who come to the control plane, by the credential they show.
type visitors struct {
	b     *testbed
	names []string
	token map[string]string
	role  map[string]admin.Role
}

const otherTenant = "other"

// newVisitors makes an account of each role, and tenant admins of two tenants.
func newVisitors(t *testing.T, b *testbed) *visitors {
	t.Helper()
	v := &visitors{b: b, names: []string{"nobody"}, token: map[string]string{}, role: map[string]admin.Role{}}
	for _, who := range []struct {
		name   string
		role   admin.Role
		tenant string
	}{{"owner", admin.Owner, ""}, {"operator", admin.Operator, ""}, {"auditor", admin.Auditor, ""},
		{"ours", admin.TenantAdmin, "default"}, {"theirs", admin.TenantAdmin, otherTenant}} {
		ctx := store.As(context.Background(), "test")
		ac, err := b.accounts.CreateWith(ctx, who.name, who.role, who.tenant, "a long password of "+who.name)
		if err != nil {
			t.Fatal(err)
		}
		token, err := b.accounts.CreateToken(ctx, ac.ID, "test", who.role, who.tenant, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		v.names = append(v.names, who.name)
		v.token[who.name], v.role[who.name] = token.Secret, who.role
	}
	return v
}

// ask is one request to the control plane over its handler.
func (v *visitors) ask(who, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:4711"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if t := v.token[who]; t != "" {
		r.Header.Set("Authorization", "Bearer "+t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	v.b.console.server.Handler().ServeHTTP(w, r.WithContext(ctx))
	out, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(out)
}

const twoTenants = testConfig + `
[[tenant]]
name = "other"
[[tenant.budget]]
period = "month"
cap_usd = "1.00"
`

var pathPart = regexp.MustCompile(`\{[a-z_]+(\.\.\.)?\}`)

// Nothing is on the control plane that the table of access does not name, and
// everybody is let in where it says so, and nowhere else.
func TestAccessOfEveryRoute(t *testing.T) {
	b := newTestbedWith(t, twoTenants)
	v := newVisitors(t, b)
	routes := b.console.server.Routes()
	checkAccessTable(t, routes)
	for _, rt := range routes {
		if rt.Open || rt.Path == "/live" {
			continue
		}
		path := pathPart.ReplaceAllString(strings.ReplaceAll(rt.Path, "{$}", ""), "nothing")
		body := ""
		if rt.Method != http.MethodGet {
			body = `{"nonsense":1}` // refused by every operation, so that nothing is done
		}
		for _, who := range v.names {
			status, out := v.ask(who, rt.Method, path, body)
			role, known := v.role[who]
			want := known && rt.Access.Allows(role)
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden && strings.Contains(out, "your role")
			switch {
			case want && refused:
				t.Errorf("%s %s: %s is refused with %d", rt.Method, rt.Path, who, status)
			case !want && !refused:
				t.Errorf("%s %s: %s is let in: %d %.200s", rt.Method, rt.Path, who, status, out)
			case !known && status != http.StatusUnauthorized:
				t.Errorf("%s %s: without a credential: %d", rt.Method, rt.Path, status)
			case status >= 500 && status != http.StatusServiceUnavailable:
				t.Errorf("%s %s: %s got %d %.200s", rt.Method, rt.Path, who, status, out)
			}
		}
	}
}

// checkAccessTable holds the routes against testdata/access.txt: whoever adds
// one says there who may use it.
func checkAccessTable(t *testing.T, routes []admin.Route) {
	t.Helper()
	const file = "testdata/access.txt"
	var lines []string
	for _, rt := range routes {
		who := "everybody"
		if !rt.Open {
			var roles []string
			for _, r := range admin.Roles() {
				if rt.Access.Allows(r) {
					roles = append(roles, string(r))
				}
			}
			who = strings.Join(roles, " ")
		}
		lines = append(lines, fmt.Sprintf("%-6s %-44s %-26s %s", rt.Method, rt.Path, rt.Operation, who))
	}
	slices.Sort(lines)
	got := []byte(strings.Join(lines, "\n") + "\n")
	if *writeAccess {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		for _, l := range lines {
			if !bytes.Contains(want, []byte(l+"\n")) {
				t.Errorf("%s has no row: %s", file, l)
			}
		}
		for l := range strings.Lines(string(want)) {
			if !bytes.Contains(got, []byte(l)) {
				t.Errorf("%s has a row for what is not there: %s", file, l)
			}
		}
		t.Error("go test ./appliance -run AccessOfEveryRoute -write-access writes it anew; read the difference")
	}
}

// An admin of one tenant learns of no other: what names something of another
// tenant is not found, and no list holds any of it.
func TestTenantsAreApart(t *testing.T) {
	b := newTestbedWith(t, twoTenants)
	v := newVisitors(t, b)
	ctx := store.As(context.Background(), "test")
	secret, err := b.store.CreateKey(ctx, store.Key{Tenant: "default", Name: "canary-key"})
	if err != nil {
		t.Fatal(err)
	}
	b.fake.generate = words(3)
	if _, _, err := b.ask(ctx, "m", 0); err != nil {
		t.Fatal(err)
	}
	page, err := b.store.List(ctx, store.Filter{Tenant: "default"})
	if err != nil || len(page.Rows) == 0 {
		t.Fatalf("%v, %d rows", err, len(page.Rows))
	}
	theirs := []string{"canary-key", secret.ID, page.Rows[0].RequestID, `"tenant":"default"`, `"name":"default"`}
	values := map[string]string{"{id}": secret.ID, "{request_id}": page.Rows[0].RequestID, "{name}": "default", "{tenant}": "default"}
	scoped := 0
	for _, rt := range b.console.server.Routes() {
		if rt.Operation == "" || !rt.Access.Tenants() {
			continue
		}
		scoped++
		path := pathPart.ReplaceAllStringFunc(rt.Path, func(part string) string {
			if strings.HasPrefix(rt.Path, "/api/ledger") {
				return page.Rows[0].RequestID
			}
			if v, ok := values[part]; ok {
				return v
			}
			return "1"
		})
		tries := []string{""}
		if rt.Method != http.MethodGet {
			tries = []string{`{}`, `{"tenant":"default"}`}
		} else {
			tries = append(tries, "?tenant=default")
		}
		for _, with := range tries {
			var status int
			var out string
			if rt.Method == http.MethodGet {
				status, out = v.ask("theirs", rt.Method, path+with, "")
			} else {
				status, out = v.ask("theirs", rt.Method, path, with)
			}
			for _, canary := range theirs {
				// An error may say again what was asked for.
				if status < 400 && strings.Contains(out, canary) {
					t.Errorf("%s %s%s: %d tells %q: %.300s", rt.Method, path, with, status, canary, out)
				}
			}
			if status >= 500 && status != http.StatusServiceUnavailable {
				t.Errorf("%s %s%s: %d %.200s", rt.Method, path, with, status, out)
			}
		}
	}
	if scoped < 10 {
		t.Errorf("only %d operations are open to tenants", scoped)
	}
	// Nothing of the other tenant has changed.
	if k, ok := b.store.Key(secret.ID); !ok || !k.Live(time.Now()) || k.Name != "canary-key" {
		t.Errorf("the key: %+v", k)
	}
	// The same admin reads their own.
	if status, out := v.ask("ours", "GET", "/api/keys/"+secret.ID, ""); status != 200 || !strings.Contains(out, "canary-key") {
		t.Errorf("their own key: %d %s", status, out)
	}
}
