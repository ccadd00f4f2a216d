package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// TLS modes.
const (
	TLSInternal = "internal" // our own authority
	TLSFiles    = "files"    // certificate and key from files
	TLSACME     = "acme"     // an ACME authority, our own until it has answered
	TLSOff      = "off"      // plain HTTP on this machine, behind somebody else's TLS
)

// The lowest versions of TLS that can be asked for.
const (
	TLS12 = "1.2"
	TLS13 = "1.3"
)

// TLS is [tls]: where the server certificate comes from.
type TLS struct {
	// Mode is "internal", "files", "acme" or "off". Default "internal".
	Mode string `toml:"mode"`
	// Names are the DNS names and addresses the certificate covers besides
	// localhost, 127.0.0.1, ::1 and the name of this host. Default none.
	Names []string `toml:"names"`
	// Lifetime is how long a certificate of our own authority is valid; it is
	// renewed after two thirds of it. Default 168h.
	Lifetime Duration `toml:"lifetime"`
	// Certificate and Key are PEM files, mode "files". Read again when they change.
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	// Directory is the ACME directory URL. Default Let's Encrypt.
	Directory string `toml:"directory"`
	// Email is the contact of the ACME account. Default none.
	Email string `toml:"email"`
	// CAFile is a PEM file with the roots to trust for Directory; empty: the
	// system's. Default empty.
	CAFile string `toml:"ca_file"`
	// Profile is the ACME profile to ask for, for instance "shortlived". Default
	// none: the authority's own choice.
	Profile string `toml:"profile"`
	// EABKeyID and EABKey bind the ACME account to one that exists at the
	// authority (RFC 8555 §7.3.4): its identifier, and a reference to its secret,
	// "file:PATH", "env:NAME" or "systemd:NAME". Default none.
	EABKeyID string `toml:"eab_key_id"`
	EABKey   string `toml:"eab_key"`
	// OCSP staples the answers of the ACME authority's OCSP responder, which this
	// machine must reach. Default false.
	OCSP bool `toml:"ocsp"`
	// IssuerCertificate and IssuerKey are PEM files with an intermediate that the
	// site's own authority made for this appliance, what is above it behind it. It
	// signs in place of our own authority. Read again when they change. Default none.
	IssuerCertificate string `toml:"issuer_certificate"`
	IssuerKey         string `toml:"issuer_key"`
	// MinVersion is the lowest version of TLS, "1.2" or "1.3". Default "1.2".
	MinVersion string `toml:"min_version"`
	// RedirectListen is a HOST:PORT on which plain HTTP is answered with a redirect
	// to HTTPS, and with the http-01 challenges of ACME; nothing else is served
	// there. Default none.
	RedirectListen string `toml:"redirect_listen"`
}

func (t *TLS) setDefaults() {
	*t = TLS{
		Mode:      TLSInternal,
		Lifetime:  Duration(7 * 24 * time.Hour),
		Directory: "https://acme-v02.api.letsencrypt.org/directory",

		MinVersion: TLS12,
	}
}

func (t *TLS) validate(f *Faults) {
	f.oneOf("tls.mode", t.Mode, TLSInternal, TLSFiles, TLSACME, TLSOff)
	for i, n := range t.Names {
		if !validName(n) {
			f.add("tls.names["+strconv.Itoa(i)+"]", "cannot use %q as a DNS name or address", n)
		}
	}
	f.span("tls.lifetime", t.Lifetime, time.Minute, 397*24*time.Hour)
	f.oneOf("tls.min_version", t.MinVersion, TLS12, TLS13)
	if t.RedirectListen != "" {
		if err := CheckListen(t.RedirectListen); err != nil {
			f.add("tls.redirect_listen", "cannot use %q as an address: %v; wanted HOST:PORT", t.RedirectListen, err)
		} else if t.Mode == TLSOff {
			f.add("tls.redirect_listen", `cannot redirect to HTTPS since tls.mode is "off"`)
		}
	}
	f.together("tls.issuer_certificate", t.IssuerCertificate, "tls.issuer_key", t.IssuerKey)
	f.together("tls.eab_key_id", t.EABKeyID, "tls.eab_key", t.EABKey)
	if t.EABKey != "" {
		if err := checkReference(t.EABKey); err != nil {
			f.add("tls.eab_key", "%v", err)
		}
	}
	switch t.Mode {
	case TLSFiles:
		if t.Certificate == "" {
			f.add("tls.certificate", `is missing, wanted a PEM file since tls.mode is "files"`)
		}
		if t.Key == "" {
			f.add("tls.key", `is missing, wanted a PEM file since tls.mode is "files"`)
		}
	case TLSACME:
		if len(t.Names) == 0 {
			f.add("tls.names", `is empty, wanted at least one name since tls.mode is "acme"`)
		}
		for i, n := range t.Names {
			if strings.HasPrefix(n, "*.") {
				f.add("tls.names["+strconv.Itoa(i)+"]", `cannot order %q: a wildcard takes the dns-01 challenge, which tls.mode "acme" has not; list the names`, n)
			}
		}
		u, err := url.Parse(t.Directory)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			f.add("tls.directory", "cannot use %q, wanted an https URL", t.Directory)
		}
	}
}

// together adds a fault if one of two keys is set and the other is not.
func (f *Faults) together(keyA, a, keyB, b string) {
	switch {
	case a != "" && b == "":
		f.add(keyB, "is missing, wanted with %s", keyA)
	case a == "" && b != "":
		f.add(keyA, "is missing, wanted with %s", keyB)
	}
}

// checkReference says why s is no reference to a secret, without telling s, which
// may be the secret itself.
func checkReference(s string) error {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || name == "" || kind != "env" && kind != "file" && kind != "systemd" {
		return errors.New(`cannot use this as a reference to a secret, wanted "file:PATH", "env:NAME" or "systemd:NAME"`)
	}
	return nil
}

// Plain says that the server speaks plain HTTP, and what is wrong with that on
// an address: keys would cross a network in the clear.
func (c *Config) Plain(listen string) (bool, error) {
	if c.TLS.Mode != TLSOff {
		return false, nil
	}
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return true, errors.New(`cannot be "off" where others can connect: wanted server.listen on localhost, 127.0.0.1 or ::1`)
	}
	return true, nil
}

// validName says whether s is an address or a DNS name, maybe with one leading
// wildcard label (RFC 1123 §2.1, RFC 6125 §6.4.3).
func validName(s string) bool {
	if net.ParseIP(s) != nil {
		return true
	}
	s = strings.TrimPrefix(s, "*.")
	if s == "" || len(s) > 253 {
		return false
	}
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}
