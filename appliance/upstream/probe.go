package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hearth/engine/infer"
)

const (
	probeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second
	probeBytes    = 64 << 10
)

// probe is what the last probe saw.
type probe struct {
	mu     sync.Mutex
	asked  bool
	reason string // empty: well
	at     time.Time
	past   history
}

// startProbe asks the configured path every interval, the first time at once.
func (u *Upstream) startProbe() {
	h := &u.c.Health
	if h.Probe == "" {
		return
	}
	every := time.Duration(h.ProbeInterval)
	if every <= 0 {
		every = probeInterval
	}
	u.probe = &probe{}
	u.work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			u.ask(min(every, probeTimeout))
			select {
			case <-tick.C:
			case <-u.ctx.Done():
				return
			}
		}
	})
}

// ask makes one probe and notes what it saw.
func (u *Upstream) ask(limit time.Duration) {
	ctx, cancel := context.WithTimeout(u.ctx, limit)
	defer cancel()
	began := time.Now()
	reason, status := u.asked(ctx, u.c.Health.Probe)
	if u.ctx.Err() != nil {
		return
	}
	p := u.probe
	p.mu.Lock()
	was := p.reason
	first := !p.asked
	p.asked, p.reason, p.at = true, reason, u.o.Now()
	p.past.add(Probed{At: p.at, OK: reason == "", Reason: reason, Status: status, Took: time.Since(began), Path: u.c.Health.Probe})
	p.mu.Unlock()
	if u.o.OnProbe != nil {
		u.o.OnProbe(u.c.Name, reason == "")
	}
	switch {
	case reason != "" && (was == "" || first):
		u.log.Warn("an upstream fails its probe", "upstream", u.c.Name, "reason", reason)
	case reason == "" && was != "":
		u.log.Info("an upstream passes its probe again", "upstream", u.c.Name)
	}
}

// asked gives the reason why the upstream is not well, empty if it is, and the
// status of its answer, 0 if none came.
func (u *Upstream) asked(ctx context.Context, probe string) (reason string, status int) {
	path, query, _ := strings.Cut(probe, "?")
	if !strings.HasPrefix(path, "/") {
		path = u.target.path + "/" + path // relative to base_url; from the root otherwise
	}
	req := (&http.Request{
		Method: http.MethodGet, Host: u.target.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    &url.URL{Scheme: u.target.scheme, Host: u.target.host, Path: path, RawQuery: query},
		Header: http.Header{"User-Agent": u.fixed["User-Agent"], "Accept": {"*/*"}},
	}).WithContext(ctx)
	if u.auth != nil {
		if err := u.auth.sign(ctx, req, nil); err != nil {
			return "its credential is not available", 0
		}
	}
	resp, err := u.pool.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return "no answer to the probe in time", 0
		}
		return "it cannot be reached", 0
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, probeBytes)
	if resp.StatusCode/100 != 2 {
		return fmt.Sprintf("the probe was answered with status %d", resp.StatusCode), resp.StatusCode
	}
	return "", resp.StatusCode
}

// Health tells of the last probe. Without probes, or before the first, an
// upstream counts as ready.
func (u *Upstream) Health() infer.Health {
	u.mu.Lock()
	h := infer.Health{Ready: true, Stats: infer.Stats{Running: len(u.live)}}
	u.mu.Unlock()
	if u.ctx.Err() != nil {
		h.Ready, h.Reason = false, "closed"
		return h
	}
	if u.probe == nil {
		return h
	}
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	if u.probe.asked && u.probe.reason != "" {
		h.Ready, h.Reason = false, u.probe.reason
	}
	return h
}
