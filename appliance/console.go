package appliance

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"hearth/appliance/config"
	"hearth/web"
	"hearth/web/admin"
)

// console is the control plane with its listeners.
type console struct {
	server    *admin.Server
	listeners []listener
}

// openConsole makes the control plane and listens. Until there is an owner it
// can be reached from this machine only, whatever the configuration says: who
// comes first would own the box.
func (a *Appliance) openConsole(ctx context.Context) error {
	c := a.config()
	addr, asked := c.AdminListen(a.listeners[0].Addr().String())
	if addr == config.AdminOff {
		return nil
	}
	ctl := &control{store: a.store, server: a, config: func() (*config.Config, error) { return a.config(), nil }}
	var ops []*admin.Operation
	for _, op := range operations() {
		ops = append(ops, op.describe(ctl))
	}
	s, err := admin.New(admin.Options{Service: consoleService{a.accounts, a}, Operations: admin.NewRegistry(ops...), Log: a.log, Version: Version, API: a.baseURL, Now: a.now})
	if err != nil {
		return err
	}
	a.console = &console{server: s}
	a.onClose(a.closeConsole)
	if asked && !a.accounts.HasOwner(ctx) && !config.LocalOnly(addr) {
		_, port, _ := net.SplitHostPort(addr)
		a.log.Warn("the control plane is open to this machine only until it has an owner", "admin.listen", addr)
		addr = net.JoinHostPort("localhost", port)
	}
	open, err := listen(addr)
	if err != nil && !asked {
		a.log.Info("the port after that of the API is taken, the control plane takes any other", "address", addr)
		open, err = listen("localhost:0")
	}
	if err != nil {
		return fmt.Errorf("cannot open the control plane: %w", err)
	}
	a.console.serve(a, open)
	return nil
}

// WidenConsole listens where the configuration says once there is an owner.
func (a *Appliance) widenConsole() error {
	if a.console == nil {
		return nil
	}
	addr, asked := a.config().AdminListen(a.listeners[0].Addr().String())
	if !asked || config.LocalOnly(addr) {
		return nil
	}
	for _, l := range a.console.listeners {
		if _, port, _ := net.SplitHostPort(l.Addr().String()); !loopbackAddr(l.Addr()) && net.JoinHostPort("", port) != "" {
			return nil // it does already
		}
	}
	_, port, _ := net.SplitHostPort(addr)
	// The same port of all addresses includes loopback's, which is in use: that
	// listener goes first.
	for _, l := range a.console.listeners {
		if _, p, _ := net.SplitHostPort(l.Addr().String()); p == port {
			l.Close()
		}
	}
	open, err := listen(addr)
	if err != nil {
		return fmt.Errorf("cannot open the control plane: %w", err)
	}
	a.log.Info("the control plane has an owner and is open", "admin.listen", addr)
	a.console.serve(a, open)
	return nil
}

func loopbackAddr(addr net.Addr) bool {
	t, ok := addr.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// serve accepts connections of open.
func (c *console) serve(a *Appliance, open []net.Listener) {
	tc := a.consoleTLS()
	for _, l := range open {
		own := listener{l, make(chan struct{})}
		c.listeners = append(c.listeners, own)
		go func() {
			defer close(own.done)
			if err := c.server.Serve(l, tc); err != nil && !a.draining.Load() {
				a.log.Debug("the control plane stopped accepting", "address", l.Addr(), "error", err)
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
	for _, l := range a.console.listeners {
		l.Close()
		<-l.done
	}
	return err
}

// adminURL is where the page is reached from this machine; empty without one.
func (a *Appliance) adminURL() string {
	if a.console == nil {
		return ""
	}
	l := a.console.listeners[len(a.console.listeners)-1]
	host, port, _ := net.SplitHostPort(l.Addr().String())
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
