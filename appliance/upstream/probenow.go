package upstream

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Probed is what one probe saw.
type Probed struct {
	At     time.Time     `json:"at"`
	OK     bool          `json:"ok"`
	Reason string        `json:"reason,omitempty"` // why not
	Status int           `json:"status,omitempty"` // of HTTP; 0: no answer
	Took   time.Duration `json:"took_ns"`
	Path   string        `json:"path"`
	Asked  bool          `json:"asked,omitempty"` // by a person, not by the clock
}

// maxHistory is how many probes are remembered.
const maxHistory = 60

// history is the latest probes, oldest first.
type history struct{ list []Probed }

func (h *history) add(p Probed) {
	if len(h.list) == maxHistory {
		h.list = slices.Delete(h.list, 0, 1)
	}
	h.list = append(h.list, p)
}

// Probes gives the latest probes, oldest first.
func (u *Upstream) Probes() []Probed {
	u.manual.mu.Lock()
	out := slices.Clone(u.manual.past.list)
	u.manual.mu.Unlock()
	if u.probe != nil {
		u.probe.mu.Lock()
		out = append(out, u.probe.past.list...)
		u.probe.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Probed) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-maxHistory):]
}

// Probe asks the upstream now whether it answers: the path that is configured for
// probes, else what its kind offers, else its list of models. Without a path that
// is meant for it any answer but that of a fault or a refused credential will do.
// It costs nothing there. What it finds is told as any probe is only where a path
// is configured.
func (u *Upstream) Probe(ctx context.Context) Probed {
	path, meant := u.c.Health.Probe, true
	if path == "" {
		path = u.profile.probe
	}
	if path == "" {
		path, meant = "models", false
		if u.c.Kind == "anthropic" {
			path = "/v1/models"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	began := time.Now()
	reason, status := u.asked(ctx, path)
	switch {
	case status == 401 || status == 403:
		reason = "its credential was refused"
	case !meant && status > 0 && status < 500:
		reason = ""
	}
	p := Probed{At: u.o.Now(), OK: reason == "", Reason: strings.TrimSpace(reason), Status: status, Took: time.Since(began), Path: path, Asked: true}
	u.manual.mu.Lock()
	u.manual.past.add(p)
	u.manual.mu.Unlock()
	if u.c.Health.Probe != "" && u.o.OnProbe != nil && u.ctx.Err() == nil {
		u.o.OnProbe(u.c.Name, p.OK)
	}
	return p
}
