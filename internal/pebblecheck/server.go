package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server is a Hearth that orders from an authority.
type server struct {
	c       *check
	a       *authority
	dir     string
	conf    string // further lines of [tls]
	names   []string
	process *process
}

// newServer makes a data directory; conf is what [tls] says besides.
func (c *check) newServer(a *authority, dir, conf string, names ...string) (*server, error) {
	s := &server{c: c, a: a, dir: filepath.Join(a.dir, dir), conf: conf, names: names}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return s, s.write()
}

func (s *server) write() error {
	quoted := make([]string, len(s.names))
	for i, n := range s.names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	text := fmt.Sprintf(`price_version = "check"
[server]
listen = %q
[admin]
listen = "off"
[tls]
mode = "acme"
names = [%s]
directory = %q
ca_file = %q
%s
[log]
level = "debug"
[[tenant]]
name = "default"
`, s.a.tls, strings.Join(quoted, ", "), s.a.directory(), s.a.caFile(), s.conf)
	return os.WriteFile(filepath.Join(s.dir, "appliance.toml"), []byte(text), 0o600)
}

// start runs the server and waits until it answers handshakes, by whatever
// certificate: that must not take long, whatever the authority does.
func (s *server) start() error {
	var err error
	began := time.Now()
	if s.process, err = s.c.start(s.dir+".log", nil, s.c.hearth, "serve", "--data", s.dir); err != nil {
		return err
	}
	err = until(10*time.Second, func() error {
		if s.process.ended() {
			return errors.New("the server ended")
		}
		c, err := tls.Dial("tcp", s.a.tls, &tls.Config{InsecureSkipVerify: true, ServerName: name}) // whoever vouches for it
		if err == nil {
			c.Close()
		}
		return err
	})
	if took := time.Since(began); err == nil && took > 5*time.Second {
		return fmt.Errorf("the server answered after %s", took)
	}
	return err
}

// shows says whether the server has a certificate for host below roots, and how
// long that is valid in all.
func (s *server) shows(host string, roots *x509.CertPool) (life time.Duration, serial string, err error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", s.a.tls, &tls.Config{RootCAs: roots, ServerName: host})
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	leaf := c.ConnectionState().PeerCertificates[0]
	return leaf.NotAfter.Sub(leaf.NotBefore), leaf.SerialNumber.Text(16), nil
}

// issued waits until every name has a certificate of the authority.
func (s *server) issued(most time.Duration) error {
	roots, err := s.a.roots()
	if err != nil {
		return err
	}
	return until(most, func() error {
		if s.process.ended() {
			return errors.New("the server ended")
		}
		for _, n := range s.names {
			if _, _, err := s.shows(n, roots); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
		return nil
	})
}

// load shakes hands from eight clients until stop is called, each time anew and
// held to the authority's roots.
func (s *server) load(roots *x509.CertPool) (stop func() (done, failed int64, first error)) {
	var done, failed atomic.Int64
	var first atomic.Pointer[error]
	var all sync.WaitGroup
	ending := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-ending:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, _, err := s.shows(name, roots); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
					continue
				}
				done.Add(1)
			}
		})
	}
	return func() (int64, int64, error) {
		close(ending)
		all.Wait()
		var err error
		if p := first.Load(); p != nil {
			err = *p
		}
		return done.Load(), failed.Load(), err
	}
}
