package appliance

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"hearth/appliance/upstream"
	"hearth/engine/infer"
	"hearth/policy"
)

// upstreams are the providers of the configuration in force. One that a reload
// removes or changes serves the requests that it has, then closes.
type upstreams struct {
	opt upstream.Options

	mu   sync.RWMutex
	live map[string]*liveUpstream
}

type liveUpstream struct {
	*upstream.Upstream
	config policy.UpstreamConfig

	mu      sync.Mutex
	users   int
	retired bool
}

// apply makes the set that cs lists. Nothing changes if one of them cannot be
// made.
func (u *upstreams) apply(cs []policy.UpstreamConfig) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := make(map[string]*liveUpstream, len(cs))
	var made []*liveUpstream
	for i := range cs {
		c := &cs[i]
		if old := u.live[c.Name]; old != nil && reflect.DeepEqual(old.config, *c) {
			next[c.Name] = old
			continue
		}
		up, err := upstream.New(c, u.opt)
		if err != nil {
			for _, m := range made {
				err = errors.Join(err, m.Close())
			}
			return fmt.Errorf("cannot set up upstream %s: %w", c.Name, err)
		}
		l := &liveUpstream{Upstream: up, config: *c}
		made = append(made, l)
		next[c.Name] = l
	}
	for name, old := range u.live {
		if next[name] != old {
			old.retire()
		}
	}
	u.live = next
	return nil
}

// beside reads the files that upstreams refer to relative to the configuration
// file, as the rest of what stands in it.
func beside(file string, cs []policy.UpstreamConfig) []policy.UpstreamConfig {
	dir := filepath.Dir(file)
	out := slices.Clone(cs)
	for i := range out {
		for _, ref := range []*string{&out[i].Credential, &out[i].CAFile} {
			scheme, path, ok := strings.Cut(*ref, ":")
			switch {
			case ref == &out[i].CAFile && *ref != "" && !filepath.IsAbs(*ref):
				*ref = filepath.Join(dir, *ref)
			case ok && (scheme == "file" || scheme == "oidc-file") && !filepath.IsAbs(path):
				*ref = scheme + ":" + filepath.Join(dir, path)
			}
		}
	}
	return out
}

// acquire gives an upstream to one request. release must be called once.
func (u *upstreams) acquire(name string) (*liveUpstream, func(), error) {
	u.mu.RLock()
	l := u.live[name]
	u.mu.RUnlock()
	if l == nil {
		return nil, nil, infer.Errorf(infer.CodeUnavailable, "the provider of this route is not set up")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return nil, nil, infer.Errorf(infer.CodeUnavailable, "the provider of this route has just been changed, try again")
	}
	l.users++
	var once sync.Once
	return l, func() { once.Do(l.leave) }, nil
}

func (l *liveUpstream) leave() {
	l.mu.Lock()
	l.users--
	last := l.retired && l.users == 0
	l.mu.Unlock()
	if last {
		l.Close()
	}
}

// retire closes the upstream when its last user has gone.
func (l *liveUpstream) retire() {
	l.mu.Lock()
	l.retired = true
	idle := l.users == 0
	l.mu.Unlock()
	if idle {
		l.Close()
	}
}

// close ends all of them, whoever uses them.
func (u *upstreams) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, l := range u.live {
		l.mu.Lock()
		l.retired = true
		l.mu.Unlock()
		errs = append(errs, l.Close())
	}
	u.live = nil
	return errors.Join(errs...)
}
