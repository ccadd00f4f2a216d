package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/appliance/reach"
	"hearth/engine/infer"
)

const png = "\x89PNG\r\n\x1a\n0000"

// TestHostileURLs holds that none of these is asked. Names resolve to what
// stands for them in the table; nothing listens anywhere, so that a connection
// would be told as "does not answer".
func TestHostileURLs(t *testing.T) {
	names := map[string]string{
		"one.example.com": "10.0.0.1", "two.example.com": "169.254.169.254", "three.example.com": "::1", "four.example.com": "93.184.216.34 127.0.0.1",
		"five.example.com": "fd00::1", "six.example.com": "::ffff:10.0.0.1", "seven.example.com": "64:ff9b::a00:1", "eight.example.com": "0.0.0.0",
		"nine.example.com": "100.100.100.200", "ten.example.com": "",
	}
	hostile := []string{
		// Addresses of this machine, in every notation.
		"https://127.0.0.1/x.png", "https://127.1/", "https://0177.0.0.1/", "https://0x7f.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://017700000001/",
		"https://127.255.255.254/", "https://0.0.0.0/", "https://0/", "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/",
		"https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://a.localhost/", "https://localhost:443/",
		"https://①②⑦.⓪.⓪.①/", "https://127。0。0。1/",
		// Private, shared, link-local and metadata addresses.
		"https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/", "https://100.64.0.1/", "https://169.254.169.254/latest/meta-data/",
		"https://[fd00:ec2::254]/latest/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fc00::1]/", "https://[fec0::1]/", "https://168.63.129.16/",
		"https://100.100.100.200/", "https://192.0.0.192/", "https://metadata.google.internal/", "https://metadata/", "https://printer.local/", "https://router.lan/",
		// Addresses that hold another.
		"https://[64:ff9b::7f00:1]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2002:a9fe:a9fe::1]/", "https://[2001:0:1::1]/",
		"https://[::ffff:0:10.0.0.1]/",
		// Multicast, broadcast, reserved, documentation.
		"https://224.0.0.1/", "https://255.255.255.255/", "https://240.0.0.1/", "https://[ff02::1]/", "https://198.18.0.1/", "https://192.0.2.1/", "https://[2001:db8::1]/", "https://[100::1]/",
		"https://[4000::1]/",
		// Schemes, users, ports, and shapes that two readers read differently.
		"http://93.184.216.34/", "file:///etc/passwd", "gopher://93.184.216.34/", "ftp://93.184.216.34/", "data:image/png;base64,AAAA", "//93.184.216.34/", "https:/93.184.216.34/", "https:93.184.216.34",
		"https://user:pw@93.184.216.34/", "https://93.184.216.34@127.0.0.1/", "https://127.0.0.1#@93.184.216.34/", "https://93.184.216.34:22/", "https://93.184.216.34:6379/", "https://93.184.216.34:/",
		"https://93.184.216.34\\@127.0.0.1/", "https://93.184.216.34 /", "https://exa mple.com/", "https://93.184.216.34/\r\nHost: x", "https:///", "https://", "", "\x00",
		"https://example..com/", "https://.com/", "https://x.onion/", "https://x.internal/", "https://1.1.1.1.1/", "https://example.com.:22/", "https://" + strings.Repeat("a", 9000) + ".com/",
	}
	for name := range names {
		hostile = append(hostile, "https://"+name+"/x.png")
	}
	var asked atomic.Int64
	limits := FetchLimits{Timeout: 3 * time.Second, Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		asked.Add(1)
		list, ok := names[strings.TrimSuffix(host, ".")]
		if !ok {
			t.Errorf("%q was resolved", host)
		}
		var out []netip.Addr
		for _, a := range strings.Fields(list) {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}}
	for _, u := range hostile {
		m, err := FetchMedia(t.Context(), u, limits)
		e := infer.AsError(err)
		if m != nil || err == nil || e.Code != infer.CodeInvalid {
			t.Errorf("%.80q: got %v, %v", u, m, err)
			continue
		}
		if strings.Contains(e.Message, "does not answer") && !strings.Contains(u, "ten.") {
			t.Errorf("%.80q: a connection was tried: %v, %v", u, e, e.Cause)
		}
		if strings.Contains(e.Message, "10.0.0.1") || strings.Contains(e.Message, "169.254") {
			t.Errorf("%q: the address is told: %v", u, e)
		}
	}
	t.Logf("%d hostile URLs", len(hostile))
}

// media starts a host on this machine that the limits allow.
func media(t *testing.T, h http.HandlerFunc) (string, FetchLimits) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, FetchLimits{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, HTTP: true, Timeout: 2 * time.Second, MaxBytes: 1000}
}

func TestFetchMedia(t *testing.T) {
	var base string
	base, limits := media(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Cookie"])+len(r.Header["Authorization"])+len(r.Header["Referer"]) > 0 {
			t.Errorf("got %v", r.Header)
		}
		switch r.URL.Path {
		case "/ok":
			w.Header().Set("Content-Type", "image/png; charset=x")
			fmt.Fprint(w, png)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/inside":
			w.Header().Set("Location", "http://10.0.0.1/x.png")
			w.WriteHeader(307)
		case "/meta":
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(301)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(302)
		case "/port":
			w.Header().Set("Location", "http://127.0.0.1:22/")
			w.WriteHeader(302)
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		case "/lies":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "<html>secret page")
		case "/svg":
			w.Header().Set("Content-Type", "image/svg+xml")
			fmt.Fprint(w, "<svg/>")
		case "/big":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, png+strings.Repeat("x", 2000))
		case "/bigchunked":
			w.Header().Set("Content-Type", "image/png")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, png+strings.Repeat("x", 2000))
		case "/gzip":
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, png)
		case "/slow":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, png)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/gone":
			http.Error(w, "no", 404)
		}
	})
	for path, want := range map[string]string{
		"/ok": "", "/moved": "", "/round": "redirected too often", "/inside": "not on the public network", "/meta": "not on the public network", "/file": "URL", "/port": "does not answer",
		"/html": "type", "/lies": "not what its type says", "/svg": "type", "/big": "more than 1000", "/bigchunked": "more than 1000", "/gzip": "content coding", "/slow": "in time", "/gone": "status 404",
	} {
		l := limits
		if path == "/slow" {
			l.Timeout = 200 * time.Millisecond
		}
		m, err := FetchMedia(t.Context(), base+path, l)
		switch {
		case want == "" && (err != nil || string(m.Data) != png || m.Type != "image/png"):
			t.Errorf("%s: got %v, %v", path, m, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", path, err, want)
		case want != "" && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: quoted: %v", path, err)
		}
	}
	// What is allowed beside opens no port elsewhere.
	for _, u := range []string{"http://93.184.216.34:6379/", "http://img.example.com:22/"} {
		l := limits
		l.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		}
		if _, err := FetchMedia(t.Context(), u, l); err == nil || !strings.Contains(err.Error(), "a port that is not asked") {
			t.Errorf("%s: got %v", u, err)
		}
	}
	limits.Redirects = -1
	if _, err := FetchMedia(t.Context(), base+"/moved", limits); err == nil {
		t.Error("a redirect was followed that should not be")
	}
}

// TestRebinding holds that the address that was judged is the one that is asked.
func TestRebinding(t *testing.T) {
	base, limits := media(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		fmt.Fprint(w, png)
	})
	u, _ := url.Parse(base)
	var calls atomic.Int64
	limits.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		if calls.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	if _, err := FetchMedia(t.Context(), "http://img.example.com:"+u.Port()+"/", limits); err != nil || calls.Load() != 1 {
		t.Errorf("got %v after %d look-ups", err, calls.Load())
	}
	if _, err := FetchMedia(t.Context(), "http://img.example.com:"+u.Port()+"/", limits); err == nil || !strings.Contains(err.Error(), "public network") {
		t.Errorf("got %v", err)
	}
}

func TestNoDowngrade(t *testing.T) {
	s := httptest.NewTLSServer(http.RedirectHandler("http://example.com/x.png", http.StatusFound))
	defer s.Close()
	f := &fetcher{}
	f.limits = FetchLimits{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	f.limits.defaults()
	pool := &http.Transport{DialContext: f.dial, TLSClientConfig: &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}, DisableKeepAlives: true}
	u, _ := url.Parse(s.URL)
	_, to, err := f.get(t.Context(), pool, u)
	if err != nil || to != "http://example.com/x.png" {
		t.Errorf("got %q, %v", to, err)
	}
}

func TestAllowedNetworks(t *testing.T) {
	got, err := reach.Networks([]string{"10.1.2.3", "10.1.0.0/16", "fd00::/8"})
	if err != nil || fmt.Sprint(got) != "[10.1.2.3/32 10.1.0.0/16 fd00::/8]" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := reach.Networks([]string{"all"}); err == nil {
		t.Error("a word was taken for a network")
	}
	if reach.Public(netip.MustParseAddr("::ffff:10.1.9.9"), got) != nil || reach.Public(netip.MustParseAddr("64:ff9b::a01:909"), got) != nil {
		t.Error("a listed network is closed")
	}
	for _, a := range []string{"93.184.216.34", "2606:2800:220:1::1", "1.1.1.1", "64:ff9b::5db8:d822", "2002:5db8:d822::1"} {
		if err := reach.Public(netip.MustParseAddr(a), nil); err != nil {
			t.Errorf("%s is closed", a)
		}
	}
	var closed *reach.AddressError
	if !errors.As(reach.Public(netip.MustParseAddr("10.2.0.1"), got), &closed) {
		t.Error("a network beside the listed one is open")
	}
}

// FuzzFetchURL holds that whatever is written in a URL, nothing closed is asked.
func FuzzFetchURL(f *testing.F) {
	for _, s := range []string{"https://example.com/x.png", "https://127.1/", "https://[::1]/", "https://a@b/", "http://0x7f.1:80/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g := &fetcher{limits: FetchLimits{HTTP: true}}
		g.limits.defaults()
		u, err := g.check(s)
		if err != nil {
			return
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && reach.Public(a, nil) != nil {
			t.Fatalf("%q leads to %v", s, a)
		} else if err != nil && net.ParseIP(u.Hostname()) != nil {
			t.Fatalf("%q is an address to some", s)
		}
	})
}
