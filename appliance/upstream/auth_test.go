package upstream

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
)

// canary stands in every credential of these tests.
const canary = "cAnArY-7c1e93ab"

func TestSecretIsNeverShown(t *testing.T) {
	s, err := newSecret([]byte(" " + canary + "\n"))
	if err != nil || s.value != canary {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "p", &s, "in", struct{ S Secret }{s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "p", &s)
	j, _ := json.Marshal(map[string]any{"s": s, "p": &s})
	text := fmt.Sprintf("%v %+v %#v %s %q %x %d %v %#v", s, s, s, s, s, s, s, &s, struct{ S *Secret }{&s}) + fmt.Sprint(s, &s, []Secret{s}) + log.String() + string(j)
	for _, form := range []string{canary, fmt.Sprintf("%x", canary)} {
		if strings.Contains(text, form) {
			t.Errorf("shown in %s", text)
		}
	}
	for _, bad := range []string{"", " \n", "a\x00b", "a\nb", "schlüssel", "a\x7f", strings.Repeat("x", maxSecret+1)} {
		if _, err := newSecret([]byte(bad)); err == nil {
			t.Errorf("%.20q was taken", bad)
		}
	}
	if _, err := newSecret([]byte("{\n\t\"a\": 1\r\n}")); err != nil {
		t.Error(err)
	}
}

func TestReferences(t *testing.T) {
	for _, bad := range []string{canary, "", "env:", "vault:x", "https://x/" + canary, "sk-" + canary} {
		if _, _, err := reference(bad); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	c := &policy.UpstreamConfig{Name: "u", Kind: "openai", Credential: "sk-" + canary, BaseURL: "http://user:" + canary + "@127.0.0.1/"}
	for range 2 {
		if _, err := New(c, Options{}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v", err)
		}
		c.BaseURL = ""
	}
}

// provider answers with what it was shown, as the text of a whole answer.
func provider(t *testing.T, tune func(*policy.UpstreamConfig, *Options)) (*Upstream, *atomic.Pointer[http.Request], *atomic.Int64) {
	t.Helper()
	var last atomic.Pointer[http.Request]
	var status atomic.Int64
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		last.Store(r)
		if s := status.Load(); s != 0 {
			w.WriteHeader(int(s))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"t":"x","out":1}`)
	}, tune)
	return u, &last, &status
}

func shown(t *testing.T, u *Upstream, last *atomic.Pointer[http.Request], header string) string {
	t.Helper()
	if _, err := ask(t.Context(), u, false); err != nil {
		t.Fatalf("%v, cause %v", err, err.Cause)
	}
	return last.Load().Header.Get(header)
}

func TestFileRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	u, last, _ := provider(t, func(c *policy.UpstreamConfig, o *Options) {
		c.Credential, o.Log = "file:"+path, slog.New(slog.NewTextHandler(&log, nil))
	})
	if got := shown(t, u, last, "Authorization"); got != "Bearer one" {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(log.String(), "others may read") {
		t.Errorf("no word about the mode: %s", log.String())
	}
	// Rotation by rename, same size and time.
	info, _ := os.Stat(path)
	os.WriteFile(path+".new", []byte("two\n"), 0o600)
	os.Chtimes(path+".new", info.ModTime(), info.ModTime())
	os.Rename(path+".new", path)
	if got := shown(t, u, last, "Authorization"); got != "Bearer two" {
		t.Errorf("after a rename: got %q", got)
	}
	os.WriteFile(path, []byte("three\n"), 0o600)
	if got := shown(t, u, last, "Authorization"); got != "Bearer three" {
		t.Errorf("after a write: got %q", got)
	}
	os.Remove(path)
	_, err := ask(t.Context(), u, false)
	if err == nil || err.Code != infer.CodeUnavailable || err.Upstream.Class != infer.FailAuth || !err.Upstream.Unsent || strings.Contains(err.Error(), path) {
		t.Errorf("without its file: got %+v", err)
	}
}

func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "key"), []byte(canary), 0o400)
	u, last, _ := provider(t, func(c *policy.UpstreamConfig, o *Options) {
		c.Kind, c.Credential = "anthropic", "systemd:key"
		o.Getenv = func(k string) string { return map[string]string{"CREDENTIALS_DIRECTORY": dir}[k] }
	})
	if got := shown(t, u, last, "X-Api-Key"); got != canary {
		t.Errorf("got %q", got)
	}
	u = dialled(t, "http://127.0.0.1:1", func(c *policy.UpstreamConfig, o *Options) {
		c.Credential, o.Getenv = "systemd:key", func(string) string { return "" }
	})
	defer u.Close()
	if _, err := ask(t.Context(), u, false); err == nil || err.Upstream.Class != infer.FailAuth {
		t.Errorf("got %v", err)
	}
	if _, err := stored(u, "systemd", "../key"); err == nil {
		t.Error("a path was taken for a name")
	}
}

// tokenServer is a token endpoint that notes its forms.
type tokenServer struct {
	*httptest.Server
	mu    sync.Mutex
	forms []url.Values
	heads []http.Header
	paths []string
	reply func(n int, w http.ResponseWriter)
}

func newTokenServer(t *testing.T, reply func(n int, w http.ResponseWriter)) *tokenServer {
	s := &tokenServer{reply: reply}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		s.mu.Lock()
		s.forms, s.heads, s.paths = append(s.forms, r.PostForm), append(s.heads, r.Header), append(s.paths, r.URL.Path)
		n := len(s.forms)
		s.mu.Unlock()
		s.reply(n, w)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.forms)
}

func (s *tokenServer) form(n int) url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forms[n]
}

func replyToken(n int, w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"tok%d","token_type":"Bearer","expires_in":3600}`, n)
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock                   { c := &clock{}; c.at.Store(time.Now().UnixNano()); return c }
func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func identity(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokenExchange(t *testing.T) {
	s := newTokenServer(t, replyToken)
	path, c := identity(t, canary+"-1"), newClock()
	u, last, status := provider(t, func(p *policy.UpstreamConfig, o *Options) {
		p.Credential, p.TokenURL, p.Audience, p.Scope, o.Now = "oidc-file:"+path, s.URL+"/token", "aud", "sc", c.now
	})
	// Many at once: one exchange.
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { ask(t.Context(), u, false) })
	}
	wait.Wait()
	if got := shown(t, u, last, "Authorization"); got != "Bearer tok1" || s.count() != 1 {
		t.Errorf("got %q after %d exchanges", got, s.count())
	}
	want := url.Values{"grant_type": {grantExchange}, "subject_token": {canary + "-1"}, "subject_token_type": {typeJWT}, "requested_token_type": {typeAccess}, "audience": {"aud"}, "scope": {"sc"}}
	if fmt.Sprint(s.form(0)) != fmt.Sprint(want) {
		t.Errorf("form %v", s.form(0))
	}
	// Shortly before its end a new one is got, while the old one serves.
	c.advance(56 * time.Minute)
	shown(t, u, last, "Authorization")
	eventually(t, func() bool { return s.count() == 2 })
	eventually(t, func() bool { return shown(t, u, last, "Authorization") == "Bearer tok2" })
	// A rotated identity token is exchanged.
	os.WriteFile(path, []byte(canary+"-22"), 0o600)
	shown(t, u, last, "Authorization")
	eventually(t, func() bool { return s.count() == 3 && s.form(2).Get("subject_token") == canary+"-22" })
	eventually(t, func() bool { return shown(t, u, last, "Authorization") == "Bearer tok3" })
	// A token that the provider turns down is got again.
	status.Store(401)
	ask(t.Context(), u, false)
	status.Store(0)
	shown(t, u, last, "Authorization")
	if s.count() != 4 {
		t.Errorf("%d exchanges after a refusal", s.count())
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 200 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it did not come about")
}

func TestTokenExchangeFails(t *testing.T) {
	for name, reply := range map[string]func(int, http.ResponseWriter){
		"refused": func(_ int, w http.ResponseWriter) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"`+canary+`"}`)
		},
		"html":  func(_ int, w http.ResponseWriter) { fmt.Fprint(w, "<html>"+canary) },
		"empty": func(_ int, w http.ResponseWriter) { fmt.Fprint(w, `{}`) },
		"redirect": func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		},
		"control": func(_ int, w http.ResponseWriter) { fmt.Fprint(w, `{"access_token":"a\nb"}`) },
		"over":    func(_ int, w http.ResponseWriter) { fmt.Fprint(w, `{"access_token":"a","expires_in":5}`) },
	} {
		s := newTokenServer(t, reply)
		u, last, _ := provider(t, func(p *policy.UpstreamConfig, o *Options) {
			p.Credential, p.TokenURL = "oidc-file:"+identity(t, canary), s.URL
		})
		for range 3 {
			_, err := ask(t.Context(), u, false)
			if err == nil || err.Code != infer.CodeUnavailable || err.Upstream.Class != infer.FailAuth || !err.Upstream.Unsent {
				t.Fatalf("%s: got %+v", name, err)
			}
			if all := err.Error() + fmt.Sprint(err.Cause); strings.Contains(all, canary) {
				t.Errorf("%s: shown in %s", name, all)
			}
		}
		if s.count() != 1 || last.Load() != nil {
			t.Errorf("%s: %d exchanges in a second; the provider was asked: %v", name, s.count(), last.Load() != nil)
		}
	}
}

func TestEntra(t *testing.T) {
	s := newTokenServer(t, replyToken)
	for _, c := range []struct{ ref, key string }{{"oidc-file:" + identity(t, canary), "client_assertion"}, {"file:" + identity(t, canary), "client_secret"}} {
		u, last, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
			p.Kind, p.Credential, p.TokenURL, p.ClientID, p.APIVersion = "azure", c.ref, s.URL+"/t/oauth2/v2.0/token", "app", "2024-10-21"
		})
		if got := shown(t, u, last, "Authorization"); !strings.HasPrefix(got, "Bearer tok") || last.Load().Header.Get("Api-Key") != "" {
			t.Errorf("%s: got %q", c.key, got)
		}
		f := s.form(s.count() - 1)
		if f.Get("grant_type") != "client_credentials" || f.Get("client_id") != "app" || f.Get("scope") != entraScope || f.Get(c.key) != canary {
			t.Errorf("%s: form %v", c.key, f)
		}
		if c.key == "client_assertion" && f.Get("client_assertion_type") != assertionJWT {
			t.Errorf("form %v", f)
		}
	}
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, o *Options) {
		p.Kind, p.Credential, p.APIVersion, o.Getenv = "azure", "env:K", "2024-10-21", func(string) string { return canary }
	})
	if got := shown(t, u, last, "Api-Key"); got != canary || last.Load().URL.String() != "/openai/deployments/m/chat/completions?api-version=2024-10-21" {
		t.Errorf("got %q at %s", got, last.Load().URL)
	}
}

func TestServiceAccount(t *testing.T) {
	s := newTokenServer(t, replyToken)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(key)
	file, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "me@p.iam.gserviceaccount.com", "private_key_id": "kid1", "token_uri": s.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	c := newClock()
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, o *Options) {
		p.Kind, p.Credential, p.Project, p.Region, o.Now = "vertex", "file:"+identity(t, string(file)), "p", "europe-west4", c.now
	})
	if got := shown(t, u, last, "Authorization"); got != "Bearer tok1" {
		t.Errorf("got %q", got)
	}
	f := s.form(0)
	parts := strings.Split(f.Get("assertion"), ".")
	if f.Get("grant_type") != grantJWT || len(parts) != 3 {
		t.Fatalf("form %v", f)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], sig); err != nil {
		t.Error(err)
	}
	head, _ := base64.RawURLEncoding.DecodeString(parts[0])
	body, _ := base64.RawURLEncoding.DecodeString(parts[1])
	now := c.now().Unix()
	want := fmt.Sprintf(`{"iss":"me@p.iam.gserviceaccount.com","scope":%q,"aud":%q,"iat":%d,"exp":%d}`, googleScope, s.URL+"/token", now, now+3600)
	if string(head) != `{"alg":"RS256","typ":"JWT","kid":"kid1"}` || string(body) != want {
		t.Errorf("got %s %s", head, body)
	}
}

func TestWorkloadIdentity(t *testing.T) {
	s := newTokenServer(t, func(n int, w http.ResponseWriter) {
		if n%2 == 0 {
			fmt.Fprint(w, `{"accessToken":"impersonated","expireTime":"2099-01-01T00:00:00Z"}`)
			return
		}
		replyToken(n, w)
	})
	token := identity(t, `{"id_token":"`+canary+`"}`)
	file, _ := json.Marshal(map[string]any{
		"type": "external_account", "audience": "//iam/p", "subject_token_type": typeJWT, "token_url": s.URL + "/v1/token",
		"service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken",
		"credential_source":                 map[string]any{"file": token, "format": map[string]string{"type": "json", "subject_token_field_name": "id_token"}},
	})
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
		p.Kind, p.Credential, p.Project, p.Region = "vertex", "file:"+identity(t, string(file)), "p", "r"
	})
	if got := shown(t, u, last, "Authorization"); got != "Bearer impersonated" {
		t.Errorf("got %q", got)
	}
	f := s.form(0)
	if f.Get("audience") != "//iam/p" || f.Get("subject_token") != canary || f.Get("scope") != googleScope || f.Get("grant_type") != grantExchange {
		t.Errorf("form %v", f)
	}
	if s.paths[1] != "/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken" || s.heads[1].Get("Authorization") != "Bearer tok1" {
		t.Errorf("got %s %v", s.paths[1], s.heads[1])
	}
	// The same by an identity token alone.
	u, last, _ = provider(t, func(p *policy.UpstreamConfig, _ *Options) {
		p.Kind, p.Credential, p.Project, p.Region = "vertex", "oidc-file:"+identity(t, canary), "p", "r"
		p.Audience, p.TokenURL = "//iam/q", s.URL+"/v1/token"
	})
	if got := shown(t, u, last, "Authorization"); got != "Bearer tok3" || s.form(2).Get("audience") != "//iam/q" {
		t.Errorf("got %q", got)
	}
	// Programs and addresses as sources of identity are not followed.
	for _, source := range []any{map[string]any{"executable": map[string]any{"command": "touch /tmp/x"}}, map[string]any{"url": s.URL}, map[string]any{"file": "relative"}} {
		file, _ := json.Marshal(map[string]any{"type": "external_account", "credential_source": source})
		u, _, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
			p.Kind, p.Credential, p.Project, p.Region = "vertex", "file:"+identity(t, string(file)), "p", "r"
		})
		if _, err := ask(t.Context(), u, false); err == nil || err.Upstream.Class != infer.FailAuth {
			t.Errorf("%v: got %v", source, err)
		}
	}
}

func TestAWSCredentials(t *testing.T) {
	for _, c := range []struct{ text, id, session string }{
		{"AKID:" + canary, "AKID", ""}, {"AKID:" + canary + ":TOK:EN", "AKID", "TOK:EN"},
		{`{"AccessKeyId":"AKID","SecretAccessKey":"` + canary + `","SessionToken":"T"}`, "AKID", "T"},
		{`{"Credentials":{"AccessKeyId":"AKID","SecretAccessKey":"` + canary + `"}}`, "AKID", ""},
		{`{"aws_access_key_id":"AKID","aws_secret_access_key":"` + canary + `","aws_session_token":"T"}`, "AKID", "T"},
	} {
		u, last, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
			p.Kind, p.Credential, p.Region, p.Dialect = "bedrock", "file:"+identity(t, c.text), "eu-west-1", dialectConverse
		})
		got := shown(t, u, last, "Authorization")
		if !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential="+c.id+"/") || !strings.Contains(got, "/eu-west-1/bedrock/aws4_request") || strings.Contains(got, canary) ||
			last.Load().Header.Get("X-Amz-Security-Token") != c.session {
			t.Errorf("%s: got %q", c.text, got)
		}
	}
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
		p.Kind, p.Credential, p.Region = "bedrock", "file:"+identity(t, "ABSK"+canary), "eu-west-1"
	})
	if got := shown(t, u, last, "Authorization"); got != "Bearer ABSK"+canary {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{`{"a":1}`, ":" + canary, "{", "AKID:a b"} {
		if _, err := parseAWS(Secret{bad}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

func TestAssumeRole(t *testing.T) {
	s := newTokenServer(t, func(n int, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<SessionToken>SESS</SessionToken><SecretAccessKey>%s</SecretAccessKey><Expiration>2099-01-01T00:00:00Z</Expiration><AccessKeyId>ASIA%d</AccessKeyId>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, canary, n)
	})
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
		p.Kind, p.Region, p.Credential, p.ClientID, p.TokenURL = "bedrock", "us-east-1", "oidc-file:"+identity(t, canary), "arn:aws:iam::1:role/r", s.URL
	})
	for range 3 {
		if got := shown(t, u, last, "Authorization"); !strings.Contains(got, "Credential=ASIA1/") || last.Load().Header.Get("X-Amz-Security-Token") != "SESS" {
			t.Errorf("got %q", got)
		}
	}
	f := s.form(0)
	if s.count() != 1 || f.Get("Action") != "AssumeRoleWithWebIdentity" || f.Get("RoleArn") != "arn:aws:iam::1:role/r" || f.Get("WebIdentityToken") != canary {
		t.Errorf("%d requests, form %v", s.count(), f)
	}
}

// TestNothingOfTheCallers holds that no credential of a caller reaches a
// provider, even if a dialect let its header through.
func TestNothingOfTheCallers(t *testing.T) {
	u, last, _ := provider(t, func(p *policy.UpstreamConfig, o *Options) {
		p.Kind, p.Credential, o.Getenv = "anthropic", "env:K", func(string) string { return "ours" }
	})
	r := infer.NewRequest()
	r.Wire = &infer.Wire{Dialect: dialectAnthropic, Body: []byte("{}"), Header: map[string][]string{
		"Anthropic-Beta": {"b1"}, "Authorization": {"Bearer " + canary}, "X-Api-Key": {canary}, "Cookie": {canary}, "Idempotency-Key": {canary}, "Host": {canary},
	}}
	if _, err := askFor(t.Context(), u, r); err != nil {
		t.Fatal(err)
	}
	h := last.Load().Header
	if h.Get("X-Api-Key") != "ours" || h.Get("Anthropic-Beta") != "b1" || strings.Contains(fmt.Sprint(h), canary) {
		t.Errorf("got %v", h)
	}
	for _, name := range []string{"authorization", "X-API-KEY", "host", "Content-Length", "x y", "x-amz-security-token"} {
		if _, err := fixedHeaders(&policy.UpstreamConfig{Headers: map[string]string{name: "v"}}, ""); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestTokenWaitEndsWithCaller(t *testing.T) {
	release := make(chan struct{})
	s := newTokenServer(t, func(n int, w http.ResponseWriter) { <-release; replyToken(n, w) })
	defer close(release)
	u, _, _ := provider(t, func(p *policy.UpstreamConfig, _ *Options) {
		p.Credential, p.TokenURL = "oidc-file:"+identity(t, canary), s.URL
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := ask(ctx, u, false); err == nil || !err.Upstream.Unsent || time.Since(begun) > time.Second {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
}
