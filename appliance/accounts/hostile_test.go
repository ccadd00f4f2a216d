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

// Names that others choose do nothing to a terminal or to the line they stand in.
func TestIllegibleNames(t *testing.T) {
	for _, name := range []string{"a\nb", "a\x1b[2J", "a\u009b2J", "a\u202eb", "a\u2028b", "a\u2066b", "a\x7f"} {
		if err := checkLabel(name); err == nil {
			t.Errorf("%q is taken", name)
		}
		if got := printable(map[string]any{"name": name}, "name"); got != "" {
			t.Errorf("a claim %q counts as %q", name, got)
		}
	}
	if err := checkLabel("Jürgens Schlüssel 🔑"); err != nil {
		t.Error(err)
	}
}
