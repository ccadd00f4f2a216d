package certs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Kinds of events.
const (
	EventIssued       = "issued"       // a first certificate, or a first root
	EventRenewed      = "renewed"      // a certificate replaced one
	EventFailed       = "failed"       // Error says why; what was there still serves
	EventReloaded     = "reloaded"     // changed files were taken
	EventDiscarded    = "discarded"    // a stored certificate could not be read
	EventIntermediate = "intermediate" // our intermediate was renewed
	EventRotated      = "rotated"      // a new root, the old one is trusted beside it
	EventRetired      = "retired"      // the old root is not trusted any more
	EventTakenOver    = "taken over"   // the root of an earlier release
)

// sourceAuthority is the source of events of the authority itself; the others
// are the modes of the configuration.
const sourceAuthority = "authority"

const (
	eventsKey     = "events"
	keptEvents    = 100
	maxErrorBytes = 600
)

// Event is something that happened to a certificate.
type Event struct {
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"`
	Source      string    `json:"source"` // "internal", "files", "acme", "authority"
	Name        string    `json:"name,omitempty"`
	Issuer      string    `json:"issuer,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"` // SHA-256
	NotAfter    time.Time `json:"not_after,omitzero"`
	Error       string    `json:"error,omitempty"` // of a failure
	Note        string    `json:"note,omitempty"`
}

// eventLog keeps the last events, durably, and what failed last.
type eventLog struct {
	kv  KV
	now func() time.Time
	log *slog.Logger

	mu     sync.Mutex // guards below
	events []Event    // the oldest first
}

// Events reads the stored events of kv, the newest first.
func Events(ctx context.Context, kv KV) ([]Event, error) {
	l := &eventLog{kv: kv}
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	return l.list(), nil
}

func openEvents(ctx context.Context, kv KV, now func() time.Time, log *slog.Logger) *eventLog {
	l := &eventLog{kv: kv, now: now, log: log}
	if err := l.load(ctx); err != nil {
		log.Error("cannot read the log of certificates, it begins anew", "error", err)
	}
	return l
}

func (l *eventLog) load(ctx context.Context) error {
	raw, err := l.kv.Get(ctx, eventsKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &l.events)
	}
	if n := len(l.events); n > keptEvents {
		l.events = l.events[n-keptEvents:]
	}
	return err
}

// add notes e. That it cannot be written ends nothing.
func (l *eventLog) add(ctx context.Context, e Event) {
	e.Time = l.now().UTC()
	if len(e.Error) > maxErrorBytes {
		e.Error = e.Error[:maxErrorBytes] + "…"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	if n := len(l.events); n > keptEvents {
		l.events = slices.Clone(l.events[n-keptEvents:])
	}
	raw, err := json.Marshal(l.events)
	if err == nil {
		err = l.kv.Put(context.WithoutCancel(ctx), eventsKey, raw)
	}
	level := slog.LevelInfo
	if e.Kind == EventFailed || e.Kind == EventDiscarded {
		level = slog.LevelWarn
	}
	l.log.Log(ctx, level, "certificate "+e.Kind, "source", e.Source, "name", e.Name, "not_after", e.NotAfter, "error", e.Error, "note", e.Note)
	if err != nil {
		l.log.Error("cannot keep the log of certificates", "error", err)
	}
}

// list gives the events, the newest first.
func (l *eventLog) list() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.events)
	slices.Reverse(out)
	return out
}

// lastError is the newest failure of a source and name that no success came
// after.
func (l *eventLog) lastError(source, name string) (string, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.events) {
		if e.Source == source && e.Name == name {
			if e.Kind == EventFailed {
				return e.Error, e.Time
			}
			return "", time.Time{}
		}
	}
	return "", time.Time{}
}
