package appliance

import (
	"context"
	"fmt"
	"net"
	"time"

	"hearth/appliance/config"
	"hearth/web"
)

// listener is one open port.
type listener struct {
	net.Listener
	done chan struct{} // closed when its Serve has returned
}

// openWeb makes the server and listens; connections are accepted once Open has
// everything.
func (a *Appliance) openWeb(context.Context) error {
	c := a.config()
	o := web.Options{
		Service: a, Log: a.log, Observe: a.telemetry.exchange,
		Version: Version, Build: readBuild().labels(), Limits: webLimits(c), Now: a.now,
	}
	o.Metrics, o.Access = a.metricsHandler(), a.logs.access.Load
	s, err := web.New(o)
	if err != nil {
		return err
	}
	a.web = s
	open, err := listen(c.Server.Listen)
	if err != nil {
		return err
	}
	for _, l := range open {
		a.listeners = append(a.listeners, listener{l, make(chan struct{})})
	}
	if err := a.beginCertificates(); err != nil {
		for _, l := range open {
			l.Close()
		}
		return err
	}
	tc := a.callersTLS()
	if plain, _ := c.Plain(c.Server.Listen); plain {
		tc = nil
	}
	for _, l := range a.listeners {
		go func() {
			defer close(l.done)
			if err := s.Serve(l, tc); err != nil && !a.draining.Load() {
				a.log.Error("cannot accept connections", "address", l.Addr(), "error", err)
			}
		}()
	}
	a.onClose(a.closeWeb)
	return nil
}

// closeWeb lets answers that are being written go out, then cuts what is left.
func (a *Appliance) closeWeb() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := a.web.Shutdown(ctx)
	if err != nil {
		err = a.web.Close()
	}
	for _, l := range a.listeners {
		l.Close() // Serve may not have been reached yet
		<-l.done
	}
	return err
}

// listen opens addr; "localhost" stands for both loopback addresses, of which
// the IPv6 one may not exist on this machine.
func listen(addr string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", addr, err)
	}
	if host != "localhost" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
		return []net.Listener{l}, nil
	}
	l4, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	_, port, _ = net.SplitHostPort(l4.Addr().String()) // the same port where it was 0
	l6, err := net.Listen("tcp6", net.JoinHostPort("::1", port))
	if err != nil {
		return []net.Listener{l4}, nil
	}
	return []net.Listener{l4, l6}, nil
}

// baseURL is where clients on this machine reach the server.
func (a *Appliance) baseURL() string {
	host, _, _ := net.SplitHostPort(a.config().Server.Listen)
	_, port, _ := net.SplitHostPort(a.listeners[0].Addr().String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "https://"
	if plain, _ := a.config().Plain(a.config().Server.Listen); plain {
		scheme = "http://"
	}
	return scheme + net.JoinHostPort(host, port)
}

// webLimits is the web server's bounds with what the configuration sets.
func webLimits(c *config.Config) web.Limits {
	s := c.Server
	return web.Limits{
		BodyBytes: int64(s.MaxBody), HeaderTime: s.HeaderTimeout.Std(), BodyTime: s.BodyTimeout.Std(),
		IdleTime: s.IdleTimeout.Std(), WriteTime: s.WriteTimeout.Std(),
	}
}
