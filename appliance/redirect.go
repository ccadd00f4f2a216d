package appliance

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// redirect is a plain HTTP listener that sends callers to HTTPS and answers the
// http-01 challenges of ACME. Nothing else is served there. Its methods are those
// of a nil redirect too: there is none.
type redirect struct {
	addr      string
	listeners []net.Listener
	server    *http.Server
}

// openRedirect listens on addr; empty: there is no redirect.
func (a *Appliance) openRedirect(addr string) (*redirect, error) {
	if addr == "" {
		return nil, nil
	}
	open, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot open tls.redirect_listen: %w", err)
	}
	r := &redirect{addr: addr, listeners: open, server: &http.Server{
		Handler:           http.HandlerFunc(a.redirectHTTP),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}}
	r.server.SetKeepAlivesEnabled(false)
	for _, l := range open {
		go func() {
			if err := r.server.Serve(l); err != http.ErrServerClosed {
				a.log.Error("the redirect to HTTPS stopped", "address", addr, "error", err)
			}
		}()
	}
	return r, nil
}

func (r *redirect) address() string {
	if r == nil {
		return ""
	}
	return r.addr
}

func (r *redirect) port() int {
	if r == nil {
		return 0
	}
	return r.listeners[0].Addr().(*net.TCPAddr).Port
}

func (r *redirect) close() error {
	if r == nil {
		return nil
	}
	return r.server.Close()
}

// redirectHTTP answers one request over plain HTTP.
func (a *Appliance) redirectHTTP(w http.ResponseWriter, r *http.Request) {
	m := a.certs.Load()
	if m.HTTPChallenge(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	// A client that sends its key here would go on doing so, unseen, if it were
	// redirected.
	for _, h := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if r.Header.Get(h) != "" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, "This request carried a key in the clear. Use https, and replace the key: others may have read it.")
			return
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if ip := net.ParseIP(trimBrackets(host)); ip != nil {
		host = ip.String()
	}
	// Only to names of ours: what a caller writes into Host must not lead elsewhere.
	if !m.Covers(host) {
		w.WriteHeader(http.StatusMisdirectedRequest)
		fmt.Fprintln(w, "This server has no certificate for the name that was asked for. Add it to tls.names, or use another.")
		return
	}
	to := url.URL{Scheme: "https", Host: host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if port := a.port(); port != 443 {
		to.Host = net.JoinHostPort(host, strconv.Itoa(port))
	} else if net.ParseIP(host) != nil && net.ParseIP(host).To4() == nil {
		to.Host = "[" + host + "]"
	}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusPermanentRedirect)
}

func trimBrackets(s string) string {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
}
