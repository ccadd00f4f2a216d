package policy

import (
	"hearth/engine/infer"
	"hearth/store"
)

// Kind is what a caller has shown to be who it is.
type Kind string

// The kinds. The zero value is an API key.
const (
	KindKey         Kind = ""
	KindToken       Kind = "jwt"         // a signed token of an issuer, RFC 7519
	KindCertificate Kind = "certificate" // of a client, over mutual TLS
	KindConsole     Kind = "console"     // a person at the control plane
	KindShadow      Kind = "shadow"      // copies of a route's requests
)

// Identity is an authenticated caller. An API key is looked up in the store at
// each step; every other identity carries what it may do itself.
type Identity struct {
	// KeyID is what the ledger, its limits and its budgets know it by, the same
	// for as long as the same caller comes: the id of a key, or a text that no key
	// has for an id, see CallerID.
	KeyID  string
	Name   string // for people
	Tenant string
	Kind   Kind
	Source string           // of the configuration's identities, the one that vouches for it; empty with keys
	Secret store.SecretMark // of the key; zero: any
	// Grants bound what it may ask for within its tenant's bounds, as those of a
	// key do.
	Grants Grants
	// Live says whether what vouches for the identity does so still; nil: always.
	// It is asked often and must not block.
	Live func() bool
}

// Grants are what one caller may ask for. An empty list is its tenant's.
type Grants struct {
	Models      []string `json:"models,omitempty"` // "prefix*" allowed
	Tools       []string `json:"tools,omitempty"`  // "prefix*" allowed
	DataClasses []string `json:"data_classes,omitempty"`
	Regions     []string `json:"regions,omitempty"`
	Effects     []string `json:"effects,omitempty"`
}

// NoGrant stands alone in a list of Grants that allows nothing, where an empty
// list would allow all.
const NoGrant = "\x00"

// maxCallerID bounds an id, so that the ids of budgets that are made of it fit
// into the ledger.
const maxCallerID = 180

// CallerID makes the id of a caller that is no key: kind/source/tenant/subject.
// subject must be plain text without slashes. The tenant is part of it, since
// one person may come for several, whose money and answers are kept apart.
func CallerID(kind Kind, source, tenant, subject string) string {
	prefix := string(kind) + "/"
	if source != "" {
		prefix += source + "/"
	}
	prefix += tenant + "/"
	if len(prefix)+len(subject) > maxCallerID {
		subject = digest(subject)
	}
	return prefix + subject
}

// Console is a person who is signed in at the control plane and asks on behalf
// of a tenant, without a key. user is their account's name.
func Console(user, tenant string) *Identity {
	return &Identity{KeyID: CallerID(KindConsole, "", tenant, Subject(user)), Name: "console:" + user, Tenant: tenant, Kind: KindConsole}
}

// Vouched admits an identity that somebody else has authenticated: it is
// CodeForbidden where its tenant is unknown or disabled.
func (p *Policy) Vouched(id *Identity) error {
	if id.Kind == KindKey {
		panic("BUG: an api key is vouched for by its secret alone")
	}
	var k store.Key
	_, _, err := p.caller(id, &k)
	return err
}

// Live says why an identity that was admitted may ask no more; nil: it may. A
// stream of it is ended then.
func (p *Policy) Live(id *Identity) error {
	var k store.Key
	_, _, err := p.caller(id, &k)
	return err
}

func (p *Policy) tenantOf(s *Snapshot, k *store.Key) (*tenant, error) {
	t := s.tenants[k.Tenant]
	if t == nil || t.disabled {
		return nil, infer.Errorf(infer.CodeForbidden, "the tenant of this caller is unknown or disabled")
	}
	return t, nil
}

// caller looks up key and tenant of an identity as they are now. The key goes
// where the asker has room for it: this is asked several times a request. An
// identity that is no key takes the shape of one, without limits and budgets of
// its own: those of its tenant for each key hold.
func (p *Policy) caller(id *Identity, k *store.Key) (*Snapshot, *tenant, error) {
	s := p.snap.Load()
	if id.Kind == KindKey {
		var ok bool
		if *k, ok = p.store.LiveKey(id.KeyID, id.Secret); !ok || k.Tenant != id.Tenant {
			return nil, nil, errKey()
		}
	} else {
		if id.Live != nil && !id.Live() {
			return nil, nil, errKey()
		}
		g := &id.Grants
		*k = store.Key{ID: id.KeyID, Tenant: id.Tenant, Name: id.Name, Models: g.Models, Tools: g.Tools,
			DataClasses: g.DataClasses, Regions: g.Regions, Effects: g.Effects}
	}
	t, err := p.tenantOf(s, k)
	return s, t, err
}
