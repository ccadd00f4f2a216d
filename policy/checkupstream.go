package policy

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of [[upstream]] tables.
const (
	maxUpstreams   = 1000
	maxHeaders     = 32
	maxHeaderBytes = 2048
	maxLabels      = 64
	maxConcurrency = 1_000_000
)

func (u *UpstreamConfig) defaults() {
	setDuration(&u.ConnectTimeout, 5*time.Second)
	setDuration(&u.IdleTimeout, 2*time.Minute)
	if u.BytesPerToken == 0 {
		u.BytesPerToken = 1
	}
	if u.OnCancel == "" {
		u.OnCancel = "close"
	}
	setDuration(&u.DrainTimeout, 5*time.Second)
	h := &u.Health
	setDuration(&h.ProbeInterval, 10*time.Second)
	if h.EjectAfter == nil {
		n := 5
		h.EjectAfter = &n
	}
	setDuration(&h.EjectFor, 10*time.Second)
	setDuration(&h.EjectMax, 5*time.Minute)
}

func setDuration(d *Duration, v time.Duration) {
	if *d == 0 {
		*d = Duration(v)
	}
}

func (v *validator) upstreams(us []UpstreamConfig) {
	if len(us) > maxUpstreams {
		v.fault("upstream", "cannot have %d upstreams: want at most %d", len(us), maxUpstreams)
		return
	}
	seen := map[string]bool{}
	for i := range us {
		u, path := &us[i], fmt.Sprintf("upstream[%d]", i)
		switch {
		case u.Name == "" || len(u.Name) > 64 || strings.ContainsFunc(u.Name, notNameRune):
			v.fault(path+".name", "cannot use %.64q: want 1 to 64 of a-z, A-Z, 0-9, dot, underscore and dash", u.Name)
		case u.Name == Local:
			v.fault(path+".name", "cannot name an upstream %q: that is the engine in this box", Local)
		case seen[u.Name]:
			v.fault(path+".name", "cannot have upstream %q twice", u.Name)
		}
		seen[u.Name] = true
		v.upstream(path, u)
	}
}

func (v *validator) upstream(path string, u *UpstreamConfig) {
	v.kind(path, u)
	v.baseURL(path+".base_url", u.BaseURL, u.AllowHTTP)
	v.credential(path+".credential", u.Credential)
	v.baseURL(path+".token_url", u.TokenURL, u.AllowHTTP)
	for _, f := range []struct{ key, value string }{
		{"project", u.Project}, {"region", u.Region}, {"api_version", u.APIVersion}, {"audience", u.Audience}, {"client_id", u.ClientID},
	} {
		v.name(path+"."+f.key, f.value, true)
	}
	if len(u.Scope) > maxHeaderBytes || strings.ContainsFunc(u.Scope, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		v.fault(path+".scope", "cannot use %.64q: want printable ASCII characters", u.Scope)
	}
	v.headers(path+".headers", u.Headers)
	v.span(path+".connect_timeout", u.ConnectTimeout, 10*time.Millisecond, 5*time.Minute, false)
	v.span(path+".first_byte_timeout", u.FirstByteTimeout, 10*time.Millisecond, 24*time.Hour, true)
	v.span(path+".idle_timeout", u.IdleTimeout, 100*time.Millisecond, time.Hour, false)
	v.span(path+".drain_timeout", u.DrainTimeout, time.Millisecond, 10*time.Minute, false)
	v.between(path+".max_concurrent", u.MaxConcurrent, 0, maxConcurrency)
	v.labels(path+".data_classes", u.DataClasses)
	if !(u.BytesPerToken >= 1 && u.BytesPerToken <= 8) {
		v.fault(path+".bytes_per_token", "cannot use %v: want 1 to 8", u.BytesPerToken)
	}
	v.oneOf(path+".on_cancel", u.OnCancel, "close", "drain")
	v.health(path+".health", &u.Health)
}

func (v *validator) kind(path string, u *UpstreamConfig) {
	p := ProviderOf(u.Kind)
	if p == nil {
		v.oneOf(path+".kind", u.Kind, kindNames()...)
		return
	}
	v.note(Constraint{Path: path + ".dialect", Choices: p.Dialects})
	if u.Dialect != "" && !slices.Contains(p.Dialects, "openai-"+u.Dialect) {
		v.oneOf(path+".dialect", u.Dialect, p.Dialects...)
	}
	if p.BaseURL && u.BaseURL == "" {
		v.fault(path+".base_url", "is missing: an upstream of kind %q has no address of its own", u.Kind)
	}
	if p.Region && u.Region == "" {
		v.fault(path+".region", "is missing: an upstream of kind %q is in one of its provider's regions", u.Kind)
	}
	if p.Project && u.Project == "" {
		v.fault(path+".project", "is missing: an upstream of kind %q belongs to a project", u.Kind)
	}
	if u.Kind == "azure" && strings.HasPrefix(u.Credential, "oidc-file:") && u.TokenURL == "" {
		v.fault(path+".token_url", "is missing: want the token endpoint of your Entra tenant, \"https://login.microsoftonline.com/TENANT/oauth2/v2.0/token\"")
	}
}

// baseURL checks an address that requests and credentials are sent to. What
// stands in it is not repeated where it may hold a secret.
func (v *validator) baseURL(path, s string, allowHTTP bool) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || len(s) > maxHeaderBytes:
		v.fault(path, "cannot be read as a URL: want one such as \"https://api.example.com/v1\"")
	case u.User != nil:
		v.fault(path, "cannot hold a user name or password: put a reference into credential")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, "?#"):
		v.fault(path, "cannot hold a query or a fragment: want scheme, host and path only")
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		v.fault(path, "cannot use %.100q: want a URL such as \"https://api.example.com/v1\"", s)
	case slices.Contains(strings.Split(u.Path, "/"), "..") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		v.fault(path, "cannot use %.100q: want a plain path", s)
	case u.Scheme == "http" && !allowHTTP && !privateHost(u.Hostname()):
		v.fault(path, "cannot send requests in the clear to %.100q: want https, or allow_http = true if the network in between is yours", u.Hostname())
	}
}

// privateHost says that a host is this machine or, by address or name, in a
// private network (RFC 1918, RFC 4193; names without a dot, RFC 6762 .local,
// .internal, .home.arpa of RFC 8375, and service names of Kubernetes).
func privateHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback() || a.IsPrivate()
	}
	if !strings.Contains(host, ".") {
		return host != ""
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".home.arpa", ".lan", ".svc", ".cluster.local"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

var (
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
	systemdName = regexp.MustCompile(`^[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,199}$`)
)

// credential checks a reference. Its text is never repeated: what stands there
// by mistake is most often the secret itself.
func (v *validator) credential(path, s string) {
	if s == "" {
		return
	}
	scheme, rest, _ := strings.Cut(s, ":")
	switch scheme {
	case "env":
		if !envName.MatchString(rest) {
			v.fault(path, "cannot be used: after \"env:\" want the name of an environment variable, such as \"env:OPENAI_API_KEY\"")
		}
	case "systemd":
		if !systemdName.MatchString(rest) {
			v.fault(path, "cannot be used: after \"systemd:\" want the name of a credential, as in LoadCredential=")
		}
	case "file", "oidc-file":
		if rest == "" || len(rest) > 4096 || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			v.fault(path, "cannot be used: after \"%s:\" want the path of a file", scheme)
		}
	default:
		v.fault(path, "cannot be a secret itself, which does not belong into this file: want a reference, \"env:NAME\", \"file:PATH\", \"systemd:NAME\" or \"oidc-file:PATH\"")
	}
}

// secretHeaders are never configured as plain text.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "Api-Key", "X-Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token", "Cookie"}

// ownHeaders are the transport's.
var ownHeaders = []string{"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Accept-Encoding",
	"Expect", "Upgrade", "Te", "Trailer", "Keep-Alive"}

func (v *validator) headers(path string, hs map[string]string) {
	if len(hs) > maxHeaders {
		v.fault(path, "cannot send %d headers: want at most %d", len(hs), maxHeaders)
		return
	}
	names := make([]string, 0, len(hs))
	for n := range hs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		canon := textproto.CanonicalMIMEHeaderKey(n)
		switch value := hs[n]; {
		case n == "" || len(n) > 200 || strings.ContainsFunc(n, notTokenRune):
			v.fault(path, "cannot use %.64q as the name of a header", n)
		case slices.Contains(secretHeaders, canon):
			v.fault(path+"."+n, "cannot be set here, since it carries a secret: put a reference into credential")
		case slices.Contains(ownHeaders, canon):
			v.fault(path+"."+n, "cannot be set: it belongs to the connection")
		case len(value) > maxHeaderBytes || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			v.fault(path+"."+n, "cannot have this value: want at most %d bytes without control characters", maxHeaderBytes)
		}
	}
}

// notTokenRune: RFC 9110 §5.6.2.
func notTokenRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

func (v *validator) health(path string, h *HealthConfig) {
	if h.Probe != "" && (h.Probe[0] != '/' || len(h.Probe) > maxHeaderBytes || strings.ContainsFunc(h.Probe, func(r rune) bool { return r <= ' ' || r >= 0x7f })) {
		v.fault(path+".probe", "cannot use %.64q: want a path such as \"/health\"", h.Probe)
	}
	v.span(path+".probe_interval", h.ProbeInterval, time.Second, time.Hour, false)
	v.between(path+".eject_after", *h.EjectAfter, 0, 1_000_000)
	v.span(path+".eject_for", h.EjectFor, 10*time.Millisecond, 24*time.Hour, false)
	v.span(path+".eject_max", h.EjectMax, 10*time.Millisecond, 24*time.Hour, false)
	if h.EjectMax < h.EjectFor {
		v.fault(path+".eject_max", "cannot be shorter than eject_for: got %v and %v", time.Duration(h.EjectMax), time.Duration(h.EjectFor))
	}
}

func (v *validator) span(path string, d Duration, low, high time.Duration, zero bool) {
	v.noteSpan(path, low, high, zero)
	if n := time.Duration(d); !(zero && n == 0) && (n < low || n > high) {
		v.fault(path, "cannot use %v: want %v to %v", n, low, high)
	}
}

func (v *validator) between(path string, n, low, high int) {
	v.noteRange(path, low, high)
	if n < low || n > high {
		v.fault(path, "cannot use %d: want %d to %d", n, low, high)
	}
}

func (v *validator) oneOf(path, s string, want ...string) {
	v.note(Constraint{Path: path, Choices: want})
	if !slices.Contains(want, s) {
		v.fault(path, "cannot use %.64q: want one of %s", s, quoted(want))
	}
}

func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", s)
	}
	return b.String()
}

// labels checks a list of names of the operator's own: classes of data, regions.
func (v *validator) labels(path string, list []string) {
	if len(list) > maxLabels {
		v.fault(path, "cannot list %d names: want at most %d", len(list), maxLabels)
		return
	}
	for i, s := range list {
		v.name(fmt.Sprintf("%s[%d]", path, i), s, false)
	}
}
