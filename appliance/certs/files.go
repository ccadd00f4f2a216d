package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// recheck is how often it is looked whether files have changed.
const recheck = 2 * time.Second

// watched is a certificate and a key in files, taken again when they change. What
// cannot be used, for instance because one of the two is written and the other
// is not yet, is noted, and what was taken before stays.
type watched[T any] struct {
	cert, key string
	source    string // of events
	load      func(cert, key string) (T, error)
	log       *eventLog

	mu    sync.Mutex // guards below
	value T
	stamp string // of the files that value is from
	bad   string // of the files that were refused last
	fault string // why; empty: nothing is wrong
}

// stampOf tells two states of the files apart.
func stampOf(files ...string) (string, error) {
	stamp := ""
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return "absent", err
		}
		stamp += fmt.Sprintf("%d %d;", st.Size(), st.ModTime().UnixNano())
	}
	return stamp, nil
}

// watch takes the files for the first time.
func watch[T any](cert, key, source string, log *eventLog, load func(cert, key string) (T, error)) (*watched[T], error) {
	w := &watched[T]{cert: cert, key: key, source: source, load: load, log: log}
	var err error
	if w.stamp, err = stampOf(cert, key); err == nil {
		w.value, err = load(cert, key)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the certificate in %s and its key: %w", cert, err)
	}
	return w, nil
}

// get is what was taken last.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}

// refused says what is wrong with the files as they are, if they were refused.
func (w *watched[T]) refused() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// check takes the files if they have changed, or in any case with force.
func (w *watched[T]) check(ctx context.Context, force bool) (changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamp, err := stampOf(w.cert, w.key)
	if err == nil && stamp == w.stamp && w.fault == "" && !force {
		return false, nil
	}
	var v T
	if err == nil {
		v, err = w.load(w.cert, w.key)
	}
	if err != nil {
		err = fmt.Errorf("cannot use the changed files %s and %s, what was there before stays: %w", w.cert, w.key, err)
		if stamp != w.bad || w.fault == "" {
			w.log.add(ctx, Event{Kind: EventFailed, Source: w.source, Name: w.cert, Error: err.Error()})
		}
		w.bad, w.fault = stamp, err.Error()
		return false, err
	}
	changed = stamp != w.stamp
	w.value, w.stamp, w.bad, w.fault = v, stamp, "", ""
	return changed, nil
}

// loadServer reads a server certificate with its chain and key.
func loadServer(cert, key string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if c.Leaf == nil {
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &c, nil
}
