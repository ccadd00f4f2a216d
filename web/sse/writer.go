package sse

import (
	"net/http"
	"time"
)

// Writer sends events over one HTTP exchange. Each call is one write and one
// flush under a deadline of its own, so that a peer which stops reading ends
// the exchange, and a slow one slows its own stream only. It is not safe for
// concurrent use: heartbeats go between frames because the same goroutine sends
// both.
type Writer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	kind    string // media type; empty: text/event-stream
	started bool
	last    time.Time
}

// NewWriter prepares an event stream on w. Nothing is sent until Start, Send or
// Ping; headers may be set on w until then. timeout bounds each write.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

// SetContentType makes it a stream of another framing; what is sent is then
// complete in that framing, and Ping must not be used.
func (w *Writer) SetContentType(kind string) { w.kind = kind }

// Started tells whether the response head has been sent.
func (w *Writer) Started() bool { return w.started }

// Last is the time of the last byte sent.
func (w *Writer) Last() time.Time { return w.last }

// Start sends the response head.
func (w *Writer) Start() error {
	w.head()
	return w.flush(nil)
}

// Send sends complete frames, blank lines included, and flushes.
func (w *Writer) Send(frames []byte) error {
	w.head()
	return w.flush(frames)
}

// Ping sends a comment, which every reader skips. It keeps the connection from
// being taken for dead by proxies on the way.
func (w *Writer) Ping() error { return w.Send([]byte(": ping\n\n")) }

func (w *Writer) head() {
	if w.started {
		return
	}
	w.started = true
	h := w.w.Header()
	if w.kind == "" {
		w.kind = "text/event-stream; charset=utf-8"
	}
	h.Set("Content-Type", w.kind)
	h.Set("Cache-Control", "no-cache, no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would collect the whole answer
	h.Del("Content-Length")
	w.w.WriteHeader(http.StatusOK)
}

func (w *Writer) flush(b []byte) error {
	w.last = time.Now()
	// A ResponseWriter without deadlines (in tests) is written without one.
	_ = w.rc.SetWriteDeadline(w.last.Add(w.timeout))
	if len(b) > 0 {
		if _, err := w.w.Write(b); err != nil {
			return err
		}
	}
	return w.rc.Flush()
}
