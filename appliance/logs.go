package appliance

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
)

// logs is where every record of the process goes: to the standard error stream
// in the format of the configuration, and into a ring of the latest ones. Level
// and format change while serving. It is safe for concurrent use.
type logs struct {
	level  slog.LevelVar
	json   atomic.Bool
	access atomic.Bool
	slow   atomic.Int64 // nanoseconds; 0: no line for slow requests
	ring   logRing
	// written counts the records by level, as config.LogLevels has them.
	written [4]atomic.Uint64

	mu     sync.Mutex // guards below
	base   slog.Level // what the configuration says
	until  time.Time  // when the level goes back to it; zero: it is it, or stays
	timer  *time.Timer
	closed bool
}

// newLogs gives the hub and its logger.
func newLogs(w io.Writer, c *config.Config) (*logs, *slog.Logger) {
	l := &logs{}
	l.take(c)
	// The format is chosen at each record; both handlers carry the attributes.
	o := &slog.HandlerOptions{Level: slog.LevelDebug - 100}
	return l, slog.New(&logHandler{hub: l, text: slog.NewTextHandler(w, o), json: slog.NewJSONHandler(w, o)})
}

// take follows the configuration. A level that was set for a time stays until
// that is over.
func (l *logs) take(c *config.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = logLevel(c)
	if l.until.IsZero() {
		l.level.Set(l.base)
	}
	l.json.Store(c.Log.Format == "json")
	l.access.Store(c.Log.Access)
	l.slow.Store(int64(c.Log.Slow))
	l.ring.resize(c.Log.Recent)
}

// set changes the level, for a time if that is not zero; else until the next
// configuration is taken.
func (l *logs) set(level slog.Level, span time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopTimerLocked()
	l.level.Set(level)
	if span <= 0 || l.closed {
		return
	}
	l.until = now.Add(span)
	var timer *time.Timer
	timer = time.AfterFunc(span, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == timer {
			l.stopTimerLocked()
			l.level.Set(l.base)
		}
	})
	l.timer = timer
}

// reset goes back to the configuration's level.
func (l *logs) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopTimerLocked()
	l.level.Set(l.base)
}

func (l *logs) stopTimerLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.until = nil, time.Time{}
}

func (l *logs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stopTimerLocked()
	l.ring.wake()
	return nil
}

func logLevel(c *config.Config) slog.Level {
	l, ok := parseLevel(c.Log.Level)
	if !ok {
		panic("BUG: a validated log level is not one: " + c.Log.Level)
	}
	return l
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func parseLevel(s string) (slog.Level, bool) {
	l, ok := logLevels[s]
	return l, ok
}

// levelName is the configuration's word for a level, or for the next one below.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// logHandler is one logger's way into logs.
type logHandler struct {
	hub        *logs
	text, json slog.Handler
	kept       logText // attributes of With, for the ring
	group      string  // of WithGroup, a prefix with its point
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.hub.level.Level() }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	h.hub.written[max(0, min(3, (int(r.Level)+4)/4))].Add(1)
	h.hub.ring.add(h, &r)
	if h.hub.json.Load() {
		return h.json.Handle(ctx, r)
	}
	return h.text.Handle(ctx, r)
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	next := *h
	next.text, next.json = h.text.WithAttrs(as), h.json.WithAttrs(as)
	next.kept = logText{append([]byte{}, h.kept.b...), append([]uint32{}, h.kept.ends...)}
	for _, a := range as {
		next.kept.add(h.group, a)
	}
	return &next
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.text, next.json = h.text.WithGroup(name), h.json.WithGroup(name)
	next.group = h.group + name + "."
	return &next
}
