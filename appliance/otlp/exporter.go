package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Options of an Exporter.
type Options struct {
	Endpoint string // URL that is posted to
	Resource Resource
	// Header sets what identifies us; it is asked before each post. Nil: nothing.
	Header func(h http.Header) error
	Client *http.Client // redirects must not be followed: Header would go with them
	// Queue is how many groups of spans may wait, Batch how many go in one post,
	// Interval how long the first of them waits, Timeout the time for one post.
	Queue, Batch      int
	Interval, Timeout time.Duration
	// Failed is told of posts that were given up, at most once a minute. Nil: nobody.
	Failed func(err error, spans int)
	// Pause is the first wait between two tries at one post, doubled each time
	// up to 30 s; 0: 1 s.
	Pause time.Duration
}

const (
	maxTries      = 6
	maxPause      = 30 * time.Second
	maxAnswer     = 64 << 10
	gzipFrom      = 1 << 10
	sayEvery      = time.Minute
	maxRetryAfter = 2 * time.Minute
)

// Stats are counters since the start, and what waits now.
type Stats struct {
	Exported, Dropped, Rejected uint64 // spans: taken; dropped here; refused there
	Posts, Failures             uint64 // tries at posting, and those that failed
	Waiting                     int    // groups
}

// Exporter sends groups of spans, each of one request. It is made by New, safe
// for concurrent use, and must be closed.
type Exporter struct {
	o    Options
	in   chan []Span
	quit chan struct{} // closed by Close: send what there is
	done chan struct{} // closed when the sender has ended
	once sync.Once
	hard context.Context // ends the last posts
	stop context.CancelFunc

	exported, dropped, refused, posts, failures atomic.Uint64

	// Below: owned by the sender.
	said    time.Time
	scratch []byte
	zip     *gzip.Writer
	closing bool
}

// New starts an exporter.
func New(o Options) *Exporter {
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	e := &Exporter{o: o, in: make(chan []Span, o.Queue), quit: make(chan struct{}), done: make(chan struct{}), zip: gzip.NewWriter(io.Discard)}
	e.hard, e.stop = context.WithCancel(context.Background())
	go e.run()
	return e
}

// Offer takes the spans of one request; false if there is no room for them. It
// never waits. The spans are the exporter's from then on.
func (e *Exporter) Offer(spans []Span) bool {
	select {
	case <-e.quit:
	default:
		select {
		case e.in <- spans:
			return true
		default:
		}
	}
	e.dropped.Add(uint64(len(spans)))
	return false
}

// Stats gives the counters.
func (e *Exporter) Stats() Stats {
	return Stats{e.exported.Load(), e.dropped.Load(), e.refused.Load(), e.posts.Load(), e.failures.Load(), len(e.in)}
}

// Close sends what waits, for as long as most, and drops the rest.
func (e *Exporter) Close(most time.Duration) {
	e.once.Do(func() {
		close(e.quit)
		t := time.AfterFunc(most, e.stop)
		<-e.done
		t.Stop()
		e.stop()
		e.o.Client.CloseIdleConnections()
	})
}

// run gathers groups into batches and posts them.
func (e *Exporter) run() {
	defer close(e.done)
	var batch []Span
	groups := 0
	add := func(g []Span) { batch, groups = append(batch, g...), groups+1 }
	send := func() {
		e.post(batch)
		clear(batch)
		batch, groups = batch[:0], 0
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case g := <-e.in:
			if groups == 0 {
				timer.Reset(e.o.Interval)
			}
			if add(g); groups >= e.o.Batch {
				send()
			}
		case <-timer.C:
			if groups > 0 {
				send()
			}
			timer.Reset(time.Hour)
		case <-e.quit:
			e.closing = true
			for {
				select {
				case g := <-e.in:
					if add(g); groups >= e.o.Batch {
						send()
					}
					continue
				default:
				}
				if groups > 0 {
					send()
				}
				return
			}
		}
	}
}

// post sends a batch, again after what may pass, and gives up in the end.
func (e *Exporter) post(spans []Span) {
	body, encoding := e.pack(spans)
	pause := e.o.Pause
	for try := 1; ; try++ {
		after, again, err := e.try(body, encoding, len(spans))
		if err == nil {
			return
		}
		e.failures.Add(1)
		if !again || try == maxTries || e.hard.Err() != nil {
			e.dropped.Add(uint64(len(spans)))
			e.say(err, len(spans))
			return
		}
		wait := max(after, pause/2+rand.N(pause))
		pause = min(2*pause, maxPause)
		if !e.sleep(wait) {
			e.dropped.Add(uint64(len(spans)))
			return
		}
	}
}

// sleep waits; false if the exporter ends first. While it is being closed there
// is no time for long waits.
func (e *Exporter) sleep(d time.Duration) bool {
	quit := e.quit
	if e.closing {
		quit = nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-quit: // try once more at once
		e.closing = true
	case <-e.hard.Done():
		return false
	}
	return true
}

func (e *Exporter) say(err error, spans int) {
	if now := time.Now(); e.o.Failed != nil && now.Sub(e.said) >= sayEvery {
		e.said = now
		e.o.Failed(err, spans)
	}
}

// try posts the body once. again says that it may be tried again, after the
// time that the server asked for (OTLP specification, "Failures").
func (e *Exporter) try(body []byte, encoding string, spans int) (after time.Duration, again bool, err error) {
	ctx, cancel := context.WithTimeout(e.hard, e.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "hearth-otlp")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	if e.o.Header != nil {
		if err := e.o.Header(req.Header); err != nil {
			return 0, true, err
		}
	}
	e.posts.Add(1)
	resp, err := e.o.Client.Do(req)
	if err != nil {
		return 0, true, errors.Unwrap(err) // without the URL
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		n, why := rejected(answer)
		n = min(n, int64(spans))
		e.refused.Add(uint64(n))
		e.exported.Add(uint64(int64(spans) - n))
		if n > 0 {
			e.say(fmt.Errorf("the collector refused %d of %d spans: %s", n, spans, why), int(n))
		}
		return 0, false, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		after = min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	return after, again, fmt.Errorf("the collector answered %d", resp.StatusCode)
}

// pack makes the body, in memory of its own: the library may read it for a
// while after a try has failed.
func (e *Exporter) pack(spans []Span) (body []byte, encoding string) {
	e.scratch = Encode(e.scratch[:0], &e.o.Resource, spans)
	if len(e.scratch) >= gzipFrom {
		var b bytes.Buffer
		e.zip.Reset(&b)
		if _, err := e.zip.Write(e.scratch); err == nil && e.zip.Close() == nil {
			return b.Bytes(), "gzip"
		}
	}
	return bytes.Clone(e.scratch), ""
}
