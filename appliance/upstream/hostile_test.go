package upstream

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"hearth/appliance/reach/reachtest"
	"hearth/policy"
)

// No base URL and no token endpoint leads to where a cloud keeps credentials, and
// no URL of a caller into any network that is not public, whatever notation it has
// and whatever its name resolves to.
func TestHostileURLsEverywhere(t *testing.T) {
	reachtest.Resolver(t)
	get := func(rt http.RoundTripper, address string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		resp, err := rt.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	tried := map[string]int{}
	for _, h := range reachtest.Hostile() {
		u, _ := url.Parse(h.URL)
		again := 1
		if u != nil && u.Hostname() == reachtest.Rebinds {
			again = 2
		}
		for range again {
			if _, err := FetchMedia(t.Context(), h.URL, FetchLimits{HTTP: true, Timeout: 300 * time.Millisecond}); reachtest.Connected(err) {
				t.Errorf("media %s: got %v", h.URL, err)
			}
		}
		if h.Private {
			continue // the operator's own network
		}
		c := policy.Config{Upstreams: []policy.UpstreamConfig{{Name: "x", Kind: "openai-compatible", BaseURL: h.URL, AllowHTTP: true}}}
		c.Defaults()
		refused := false
		for _, f := range c.Validate() {
			refused = refused || f.Path == "upstream[0].base_url"
		}
		if !refused {
			pool, err := newPool(&c.Upstreams[0], &profile{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for range again {
				tried["base_url"]++
				if err := get(pool, h.URL); reachtest.Connected(err) {
					t.Errorf("base_url %s: got %v", h.URL, err)
				}
			}
		}
		if _, err := tokenURL(h.URL); err == nil {
			for range again {
				tried["token_url"]++
				if err := get(newIssuer(&Upstream{}).client.Transport, h.URL); reachtest.Connected(err) {
					t.Errorf("token_url %s: got %v", h.URL, err)
				}
			}
		}
	}
	t.Logf("%d URLs, asked as %v", len(reachtest.Hostile()), tried)
}
