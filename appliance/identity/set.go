// Package identity says who calls the data plane with something else than an
// API key: a signed token of an issuer (RFC 7519, also a JWT-SVID), or a client
// certificate (RFC 5280, also an X.509-SVID). It verifies what was shown, by keys
// that it keeps at hand, and translates what it says into a tenant and grants.
package identity

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"crypto/x509"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// ErrRefused is the one answer to whatever does not prove who calls. Nothing
// tells why: who guesses must not learn, and who is right reads the log of their
// issuer.
var ErrRefused = errors.New("the caller is not known by what it has shown")

// errForbidden answers who has proved who they are and is nobody here.
func errForbidden() error {
	e := infer.Errorf(infer.CodeForbidden, "this caller is known and belongs to no tenant here")
	e.NoRetry = true
	return e
}

// Options of Open.
type Options struct {
	Resolve func(path string) string // makes paths of the configuration absolute
	Log     *slog.Logger
	Now     func() time.Time
	// Changed is called when callers may have lost what vouched for them.
	Changed func()
}

// Set is every [[identity]] of the configuration. It is safe for concurrent use.
type Set struct {
	o       Options
	sources atomic.Pointer[[]*source]
	tokens  *cache
	certs   *cache

	mu   sync.Mutex // one reload at a time
	stop chan struct{}
	done chan struct{}
}

// source is one [[identity]] in force.
type source struct {
	conf    config.Identity
	rules   *rules
	keys    *keyring     // of tokens
	anchors *anchors     // of certificates
	closed  atomic.Bool  // it is no longer in the configuration
	log     *slog.Logger // says which identity
}

// Open brings up tables, which are valid. A file that cannot be read is an
// error; an issuer that does not answer is asked again.
func Open(tables []config.Identity, o Options) (*Set, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resolve == nil {
		o.Resolve = func(p string) string { return p }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	s := &Set{o: o, tokens: newCache(), certs: newCache(), stop: make(chan struct{}), done: make(chan struct{})}
	s.sources.Store(&[]*source{})
	if err := s.Reload(tables); err != nil {
		return nil, err
	}
	go s.watch()
	return s, nil
}

// Close ends all fetching.
func (s *Set) Close() {
	close(s.stop)
	<-s.done
	for _, src := range *s.sources.Load() {
		src.close()
	}
}

// Reload takes other tables, or leaves those in force and says why. A table that
// has not changed keeps its keys; who came by one that is gone may ask no more.
func (s *Set) Reload(tables []config.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.sources.Load()
	kept := map[*source]bool{}
	next := make([]*source, 0, len(tables))
	var made []*source
	for i := range tables {
		if src := unchanged(old, &tables[i]); src != nil && !kept[src] {
			kept[src] = true
			next = append(next, src)
			continue
		}
		src, err := s.newSource(tables[i])
		if err != nil {
			for _, m := range made {
				m.close()
			}
			return fmt.Errorf("cannot use identity %q: %w", tables[i].Name, err)
		}
		made, next = append(made, src), append(next, src)
	}
	s.sources.Store(&next)
	for _, src := range old {
		if !kept[src] {
			src.close()
		}
	}
	s.tokens.clear() // another table may come first now
	s.certs.clear()
	return nil
}

func unchanged(old []*source, conf *config.Identity) *source {
	for _, src := range old {
		if reflect.DeepEqual(&src.conf, conf) {
			return src
		}
	}
	return nil
}

func (s *Set) newSource(conf config.Identity) (*source, error) {
	src := &source{conf: conf, log: s.o.Log.With("identity", conf.Name)}
	var err error
	if src.rules, err = newRules(&conf); err != nil {
		return nil, err
	}
	if conf.Kind == config.IdentityCertificate {
		src.anchors, err = newAnchors(&conf, s.o)
		return src, err
	}
	src.keys, err = newKeyring(&conf, s.o, src.log)
	return src, err
}

func (src *source) close() {
	src.closed.Store(true)
	if src.keys != nil {
		src.keys.close()
	}
}

// watchEvery is how soon a file that was replaced counts.
const watchEvery = time.Second

// watch reads files again that have changed.
func (s *Set) watch() {
	defer close(s.done)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		for _, src := range *s.sources.Load() {
			changed, err := src.reread()
			if err != nil {
				src.log.Warn("cannot take a file that has changed; what it said before holds", "error", err)
			}
			if changed {
				s.o.Changed()
			}
		}
	}
}

func (src *source) reread() (bool, error) {
	if src.anchors != nil {
		return src.anchors.reread()
	}
	return src.keys.reread()
}

// TakesTokens says whether a bearer token may stand in place of an API key.
func (s *Set) TakesTokens() bool {
	for _, src := range *s.sources.Load() {
		if src.keys != nil {
			return true
		}
	}
	return false
}

// Authorities are the names of those whose client certificates are taken, for
// clients that choose among several; wanted is false where none is asked for.
func (s *Set) Authorities() (pool *x509.CertPool, wanted bool) {
	pool = x509.NewCertPool()
	for _, src := range *s.sources.Load() {
		if src.anchors == nil {
			continue
		}
		wanted = true
		for _, c := range src.anchors.now.Load().list {
			pool.AddCert(c)
		}
	}
	return pool, wanted
}

// State is one identity as it stands.
type State struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Keys that verify tokens, by key id, and when they were last had.
	Keys    []string  `json:"keys,omitempty"`
	Fetched time.Time `json:"fetched,omitzero"`
	Failure string    `json:"failure,omitempty"` // of the last attempt to have them; empty: none
	// Authorities whose certificates are taken.
	Authorities []Authority `json:"authorities,omitempty"`
	// RevocationUntil is when the first of the revocation lists ends.
	RevocationUntil time.Time `json:"revocation_until,omitzero"`
	Usable          bool      `json:"usable"` // who comes by it can be let in
}

// Authority is one certificate authority.
type Authority struct {
	Subject string    `json:"subject"`
	Expires time.Time `json:"expires"`
}

// States lists every identity.
func (s *Set) States() []State {
	out := []State{}
	for _, src := range *s.sources.Load() {
		st := State{Name: src.conf.Name, Kind: src.conf.Kind}
		if src.keys != nil {
			src.keys.state(&st)
		} else {
			src.anchors.state(&st, s.o.Now())
		}
		out = append(out, st)
	}
	return out
}
