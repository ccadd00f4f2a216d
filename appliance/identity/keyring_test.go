package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// issuer is a server with keys that a test changes.
type issuer struct {
	*httptest.Server
	asked atomic.Int64
	reply atomic.Pointer[http.HandlerFunc]
}

func newIssuer(t testing.TB, keys []byte) *issuer {
	i := &issuer{}
	i.keys(keys)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		(*i.reply.Load())(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) keys(b []byte) {
	i.does(func(w http.ResponseWriter, _ *http.Request) { w.Write(b) })
}

func (i *issuer) does(f http.HandlerFunc) { i.reply.Store(&f) }

func (i *issuer) table(t testing.TB, change func(*config.Identity)) config.Identity {
	return jwtTable(t, allKeys(), func(c *config.Identity) {
		c.JWKSURL, c.JWKSFile = i.URL+"/jwks", ""
		if change != nil {
			change(c)
		}
	})
}

func (s *Set) ring() *keyring { return (*s.sources.Load())[0].keys }

// settle forgets when the keys were fetched last, as if some time had passed.
func (k *keyring) settle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = time.Time{}
}

// Keys are fetched once for many callers, again for a key that is new, and not
// again for each key that somebody makes up.
func TestKeysFromURL(t *testing.T) {
	i := newIssuer(t, keySetJSON(jwk("p256", nil)))
	s := open(t, i.table(t, nil))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := s.Token(t.Context(), good(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	id, err := s.Token(t.Context(), good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i.keys(keySetJSON(jwk("p384", nil)))
	next := compact("ES384", "p384", header("ES384", "p384"), goodClaims())
	if _, err := s.Token(t.Context(), next, nil); err != ErrRefused || i.asked.Load() != 1 {
		t.Errorf("asked again at once: %v", err)
	}
	s.ring().settle()
	if _, err := s.Token(t.Context(), next, nil); err != nil || i.asked.Load() != 2 {
		t.Errorf("got %v after %d", err, i.asked.Load())
	}
	// The old key is gone: so is who came by it.
	if _, err := s.Token(t.Context(), good(), nil); err != ErrRefused || id.Live() {
		t.Errorf("a key that is no longer published counts: %v", err)
	}
	for n := range 200 {
		if _, err := s.Token(t.Context(), compact("ES256", "other", header("ES256", fmt.Sprint(n)), goodClaims()), nil); err != ErrRefused {
			t.Error(err)
		}
	}
	if n := i.asked.Load(); n > 3 {
		t.Errorf("the issuer was asked %d times for keys that do not exist", n)
	}
}

// An issuer that fails costs nothing as long as its keys are young.
func TestStaleKeys(t *testing.T) {
	i := newIssuer(t, allKeys())
	var now atomic.Int64
	now.Store(testNow.Unix())
	s, err := Open([]config.Identity{i.table(t, func(c *config.Identity) { c.MaxLifetime = config.Duration(200 * time.Hour) })},
		Options{Log: quiet(), Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	token := good("exp", testNow.Unix()+100*3600)
	if _, err := s.Token(t.Context(), token, nil); err != nil {
		t.Fatal(err)
	}
	i.does(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) })
	s.ring().settle()
	if _, err := s.Token(t.Context(), compact("ES256", "other", header("ES256", "x"), goodClaims()), nil); err != ErrRefused {
		t.Errorf("got %v", err)
	}
	if st := s.States()[0]; st.Failure == "" || !st.Usable || len(st.Keys) != 5 {
		t.Errorf("got %+v", st)
	}
	now.Add(int64(maxStale/time.Second) - 10)
	if _, err := s.Token(t.Context(), token, nil); err != nil {
		t.Errorf("within the bound: %v", err)
	}
	now.Add(20)
	var e *infer.Error
	if _, err := s.Token(t.Context(), token, nil); !errors.As(err, &e) || e.Code != infer.CodeUnavailable {
		t.Errorf("beyond the bound: %v", err)
	}
}

// A slow issuer holds up nobody whose key is known.
func TestSlowIssuer(t *testing.T) {
	i := newIssuer(t, allKeys())
	s := open(t, i.table(t, nil))
	if _, err := s.Token(t.Context(), good(), nil); err != nil {
		t.Fatal(err)
	}
	i.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s.ring().settle()
	waits := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := s.Token(ctx, compact("ES256", "other", header("ES256", "x"), goodClaims()), nil)
		waits <- err
	}()
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	if _, err := s.Token(t.Context(), good("sub", "bob"), nil); err != nil || time.Since(began) > time.Second {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
	cancel()
	if err := <-waits; err != ErrRefused {
		t.Error(err)
	}
}

// What an issuer sends that is no key set changes nothing.
func TestHostileIssuer(t *testing.T) {
	elsewhere := newIssuer(t, allKeys())
	for what, reply := range map[string]http.HandlerFunc{
		"redirect to another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/jwks", http.StatusFound)
		},
		"redirect to metadata": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		},
		"redirect in a circle": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/jwks", http.StatusFound) },
		"redirect to a file": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(302)
		},
		"too large":  func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte(" "), maxKeySet+1)) },
		"HTML":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"empty":      func(http.ResponseWriter, *http.Request) {},
		"no keys":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) },
		"status 404": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"too many keys": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"keys":[%s{}]}`, strings.Repeat("{},", 300))
		},
		"secret keys": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"keys":[{"kty":"oct","kid":"p256","k":"AAAA"}]}`)
		},
		"for encryption": func(w http.ResponseWriter, _ *http.Request) {
			w.Write(keySetJSON(jwk("p256", map[string]any{"use": "enc"}), jwk("rsa", map[string]any{"use": nil, "key_ops": []string{"wrapKey"}})))
		},
		"off the curve": func(w http.ResponseWriter, _ *http.Request) {
			w.Write(keySetJSON(jwk("p256", map[string]any{"y": jwk("other", nil)["y"]})))
		},
		"RSA with exponent 1": func(w http.ResponseWriter, _ *http.Request) {
			w.Write(keySetJSON(jwk("rsa", map[string]any{"e": "AQ"})))
		},
		"private key": func(w http.ResponseWriter, _ *http.Request) {
			w.Write(keySetJSON(jwk("p256", map[string]any{"d": b64.EncodeToString(bytes.Repeat([]byte{1}, 32))})))
		},
	} {
		i := newIssuer(t, nil)
		i.does(reply)
		s := open(t, i.table(t, nil))
		var e *infer.Error
		if _, err := s.Token(t.Context(), good(), nil); !errors.As(err, &e) || e.Code != infer.CodeUnavailable {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if elsewhere.asked.Load() > 0 {
		t.Error("another host was asked")
	}
}

// Discovery holds the issuer to its name, and to itself as the one private host.
func TestDiscovery(t *testing.T) {
	i := newIssuer(t, nil)
	other := newIssuer(t, allKeys())
	doc := func(issuer, uri string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/jwks" {
				w.Write(allKeys())
				return
			}
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer, uri)
		}
	}
	for what, c := range map[string]struct {
		doc http.HandlerFunc
		ok  bool
	}{
		"good":                   {doc(i.URL, i.URL+"/jwks"), true},
		"another issuer":         {doc("https://login.example.com", i.URL+"/jwks"), false},
		"keys on a private host": {doc(i.URL, strings.Replace(other.URL, "http:", "https:", 1)+"/jwks"), false},
		"keys without TLS":       {doc(i.URL, "http://keys.example.com/jwks"), false},
		"keys with a user":       {doc(i.URL, "https://a@keys.example.com/jwks"), false},
		"keys at metadata":       {doc(i.URL, "https://169.254.169.254/jwks"), false},
		"keys in a file":         {doc(i.URL, "file:///etc/passwd"), false},
		"none":                   {doc(i.URL, ""), false},
	} {
		i.does(c.doc)
		s := open(t, i.table(t, func(c *config.Identity) { c.Issuer, c.JWKSURL = i.URL, "" }))
		_, err := s.Token(t.Context(), good("iss", i.URL), nil)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if other.asked.Load() > 0 {
		t.Error("a private host was asked")
	}
}

// The file serves until the issuer has answered.
func TestFileBesideURL(t *testing.T) {
	i := newIssuer(t, nil)
	i.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	table := i.table(t, func(c *config.Identity) { c.JWKSFile = writeTemp(t, "jwks.json", keySetJSON(jwk("p256", nil))) })
	s := open(t, table)
	if _, err := s.Token(t.Context(), good(), nil); err != nil {
		t.Fatal(err)
	}
	replace(t, table.JWKSFile, keySetJSON(jwk("p384", nil)))
	reread(t, s)
	if _, err := s.Token(t.Context(), good(), nil); err != ErrRefused {
		t.Errorf("a key that is no longer in the file counts: %v", err)
	}
	i.keys(keySetJSON(jwk("p256", nil)))
	s.ring().settle()
	if _, err := s.Token(t.Context(), good(), nil); err != nil {
		t.Errorf("got %v", err)
	}
	replace(t, table.JWKSFile, keySetJSON(jwk("p521", nil)))
	reread(t, s)
	if _, err := s.Token(t.Context(), good(), nil); err != nil {
		t.Errorf("the file has replaced what the issuer said: %v", err)
	}
}

// A table that is gone takes its callers with it, one that is the same keeps them.
func TestReload(t *testing.T) {
	staff := jwtTable(t, allKeys(), nil)
	other := jwtTable(t, allKeys(), func(c *config.Identity) { c.Name, c.Issuer = "other", "https://other.example" })
	s := open(t, staff, other)
	a, err := s.Token(t.Context(), good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Token(t.Context(), good("iss", "https://other.example"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload([]config.Identity{other}); err != nil || a.Live() || !b.Live() {
		t.Errorf("got %v, live: %v, %v", err, a.Live(), b.Live())
	}
	if _, err := s.Token(t.Context(), good(), nil); err != ErrRefused {
		t.Errorf("got %v", err)
	}
	broken := staff
	broken.JWKSFile += ".gone"
	if err := s.Reload([]config.Identity{broken}); err == nil || !b.Live() {
		t.Errorf("a table that cannot be used was taken: %v", err)
	}
}

// A token that is bound to a certificate needs that one, warm or cold.
func TestBoundToken(t *testing.T) {
	s := open(t, jwtTable(t, allKeys(), nil))
	ca := newAuthority(t, "ca", nil)
	mine, other := ca.leaf(t, dns("a")), ca.leaf(t, dns("a"))
	token := good("cnf", map[string]any{"x5t#S256": thumbprint(mine)})
	for range 2 {
		if _, err := s.Token(t.Context(), token, nil); err != ErrRefused {
			t.Error(err)
		}
		if _, err := s.Token(t.Context(), token, other); err != ErrRefused {
			t.Error(err)
		}
		if _, err := s.Token(t.Context(), token, mine); err != nil {
			t.Error(err)
		}
	}
}
