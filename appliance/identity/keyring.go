package identity

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// How keys are kept fresh.
const (
	refreshEvery = 10 * time.Minute
	retryFirst   = 5 * time.Second // after a failure, twice as long each time, to refreshEvery
	// onDemand is the least time between two fetches that callers cause with keys
	// nobody knows: who makes up key ids must not have the issuer asked for each.
	onDemand = 10 * time.Second
	// waitKeys is how long a caller waits for keys, maxWaiters how many do.
	waitKeys   = 5 * time.Second
	maxWaiters = 64
	// maxStale is how long keys are good whose issuer does not answer.
	maxStale = 24 * time.Hour
)

// keyring holds the keys of one issuer. Reading it never waits for a fetch that
// is not needed: what is known stays in use until something newer is there.
type keyring struct {
	conf    *config.Identity
	o       Options
	log     *slog.Logger
	now     atomic.Pointer[keySet] // nil: none yet
	file    *watched               // jwks_file; nil: none
	client  *http.Client           // nil: there is the file alone
	foreign *http.Client           // for addresses that the issuer's document names

	mu       sync.Mutex // guards what follows
	fetching bool
	ended    time.Time // the last fetch
	next     chan struct{}
	waiters  int
	failure  string
	asked    chan struct{} // holds a word that keys are wanted now
	stop     context.CancelFunc
	finished chan struct{}
}

func newKeyring(conf *config.Identity, o Options, log *slog.Logger) (*keyring, error) {
	k := &keyring{conf: conf, o: o, log: log, next: make(chan struct{}), asked: make(chan struct{}, 1), finished: make(chan struct{}), stop: func() {}}
	if conf.JWKSFile != "" {
		k.file = &watched{path: o.Resolve(conf.JWKSFile), most: maxKeySet}
		if err := k.readFile(); err != nil {
			return nil, err
		}
	}
	if conf.JWKSURL == "" && conf.JWKSFile != "" {
		close(k.finished)
		return k, nil
	}
	var err error
	if k.client, k.foreign, err = newClients(conf, o); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop, k.fetching = stop, true // the first fetch is under way from the start
	go k.keep(ctx)
	return k, nil
}

func (k *keyring) close() {
	k.stop()
	<-k.finished
}

// readFile takes the keys of the file.
func (k *keyring) readFile() error {
	data, err := k.file.read()
	if err != nil {
		return err
	}
	set, err := readKeySet(data, k.o.Now())
	if err == nil {
		set.local = true
		k.now.Store(set)
	}
	return err
}

// reread looks at the file, as long as the issuer has not answered.
func (k *keyring) reread() (bool, error) {
	if k.file == nil || !k.file.changed() {
		return false, nil
	}
	if set := k.now.Load(); k.client != nil && set != nil && !set.local {
		return false, nil
	}
	err := k.readFile()
	return err == nil, err
}

// keep fetches now, at each interval, and when it is asked to.
func (k *keyring) keep(ctx context.Context) {
	defer close(k.finished)
	wait := time.Duration(0)
	retry := retryFirst
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-k.asked:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
		k.mu.Lock()
		k.fetching = true
		k.mu.Unlock()
		set, err := k.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if wait = refreshEvery; err != nil {
			wait = retry
			retry = min(retry*2, refreshEvery)
			k.log.Warn("cannot have the keys of an issuer", "error", err)
		} else {
			retry = retryFirst
		}
		k.publish(set, err)
	}
}

// publish ends the wait of those who have asked.
func (k *keyring) publish(set *keySet, err error) {
	k.mu.Lock()
	k.fetching, k.ended = false, time.Now()
	lost := false
	if k.failure = ""; err != nil {
		k.failure = err.Error()
	} else {
		old := k.now.Swap(set)
		for _, o := range keysOf(old) {
			lost = lost || !set.thumbs[o.thumb]
		}
	}
	close(k.next)
	k.next = make(chan struct{})
	k.mu.Unlock()
	if lost {
		k.o.Changed()
	}
}

func keysOf(s *keySet) []*key {
	if s == nil {
		return nil
	}
	return s.list
}

// find gives the keys that may have signed a token. Where none is known by that
// id the issuer is asked, if that was not done just now.
func (k *keyring) find(ctx context.Context, id, alg string) ([]*key, error) {
	set := k.usable()
	if set != nil {
		if found := set.find(id, alg); len(found) > 0 {
			return found, nil
		}
	}
	if k.client == nil || !k.await(ctx) {
		if set == nil {
			return nil, errNoKeys()
		}
		return nil, ErrRefused
	}
	if set = k.usable(); set == nil {
		return nil, errNoKeys()
	}
	if found := set.find(id, alg); len(found) > 0 {
		return found, nil
	}
	return nil, ErrRefused
}

// usable is the present set, unless it is too old to be trusted.
func (k *keyring) usable() *keySet {
	set := k.now.Load()
	if set == nil || !set.local && k.o.Now().Sub(set.fetched) > maxStale {
		return nil
	}
	return set
}

// trusts says whether a key is still among those of the issuer.
func (k *keyring) trusts(old *key) bool {
	set := k.now.Load()
	return set != nil && set.thumbs[old.thumb]
}

// await waits for a fetch; false if there is none to wait for.
func (k *keyring) await(ctx context.Context) bool {
	k.mu.Lock()
	under, next := k.fetching, k.next
	if !under && time.Since(k.ended) < onDemand || k.waiters >= maxWaiters {
		k.mu.Unlock()
		return false
	}
	k.waiters++
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.waiters--
		k.mu.Unlock()
	}()
	if !under {
		select {
		case k.asked <- struct{}{}:
		default: // somebody has asked already
		}
	}
	timer := time.NewTimer(waitKeys)
	defer timer.Stop()
	select {
	case <-next:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// errNoKeys is the error where nobody could be let in: it is the issuer's fault,
// or ours, and not the caller's.
func errNoKeys() error {
	e := infer.Errorf(infer.CodeUnavailable, "tokens cannot be verified now: the keys of their issuer are not to be had")
	e.RetryAfter = 5 * time.Second
	return e
}

func (k *keyring) state(st *State) {
	k.mu.Lock()
	st.Failure = k.failure
	k.mu.Unlock()
	set := k.now.Load()
	if set == nil {
		return
	}
	st.Fetched, st.Usable = set.fetched, k.usable() != nil
	for _, key := range set.list {
		st.Keys = append(st.Keys, key.id)
	}
}

// watched is a file that is read again when it changes.
type watched struct {
	path string
	most int64

	mu   sync.Mutex
	size int64
	mod  time.Time
}

func (w *watched) read() ([]byte, error) {
	st, err := os.Stat(w.path)
	if err != nil {
		return nil, err
	}
	w.note(st)
	return readFile(w.path, st, w.most)
}

func (w *watched) note(st os.FileInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size, w.mod = st.Size(), st.ModTime()
}

// changed says that the file is another one; while it is gone it has not changed.
func (w *watched) changed() bool {
	st, err := os.Stat(w.path)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return st.Size() != w.size || !st.ModTime().Equal(w.mod)
}
