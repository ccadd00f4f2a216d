package appliance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/web"
	"hearth/web/admin"
)

// console is the control plane with its listeners.
type console struct {
	server *admin.Server

	mu        sync.Mutex // guards below
	addr      string     // HOST:PORT that is listened at
	listeners []listener
}

// openConsole makes the control plane and listens.
func (a *Appliance) openConsole(context.Context) error {
	if a.config().Admin.Listen == config.AdminOff {
		return nil
	}
	ctl := a.control()
	var ops []*admin.Operation
	for _, op := range operations() {
		ops = append(ops, op.describe(ctl))
	}
	s, err := admin.New(admin.Options{Service: consoleService{a.accounts, a}, Operations: admin.NewRegistry(ops...), Log: a.log, Version: Version, API: a.baseURL, Host: a.goesBy, Now: a.now})
	if err != nil {
		return err
	}
	a.console = &console{server: s}
	a.onClose(a.closeConsole)
	return a.bindConsole(a.config())
}

// goesBy says whether the control plane answers to a host name: an address, a name
// that always means this machine, the machine's own, and those that the
// configuration or a certificate in use gives it.
func (a *Appliance) goesBy(name string) bool {
	if net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if own, err := os.Hostname(); err == nil && own != "" {
		own = strings.ToLower(own)
		if short, _, _ := strings.Cut(own, "."); name == own || name == short || name == short+".local" {
			return true
		}
	}
	for _, n := range a.config().TLS.Names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	m := a.certs.Load()
	return m != nil && m.Covers(name)
}

// bindConsole listens where c says, in place of where the control plane listened
// before; connections that are open go on. Until there is an owner it can be
// reached from this machine only, whatever c says: who comes first would own the
// box.
func (a *Appliance) bindConsole(c *config.Config) error {
	k := a.console
	if k == nil || c.Admin.Listen == config.AdminOff {
		return nil
	}
	addr, asked := c.AdminListen(a.listeners[0].Addr().String())
	if asked && !a.accounts.HasOwner(context.Background()) && !config.LocalOnly(addr) {
		_, port, _ := net.SplitHostPort(addr)
		a.log.Warn("the control plane is open to this machine only until it has an owner", "admin.listen", addr)
		addr = net.JoinHostPort("localhost", port)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if addr == k.addr {
		return nil
	}
	// The new address may include the old one, which would be in use.
	k.dropLocked()
	open, err := listen(addr)
	if err != nil && !asked {
		a.log.Info("the port after that of the API is taken, the control plane takes any other", "address", addr)
		open, err = listen("localhost:0")
	}
	if err != nil {
		if back, again := listen(k.addr); k.addr != "" && again == nil {
			k.serveLocked(a, back)
		}
		return fmt.Errorf("cannot open the control plane: %w", err)
	}
	if k.addr != "" {
		a.log.Info("the control plane listens anew", "address", addr)
	}
	k.addr = addr
	k.serveLocked(a, open)
	return nil
}

// dropLocked stops accepting; what is open goes on.
func (c *console) dropLocked() {
	for _, l := range c.listeners {
		l.Close()
		<-l.done
	}
	c.listeners = nil
}

// serveLocked accepts connections of open.
func (c *console) serveLocked(a *Appliance, open []net.Listener) {
	tc := a.consoleTLS()
	for _, l := range open {
		own := listener{l, make(chan struct{})}
		c.listeners = append(c.listeners, own)
		go func() {
			defer close(own.done)
			if err := c.server.Serve(l, tc); err != nil && !a.draining.Load() && !errors.Is(err, net.ErrClosed) {
				a.log.Error("the control plane cannot accept connections", "address", l.Addr(), "error", err)
			}
		}()
	}
}

// consoleTLS is nil where somebody else speaks TLS for us.
func (a *Appliance) consoleTLS() *tls.Config {
	if a.config().TLS.Mode == config.TLSOff {
		return nil
	}
	return a.tlsConfig(a.askForCertificates)
}

func (a *Appliance) closeConsole() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := a.console.server.Shutdown(ctx)
	if err != nil {
		err = a.console.server.Close()
	}
	a.console.mu.Lock()
	defer a.console.mu.Unlock()
	a.console.dropLocked()
	return err
}

// adminURL is where the page is reached from this machine; empty without one.
func (a *Appliance) adminURL() string {
	if a.console == nil {
		return ""
	}
	a.console.mu.Lock()
	defer a.console.mu.Unlock()
	if len(a.console.listeners) == 0 {
		return ""
	}
	host, port, _ := net.SplitHostPort(a.console.listeners[0].Addr().String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() || ip.IsLoopback() {
		host = "localhost"
	}
	scheme := "https://"
	if a.config().TLS.Mode == config.TLSOff {
		scheme = "http://"
	}
	return scheme + net.JoinHostPort(host, port)
}

// Play serves a request of the playground as the data plane would.
func (a *Appliance) Play(w http.ResponseWriter, r *http.Request, c *admin.Caller, tenant string) {
	r = r.WithContext(web.As(r.Context(), web.Principal{User: c.User, Tenant: tenant}))
	a.web.Handler().ServeHTTP(w, r)
}
