package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hearth/appliance/config"
)

// addresses is where a start would listen, by configuration key.
func (d *doctor) addresses() map[string]string {
	out := map[string]string{"server.listen": d.conf.Server.Listen}
	if a := d.conf.Admin.Listen; a != "" && a != config.AdminOff {
		out["admin.listen"] = a
	}
	if d.conf.TLS.RedirectListen != "" {
		out["tls.redirect_listen"] = d.conf.TLS.RedirectListen
	}
	return out
}

// ports sees whether a start could listen; beside a running server they are
// taken, by it.
func (d *doctor) ports(context.Context) {
	if d.conf == nil {
		return
	}
	for key, addr := range d.addresses() {
		_, port, err := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		if err != nil || n == 0 {
			continue
		}
		if d.conn != nil {
			continue // server tells
		}
		l, err := net.Listen("tcp", addr)
		switch {
		case err == nil:
			l.Close()
			d.ok("ports", "%s %s is free", key, addr)
		case errors.Is(err, syscall.EACCES):
			d.fail("ports", "use a port from 1024 on, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or sysctl net.ipv4.ip_unprivileged_port_start="+port, "%s %s is reserved for root", key, addr)
		case errors.Is(err, syscall.EADDRINUSE):
			d.fail("ports", "end what listens there (ss -ltnp 'sport = :"+port+"'), or change "+key, "%s %s is in use", key, addr)
		default:
			d.fail("ports", "change "+key, "%s %s cannot be used: %v", key, addr, err)
		}
	}
}

// names resolves the hosts of upstreams.
func (d *doctor) names(ctx context.Context) {
	if d.conf == nil {
		return
	}
	seen := map[string]bool{}
	for i := range d.conf.Upstreams {
		u := &d.conf.Upstreams[i]
		at, err := url.Parse(u.BaseURL)
		if err != nil || at.Hostname() == "" || seen[at.Hostname()] || net.ParseIP(at.Hostname()) != nil {
			continue
		}
		seen[at.Hostname()] = true
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		found, err := net.DefaultResolver.LookupHost(ctx, at.Hostname())
		cancel()
		if err != nil {
			d.warn("names", "see /etc/resolv.conf, or write an address into base_url", "upstream %s: %s cannot be resolved: %v", u.Name, at.Hostname(), err)
			continue
		}
		d.ok("names", "%s is %s", at.Hostname(), strings.Join(found[:min(2, len(found))], ", "))
	}
}

func (d *doctor) root(context.Context) {
	const name = "certificate authority"
	b, err := os.ReadFile(d.dir.rootPEM())
	if err != nil {
		return // no first start yet
	}
	block, _ := pem.Decode(b)
	if block == nil {
		d.fail(name, "restart the server, which writes it anew", "%s is not PEM", d.dir.rootPEM())
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch now := d.env.Now(); {
	case err != nil:
		d.fail(name, "restart the server, which writes it anew", "%v", err)
	case now.Before(c.NotBefore):
		d.fail(name, "set the clock", "the clock says %s, before the root was made", now.Format(time.DateTime))
	case now.After(c.NotAfter):
		d.fail(name, "set the clock, or make a new root: `hearth cert rotate`", "it ended on %s", c.NotAfter.Format(time.DateOnly))
	default:
		d.ok(name, "%s, until %s", c.Subject.CommonName, c.NotAfter.Format(time.DateOnly))
	}
}

// target is where the running server is reached from this machine.
func (d *doctor) target() (addr, host string) {
	addr = d.conf.Server.Listen
	if d.conn != nil && d.conn.local != nil && d.conn.local.server != nil {
		if l := d.conn.local.server.listeners; len(l) > 0 {
			addr = l[0].Addr().String()
		}
	}
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), host
}

// soon is when a certificate that nobody renews is to be looked after.
const soon = 14 * 24 * time.Hour

// certificate shakes hands with the running server and looks at what it shows.
func (d *doctor) certificate(ctx context.Context) {
	const name = "certificate"
	if d.conf == nil || d.conn == nil {
		return
	}
	addr, host := d.target()
	if plain, _ := d.conf.Plain(addr); plain {
		d.ok(name, "none: tls.mode is off on this machine's own address")
		return
	}
	c, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 3 * time.Second}, Config: &tls.Config{
		ServerName: host, InsecureSkipVerify: true, // looked at below, to say what is wrong
	}}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return // server tells
	}
	defer c.Close()
	chain := c.(*tls.Conn).ConnectionState().PeerCertificates
	leaf, now := chain[0], d.env.Now()
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if b, err := os.ReadFile(d.dir.rootPEM()); err == nil {
		pool.AppendCertsFromPEM(b)
	}
	middle := x509.NewCertPool()
	for _, m := range chain[1:] {
		middle.AddCert(m)
	}
	until := leaf.NotAfter.Format(time.DateTime)
	switch _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: middle, CurrentTime: now}); {
	case now.After(leaf.NotAfter):
		d.fail(name, "`hearth cert renew`; `hearth cert show` tells why it was not renewed", "it ended on %s", until)
	case err != nil:
		d.warn(name, "put the whole chain into tls.certificate, or have clients trust its root", "clients cannot trust it: %v", err)
	case leaf.VerifyHostname(host) != nil:
		d.warn(name, "add the name to tls.names", "it is for %s, not for %s", strings.Join(leaf.DNSNames, ", "), host)
	case leaf.NotAfter.Sub(now) < soon && d.conf.TLS.Mode == config.TLSFiles:
		d.warn(name, "put a new one in place of tls.certificate and tls.key; they are read again by themselves", "it ends on %s", until)
	default:
		d.ok(name, "for %s, until %s", strings.Join(append(slices.Clone(leaf.DNSNames), addressTexts(leaf.IPAddresses)...), ", "), until)
	}
}

func addressTexts(ips []net.IP) (out []string) {
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}
