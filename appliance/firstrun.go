package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"hearth/appliance/config"
	"hearth/store"
)

const (
	firstKeyName  = "first"
	firstRunBlob  = "first-run" // there once a first run has been completed
	setupFragment = "/setup#"   // behind the base URL; a fragment is sent nowhere
)

// firstRun is what a first start makes, as it stands in DIR/first-run.json.
type firstRun struct {
	BaseURL    string `json:"base_url"`
	AdminURL   string `json:"admin_url"`
	CAFile     string `json:"ca_file"`
	APIKey     string `json:"api_key"`
	SetupURL   string `json:"setup_url"`
	SetupToken string `json:"setup_token"`

	keyID string
}

// openFirstRun makes the first API key, unless an earlier start has done so.
// The file is written by announce, when the address is known.
func (a *Appliance) openFirstRun(ctx context.Context) error {
	_, err := a.store.Blobs(setupBucket).Get(ctx, firstRunBlob)
	if err == nil {
		return nil
	}
	if !errors.Is(absent(err), fs.ErrNotExist) {
		return err
	}
	// A start that was cut off here has left a key that nobody has seen.
	keys, err := a.store.Keys(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == firstKeyName && k.Revoked.IsZero() {
			if _, err := a.store.RevokeKey(ctx, k.ID); err != nil {
				return err
			}
		}
	}
	tenant := config.DefaultTenant
	if t := a.config().Tenants; len(t) > 0 {
		tenant = t[0].Name
	}
	key, err := a.store.CreateKey(ctx, store.Key{Tenant: tenant, Name: firstKeyName})
	if err != nil {
		return fmt.Errorf("cannot make the first api key: %w", err)
	}
	token, _, err := a.accounts.NewSetUp(ctx)
	if err != nil {
		return fmt.Errorf("cannot make the set-up token: %w", err)
	}
	a.first = &firstRun{APIKey: key.Secret, SetupToken: token, CAFile: a.dir.rootPEM(), keyID: key.ID}
	return nil
}

// Announce tells where the server is and, at the first start, what was made.
func (a *Appliance) Announce(ctx context.Context, w io.Writer) error {
	base := a.baseURL()
	if a.first == nil {
		page := a.adminURL()
		if page == "" {
			page = "off (admin.listen)"
		}
		_, err := fmt.Fprintf(w, "Hearth %s\n\n  api          %s/v1\n  status page  %s  (`hearth key setup` makes a link that signs in)\n  data         %s\n\n", Version, base, page, a.dir)
		return err
	}
	a.first.BaseURL, a.first.AdminURL = base, a.adminURL()
	link := "off (admin.listen)"
	if a.first.AdminURL != "" {
		a.first.SetupURL = a.first.AdminURL + setupFragment + a.first.SetupToken
		link = a.first.SetupURL
	}
	b, err := json.MarshalIndent(a.first, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(a.dir.firstRun(), append(b, '\n'), 0o600); err != nil {
		return err
	}
	if err := a.store.Blobs(setupBucket).Put(ctx, firstRunBlob, []byte(a.first.keyID)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `Hearth %s, first start

  api          %s/v1
  status page  %s
               (this link works once, for %d minutes)
  api key      %s
               (shown now and never again)
  data         %s

Try it:

  curl --cacert %s -sN %s/v1/chat/completions \
    -H 'Authorization: Bearer %s' \
    -H 'Content-Type: application/json' \
    -d '{"model": "%s", "stream": true, "messages": [{"role": "user", "content": "What is Hearth?"}]}'

`, Version, base, link, int(setupLifetime.Minutes()), a.first.APIKey, a.dir, shellQuote(a.dir.rootPEM()), base, a.first.APIKey, a.config().Models[0].Name)
	return err
}

// shellQuote writes s so that a shell reads it as one word.
func shellQuote(s string) string {
	plain := true
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '/' || c == '.' || c == '-' || c == '_':
		default:
			plain = false
		}
	}
	if plain && s != "" {
		return s
	}
	out := "'"
	for _, c := range s {
		if c == '\'' {
			out += `'\''`
		} else {
			out += string(c)
		}
	}
	return out + "'"
}
