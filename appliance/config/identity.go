package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"hearth/policy"
)

// Identity is one [[identity]]: callers of the data plane that are known by
// something else than an API key.
type Identity struct {
	// Name stands in the ids of its callers: KIND/NAME/TENANT/SUBJECT.
	Name string `toml:"name"`
	// Kind is "jwt", signed tokens in Authorization: Bearer, or "certificate",
	// client certificates of mutual TLS.
	Kind string `toml:"kind"`

	// Issuer is the token's iss, exactly. Where neither JWKSURL nor JWKSFile is
	// set its keys are found by OpenID Connect Discovery. It may be empty with
	// TrustDomain only. Default empty.
	Issuer string `toml:"issuer"`
	// Audiences of which a token must name one. Never empty with "jwt".
	Audiences []string `toml:"audiences"`
	// JWKSURL is where the issuer's keys are (RFC 7517), https, or http on this
	// machine. Default empty.
	JWKSURL string `toml:"jwks_url"`
	// JWKSFile is a file with keys, read again when it changes: alone, or as long
	// as JWKSURL has not answered since the start. Default empty.
	JWKSFile string `toml:"jwks_file"`
	// Algorithms that a token may be signed by; asymmetric ones only. Default all
	// of RS, PS and ES with 256, 384 and 512, and EdDSA.
	Algorithms []string `toml:"algorithms"`
	// Type is the typ that a token must have, such as "at+jwt" (RFC 9068); empty:
	// none, JWT, JOSE or at+jwt. Default empty.
	Type string `toml:"type"`
	// Leeway allows for clocks that differ. Default 30s, at most 60s.
	Leeway Duration `toml:"leeway"`
	// MaxLifetime bounds how long a token may be good, from its iat, else from
	// now. Default 24h.
	MaxLifetime Duration `toml:"max_lifetime"`
	// SubjectClaim is the claim that tells callers apart for good. Default "sub".
	SubjectClaim string `toml:"subject_claim"`

	// CAFile is a PEM file, read again when it changes. Of "certificate": the
	// authorities whose certificates are taken, several while one follows another.
	// Of "jwt": the roots to trust for JWKSURL or Issuer; empty: the system's.
	CAFile string `toml:"ca_file"`
	// RevocationFile has revocation lists (RFC 5280) of those authorities, PEM or
	// DER, read again when it changes. With it every authority must have a list
	// that is in date. Empty: none. Default empty.
	RevocationFile string `toml:"revocation_file"`

	// TrustDomain takes SPIFFE IDs of that domain alone: of a JWT-SVID, or of an
	// X.509-SVID. Default empty.
	TrustDomain string `toml:"trust_domain"`
	// Require lists conditions NAME=PATTERN. Those of one name are alternatives;
	// one of every name must hold. A name is a claim (a dotted path leads into
	// objects), or of a certificate cn, o, ou, dns, email, uri or serial; spiffe
	// is the path of the SPIFFE ID. In a pattern * stands for anything but the
	// separator (a dot in dns, a slash in uri and spiffe), ** for anything.
	// Default none.
	Require []string `toml:"require"`
	// Tenant is whose callers they are; empty: a claim or a grant says it.
	Tenant string `toml:"tenant"`
	// TenantClaim is the claim, or the name as in Require, that holds one tenant;
	// Tenants translates it, and refuses what it does not list. Default empty.
	TenantClaim string            `toml:"tenant_claim"`
	Tenants     map[string]string `toml:"tenants"`

	// What they may ask for, within their tenant's bounds; empty: all.
	Models      []string `toml:"models"`
	Tools       []string `toml:"tools"`
	DataClasses []string `toml:"data_classes"`
	Regions     []string `toml:"regions"`
	Effects     []string `toml:"effects"`
	// Claims that say the same for one caller: a list, or words in one text. Of
	// scope and scp count words with the name of the key before a colon, such as
	// models:chat. Without the claim nothing may be asked for. Default empty.
	ModelsClaim      string `toml:"models_claim"`
	ToolsClaim       string `toml:"tools_claim"`
	DataClassesClaim string `toml:"data_classes_claim"`
	RegionsClaim     string `toml:"regions_claim"`
	EffectsClaim     string `toml:"effects_claim"`
	// Grants tell callers apart: the first whose Match holds counts, and who meets
	// none is refused. Default none: all are alike.
	Grants []IdentityGrant `toml:"grant"`
}

// IdentityGrant is one [[identity.grant]].
type IdentityGrant struct {
	// Match is as Identity.Require; empty: everyone.
	Match []string `toml:"match"`
	// Tenant instead of that of the identity; empty: that one.
	Tenant string `toml:"tenant"`
	// What these callers may ask for, within what the identity says.
	Models      []string `toml:"models"`
	Tools       []string `toml:"tools"`
	DataClasses []string `toml:"data_classes"`
	Regions     []string `toml:"regions"`
	Effects     []string `toml:"effects"`
}

// Kinds of identities.
const (
	IdentityJWT         = "jwt"
	IdentityCertificate = "certificate"
)

// TokenAlgorithms are the signatures that tokens may have, of RFC 7518 and RFC
// 8037. Those by a shared secret are not among them: a box that can verify such a
// token can make one.
func TokenAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func (id *Identity) setDefaults() {
	*id = Identity{Algorithms: TokenAlgorithms(), Leeway: Duration(30 * time.Second), MaxLifetime: Duration(24 * time.Hour), SubjectClaim: "sub"}
}

// NewIdentity is a table with every default.
func NewIdentity(name, kind string) Identity {
	var id Identity
	id.setDefaults()
	id.Name, id.Kind = name, kind
	return id
}

const (
	maxIdentities = 64
	maxGrants     = 1000
	maxConditions = 256
	maxClaimName  = 256
)

func (c *Config) validateIdentities(f *Faults) {
	if len(c.Identities) > maxIdentities {
		f.add("identity", "cannot have %d tables, wanted at most %d", len(c.Identities), maxIdentities)
		return
	}
	seen := map[string]bool{}
	for i := range c.Identities {
		id, at := &c.Identities[i], fmt.Sprintf("identity[%d]", i)
		if !plainName(id.Name) {
			f.add(at+".name", "got %.64q, wanted 1 to 64 letters, digits, '-', '_' or '.'", id.Name)
		} else if seen[id.Name] {
			f.add(at+".name", "cannot have %q twice", id.Name)
		}
		seen[id.Name] = true
		switch id.Kind {
		case IdentityJWT:
			id.validateToken(f, at)
		case IdentityCertificate:
			id.validateCertificate(f, at)
			if c.TLS.Mode == TLSOff {
				f.add(at+".kind", "cannot ask for client certificates with tls.mode \"off\"")
			}
		default:
			f.oneOf(at+".kind", id.Kind, IdentityJWT, IdentityCertificate)
		}
		id.validateTenants(f, at, c)
		id.validateGrants(f, at)
	}
}

func (id *Identity) validateToken(f *Faults, at string) {
	if id.Issuer == "" && id.TrustDomain == "" || len(id.Issuer) > 512 || strings.ContainsFunc(id.Issuer, unprintable) {
		f.add(at+".issuer", "got %.64q, wanted the token's iss, 1 to 512 printable characters; it may be empty with trust_domain only", id.Issuer)
	}
	if len(id.Audiences) == 0 || len(id.Audiences) > 64 || slices.Contains(id.Audiences, "") {
		f.add(at+".audiences", "got %d, wanted 1 to 64 names of which a token must have one", len(id.Audiences))
	}
	switch {
	case id.JWKSURL != "":
		f.keysURL(at+".jwks_url", id.JWKSURL)
	case id.JWKSFile == "":
		f.keysURL(at+".issuer", id.Issuer)
	}
	if len(id.Algorithms) == 0 {
		f.add(at+".algorithms", "is empty, wanted some of %s", strings.Join(TokenAlgorithms(), ", "))
	}
	for i, a := range id.Algorithms {
		f.oneOf(fmt.Sprintf("%s.algorithms[%d]", at, i), a, TokenAlgorithms()...)
	}
	if len(id.Type) > 64 || strings.ContainsFunc(id.Type, unprintable) {
		f.add(at+".type", "got %.64q, wanted a media type such as at+jwt", id.Type)
	}
	f.span(at+".leeway", id.Leeway, 0, time.Minute)
	f.span(at+".max_lifetime", id.MaxLifetime, time.Minute, 366*24*time.Hour)
	if id.SubjectClaim == "" || len(id.SubjectClaim) > maxClaimName {
		f.add(at+".subject_claim", "got %d bytes, wanted 1 to %d", len(id.SubjectClaim), maxClaimName)
	}
	if id.RevocationFile != "" {
		f.add(at+".revocation_file", "is for kind \"certificate\"")
	}
}

func (id *Identity) validateCertificate(f *Faults, at string) {
	if id.CAFile == "" {
		f.add(at+".ca_file", "is empty, wanted a file with the authorities whose certificates are taken")
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"issuer", id.Issuer != ""}, {"audiences", len(id.Audiences) > 0}, {"jwks_url", id.JWKSURL != ""}, {"jwks_file", id.JWKSFile != ""},
		{"type", id.Type != ""}, {"models_claim", id.ModelsClaim != ""}, {"tools_claim", id.ToolsClaim != ""},
		{"data_classes_claim", id.DataClassesClaim != ""}, {"regions_claim", id.RegionsClaim != ""}, {"effects_claim", id.EffectsClaim != ""},
	} {
		if k.set {
			f.add(at+"."+k.key, "is for kind \"jwt\"")
		}
	}
	// Who holds any certificate of an authority that serves others as well must
	// not come in by accident.
	if id.TrustDomain == "" && len(id.Require) == 0 && len(id.Grants) == 0 {
		f.add(at+".require", "is empty, wanted conditions such as \"dns=**\": an authority may have given certificates to others too")
	}
	known := []string{"cn", "o", "ou", "dns", "email", "uri", "serial", "spiffe"}
	check := func(key, name string) {
		if !slices.Contains(known, name) {
			f.add(key, "got %.64q, wanted one of %s", name, strings.Join(known, ", "))
		}
	}
	each := func(key string, list []string) {
		for i, m := range list {
			name, _, _ := strings.Cut(m, "=")
			check(fmt.Sprintf("%s[%d]", key, i), name)
		}
	}
	each(at+".require", id.Require)
	for i := range id.Grants {
		each(fmt.Sprintf("%s.grant[%d].match", at, i), id.Grants[i].Match)
	}
	if id.TenantClaim != "" {
		check(at+".tenant_claim", id.TenantClaim)
	}
}

func (id *Identity) validateTenants(f *Faults, at string, c *Config) {
	if id.TrustDomain != "" && !trustDomain(id.TrustDomain) {
		f.add(at+".trust_domain", "got %.64q, wanted a name of lower-case letters, digits, '.', '-' and '_', without spiffe://", id.TrustDomain)
	}
	known := func(key, name string) {
		if name != "" && !slices.ContainsFunc(c.Tenants, func(t policy.TenantConfig) bool { return t.Name == name }) {
			f.add(key, "no tenant is called %.64q", name)
		}
	}
	known(at+".tenant", id.Tenant)
	for value, name := range id.Tenants {
		known(at+".tenants."+value, name)
		if name == "" {
			f.add(at+".tenants."+value, "is empty, wanted a tenant's name")
		}
	}
	switch {
	case id.Tenant != "" && id.TenantClaim != "":
		f.add(at+".tenant_claim", "cannot be set with tenant: one of them says whose the callers are")
	case len(id.Tenants) > 0 && id.TenantClaim == "":
		f.add(at+".tenants", "cannot be set without tenant_claim, whose values it translates")
	}
	own := 0
	for i := range id.Grants {
		known(fmt.Sprintf("%s.grant[%d].tenant", at, i), id.Grants[i].Tenant)
		if id.Grants[i].Tenant != "" {
			own++
		}
	}
	if id.Tenant == "" && id.TenantClaim == "" && (own == 0 || own < len(id.Grants)) {
		f.add(at+".tenant", "is empty, wanted a tenant here, a tenant_claim, or a tenant in each [[identity.grant]]")
	}
}

func (id *Identity) validateGrants(f *Faults, at string) {
	f.conditions(at+".require", id.Require)
	f.grants(at, id.Models, id.Tools, id.DataClasses, id.Regions, id.Effects)
	if len(id.Grants) > maxGrants {
		f.add(at+".grant", "cannot have %d tables, wanted at most %d", len(id.Grants), maxGrants)
		return
	}
	for i := range id.Grants {
		g, key := &id.Grants[i], fmt.Sprintf("%s.grant[%d]", at, i)
		f.conditions(key+".match", g.Match)
		f.grants(key, g.Models, g.Tools, g.DataClasses, g.Regions, g.Effects)
	}
}

// conditions judges a list of NAME=PATTERN.
func (f *Faults) conditions(key string, list []string) {
	if len(list) > maxConditions {
		f.add(key, "cannot list %d conditions, wanted at most %d", len(list), maxConditions)
		return
	}
	for i, m := range list {
		if name, pattern, ok := strings.Cut(m, "="); !ok || name == "" || pattern == "" || len(name) > maxClaimName || len(pattern) > 1024 {
			f.add(fmt.Sprintf("%s[%d]", key, i), "got %.64q, wanted NAME=PATTERN, such as \"groups=ml-*\"", m)
		}
	}
}

func (f *Faults) grants(at string, models, tools, classes, regions, effects []string) {
	for _, l := range []struct {
		key  string
		list []string
	}{{"models", models}, {"tools", tools}, {"data_classes", classes}, {"regions", regions}} {
		if len(l.list) > 256 {
			f.add(at+"."+l.key, "cannot list %d names, wanted at most 256", len(l.list))
		}
		for i, s := range l.list {
			if s == "" || len(s) > 200 || strings.ContainsFunc(s, unprintable) || strings.Contains(strings.TrimSuffix(s, "*"), "*") {
				f.add(fmt.Sprintf("%s.%s[%d]", at, l.key, i), "got %.64q, wanted 1 to 200 printable characters, a star at the end at most", s)
			}
		}
	}
	for i, e := range effects {
		f.oneOf(fmt.Sprintf("%s.effects[%d]", at, i), e, policy.ReadOnly, policy.Effectful)
	}
}

// keysURL takes an address that keys may be had from: https, or this machine.
func (f *Faults) keysURL(key, s string) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.ContainsFunc(s, unprintable):
		f.add(key, "got %.128q, wanted https:// with a host, without user and fragment", s)
	case u.Scheme == "http" && loopback(u.Hostname()), u.Scheme == "https":
	default:
		f.add(key, "got %.128q, wanted https://: who can change the keys on their way can be anybody", s)
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// trustDomain is the grammar of the SPIFFE ID specification, section 2.1.
func trustDomain(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }
