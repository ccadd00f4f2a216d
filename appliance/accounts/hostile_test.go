package accounts

import (
	"net/url"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/reach/reachtest"
)

// No issuer leads to where a cloud keeps credentials.
func TestHostileIssuers(t *testing.T) {
	reachtest.Resolver(t)
	for _, h := range reachtest.Hostile() {
		again := 1
		if u, _ := url.Parse(h.URL); u != nil && u.Hostname() == reachtest.Rebinds {
			again = 2
		}
		for range again {
			if h.Private {
				continue
			}
			_, err := discover(t.Context(), &Settings{OIDC: config.SignInOIDC{Issuer: h.URL, ClientID: "x"}}, time.Now)
			if reachtest.Connected(err) {
				t.Errorf("%s: got %v", h.URL, err)
			}
		}
	}
}
