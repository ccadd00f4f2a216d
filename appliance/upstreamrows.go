package appliance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hearth/appliance/upstream"
	"hearth/policy"
	"hearth/store"
)

// upstreamRow is one upstream: what it is, whether it is well, what it did.
type upstreamRow struct {
	Name          string          `json:"name"`
	Kind          string          `json:"kind"`
	URL           string          `json:"url,omitempty"` // without user, query and fragment; empty: the kind's own
	Region        string          `json:"region,omitempty"`
	DataClasses   []string        `json:"data_classes"`
	MaxConcurrent int             `json:"max_concurrent"` // 0: no bound
	Routes        []string        `json:"routes"`
	State         string          `json:"state"` // the worst of its deployments; "shadow": it gets copies only; "unused": no route names it
	Credential    credentialState `json:"credential"`
	Deployments   []deploymentRow `json:"deployments"`
	// Probes, newest first; ProbePath empty: none by the clock.
	ProbePath     string            `json:"probe_path,omitempty"`
	ProbeInterval string            `json:"probe_interval,omitempty"`
	Probes        []upstream.Probed `json:"probes"`
	Problem       string            `json:"problem,omitempty"` // what the last probe by the clock found
	// Recent is what attempts there came to over RecentSpan.
	Recent      attempts      `json:"recent"`
	RecentSpan  time.Duration `json:"recent_span_ns"`
	Conformance *evidenceRow  `json:"conformance,omitempty"` // the newest record of it
}

// deploymentRow is one model at an upstream.
type deploymentRow struct {
	Model       string           `json:"model"`
	Routes      []string         `json:"routes"`
	State       string           `json:"state"` // healthy, ejected, half-open, blocked
	For         time.Duration    `json:"for_ns"`
	Blocked     map[string]int64 `json:"blocked_ns,omitempty"` // by quota domain
	Open        int              `json:"open"`
	Waiting     int              `json:"waiting"`
	InARow      int              `json:"failures_in_a_row"`
	LastFailure string           `json:"last_failure,omitempty"`
	// Counters since the start.
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	Fallbacks uint64 `json:"fallbacks"`
	Retries   uint64 `json:"retries"`
}

// credentialState says of a reference whether the secret behind it can be had,
// and nothing of the secret.
type credentialState struct {
	Reference  string     `json:"reference,omitempty"` // "env:NAME"; empty: none is needed
	Kind       string     `json:"kind,omitempty"`      // env, file, systemd, oidc-file
	Resolvable bool       `json:"resolvable"`
	Problem    string     `json:"problem,omitempty"`
	Changed    *time.Time `json:"changed,omitempty"` // of a file
	AgeS       float64    `json:"age_s,omitempty"`   // since then
	Readable   bool       `json:"others_may_read,omitempty"`
}

// attempts is what a backend did lately, out of the ledger.
type attempts struct {
	Attempts    int64     `json:"attempts"`
	Succeeded   int64     `json:"succeeded"`
	Failed      int64     `json:"failed"`
	Fallbacks   int64     `json:"fallbacks"`    // attempts after another had failed
	FallbacksOK int64     `json:"fallbacks_ok"` // of them, those that served the request
	P50         int64     `json:"p50_ms"`       // of attempts that succeeded
	P95         int64     `json:"p95_ms"`
	P99         int64     `json:"p99_ms"`
	Charge      int64     `json:"charge_nano"` // of requests that it served
	FailedAt    time.Time `json:"failed_at,omitzero"`
	Failure     string    `json:"failure,omitempty"` // class of the newest failure
	FailedModel string    `json:"failed_model,omitempty"`
	Status      int       `json:"failure_status,omitempty"` // of HTTP
	ErrorCode   string    `json:"failure_code,omitempty"`

	took []time.Duration
}

// maxTimes bounds the times that percentiles are of: the newest.
const maxTimes = 5000

// attempt counts the attempts of a row, which come newest row first.
func (r *recentSpending) attempt(row *store.Row) {
	for i := range row.Attempts {
		a := &row.Attempts[i]
		s := r.backends[a.Backend]
		if s == nil {
			s = &attempts{}
			r.backends[a.Backend] = s
		}
		s.Attempts++
		ok := a.Outcome == store.OutcomeComplete
		if i > 0 && row.Attempts[i-1].Backend != a.Backend {
			s.Fallbacks++
			if ok {
				s.FallbacksOK++
			}
		}
		switch {
		case ok:
			s.Succeeded++
			if len(s.took) < maxTimes {
				s.took = append(s.took, a.Took)
			}
		case a.Failure != "" || a.Outcome == store.OutcomeError:
			s.Failed++
			if s.FailedAt.IsZero() {
				s.FailedAt, s.Failure, s.FailedModel, s.Status, s.ErrorCode = a.Started, a.Failure, a.Model, a.Status, a.ErrorCode
			}
		}
	}
	if s := r.backends[row.Backend]; s != nil {
		s.Charge += row.ChargeNano
	}
	for _, l := range row.Losses {
		path, _, _ := strings.Cut(l, "=")
		m := r.losses[row.Route]
		if m == nil {
			m = map[string]int{}
			r.losses[row.Route] = m
		}
		if len(m) < 200 || m[path] > 0 {
			m[path]++
		}
	}
}

// rank fills in the percentiles (nearest rank).
func (s *attempts) rank() {
	slices.Sort(s.took)
	at := func(p int) int64 {
		if len(s.took) == 0 {
			return 0
		}
		return s.took[(len(s.took)*p+99)/100-1].Milliseconds()
	}
	s.P50, s.P95, s.P99 = at(50), at(95), at(99)
	s.took = nil
}

// credentialOf looks whether a credential can be read by this process.
func credentialOf(u *policy.UpstreamConfig, getenv func(string) string, now time.Time) credentialState {
	s := credentialState{Reference: u.Credential, Resolvable: true}
	if u.Credential == "" {
		return s
	}
	kind, name, _ := strings.Cut(u.Credential, ":")
	s.Kind = kind
	if kind == "systemd" {
		dir := getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			s.Problem = "CREDENTIALS_DIRECTORY is not set: this is not a unit with credentials"
		}
		name = filepath.Join(dir, name)
	}
	if s.Problem == "" {
		s.Problem = unreadable(u.Credential, getenv)
	}
	s.Resolvable = s.Problem == ""
	if kind == "env" || !s.Resolvable {
		return s
	}
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		s.Resolvable, s.Problem = false, "it is no regular file with something in it"
		return s
	}
	changed := st.ModTime().UTC()
	s.Changed, s.AgeS = &changed, now.Sub(changed).Seconds()
	s.Readable = kind != "systemd" && st.Mode().Perm()&0o077 != 0
	return s
}

// states from the best to the worst.
var stateOrder = []string{policy.Healthy, policy.HalfOpen, policy.Blocked, policy.Ejected}

func listUpstreams(ctx context.Context, c *control, _ none) ([]upstreamRow, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	p, err := c.policyNow()
	if err != nil {
		return nil, err
	}
	recent, err := c.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	evidence, err := c.evidence(ctx)
	if err != nil {
		return nil, err
	}
	health, now := p.Health(), c.now()
	out := []upstreamRow{}
	for _, u := range beside(c.file, conf.Upstreams) {
		row := upstreamRow{Name: u.Name, Kind: u.Kind, URL: plainURL(u.BaseURL), Region: u.Region, DataClasses: append([]string{}, u.DataClasses...),
			MaxConcurrent: u.MaxConcurrent, Routes: []string{}, State: "unused", Deployments: []deploymentRow{}, Probes: []upstream.Probed{},
			Credential: credentialOf(&u, c.variable, now), ProbePath: u.Health.Probe, RecentSpan: recent.span}
		if u.Health.Probe != "" {
			row.ProbeInterval = u.Health.ProbeInterval.String()
		}
		if r := recent.backends[u.Name]; r != nil {
			row.Recent = *r
		}
		row.deployments(health)
		row.shadowed(conf.Routes)
		c.probed(&row)
		row.Conformance = newest(evidence, conformanceEvidence, u.Name)
		out = append(out, row)
	}
	return out, nil
}

func (r *upstreamRow) deployments(health []policy.CandidateHealth) {
	worst := -1
	for i := range health {
		h := &health[i]
		if h.Upstream != r.Name {
			continue
		}
		d := deploymentRow{Model: h.Model, Routes: h.Routes, State: h.State, For: h.For, Open: h.Outstanding, Waiting: h.Waiting, InARow: h.Failures,
			LastFailure: string(h.LastFailure), Succeeded: h.Successes, Failed: h.Failed, Fallbacks: h.Fallbacks, Retries: h.Retries}
		for domain, left := range h.Blocked {
			if d.Blocked == nil {
				d.Blocked = map[string]int64{}
			}
			d.Blocked[domain] = int64(left)
		}
		r.Deployments = append(r.Deployments, d)
		for _, name := range h.Routes {
			if !slices.Contains(r.Routes, name) {
				r.Routes = append(r.Routes, name)
			}
		}
		worst = max(worst, slices.Index(stateOrder, h.State))
	}
	if worst >= 0 {
		r.State = stateOrder[worst]
	}
	slices.Sort(r.Routes)
}

// probed adds what the running server knows of its probes.
func (c *control) probed(r *upstreamRow) {
	if c.server == nil {
		return
	}
	up, release, err := c.server.upstreams.acquire(r.Name)
	if err != nil {
		return
	}
	defer release()
	r.Probes = up.Probes()
	slices.Reverse(r.Probes)
	if h := up.Health(); !h.Ready {
		r.Problem = h.Reason
	}
}
