package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hearth/appliance/reach"
	"hearth/engine/infer"
)

// FetchLimits say what FetchMedia may do. The zero value fetches images over
// HTTPS from public addresses.
type FetchLimits struct {
	// Allow are networks that may be asked although they are not public.
	Allow []netip.Prefix
	// HTTP allows addresses without TLS.
	HTTP bool
	// MaxBytes of the body, default 20 MiB; Timeout of the whole, default 10 s;
	// Redirects that are followed, default 3, negative: none.
	MaxBytes  int64
	Timeout   time.Duration
	Redirects int
	// Types that are taken, default PNG, JPEG, GIF and WebP. What comes must
	// also look like what it says it is.
	Types []string
	// Ports that are asked at public addresses, default 80 and 443; in the
	// networks of Allow every port is.
	Ports []string
	// Resolve finds the addresses of a name; nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Media is what FetchMedia got.
type Media struct {
	Type string // media type
	Data []byte
}

func (l *FetchLimits) defaults() {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 20 << 20
	}
	if l.Timeout <= 0 {
		l.Timeout = 10 * time.Second
	}
	if l.Redirects == 0 {
		l.Redirects = 3
	}
	if l.Types == nil {
		l.Types = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	}
	if l.Ports == nil {
		l.Ports = []string{"80", "443"}
	}
	if l.Resolve == nil {
		l.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
}

// FetchMedia gets the image behind a URL that a caller gave. Every address that
// the name resolves to is checked, and the connection is made to a checked
// address, not to the name, so that a second answer of the resolver changes
// nothing; a redirect is checked like the first URL. No cookies, credentials or
// proxies are used. The error is an *infer.Error fit for the caller; it does not
// say what was found where.
func FetchMedia(ctx context.Context, address string, l FetchLimits) (*Media, error) {
	l.defaults()
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	f := &fetcher{limits: l}
	pool := &http.Transport{
		DialContext: f.dial, DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: l.Timeout, MaxResponseHeaderBytes: 64 << 10,
	}
	defer pool.CloseIdleConnections()
	next := address
	for hop := 0; ; hop++ {
		u, err := f.check(next)
		if err != nil {
			return nil, err
		}
		m, location, err := f.get(ctx, pool, u)
		if err != nil || m != nil {
			return m, err
		}
		if hop >= max(l.Redirects, 0) {
			return nil, unfetched("it is redirected too often", nil)
		}
		to, err := u.Parse(location)
		if err != nil || u.Scheme == "https" && to.Scheme == "http" {
			return nil, unfetched("it is redirected to where it may not be fetched from", nil)
		}
		next = to.String()
	}
}

// unfetched is the error for a URL that gave no image.
func unfetched(why string, cause error) *infer.Error {
	return &infer.Error{Code: infer.CodeInvalid, Message: "cannot fetch the image: " + why, Cause: cause, NoRetry: true}
}

type fetcher struct{ limits FetchLimits }

// check judges a URL before anything is asked.
func (f *fetcher) check(address string) (*url.URL, error) {
	if len(address) > 8<<10 || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, unfetched("its URL is malformed", nil)
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, unfetched("its URL is malformed", nil)
	}
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && f.limits.HTTP):
		return nil, unfetched("its URL must begin with https://", nil)
	case u.User != nil:
		return nil, unfetched("its URL must not hold a user", nil)
	case strings.HasSuffix(u.Host, ":"):
		return nil, unfetched("its URL is malformed", nil)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		if err := f.judge(a, port); err != nil {
			return nil, err
		}
		return u, nil
	}
	if !hostname(host, len(f.limits.Allow) > 0) {
		return nil, unfetched("its host is not a name on the public network", nil)
	}
	if len(f.limits.Allow) == 0 && !slices.Contains(f.limits.Ports, port) {
		return nil, portError() // no address of that name could be asked there
	}
	return u, nil
}

// hostname takes a name of at least two labels whose last is no number: numbers
// in every other notation ("0x7f.1", "2130706433") are addresses to resolvers.
func hostname(s string, private bool) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}) {
		return false
	}
	labels := strings.Split(strings.ToLower(s), ".")
	if len(labels) < 2 && !private {
		return false
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return false
		}
	}
	last := labels[len(labels)-1]
	switch last {
	case "localhost", "local", "internal", "arpa", "lan", "home", "corp", "intranet", "private", "onion", "test", "invalid":
		if !private {
			return false // RFC 6761, 6762, 7686, 8375, and ICANN's reserved .internal
		}
	}
	return last[0] >= 'a' && last[0] <= 'z'
}

// portError is the error for a port that is not asked.
func portError() *infer.Error { return unfetched("its URL names a port that is not asked", nil) }

func (f *fetcher) judge(a netip.Addr, port string) error {
	if reach.In(a.Unmap().WithZone(""), f.limits.Allow) {
		return nil
	}
	if err := reach.Public(a, f.limits.Allow); err != nil {
		return unfetched("its address is not on the public network", err)
	}
	if !slices.Contains(f.limits.Ports, port) {
		return portError()
	}
	return nil
}

// dial resolves, judges every address, and connects to one that was judged.
func (f *fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = f.limits.Resolve(ctx, host); err != nil {
		return nil, err
	}
	if len(addrs) == 0 || len(addrs) > 64 {
		return nil, errors.New("the name has no address, or too many")
	}
	for _, a := range addrs {
		// One closed address among open ones is how such a name is built.
		if err := f.judge(a, port); err != nil {
			return nil, err
		}
	}
	d := net.Dialer{Timeout: 5 * time.Second, Control: f.control}
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// control looks once more at the address that the system is about to ask.
func (f *fetcher) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return f.judge(ap.Addr(), strconv.Itoa(int(ap.Port())))
}

// get makes one request. It gives the image, or where it is redirected to.
func (f *fetcher) get(ctx context.Context, pool *http.Transport, u *url.URL) (*Media, string, error) {
	req := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"hearth"}, "Accept": {strings.Join(f.limits.Types, ", ")}, "Accept-Encoding": {"identity"}},
	}).WithContext(ctx)
	resp, err := pool.RoundTrip(req)
	if err != nil {
		var own *infer.Error
		switch {
		case errors.As(err, &own):
			return nil, "", own
		case ctx.Err() != nil:
			return nil, "", unfetched("it did not come in time", err)
		}
		return nil, "", unfetched("its host does not answer", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if to := resp.Header.Get("Location"); to != "" {
			return nil, to, nil
		}
		fallthrough
	default:
		return nil, "", unfetched(fmt.Sprintf("its host answers with status %d", resp.StatusCode), nil)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if !slices.Contains(f.limits.Types, kind) {
		return nil, "", unfetched("it is not of a type that is taken: want "+strings.Join(f.limits.Types, ", "), nil)
	}
	if c := resp.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return nil, "", unfetched("it comes in a content coding that was not asked for", nil)
	}
	if resp.ContentLength > f.limits.MaxBytes {
		return nil, "", unfetched(fmt.Sprintf("it has more than %d bytes", f.limits.MaxBytes), nil)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.limits.MaxBytes+1))
	switch {
	case ctx.Err() != nil:
		return nil, "", unfetched("it did not come in time", err)
	case err != nil:
		return nil, "", unfetched("it broke off", err)
	case int64(len(data)) > f.limits.MaxBytes:
		return nil, "", unfetched(fmt.Sprintf("it has more than %d bytes", f.limits.MaxBytes), nil)
	case strings.HasPrefix(kind, "image/") && http.DetectContentType(data) != kind:
		return nil, "", unfetched("it is not what its type says", nil)
	}
	return &Media{Type: kind, Data: data}, "", nil
}
