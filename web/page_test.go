package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"hearth/web"
	"hearth/web/webtest"
)

func TestSignInAndOut(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	// Signed out: the page shows a form and no figures.
	a := b.do("GET", "/", "", "Authorization", "")
	if a.status != 200 || !strings.Contains(string(a.body), "<form") || strings.Contains(string(a.body), "parrot") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/ui/status", "/ui/events"} {
		if a := b.do("GET", path, "", "Authorization", ""); a.status != 401 {
			t.Errorf("%s, signed out: %d", path, a.status)
		}
	}
	// A wrong token, then the right one, once.
	if a := b.do("POST", "/ui/setup", `{"token":"guess"}`, "Authorization", ""); a.status != 401 || a.header.Get("Set-Cookie") != "" {
		t.Errorf("wrong token: %d", a.status)
	}
	c := b.signIn()
	if c.Name != "__Host-hearth" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("cookie: %+v", c)
	}
	if a := b.do("POST", "/ui/setup", `{"token":"`+webtest.Token+`"}`, "Authorization", ""); a.status != 401 {
		t.Errorf("the token worked twice: %d", a.status)
	}
	cookie := c.Name + "=" + c.Value
	// Signed in: figures, providers, and the chat charged to the session.
	a = b.do("GET", "/", "", "Authorization", "", "Cookie", cookie)
	for _, part := range []string{"parrot", "40 used, 25 cached, of 100", "40.0 ms", "$1.2340", "other", "1 h 30 min"} {
		if !strings.Contains(string(a.body), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if a := b.do("POST", chatPath, ask("x"), "Authorization", "", "Cookie", cookie); a.status != 200 {
		t.Errorf("chat by session: %d %s", a.status, a.body)
	}
	// From another origin the cookie counts for nothing.
	for name, h := range map[string][2]string{"fetch metadata": {"Sec-Fetch-Site", "cross-site"}, "origin": {"Origin", "https://evil.example"}} {
		if a := b.do("POST", chatPath, ask("x"), "Authorization", "", "Cookie", cookie, h[0], h[1]); a.status != 401 {
			t.Errorf("%s: a foreign page may chat: %d", name, a.status)
		}
		for _, path := range []string{"/ui/signout", "/ui/signin", "/ui/setup"} {
			if a := b.do("POST", path, `{"secret":"`+webtest.Key+`"}`, "Authorization", "", "Cookie", cookie, h[0], h[1]); a.status != 403 {
				t.Errorf("%s: %s from a foreign page: %d", name, path, a.status)
			}
		}
	}
	a = b.do("POST", "/ui/signout", "", "Authorization", "", "Cookie", cookie)
	if a.status != 303 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: %d %v", a.status, a.header)
	}
	if a := b.do("GET", "/ui/status", "", "Authorization", "", "Cookie", cookie); a.status != 401 {
		t.Errorf("the session outlives its end: %d", a.status)
	}
}

// Without a script the form signs in; a key's session sees its own tenant only.
func TestSignInByForm(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	form := "application/x-www-form-urlencoded"
	a := b.do("POST", "/ui/signin", "secret=nope", "Authorization", "", "Content-Type", form)
	if a.status != 401 || !strings.Contains(string(a.body), "Not signed in") {
		t.Errorf("wrong key: %d %s", a.status, a.body)
	}
	a = b.do("POST", "/ui/signin", "secret="+webtest.Key, "Authorization", "", "Content-Type", form)
	if a.status != 303 || a.header.Get("Location") != "/" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	cookie := c.Name + "=" + c.Value
	v := b.do("GET", "/ui/status", "", "Authorization", "", "Cookie", cookie).js(t)
	if n := len(v["spend"].([]any)); n != 1 || v["held_nano"] != 0.0 || v["ledger"] != 0.0 {
		t.Errorf("a tenant sees %v", v)
	}
	// A key alone shows the status to this machine, not through a proxy.
	if a := b.do("GET", "/ui/status", ""); a.status != 200 {
		t.Errorf("a key on loopback: %d", a.status)
	}
	if a := b.do("GET", "/ui/status", "", "X-Forwarded-For", "192.0.2.1"); a.status != 403 {
		t.Errorf("a key through a proxy: %d", a.status)
	}
	// The set-up token pasted into the form works too.
	if a := b.do("POST", "/ui/signin", "secret="+webtest.Token, "Authorization", "", "Content-Type", form); a.status != 303 {
		t.Errorf("a pasted token: %d", a.status)
	}
}

// TestPageProviders holds that an operator sees how providers are, what was
// lost and what it cost, without a script and with one; a tenant does not.
func TestPageProviders(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	c := b.signIn()
	cookie := c.Name + "=" + c.Value
	html := string(b.do("GET", "/", "", "Authorization", "", "Cookie", cookie).body)
	for _, part := range []string{
		`<th scope="row">next-door</th><td>parrot-7b</td><td><span class="bad">✗ out of service, 10 s</span></td>`, "<td>connect</td>",
		`<td>&lt;parrot&gt;</td><td><span class="good">✓ healthy</span></td>`, "no route names it",
		"seed=dropped, top_k=emulated", "$0.000038", "<td>far-away</td><td>2</td>", `✗ error</span> upstream_error`, `<option value="talk">talk</option>`,
	} {
		if !strings.Contains(html, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	v := b.do("GET", "/ui/status", "", "Authorization", "", "Cookie", cookie).js(t)
	if u, r := v["upstreams"].([]any), v["recent"].([]any); len(u) != 3 || len(r) != 2 || u[1].(map[string]any)["fallbacks"] != 6.0 || r[0].(map[string]any)["charge_nano"] != 38000.0 {
		t.Errorf("an operator sees %v and %v", u, r)
	}
	v = b.do("GET", "/ui/status", "").js(t) // by key: a tenant
	if u, r := v["upstreams"].([]any), v["recent"].([]any); len(u) != 0 || len(r) != 0 || strings.Contains(fmt.Sprint(v["choices"]), "talk") {
		t.Errorf("a tenant sees %v and %v", u, r)
	}
}

func TestSignInGuard(t *testing.T) {
	b := start(t, web.Limits{SignInFailures: 3}, nil)
	for i := range 5 {
		a := b.do("POST", "/ui/setup", `{"token":"guess"}`, "Authorization", "")
		want := 401
		if i >= 3 {
			want = 429
		}
		if a.status != want {
			t.Errorf("try %d: %d, want %d", i, a.status, want)
		}
	}
	if a := b.do("POST", "/ui/setup", strings.Repeat("x", 10_000), "Authorization", ""); a.status != 429 {
		t.Errorf("a large body: %d", a.status)
	}
}

// TestPolicy holds that pages load from us alone, and that nothing in them
// needs more than that.
func TestPolicy(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	c := b.signIn()
	for _, cookie := range []string{"", c.Name + "=" + c.Value} {
		a := b.do("GET", "/", "", "Authorization", "", "Cookie", cookie)
		csp := a.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("the policy lacks %q: %s", part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || a.header.Get("Referrer-Policy") != "no-referrer" || a.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("headers: %v", a.header)
		}
		html := string(a.body)
		if regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://|javascript:`).MatchString(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", "")) {
			t.Errorf("inline code, inline style or a foreign address:\n%s", html)
		}
		total := len(html)
		for _, m := range regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(html, -1) {
			f := b.do("GET", m[1], "", "Authorization", "")
			if f.status != 200 || !strings.Contains(f.header.Get("Cache-Control"), "immutable") || f.header.Get("Content-Type") == "" {
				t.Errorf("%s: %d %v", m[1], f.status, f.header)
			}
			if regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`).Match(f.body) {
				t.Errorf("%s makes markup or code out of text", m[1])
			}
			total += len(f.body)
		}
		if total > 60<<10 {
			t.Errorf("the page weighs %d bytes", total)
		}
	}
	for _, path := range []string{"/assets/app.css", "/assets/0000000000000000/app.css", "/assets/../page.go", "/assets/x"} {
		if a := b.do("GET", path, ""); a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// Names of models and tenants are text, whatever they hold.
func TestPageEscapes(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	c := b.signIn()
	b.svc.Down.Store(`<img src=x onerror="alert(1)">`)
	a := b.do("GET", "/", "", "Authorization", "", "Cookie", c.Name+"="+c.Value)
	if strings.Contains(string(a.body), "<img src=x") || !strings.Contains(string(a.body), "&lt;img") {
		t.Errorf("the reason became markup")
	}
}

func TestStatusEvents(t *testing.T) {
	b := start(t, web.Limits{StatusEvery: 100 * time.Millisecond, StatusStreams: 1}, nil)
	c := b.signIn()
	open := func() *http.Response {
		req, _ := http.NewRequest("GET", b.url+"/ui/events", nil)
		req.AddCookie(c)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := open()
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	next := func() (name, data string) {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimSpace(line); line == "" {
				return name, data
			}
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = v
			}
		}
	}
	for range 3 {
		name, data := next()
		if name != "status" || !json.Valid([]byte(data)) {
			t.Fatalf("got %s %s", name, data)
		}
	}
	two := open()
	two.Body.Close()
	if two.StatusCode != 503 {
		t.Errorf("a second watcher where one is allowed: %d", two.StatusCode)
	}
	// Signing out ends the stream.
	b.do("POST", "/ui/signout", "", "Authorization", "", "Cookie", c.Name+"="+c.Value)
	for {
		if name, _ := next(); name == "signout" {
			break
		}
	}
}
