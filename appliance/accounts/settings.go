package accounts

import (
	"slices"
	"time"

	"hearth/appliance/config"
)

// freshFor is how long a proof of who somebody is counts as recent.
const freshFor = 15 * time.Minute

// Settings are what the configuration says. A reload gives new ones.
type Settings struct {
	Idle     time.Duration // a session ends that was not used for so long
	Lifetime time.Duration // and at this age in any case
	OIDC     config.SignInOIDC
	Peers    config.SignInCertificate
	Tenants  []string
	// Folder is where relative paths begin.
	Folder string
	Getenv func(string) string
}

func (s *Settings) hasTenant(name string) bool { return slices.Contains(s.Tenants, name) }

// Configure puts settings into force. Files are read anew; a fault of theirs is
// told by who needs them, since a broken provider must not keep the rest out.
func (a *Accounts) Configure(s Settings) {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	a.settings.Store(&s)
}
