package appliance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/admin"
)

// seriesQuery asks for points of charts.
type seriesQuery struct {
	Names []string `json:"names,omitempty"` // empty: all
	Range string   `json:"range,omitempty"` // "1h" (default) or "24h"
	Most  int      `json:"most,omitempty"`  // so many points a series at most, each the mean of neighbours; 0: every sample
}

type seriesAnswer struct {
	Range  string    `json:"range"`
	StepMS int64     `json:"step_ms"`
	End    time.Time `json:"end"` // when the last sample was taken
	Series []chart   `json:"series"`
}

// overview is how everything is, at a glance. A tenant admin sees what is the
// same for all, and the tenant's own spend.
type overview struct {
	Version   string        `json:"version"`
	Started   time.Time     `json:"started"`
	UptimeSec int64         `json:"uptime_s"`
	Now       time.Time     `json:"now"`
	Ready     bool          `json:"ready"`
	Reason    string        `json:"reason,omitempty"`
	Parts     []partState   `json:"parts"`
	Models    []modelView   `json:"models"`
	Open      int64         `json:"open"` // requests being served
	Running   int           `json:"running"`
	Waiting   int           `json:"waiting"`
	Rates     ratesView     `json:"rates"` // over the last five minutes
	Latency   []latencyView `json:"latency"`
	Totals    totalsView    `json:"totals"` // since the start
	Denied    []countView   `json:"denied"` // by reason, since the start, most first
	Fallback  fallbackView  `json:"fallback"`
	Spend     []spendView   `json:"spend"`
	// CostPerRequestNano is the mean over the requests since the start; 0: none.
	CostPerRequestNano int64        `json:"cost_per_request_nano"`
	HeldNano           int64        `json:"held_nano"`
	OpenHolds          int          `json:"open_holds"`
	LedgerPosition     uint64       `json:"ledger_position"`
	Devices            []deviceView `json:"devices"`
	ConfigGeneration   int64        `json:"config_generation"`
	ConfigRevision     string       `json:"config_revision"`
}

// partState is one part that readiness depends on, or that people ask about.
type partState struct {
	Name  string `json:"name"` // "server", "ledger", "models", "upstreams", "certificate"
	OK    bool   `json:"ok"`
	State string `json:"state"` // in a word or a short sentence
}

type modelView struct {
	Name          string  `json:"name"`
	Device        string  `json:"device"`
	Ready         bool    `json:"ready"`
	Reason        string  `json:"reason,omitempty"`   // why not; says how loading goes on
	Degraded      string  `json:"degraded,omitempty"` // why it runs on less than it was meant to
	Quantization  string  `json:"quantization,omitempty"`
	Context       int     `json:"context"`
	FileBytes     int64   `json:"file_bytes"`
	WeightBytes   int64   `json:"weight_bytes"`
	KVBytes       int64   `json:"kv_bytes"`
	KVUse         float64 `json:"kv_use"`          // 0 to 1
	KVTokens      int     `json:"kv_tokens"`       // in use
	KVTokensMost  int     `json:"kv_tokens_most"`  // the ceiling
	KVCached      float64 `json:"kv_cached"`       // part that holds prefixes for reuse
	PrefixHitRate float64 `json:"prefix_hit_rate"` // 0 to 1, since the start
	Running       int     `json:"running"`
	Waiting       int     `json:"waiting"`
	Steps         uint64  `json:"steps"`
	Preemptions   uint64  `json:"preemptions"`
	Restarts      uint64  `json:"worker_restarts"`
	TokensOut     float64 `json:"tokens_out_per_s"` // over the last five minutes
}

type ratesView struct {
	Requests  float64 `json:"requests_per_s"`
	Errors    float64 `json:"errors_per_s"`
	Refused   float64 `json:"refused_per_s"`
	ErrorRate float64 `json:"error_rate"` // of the requests, 0 to 1
	TokensIn  float64 `json:"tokens_in_per_s"`
	TokensOut float64 `json:"tokens_out_per_s"`
	SpendUSDH float64 `json:"spend_usd_per_h"`
}

// latencyView are the distributions of one class; "all" is every class.
type latencyView struct {
	Class    string           `json:"class"`
	Quantity string           `json:"quantity"` // "ttft", "tpot", "e2e"
	Five     latencyQuantiles `json:"last_5m"`
	Hour     latencyQuantiles `json:"last_1h"`
}

type totalsView struct {
	Requests  uint64 `json:"requests"`
	Errors    uint64 `json:"errors"`
	Cancelled uint64 `json:"cancelled"`
	Refused   uint64 `json:"refused"`
	TokensIn  uint64 `json:"tokens_in"`
	TokensOut uint64 `json:"tokens_out"`
	Nano      int64  `json:"spend_nano"`
}

type countView struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// fallbackView tells of requests that took more than one attempt.
type fallbackView struct {
	Requests  uint64  `json:"requests"`
	Succeeded uint64  `json:"succeeded"`
	Rate      float64 `json:"rate"` // succeeded of all; 0 where there were none
}

// spendView is a tenant's budget.
type spendView struct {
	Tenant       string    `json:"tenant"`
	Period       string    `json:"period"` // "day", "month", "total"
	CapNano      int64     `json:"cap_nano"`
	SpentNano    int64     `json:"spent_nano"`
	HeldNano     int64     `json:"held_nano"`
	Used         float64   `json:"used"`                    // spent and held of the cap, 0 to 1
	ForecastNano int64     `json:"forecast_nano,omitempty"` // at the end of the window, if it goes on as so far; 0: none
	Over         bool      `json:"over"`                    // the forecast is above the cap
	Resets       time.Time `json:"resets,omitzero"`
}

// deviceView is a device with its readings by name; what cannot be read is not
// there.
type deviceView struct {
	ID       string             `json:"id"`
	Kind     string             `json:"kind"`
	Name     string             `json:"name"`
	UUID     string             `json:"uuid,omitempty"`
	Driver   string             `json:"driver,omitempty"`
	Readings map[string]float64 `json:"readings"`
	Throttle []string           `json:"throttle,omitempty"`
}

var (
	opSeries = operation[seriesQuery, seriesAnswer]{
		name: "telemetry/series", place: "GET /telemetry/series", access: admin.Read,
		summary: "points for charts: the last hour every five seconds, or the last day every two minutes",
		run:     readSeries,
	}
	opOverview = operation[tenantQuery, overview]{
		name: "telemetry/overview", place: "GET /telemetry/overview", access: admin.ReadTenant,
		summary: "how everything is, at a glance",
		tenant:  func(q *tenantQuery) *string { return &q.Tenant },
		run: func(ctx context.Context, c *control, q tenantQuery) (overview, error) {
			if c.server == nil {
				return overview{}, errNoServer
			}
			return c.server.overview(ctx, q.Tenant)
		},
	}
)

func readSeries(_ context.Context, c *control, q seriesQuery) (seriesAnswer, error) {
	if c.server == nil {
		return seriesAnswer{}, errNoServer
	}
	switch q.Range {
	case "":
		q.Range = "1h"
	case "1h", "24h":
	default:
		return seriesAnswer{}, infer.Invalid("range", `got %.16q, wanted "1h" or "24h"`, q.Range)
	}
	if len(q.Names) > maxSeries {
		return seriesAnswer{}, infer.Invalid("names", "got %d names, wanted at most %d", len(q.Names), maxSeries)
	}
	if q.Most < 0 {
		return seriesAnswer{}, infer.Invalid("most", "got %d points, wanted 0 or more", q.Most)
	}
	out, step, end := c.server.series.read(q.Names, q.Range == "24h", q.Most)
	return seriesAnswer{Range: q.Range, StepMS: step.Milliseconds(), End: end, Series: append([]chart{}, out...)}, nil
}

// overview gathers the state; with a tenant, what that may see.
func (a *Appliance) overview(ctx context.Context, tenant string) (overview, error) {
	now := a.now()
	o := overview{Version: Version, Started: a.started, UptimeSec: int64(now.Sub(a.started).Seconds()), Now: now}
	o.Ready, o.Reason = a.Ready()
	states := a.models.states(ctx)
	a.modelViews(&o, states)
	var err error
	if o.Spend, err = a.spendViews(now, tenant); err != nil {
		return o, err
	}
	if tenant != "" {
		o.Parts, o.Denied, o.Devices, o.Latency = []partState{}, []countView{}, []deviceView{}, []latencyView{}
		o.Running, o.Waiting = 0, 0
		for i, m := range o.Models { // what others do with them is not told
			o.Models[i] = modelView{Name: m.Name, Device: m.Device, Ready: m.Ready, Reason: m.Reason, Quantization: m.Quantization, Context: m.Context, FileBytes: m.FileBytes}
		}
		return o, nil
	}
	o.Latency = a.telemetry.latency.view(now)
	o.Parts = a.parts(states)
	o.Open = a.open.Load()
	a.ratesAndTotals(&o)
	st := a.store.Stats()
	o.HeldNano, o.OpenHolds, o.LedgerPosition = st.HeldNano, st.OpenHolds, st.Seq
	o.ConfigGeneration, o.ConfigRevision = a.generation.Load(), a.configRevision()
	for _, d := range a.devicesOf(states) {
		o.Devices = append(o.Devices, viewOf(&d))
	}
	return o, nil
}

func viewOf(d *infer.Device) deviceView {
	v := deviceView{ID: d.ID, Kind: d.Kind, Name: d.Name, UUID: d.UUID, Driver: d.Driver, Readings: map[string]float64{}, Throttle: d.Throttle}
	for _, r := range d.Readings {
		v.Readings[r.Name] = r.Value
	}
	return v
}

func (a *Appliance) modelViews(o *overview, states []modelState) {
	o.Models = []modelView{}
	for i := range states {
		m, s := &states[i].info, &states[i].health.Stats
		v := modelView{
			Name: m.Name, Device: m.Device, Ready: states[i].health.Ready, Reason: states[i].health.Reason, Degraded: states[i].health.Degraded,
			Quantization: m.Quantization, Context: m.ContextLength, FileBytes: m.FileBytes, WeightBytes: s.WeightBytes, KVBytes: s.KVBytes,
			KVTokens: s.BlocksUsed * s.BlockTokens, KVTokensMost: s.BlocksTotal * s.BlockTokens,
			Running: s.Running, Waiting: s.Waiting, Steps: s.Steps, Preemptions: s.Preemptions, Restarts: s.WorkerRestarts,
			TokensOut: a.series.mean("model."+m.Name+".tokens_out", 5*time.Minute),
		}
		if s.BlocksTotal > 0 {
			v.KVUse, v.KVCached = float64(s.BlocksUsed)/float64(s.BlocksTotal), float64(s.BlocksCached)/float64(s.BlocksTotal)
		}
		if s.PrefixQueries > 0 {
			v.PrefixHitRate = float64(s.PrefixHits) / float64(s.PrefixQueries)
		}
		o.Running, o.Waiting = o.Running+s.Running, o.Waiting+s.Waiting
		o.Models = append(o.Models, v)
	}
}

func (a *Appliance) ratesAndTotals(o *overview) {
	mean := func(name string) float64 { return a.series.mean(name, 5*time.Minute) }
	o.Rates = ratesView{
		Requests: mean("requests"), Errors: mean("errors"), Refused: mean("refused"),
		TokensIn: mean("tokens_in"), TokensOut: mean("tokens_out"), SpendUSDH: mean("spend"),
	}
	if o.Rates.Requests > 0 {
		o.Rates.ErrorRate = min(1, o.Rates.Errors/o.Rates.Requests)
	}
	s := &a.telemetry.sums
	o.Totals = totalsView{s.requests.Load(), s.failed.Load(), s.cancelled.Load(), s.refused.Load(), s.input.Load(), s.output.Load(), s.nano.Load()}
	if n := s.priced.Load(); n > 0 {
		o.CostPerRequestNano = o.Totals.Nano / int64(n)
	}
	o.Fallback = fallbackView{Requests: s.repeated.Load(), Succeeded: s.repeatedWell.Load()}
	if o.Fallback.Requests > 0 {
		o.Fallback.Rate = float64(o.Fallback.Succeeded) / float64(o.Fallback.Requests)
	}
	o.Denied = []countView{}
	for name, n := range a.telemetry.reasons.all() {
		o.Denied = append(o.Denied, countView{name, n})
	}
	slices.SortFunc(o.Denied, func(x, y countView) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Name, y.Name))
	})
}

// spendViews are the budgets of tenants, or of one.
func (a *Appliance) spendViews(now time.Time, tenant string) ([]spendView, error) {
	budgets, err := a.policy.Budgets()
	out := []spendView{}
	for _, b := range budgets {
		if b.KeyID != "" || tenant != "" && b.Tenant != tenant {
			continue
		}
		v := spendView{Tenant: b.Tenant, Period: string(b.Period), CapNano: b.CapNano, SpentNano: b.SpentNano, HeldNano: b.HeldNano, Resets: b.Window.End}
		if b.CapNano > 0 {
			v.Used = float64(b.SpentNano+b.HeldNano) / float64(b.CapNano)
		}
		v.ForecastNano = forecast(b.SpentNano, b.Window.Start, b.Window.End, now)
		v.Over = b.CapNano > 0 && v.ForecastNano > b.CapNano
		out = append(out, v)
	}
	return out, err
}

// forecast is the spend at the end of a window if it goes on as it did; 0 where
// the window has no end, or where too little of it has passed to tell.
func forecast(spent int64, start, end, now time.Time) int64 {
	whole, gone := end.Sub(start), now.Sub(start)
	if start.IsZero() || end.IsZero() || whole <= 0 || gone < whole/100 {
		return 0
	}
	return int64(float64(spent) * (float64(whole) / float64(min(gone, whole))))
}

// certificateLate is when a certificate should long have been renewed: those of
// the shortest common life are, with a third of it left.
const certificateLate = 6 * time.Hour

// parts says of each part how it is.
func (a *Appliance) parts(states []modelState) []partState {
	server := partState{"server", !a.draining.Load(), "admits requests"}
	if !server.OK {
		server.State = "draining"
	}
	ledger := partState{"ledger", true, "writes"}
	if err := a.store.Err(); err != nil {
		ledger = partState{"ledger", false, infer.AsError(err).Message}
	}
	models := partState{"models", true, "all answer"}
	for i := range states {
		if h := &states[i].health; !h.Ready {
			models = partState{"models", false, states[i].info.Name + ": " + h.Reason}
			break
		} else if h.Degraded != "" {
			models.State = "all answer; " + degradedText(&states[i])
		}
	}
	upstreams := partState{"upstreams", true, "none is out"}
	for _, h := range a.policy.Health() {
		if h.Upstream != policy.Local && h.State != policy.Healthy {
			upstreams = partState{"upstreams", false, h.Upstream + "/" + h.Model + " is " + h.State}
			break
		}
	}
	cert := partState{"certificate", true, "valid"}
	for _, c := range a.certificates() {
		if left := c.NotAfter.Sub(a.now()); left <= 0 {
			cert = partState{"certificate", false, firstOf(c.Names) + " has expired"}
			break
		} else if left < certificateLate {
			cert = partState{"certificate", false, firstOf(c.Names) + " is about to expire and has not been renewed"}
		}
	}
	return []partState{server, ledger, models, upstreams, cert}
}

// view tells every class over five minutes and an hour.
func (l *latencyClasses) view(now time.Time) []latencyView {
	out := []latencyView{}
	tell := func(class string, c *classLatencies) {
		for _, q := range []struct {
			name string
			l    *latencies
		}{{"ttft", &c.ttft}, {"tpot", &c.tpot}, {"e2e", &c.e2e}} {
			out = append(out, latencyView{class, q.name, q.l.summary(now, 5*time.Minute), q.l.summary(now, time.Hour)})
		}
	}
	tell("all", &l.all)
	l.each(tell)
	slices.SortStableFunc(out[3:], func(x, y latencyView) int { return cmp.Compare(x.Class, y.Class) })
	return out
}

// configDigest remembers the digest of a configuration.
type configDigest struct {
	of   *config.Config
	text string
}

// configRevision is the beginning of the digest of the configuration in force,
// every default filled in.
func (a *Appliance) configRevision() string {
	c := a.config()
	if d := a.telemetry.digest.Load(); d != nil && d.of == c {
		return d.text
	}
	sum := sha256.Sum256([]byte(c.Text()))
	d := &configDigest{c, hex.EncodeToString(sum[:6])}
	a.telemetry.digest.Store(d)
	return d.text
}
