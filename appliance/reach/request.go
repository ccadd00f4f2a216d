package reach

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// Requests is the Proxy of an http.Transport whose dialer is not ours: it judges
// where a request leads, as DialConfigured does, before next says by which proxy
// it goes. What a name resolves to may be something else by the time it is
// connected to: where a dialer can be had, that is the better place.
func Requests(next func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if err := configuredHost(r.Context(), r.URL.Hostname()); err != nil {
			return nil, fmt.Errorf("cannot ask %q: %w", r.URL.Host, err)
		}
		return next(r)
	}
}

func configuredHost(ctx context.Context, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return Configured(a)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if err := Configured(a); err != nil {
			return err
		}
	}
	return nil
}
