package web

import (
	"net"
	"net/netip"
	"sync"
)

// connCounter bounds open connections, in all and by address.
type connCounter struct {
	max     int
	perAddr int

	mu  sync.Mutex // guards what follows
	n   int
	by  map[string]int
	cut uint64 // connections closed at once because of a bound
}

// enter counts a connection in and says how to count it out; ok is false where
// there is no room.
func (c *connCounter) enter(addr net.Addr) (leave func(), ok bool) {
	key := ""
	if ap, err := netip.ParseAddrPort(addr.String()); err == nil && !ap.Addr().Unmap().IsLoopback() {
		ip := ap.Addr().Unmap()
		if ip.Is6() {
			// One subscriber holds a /64 and can name it any way it likes.
			p, _ := ip.WithZone("").Prefix(64)
			key = p.String()
		} else {
			key = ip.String()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n >= c.max || key != "" && c.by[key] >= c.perAddr {
		c.cut++
		return nil, false
	}
	c.n++
	if key != "" {
		c.by[key]++
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n--
		if key == "" {
			return
		}
		if c.by[key]--; c.by[key] == 0 {
			delete(c.by, key)
		}
	}), true
}

func (c *connCounter) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// countedListener closes connections beyond the bounds as they come: an accept
// that waited would let a few peers keep everybody out.
type countedListener struct {
	net.Listener
	count *connCounter
}

func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, ok := l.count.enter(c.RemoteAddr())
		if !ok {
			c.Close()
			continue
		}
		return &countedConn{c, leave}, nil
	}
}

type countedConn struct {
	net.Conn
	leave func()
}

func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets the library end its half first, so that a refusal reaches a
// peer that is still sending.
func (c *countedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}
