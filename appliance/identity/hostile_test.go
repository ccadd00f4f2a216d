package identity

import (
	"fmt"
	"net/url"
	"testing"

	"hearth/appliance/config"
	"hearth/appliance/reach/reachtest"
)

// Neither a configured address of keys, nor an issuer, nor what an issuer's
// document names, leads to where a cloud keeps credentials; the last not into any
// network that is not public.
func TestHostileURLsOfKeys(t *testing.T) {
	reachtest.Resolver(t)
	own, foreign, err := newClients(&config.Identity{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken := func(line string) bool {
		_, err := config.Parse("x", fmt.Appendf(nil, "[[identity]]\nname = \"a\"\nkind = \"jwt\"\naudiences = [\"a\"]\ntenant = \"default\"\n%s\n", line))
		return err == nil
	}
	own.Timeout, foreign.Timeout = 300e6, 300e6
	n := 0
	for _, h := range reachtest.Hostile() {
		again := 1
		if u, _ := url.Parse(h.URL); u != nil && u.Hostname() == reachtest.Rebinds {
			again = 2
		}
		for range again {
			if _, err := get(t.Context(), foreign, h.URL); reachtest.Connected(err) {
				t.Errorf("jwks_uri %s: got %v", h.URL, err)
			}
			if h.Private {
				continue
			}
			for _, line := range []string{fmt.Sprintf("issuer = \"x\"\njwks_url = %q", h.URL), fmt.Sprintf("issuer = %q", h.URL)} {
				if !taken(line) {
					continue
				}
				n++
				if _, err := get(t.Context(), own, h.URL); reachtest.Connected(err) {
					t.Errorf("%s: got %v", line, err)
				}
			}
		}
	}
	t.Logf("%d URLs, %d of them asked", len(reachtest.Hostile()), n)
}
