package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// issue orders a name and an address, once by each challenge alone. Without a
// redirecting listener there is tls-alpn-01 only; with one, and TLS elsewhere than
// Pebble looks, only http-01 can succeed.
func (c *check) issue(a *authority) error {
	s, err := c.newServer(a, "alpn", "", name, "127.0.0.1")
	if err == nil {
		err = s.start()
	}
	if err == nil {
		err = s.issued(30 * time.Second)
	}
	if err != nil {
		return fmt.Errorf("by tls-alpn-01: %w", err)
	}
	s.process.kill()
	// What is in the store serves without the authority.
	if err := a.process.hold(); err != nil {
		return err
	}
	began := time.Now()
	err = s.start()
	if e := a.process.goOn(); err == nil {
		err = e
	}
	if err == nil {
		err = s.issued(0)
	}
	if err != nil {
		return fmt.Errorf("a second start, with an authority that hangs: %w", err)
	}
	fmt.Printf("    second start, the authority hangs: %d ms\n", time.Since(began).Milliseconds())
	s.process.kill()
	return c.issueHTTP(a)
}

func (c *check) issueHTTP(a *authority) error {
	elsewhere, err := freeAddr()
	if err != nil {
		return err
	}
	b := *a
	b.tls = elsewhere
	s, err := c.newServer(&b, "http", fmt.Sprintf("redirect_listen = %q", a.http), name)
	if err == nil {
		err = s.start()
	}
	if err == nil {
		err = s.issued(30 * time.Second)
	}
	if err != nil {
		return fmt.Errorf("by http-01: %w", err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequest("GET", "http://"+a.http+"/v1/models?x=1", nil)
	if err != nil {
		return err
	}
	req.Host = name
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	want := "https://" + name + ":" + portOf(elsewhere) + "/v1/models?x=1"
	if r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != want {
		return fmt.Errorf("the redirect: got %s to %q, wanted 308 to %q", r.Status, r.Header.Get("Location"), want)
	}
	return nil
}

// kills ends the server with SIGKILL at one moment after the other of its first
// order and of renewals.
func (c *check) kills(a *authority) error {
	s, err := c.newServer(a, "data", "", name)
	if err != nil {
		return err
	}
	n := 0
	for delay := 30 * time.Millisecond; delay < 700*time.Millisecond; delay += 90 * time.Millisecond {
		if err := s.start(); err != nil {
			return fmt.Errorf("after %d kills: %w", n, err)
		}
		time.Sleep(delay)
		s.process.kill()
		n++
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("after %d kills: %w", n, err)
	}
	if err := s.issued(30 * time.Second); err != nil {
		return fmt.Errorf("after %d kills nothing was issued: %w", n, err)
	}
	renewals := 0
	for delay := 20 * time.Millisecond; delay < 1500*time.Millisecond; delay += 140 * time.Millisecond {
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			_, _ = s.command("cert", "renew", name) // it is cut off
		}()
		time.Sleep(delay)
		s.process.kill()
		<-renewed
		if err := s.start(); err != nil {
			return err
		}
		// The certificate before, or the one after, and never a broken pair.
		if err := s.issued(0); err != nil {
			return fmt.Errorf("killed %s into a renewal: %w", delay, err)
		}
		renewals++
	}
	if _, err := s.command("cert", "renew", name); err != nil {
		return fmt.Errorf("after %d kills: %w", renewals, err)
	}
	out, err := s.command("ledger", "check")
	if err != nil {
		return err
	}
	fmt.Printf("    %d kills before the first certificate, %d within renewals; ledger: %s\n", n, renewals, strings.SplitN(out, "\n", 2)[0])
	return s.issued(0)
}

// authorityFails has the authority hang, and then die, in mid-order.
func (c *check) authorityFails(a *authority) error {
	s, err := c.newServer(a, "data", "", name)
	if err != nil {
		return err
	}
	if err := a.process.hold(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("with an authority that hangs: %w", err)
	}
	if out, err := s.command("cert", "show"); err != nil || !strings.Contains(out, "waiting") {
		return fmt.Errorf("cert show while the authority hangs: %v: %s", err, out)
	}
	time.Sleep(2 * time.Second)
	if err := a.process.goOn(); err != nil {
		return err
	}
	if err := s.issued(30 * time.Second); err != nil {
		return fmt.Errorf("after the authority went on: %w", err)
	}
	for _, delay := range []time.Duration{50, 150, 300} {
		before, err := a.roots()
		if err != nil {
			return err
		}
		failed := make(chan error, 1)
		go func() {
			_, err := s.command("cert", "renew", name)
			failed <- err
		}()
		time.Sleep(delay * time.Millisecond)
		a.process.kill()
		if err := <-failed; err == nil {
			fmt.Printf("    the renewal was done within %d ms\n", delay)
		}
		if _, _, err := s.shows(name, before); err != nil {
			return fmt.Errorf("killed authority: the certificate of before does not serve: %w", err)
		}
		// It comes back without its memory: accounts are unknown, the root is another.
		if err := a.run(); err != nil {
			return err
		}
		if _, err := s.command("cert", "renew", name); err != nil {
			return fmt.Errorf("with an authority that has forgotten us: %w", err)
		}
		if err := s.issued(0); err != nil {
			return err
		}
	}
	out, err := s.command("cert", "events", "--json")
	if err == nil && !strings.Contains(out, `"failed"`) {
		err = errors.New("the failures are not in the log of events")
	}
	return err
}

// renewals renews twenty times while clients shake hands.
func (c *check) renewals(a *authority) error {
	s, err := c.newServer(a, "data", "", name)
	if err == nil {
		err = s.start()
	}
	if err == nil {
		err = s.issued(30 * time.Second)
	}
	if err != nil {
		return err
	}
	roots, err := a.roots()
	if err != nil {
		return err
	}
	stop := s.load(roots)
	seen := map[string]bool{}
	began := time.Now()
	for i := range 20 {
		if _, err := s.command("cert", "renew", name); err != nil {
			stop()
			return fmt.Errorf("renewal %d: %w", i+1, err)
		}
		_, serial, err := s.shows(name, roots)
		if err != nil {
			stop()
			return err
		}
		seen[serial] = true
	}
	done, failed, first := stop()
	if len(seen) != 20 {
		return fmt.Errorf("saw %d certificates after 20 renewals", len(seen))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d handshakes failed, the first: %w", failed, done+failed, first)
	}
	fmt.Printf("    %d handshakes over %.1f s, 0 failed\n", done, time.Since(began).Seconds())
	return nil
}

// profile has a running server order by another profile.
func (c *check) profile(a *authority) error {
	// Without a profile Pebble takes any.
	s, err := c.newServer(a, "data", `profile = "default"`, name)
	if err == nil {
		err = s.start()
	}
	if err == nil {
		err = s.issued(30 * time.Second)
	}
	if err != nil {
		return err
	}
	roots, err := a.roots()
	if err != nil {
		return err
	}
	before, _, err := s.shows(name, roots)
	if err != nil {
		return err
	}
	s.conf = `profile = "shortlived"`
	if err := s.write(); err != nil {
		return err
	}
	if err := s.process.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	return until(20*time.Second, func() error {
		if _, err := s.command("cert", "renew", name); err != nil {
			return err
		}
		after, _, err := s.shows(name, roots)
		if err == nil && (after >= before || after > 7*24*time.Hour) {
			err = fmt.Errorf("a certificate of the profile is valid for %s, one without for %s", after, before)
		}
		return err
	})
}

// external binds the ACME account to one that the authority knows.
func (c *check) external(a *authority) error {
	const id, secret = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W" // known to this Pebble only
	a.process.kill()
	a.eab = map[string]string{id: secret}
	if err := a.run(); err != nil {
		return err
	}
	without, err := c.newServer(a, "without", "", name)
	if err == nil {
		err = without.start()
	}
	if err != nil {
		return err
	}
	if out, err := without.command("cert", "renew", name); err == nil || !strings.Contains(out, "xternal") {
		return fmt.Errorf("an authority that wants an external account issued without: %s", out)
	}
	without.process.kill()
	s, err := c.newServer(a, "data", fmt.Sprintf("eab_key_id = %q\neab_key = \"file:eab\"", id), name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "eab"), []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	return s.issued(30 * time.Second)
}
