package config

import (
	"net"
	"strconv"
	"time"
)

// Admin is [admin]: the control plane with the status page.
type Admin struct {
	// Listen is HOST:PORT of the control plane. Empty, the default: this machine
	// only, on the port after server.listen, or any free one if that is taken.
	// "off": there is no control plane but the socket.
	Listen string `toml:"listen"`
	// SessionLifetime ends a sign-in, SessionIdle one that is not used. Defaults
	// 12h and 1h.
	SessionLifetime Duration `toml:"session_lifetime"`
	SessionIdle     Duration `toml:"session_idle"`

	OIDC              SignInOIDC        `toml:"oidc"`
	ClientCertificate SignInCertificate `toml:"client_certificate"`
}

// AdminOff as Admin.Listen means no listener.
const AdminOff = "off"

func (a *Admin) setDefaults() {
	*a = Admin{SessionLifetime: Duration(12 * time.Hour), SessionIdle: Duration(time.Hour)}
	a.OIDC.setDefaults()
}

func (a *Admin) validate(f *Faults) {
	if a.Listen != "" && a.Listen != AdminOff {
		if err := CheckListen(a.Listen); err != nil {
			f.add("admin.listen", "%v", err)
		}
	}
	f.span("admin.session_lifetime", a.SessionLifetime, 5*time.Minute, 30*24*time.Hour)
	f.span("admin.session_idle", a.SessionIdle, time.Minute, 30*24*time.Hour)
	a.OIDC.validate(f, "admin.oidc")
}

// AdminListen is where the control plane listens when the data plane does at
// listen. asked is false where the port was not chosen by the operator.
func (c *Config) AdminListen(listen string) (addr string, asked bool) {
	if c.Admin.Listen != "" {
		return c.Admin.Listen, true
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		port = "0"
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil || n == 0 || n == 65535 {
		return "localhost:0", false
	}
	return net.JoinHostPort("localhost", strconv.Itoa(n+1)), false
}

// LocalOnly says whether only this machine can connect to addr, HOST:PORT.
func LocalOnly(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
