package appliance

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
	"hearth/web"
)

// tokens signs as an issuer of a test does.
type tokens struct{ key *ecdsa.PrivateKey }

func newTokens(t *testing.T) *tokens {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &tokens{k}
}

var b64url = base64.RawURLEncoding

func (k *tokens) set(t *testing.T) []byte {
	raw, err := k.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":%q,"y":%q}]}`, b64url.EncodeToString(raw[1:33]), b64url.EncodeToString(raw[33:]))
}

func (k *tokens) sign(claims map[string]any) string {
	all := map[string]any{"iss": "https://login.example.com", "aud": "hearth", "exp": time.Now().Add(time.Hour).Unix()}
	for n, v := range claims {
		all[n] = v
	}
	body, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	in := b64url.EncodeToString([]byte(`{"alg":"ES256","kid":"k"}`)) + "." + b64url.EncodeToString(body)
	sum := sha256.Sum256([]byte(in))
	r, s, err := ecdsa.Sign(rand.Reader, k.key, sum[:])
	if err != nil {
		panic(err)
	}
	return in + "." + b64url.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// clientCA signs client certificates.
type clientCA struct {
	cert *x509.Certificate
	key  crypto.Signer
	n    int64
}

func (ca *clientCA) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

func (ca *clientCA) issue(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca.n++
	c.SerialNumber, c.NotBefore, c.BasicConstraintsValid = big.NewInt(ca.n), time.Now().Add(-time.Hour), true
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func newClientCA(t *testing.T, name string) *clientCA {
	self := &clientCA{}
	c := self.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	return &clientCA{c.Leaf, c.PrivateKey.(crypto.Signer), 0}
}

func (ca *clientCA) client(t *testing.T, dns string, until time.Time) tls.Certificate {
	return ca.issue(t, &x509.Certificate{DNSNames: []string{dns}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotAfter: until})
}

// identityConfig is a configuration with callers of every kind.
const identityConfig = testConfig + `
[[tenant]]
name = "acme"
[tenant.key_limits]
concurrency = 100
[[tenant.key_budget]]
period = "total"
cap_usd = "0.01"
[[tenant]]
name = "gone"
disabled = true
[[identity]]
name = "staff"
kind = "jwt"
issuer = "https://login.example.com"
audiences = ["hearth"]
jwks_file = "jwks.json"
tenant_claim = "org"
models_claim = "models"
[[identity]]
name = "mesh"
kind = "certificate"
ca_file = "ca.pem"
tenant = "acme"
require = ["dns=*.svc.example"]
`

type identityBed struct {
	*testbed
	tokens *tokens
	ca     *clientCA
	dir    string
}

func newIdentityBed(t *testing.T, file string) *identityBed {
	t.Helper()
	b := &identityBed{tokens: newTokens(t), ca: newClientCA(t, "ca"), dir: t.TempDir()}
	for name, data := range map[string][]byte{"jwks.json": b.tokens.set(t), "ca.pem": b.ca.pem()} {
		if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		file = strings.ReplaceAll(file, `"`+name+`"`, `"`+filepath.Join(b.dir, name)+`"`)
	}
	file = strings.Replace(file, "max_requests = 8", "max_requests = 200", 1)
	b.testbed = newTestbedWith(t, file)
	return b
}

// reload takes the configuration with a change.
func (b *identityBed) reload(old, new string) {
	b.t.Helper()
	path := b.configPath()
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		b.t.Fatalf("the configuration has no %q", old)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Reload(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// client speaks to the data plane; cert may be nil.
func (b *identityBed) client(cert *tls.Certificate, h2 bool) *http.Client {
	b.t.Helper()
	root, err := os.ReadFile(b.Appliance.dir.rootPEM())
	if err != nil {
		b.t.Fatal(err)
	}
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AppendCertsFromPEM(root)
	if cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: h2}
	if !h2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	b.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// post asks for a chat and gives status and request id.
func (b *identityBed) post(c *http.Client, credential, model string) (status int, id, body string) {
	b.t.Helper()
	r, err := http.NewRequest("POST", b.baseURL()+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		b.t.Fatal(err)
	}
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("X-Request-Id"), string(data)
}

// Every kind of caller gets its own answer, and the ledger names it.
func TestCallers(t *testing.T) {
	b := newIdentityBed(t, identityConfig)
	b.fake.generate = words(2)
	mesh := b.ca.client(t, "a.svc.example", time.Time{})
	other := b.ca.client(t, "a.other.example", time.Time{})
	late := b.ca.client(t, "a.svc.example", time.Now().Add(-time.Minute))
	stranger := newClientCA(t, "ca").client(t, "a.svc.example", time.Time{})
	ok := b.tokens.sign(map[string]any{"sub": "alice", "org": "acme", "models": []string{"m", "quick"}})
	for _, c := range []struct {
		what, credential string
		cert             *tls.Certificate
		status           int
		id               string
	}{
		{"key", b.key, nil, 200, b.first.keyID},
		{"token", ok, nil, 200, "jwt/staff/acme/alice"},
		{"certificate", "", &mesh, 200, "certificate/mesh/acme/dns:a.svc.example"},
		{"key and certificate", b.key, &mesh, 200, b.first.keyID},
		{"token and certificate", ok, &mesh, 200, "jwt/staff/acme/alice"},
		{"bad key and certificate", "hk_abcdefghijkl_" + strings.Repeat("a", 52), &mesh, 401, ""},
		{"bad token and certificate", ok[:len(ok)-4] + "AAAA", &mesh, 401, ""},
		{"nothing", "", nil, 401, ""},
		{"certificate of nobody here", "", &other, 403, ""},
		{"certificate that is over", "", &late, 401, ""},
		{"certificate of another authority", "", &stranger, 401, ""},
		{"token without tenant", b.tokens.sign(map[string]any{"sub": "alice"}), nil, 403, ""},
		{"token of an unknown tenant", b.tokens.sign(map[string]any{"sub": "alice", "org": "nowhere"}), nil, 403, ""},
		{"token of a disabled tenant", b.tokens.sign(map[string]any{"sub": "alice", "org": "gone"}), nil, 403, ""},
		{"token for no model", b.tokens.sign(map[string]any{"sub": "alice", "org": "acme"}), nil, 404, ""},
	} {
		for _, h2 := range []bool{false, true} {
			status, id, body := b.post(b.client(c.cert, h2), c.credential, "m")
			if status != c.status {
				t.Errorf("%s: got %d, want %d: %s", c.what, status, c.status, body)
			}
			if c.id == "" {
				continue
			}
			d, err := b.store.Show(context.Background(), id)
			if err != nil || d.Row.KeyID != c.id {
				t.Errorf("%s: got %q, %v, want %q", c.what, d.Row.KeyID, err, c.id)
			}
		}
	}
	if s := b.log.String(); strings.Contains(s, ok) || strings.Contains(s, strings.Split(ok, ".")[1]) {
		t.Error("a token is in the log")
	}
	// A token anywhere else is a wrong key.
	r, _ := http.NewRequest("GET", b.baseURL()+"/v1/models", nil)
	r.Header.Set("X-Api-Key", ok)
	resp, err := b.client(nil, true).Do(r)
	if err != nil || resp.StatusCode != 401 {
		t.Errorf("a token in x-api-key: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// The same client over the same address: its certificate counts as soon as an
// identity takes some, and no longer when that is gone, also on open connections.
func TestCertificatesByReload(t *testing.T) {
	b := newIdentityBed(t, testConfig)
	b.fake.generate = words(1)
	cert := b.ca.client(t, "a.svc.example", time.Time{})
	cache := tls.NewLRUClientSessionCache(8)
	c := b.client(&cert, true)
	c.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = cache
	if status, _, _ := b.post(c, "", "m"); status != 401 {
		t.Fatalf("got %d", status)
	}
	c.CloseIdleConnections()
	table := "\n[[identity]]\nname = \"mesh\"\nkind = \"certificate\"\nca_file = \"" + filepath.Join(b.dir, "ca.pem") + "\"\ntenant = \"default\"\nrequire = [\"dns=*.svc.example\"]\n[[price]]\n"
	b.reload("\n[[price]]\n", table)
	for range 2 { // the second time by a resumed session
		if status, _, body := b.post(c, "", "m"); status != 200 {
			t.Fatalf("got %d: %s", status, body)
		}
		c.CloseIdleConnections()
	}
	if status, _, _ := b.post(c, "", "m"); status != 200 {
		t.Fatal(status)
	}
	b.reload(table, "\n[[price]]\n")
	if status, _, _ := b.post(c, "", "m"); status != 401 {
		t.Errorf("on an open connection: got %d", status)
	}
}

// What one identity may spend holds for each, and after a restart.
func TestIdentityBudget(t *testing.T) {
	b := newIdentityBed(t, identityConfig)
	b.fake.generate = words(20)
	b.fake.count = infer.Count{PromptTokens: 10, MaxOutputTokens: 1000}
	spend := func(sub string) int {
		status, _, _ := b.post(b.client(nil, true), b.tokens.sign(map[string]any{"sub": sub, "org": "acme", "models": "m"}), "m")
		return status
	}
	// Each holds 0.00401 and costs 0.000088: of a cap of 0.01 there is room for two
	// at once; sequentially for about 68.
	n := 0
	for ; n < 200 && spend("alice") == 200; n++ {
	}
	if n < 60 || n > 75 {
		t.Errorf("alice came %d times", n)
	}
	if got := spend("bob"); got != 200 {
		t.Errorf("bob got %d", got)
	}
	balance, err := b.store.Balance("key/jwt/staff/acme/alice/total", "total")
	if err != nil || balance.SpentNano < 5_000_000 {
		t.Errorf("got %+v, %v", balance, err)
	}
	// As after a restart: nothing is known but what the store has.
	specs := b.specs(b.config())
	fresh, err := policy.New(policyConfig(b.config(), specs), policy.Options{Store: b.store, Local: specNames(specs)})
	if err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string]infer.Code{"alice": infer.CodeQuota, "carol": ""} {
		id := &policy.Identity{KeyID: policy.CallerID(policy.KindToken, "staff", "acme", sub), Tenant: "acme", Kind: policy.KindToken}
		adm, err := fresh.Admit(id)
		if err != nil {
			t.Fatal(err)
		}
		route, err := fresh.Route(id, "m")
		if err != nil {
			t.Fatal(err)
		}
		held, err := fresh.Reserve(context.Background(), adm, policy.ReserveRequest{RequestID: "again-" + sub, Model: "m", Route: route, PromptTokens: 10, MaxOutputTokens: 1000})
		if want == "" && err == nil {
			_, err = held.Release(policy.Outcome{Outcome: store.OutcomeCancelled})
		}
		if want == "" && err != nil || want != "" && infer.AsError(err).Code != want {
			t.Errorf("%s after a restart: got %v", sub, err)
		}
		adm.Release()
	}
}

// dialects are requests for a stream, and what ends one in an error.
var dialects = []struct{ path, body, want string }{
	{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`, `"error":{`},
	{"/v1/completions", `{"model":"m","stream":true,"prompt":"x"}`, `"error":{`},
	{"/v1/messages", `{"model":"m","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"x"}]}`, "event: error\n"},
	{"/v1/responses", `{"model":"m","stream":true,"input":"x"}`, "event: response.failed\n"},
	{"/v1/responses", `{"model":"m","stream":true,"background":true,"input":"x"}`, "\nevent: "},
	{"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, `"error":{`},
	{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, `"error":`},
	{"/api/generate", `{"model":"m","prompt":"x"}`, `"error":`},
}

// stream opens one and gives all of it and when it ended.
func (b *identityBed) stream(c *http.Client, credential, path, body string, opened *sync.WaitGroup) (all string, ended time.Time) {
	r, err := http.NewRequest("POST", b.baseURL()+path, strings.NewReader(body))
	if err != nil {
		opened.Done()
		return err.Error(), ended
	}
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := c.Do(r)
	if err != nil {
		opened.Done()
		return err.Error(), ended
	}
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	n, _ := resp.Body.Read(buf)
	opened.Done()
	rest, err := io.ReadAll(resp.Body)
	all = string(buf[:n]) + string(rest)
	if err != nil {
		all += "\nread: " + err.Error()
	}
	return all, time.Now()
}

// More than fifty streams of one caller end within a second, in the words of their dialect,
// charged for what they have delivered; those of others go on.
func TestRevoke(t *testing.T) {
	b := newIdentityBed(t, identityConfig+"[idempotency]\nenabled = false\n")
	ctx := context.Background()
	b.fake.generate = wait(3)
	b.fake.count = infer.Count{PromptTokens: 10, MaxOutputTokens: 20}
	newKey := func(change func(*store.Key)) store.NewKey {
		k := store.Key{Tenant: "default", Name: "k"}
		change(&k)
		made, err := b.store.CreateKey(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	plain := func(*store.Key) {}
	revoked, disabled, rotated, graced := newKey(plain), newKey(plain), newKey(plain), newKey(plain)
	mesh := b.ca.client(t, "a.svc.example", time.Time{})
	token := b.tokens.sign(map[string]any{"sub": "alice", "org": "acme", "models": "m"})
	h1, h2 := b.client(nil, false), b.client(nil, true)
	for _, c := range []struct {
		what, credential string
		client           *http.Client
		each             int
		end              func() error
	}{
		{"a revoked key", revoked.Secret, h2, 7, func() error { _, err := b.store.RevokeKey(ctx, revoked.ID); return err }},
		{"a disabled key", disabled.Secret, h1, 1, func() error {
			k := disabled.Key
			k.Disabled = true
			_, err := b.store.UpdateKey(ctx, k)
			return err
		}},
		{"an expired key", "", h2, 1, nil},
		{"a rotated key", rotated.Secret, h2, 1, func() error { _, err := b.store.RotateKey(ctx, rotated.ID, 0); return err }},
		{"a rotated key after its grace", graced.Secret, h2, 1, func() error {
			_, err := b.store.RotateKey(ctx, graced.ID, 300*time.Millisecond)
			return err
		}},
		{"a certificate whose authority is gone", "", b.client(&mesh, true), 1, func() error {
			b.reload("name = \"mesh\"", "name = \"other\"")
			return nil
		}},
		{"a token whose tenant is disabled", token, h2, 1, func() error {
			b.reload("name = \"acme\"", "name = \"acme\"\ndisabled = true")
			return nil
		}},
		{"a token whose identity is gone", b.tokens.sign(map[string]any{"sub": "carol", "org": "default", "models": "m"}), h2, 1, func() error {
			b.reload("name = \"staff\"", "name = \"others\"")
			return nil
		}},
	} {
		if c.end == nil {
			k := newKey(func(k *store.Key) { k.Expires = time.Now().Add(900 * time.Millisecond) })
			c.credential = k.Secret
			c.end = func() error { time.Sleep(time.Until(k.Expires)); return nil }
		}
		var opened, done sync.WaitGroup
		answers := make([]string, len(dialects)*c.each)
		ends := make([]time.Time, len(answers))
		for i := range answers {
			opened.Add(1)
			d := dialects[i%len(dialects)]
			done.Go(func() { answers[i], ends[i] = b.stream(c.client, c.credential, d.path, d.body, &opened) })
		}
		opened.Wait()
		bystander := b.admit()
		began := time.Now()
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		most := 2 * time.Second // of reading the file again, and the second
		if !strings.Contains(c.what, "gone") && !strings.Contains(c.what, "tenant") {
			most, began = time.Second, time.Now()
		}
		if c.what == "a rotated key after its grace" {
			most += 300 * time.Millisecond
		}
		done.Wait()
		last := time.Duration(0)
		for i, a := range answers {
			last = max(last, ends[i].Sub(began))
			want := dialects[i%len(dialects)].want
			if !strings.Contains(a, want) || !strings.Contains(a, "revoked or has expired") || strings.Contains(a, "\nread:") || strings.Contains(a, "[DONE]") {
				t.Errorf("%s, %s: got %q", c.what, dialects[i%len(dialects)].path, a)
			}
		}
		if t.Logf("%d streams of %s ended within %v", len(answers), c.what, last); last > most {
			t.Errorf("%s: the last of %d streams ended after %v", c.what, len(answers), last)
		}
		select {
		case <-bystander.Ended:
			t.Errorf("%s: another caller was ended", c.what)
		default:
		}
		bystander.Release()
	}
	for end := time.Now().Add(5 * time.Second); b.open.Load() > 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	page, err := b.store.List(ctx, store.Filter{KeyID: revoked.ID, Limit: 100})
	if err != nil || len(page.Rows) != 7*len(dialects) {
		t.Fatalf("%d rows, %v", len(page.Rows), err)
	}
	for _, r := range page.Rows {
		if r.Outcome != store.OutcomePartial || r.Usage.Output != 3 || r.ChargeNano != 6*1000+4*500+3*4000 || r.Termination != store.TermRevoked {
			t.Errorf("got %s, %d tokens, %d nano-USD, %s", r.Outcome, r.Usage.Output, r.ChargeNano, r.Termination)
		}
	}
	if k, _ := b.store.Key(revoked.ID); k.Revoked.IsZero() {
		t.Error("not revoked")
	}
}

// A person at the control plane is a caller of the tenant they have chosen.
func TestConsoleCaller(t *testing.T) {
	b := newIdentityBed(t, identityConfig)
	g, err := b.Admit(context.Background(), web.Caller{RequestID: "r", Principal: &web.Principal{User: "alice", Tenant: "acme"}})
	if err != nil || g.KeyID != "console/acme/alice" || g.Tenant != "acme" {
		t.Fatalf("%+v, %v", g, err)
	}
	g.Release()
	if _, err := b.Admit(context.Background(), web.Caller{RequestID: "r", Principal: &web.Principal{User: "alice", Tenant: "gone"}}); infer.AsError(err).Code != infer.CodeForbidden {
		t.Errorf("got %v", err)
	}
	if id := policy.Console("Ä b", "acme"); !strings.HasPrefix(id.KeyID, "console/acme/~") {
		t.Errorf("got %s", id.KeyID)
	}
}
