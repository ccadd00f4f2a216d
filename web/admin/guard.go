package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"hearth/engine/infer"
)

// Bounds that keep strangers from the memory and the connections of those who
// have come to work.
const (
	maxConns = 256
	// maxConnsPeer bounds the connections of one address elsewhere; of IPv6, of the
	// /64 that one subscriber has.
	maxConnsPeer = 32
	// maxStranger bounds the body of who shows no credential: a name and a password,
	// or the answer of an authenticator.
	maxStranger = 32 << 10
	// writeTime bounds how long a reader may take for an answer, or for a piece of a
	// large one.
	writeTime = time.Minute
)

// ours holds a request against our own origin: changes come from our pages or
// from programs, never from the page of another origin; credentials go over TLS
// or stay on this machine. A name that is not ours leads here only where somebody
// has pointed it here, to have their page pass for ours (DNS rebinding).
func (x *exchange) ours() error {
	r := x.r
	if host := hostName(r.Host); host != "" && x.s.opt.Host != nil && !x.s.opt.Host(host) {
		return infer.Errorf(infer.CodeForbidden, "the control plane does not go by the name %.100q: wanted localhost, an address, this machine's name or one of tls.names", host)
	}
	if err := x.s.cross.Check(r); err != nil || r.TLS != nil && plainOrigin(r) {
		return infer.Errorf(infer.CodeForbidden, "cannot do this from the page of another origin")
	}
	if r.TLS == nil && !loopback(r.RemoteAddr) {
		return infer.Errorf(infer.CodeForbidden, "the control plane is served over TLS only, except on this machine itself")
	}
	return x.limitBody(maxBody)
}

// hostName is the host of a Host header, in small letters, without its port.
func hostName(h string) string {
	if host, _, err := net.SplitHostPort(h); err == nil {
		h = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))
}

// plainOrigin says whether a page without TLS asks for a change, which anybody on
// the way may have made. The check of origins compares hosts only.
func plainOrigin(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "http://")
}

// limitBody bounds what is read of the body.
func (x *exchange) limitBody(most int64) error {
	if x.r.ContentLength > most {
		return infer.Errorf(infer.CodeTooLarge, "cannot take a body of %d bytes: at most %d are taken", x.r.ContentLength, most)
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, most)
	return nil
}

// still says whether the credential of the request is as good as it was, for
// answers that take long.
func (x *exchange) still(ctx context.Context) bool {
	if x.again == nil {
		return false
	}
	c, err := x.again(ctx)
	return err == nil && c != nil && c.Role == x.caller.Role && c.Tenant == x.caller.Tenant
}

// loopback tells whether an address is this machine.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// boundedListener closes connections beyond the bounds as they come: an accept
// that waited would let one peer keep everybody out.
type boundedListener struct {
	net.Listener

	mu   sync.Mutex // guards below
	open int
	by   map[netip.Prefix]int
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.enter(peerOf(c.RemoteAddr())); ok {
			return &boundedConn{c, leave}, nil
		}
		c.Close()
	}
}

// peerOf is the network that an address counts for; none of this machine, where
// a proxy may stand for everyone.
func peerOf(addr net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil || ap.Addr().Unmap().IsLoopback() {
		return netip.Prefix{}
	}
	ip := ap.Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // a length that it has
	return p
}

func (l *boundedListener) enter(peer netip.Prefix) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= maxConns || peer.IsValid() && l.by[peer] >= maxConnsPeer {
		return nil, false
	}
	if l.by == nil {
		l.by = map[netip.Prefix]int{}
	}
	l.open++
	l.by[peer]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.by[peer]--; l.by[peer] == 0 {
			delete(l.by, peer)
		}
	}), true
}

type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
