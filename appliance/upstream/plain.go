package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A server next door is asked over plain HTTP/1.1 without net/http's transport:
// that one hands each request to a goroutine for writing and one for reading,
// whose wake-ups cost more than the request. Here the goroutine that asks writes
// and reads by itself. What is large, and all TLS, goes through net/http.

// maxPlain is the largest body that is written before the answer is read: what
// fits into the buffers of a connection, so that the write cannot wait for a
// server which is already answering.
const maxPlain = 64 << 10

// plainPool are the unused connections to one host.
type plainPool struct {
	address string
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	idle    time.Duration

	mu     sync.Mutex
	free   []*plainConn // the one used last at the end
	sweep  *time.Timer
	closed bool
}

// plainConn is one connection, used by one request at a time.
type plainConn struct {
	*countedConn
	br    *bufio.Reader
	out   []byte
	left  int64 // of a head that is being read; negative: no limit
	since time.Time
}

var errLongHead = errors.New("server response headers exceeded the limit")

// Read is where br reads from.
func (c *plainConn) Read(p []byte) (int, error) {
	if c.left < 0 {
		return c.countedConn.Conn.Read(p)
	}
	if c.left == 0 {
		return 0, errLongHead
	}
	n, err := c.countedConn.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func newPlainPool(u *Upstream) *plainPool {
	if u.target.scheme != "http" {
		return nil
	}
	address := u.target.host
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "80")
	}
	return &plainPool{address: address, dial: u.pool.DialContext, idle: u.profile.idle}
}

// take gives a connection, a used one if there is one that is still open.
func (p *plainPool) take(ctx context.Context) (c *plainConn, reused bool, err error) {
	for {
		p.mu.Lock()
		n := len(p.free)
		if n == 0 {
			p.mu.Unlock()
			break
		}
		c := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		p.mu.Unlock()
		if time.Since(c.since) < p.idle && quiet(c.countedConn.Conn) {
			return c, true, nil
		}
		c.Close()
	}
	conn, err := p.dial(ctx, "tcp", p.address)
	if err != nil {
		return nil, false, err
	}
	c = &plainConn{countedConn: conn.(*countedConn)}
	c.br = bufio.NewReaderSize(c, 4096)
	return c, false, nil
}

// give takes a connection back.
func (p *plainPool) give(c *plainConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= maxIdlePerHost {
		c.Close()
		return
	}
	c.since = time.Now()
	p.free = append(p.free, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.idle, p.expire)
	}
}

// expire closes what has been unused for too long. Those are at the front.
func (p *plainPool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.free) && time.Since(p.free[n].since) >= p.idle {
		p.free[n].Close()
		n++
	}
	p.free = append(p.free[:0], p.free[n:]...)
	clear(p.free[len(p.free):cap(p.free)])
	if len(p.free) == 0 || p.closed {
		p.sweep = nil
		return
	}
	p.sweep.Reset(max(p.idle-time.Since(p.free[0].since), time.Millisecond))
}

func (p *plainPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.free {
		c.Close()
	}
	p.free = nil
	if p.sweep != nil {
		p.sweep.Stop()
	}
}

// plainly makes an exchange on a connection of our own up to the head of the
// answer.
func (a *attempt) plainly(method string, to *url.URL, head http.Header, body []byte) (*http.Response, error) {
	pool := a.u.plain
	conn, reused, err := pool.take(a.ctx)
	if err != nil {
		return nil, err
	}
	a.conn, a.reused, a.before = conn.countedConn, reused, conn.written.Load()
	stop := context.AfterFunc(a.ctx, func() { conn.Close() })
	fail := func(err error) (*http.Response, error) {
		stop()
		conn.Close()
		return nil, err
	}
	if conn.out, err = appendRequest(conn.out[:0], method, to, head, body); err != nil {
		return fail(err)
	}
	_, werr := conn.Write(conn.out)
	if cap(conn.out) > 4<<10 {
		conn.out = nil
	}
	// Also behind a failed write: the server may have answered early.
	resp, err := conn.head()
	if err != nil {
		if werr != nil {
			err = werr
		}
		return fail(err)
	}
	if werr != nil {
		resp.Close = true
	}
	resp.Body = &plainBody{pool: pool, conn: conn, body: resp.Body, keep: !resp.Close, stop: stop}
	return resp, nil
}

// head reads the head of an answer; those of status 1xx are passed over.
func (c *plainConn) head() (*http.Response, error) {
	for range 8 {
		c.left = maxHead
		resp, err := http.ReadResponse(c.br, nil)
		c.left = -1
		if err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF // of the connection, not of a body
			}
			return nil, err
		}
		if resp.StatusCode >= 200 {
			return resp, nil
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return nil, errors.New("malformed HTTP response: interim answers without an end")
}

// appendRequest writes a request (RFC 9112, section 3).
func appendRequest(dst []byte, method string, to *url.URL, head http.Header, body []byte) ([]byte, error) {
	dst = append(append(dst, method...), ' ')
	dst = append(append(dst, to.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	dst = append(append(dst, to.Host...), "\r\nContent-Length: "...)
	dst = append(strconv.AppendInt(dst, int64(len(body)), 10), '\r', '\n')
	for name, values := range head {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") || !validName(name) {
				return dst, errors.New("cannot send a header: it would not end where it ends")
			}
			dst = append(append(append(dst, name...), ": "...), v...)
			dst = append(dst, '\r', '\n')
		}
	}
	dst = append(dst, '\r', '\n')
	return append(dst, body...), nil
}

// plainBody is the body of an answer. At its end the connection goes back into
// the pool; closed before, it is closed.
type plainBody struct {
	pool *plainPool
	conn *plainConn
	body io.ReadCloser
	keep bool
	stop func() bool
	done bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	n, err := b.body.Read(p)
	if err == io.EOF {
		b.done = true
		// Bytes behind the answer belong to no request of ours.
		if b.stop() && b.keep && b.conn.br.Buffered() == 0 {
			b.pool.give(b.conn)
		} else {
			b.conn.Close()
		}
	}
	return n, err
}

// Close does not read on: there may be no end.
func (b *plainBody) Close() error {
	if b.done {
		return nil
	}
	b.done = true
	b.stop()
	return b.conn.Close()
}
