package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hearth/policy"
)

// SignInOIDC is [admin.oidc]: signing in to the control plane through an OpenID
// provider.
type SignInOIDC struct {
	// Issuer is the provider's issuer URL, https; empty: off. Default empty.
	Issuer string `toml:"issuer"`
	// ClientID is what the provider knows the appliance by.
	ClientID string `toml:"client_id"`
	// ClientSecret is a reference to the secret, "env:NAME", "file:PATH" or
	// "systemd:NAME"; empty: a public client, held by PKCE alone. Default empty.
	ClientSecret string `toml:"client_secret"`
	// CAFile is a PEM file with the roots to trust for the provider; empty: the
	// system's. Default empty.
	CAFile string `toml:"ca_file"`
	// Label stands on the button. Default "Single sign-on".
	Label string `toml:"label"`
	// Scopes to ask for, besides openid. Default ["profile", "email"].
	Scopes []string `toml:"scopes"`
	// NameClaim is the claim that people are named by. Default "preferred_username".
	NameClaim string `toml:"name_claim"`
	// RoleClaim is the claim with roles or groups, a text or a list of texts; a
	// dotted path leads into objects. Default "groups".
	RoleClaim string `toml:"role_claim"`
	// Roles says which role a value of RoleClaim gives; the one that may most
	// counts. Who has none of them is refused.
	Roles map[string]string `toml:"roles"`
	// TenantClaim is the claim that names the tenant of a tenant admin. Default
	// "tenant".
	TenantClaim string `toml:"tenant_claim"`
	// EmailDomains that verified addresses must be of; empty: addresses are not
	// looked at. Default empty.
	EmailDomains []string `toml:"email_domains"`
	// RequireAccount lets in only who has an account of the same name, whose role
	// counts then instead of Roles. Default false.
	RequireAccount bool `toml:"require_account"`
}

func (o *SignInOIDC) setDefaults() {
	*o = SignInOIDC{Label: "Single sign-on", Scopes: []string{"profile", "email"}, NameClaim: "preferred_username", RoleClaim: "groups", TenantClaim: "tenant"}
}

// SignInCertificate is [admin.client_certificate]: signing in to the control
// plane with a client certificate.
type SignInCertificate struct {
	// CAFile is a PEM file with the authorities whose certificates are taken;
	// empty: off. Default empty.
	CAFile string `toml:"ca_file"`
	// RevocationFile is a file with revocation lists of those authorities, PEM or
	// DER, read again when it changes; empty: none. Default empty.
	RevocationFile string `toml:"revocation_file"`
	// Users says who is let in. A certificate that none matches is refused; the
	// first that matches counts.
	Users []CertificateUser `toml:"user"`
}

// CertificateUser is one [[admin.client_certificate.user]].
type CertificateUser struct {
	// Match is "cn:NAME", "email:ADDRESS" or "uri:URI" of the certificate; an
	// address may be "*@domain", a URI may end in "*".
	Match string `toml:"match"`
	// Name in the audit trail; empty: what has matched. Default empty.
	Name string `toml:"name"`
	// Role is "owner", "operator", "auditor" or "tenant-admin".
	Role string `toml:"role"`
	// Tenant of a tenant admin; empty for other roles. Default empty.
	Tenant string `toml:"tenant"`
}

// adminRoles are the roles of the control plane.
var adminRoles = []string{"owner", "operator", "auditor", "tenant-admin"}

func (o *SignInOIDC) validate(f *Faults, at string) {
	if o.Issuer == "" {
		return
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		f.add(at+".issuer", "cannot use %q, wanted an https URL without a query", o.Issuer)
	}
	if o.ClientID == "" {
		f.add(at+".client_id", "is missing, wanted what the provider knows the appliance by")
	}
	if o.ClientSecret != "" {
		kind, name, ok := strings.Cut(o.ClientSecret, ":")
		if !ok || name == "" || !slices.Contains([]string{"env", "file", "systemd"}, kind) {
			f.add(at+".client_secret", `a secret is never written here, wanted a reference: "env:NAME", "file:PATH" or "systemd:NAME"`)
		}
	}
	for key, v := range map[string]string{"label": o.Label, "name_claim": o.NameClaim, "role_claim": o.RoleClaim, "tenant_claim": o.TenantClaim} {
		if v == "" || len(v) > 128 {
			f.add(at+"."+key, "got %d bytes, wanted 1 to 128", len(v))
		}
	}
	if len(o.Roles) == 0 && !o.RequireAccount {
		f.add(at+".roles", "is empty, so nobody could sign in: wanted for instance {\"admins\" = \"owner\"}, or require_account = true")
	}
	for value, role := range o.Roles {
		f.oneOf(at+".roles."+value, role, adminRoles...)
	}
	for i, s := range o.Scopes {
		if s == "" || strings.ContainsAny(s, " \"\\") {
			f.add(fmt.Sprintf("%s.scopes[%d]", at, i), "cannot use %q as a scope", s)
		}
	}
	for i, d := range o.EmailDomains {
		if !validName(d) || strings.HasPrefix(d, "*") {
			f.add(fmt.Sprintf("%s.email_domains[%d]", at, i), "cannot use %q as a domain", d)
		}
	}
}

func (c *SignInCertificate) validate(f *Faults, at string, tenants []policy.TenantConfig) {
	if c.CAFile == "" {
		if len(c.Users) > 0 || c.RevocationFile != "" {
			f.add(at+".ca_file", "is missing, wanted a PEM file with the authorities whose certificates are taken")
		}
		return
	}
	if len(c.Users) == 0 {
		f.add(at+".user", "is empty, so nobody could sign in: wanted [[%s.user]] tables", at)
	}
	for i, u := range c.Users {
		u.validate(f, fmt.Sprintf("%s.user[%d]", at, i), tenants)
	}
}

func (u *CertificateUser) validate(f *Faults, at string, tenants []policy.TenantConfig) {
	kind, value, ok := strings.Cut(u.Match, ":")
	star := strings.IndexByte(value, '*')
	switch {
	case !ok || value == "" || !slices.Contains([]string{"cn", "email", "uri"}, kind):
		f.add(at+".match", `got %q, wanted "cn:NAME", "email:ADDRESS" or "uri:URI"`, u.Match)
	case star < 0:
	case kind == "email" && strings.HasPrefix(value, "*@") && len(value) > 2 && strings.Count(value, "*") == 1:
	case kind == "uri" && strings.HasSuffix(value, "/*") && star == len(value)-1:
	default:
		f.add(at+".match", `got %q: a star may stand for the person in "email:*@domain", and behind the last slash of a URI`, u.Match)
	}
	f.oneOf(at+".role", u.Role, adminRoles...)
	known := slices.ContainsFunc(tenants, func(t policy.TenantConfig) bool { return t.Name == u.Tenant })
	switch {
	case u.Role == "tenant-admin" && !known:
		f.add(at+".tenant", "got %q, wanted the name of a [[tenant]] since the role is tenant-admin", u.Tenant)
	case u.Role != "tenant-admin" && u.Tenant != "":
		f.add(at+".tenant", "is of no use with the role %s", u.Role)
	}
}
