package appliance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

const (
	// recentSpan is what a forecast goes by.
	recentSpan = 24 * time.Hour
	// maxRecent and maxReport bound how many records one answer looks at, and
	// recentLife how old what was found may be.
	maxRecent  = 200_000
	maxReport  = 1_000_000
	recentLife = 10 * time.Second
)

// spent is what requests came to.
type spent struct {
	Requests  int64 `json:"requests"`
	Failed    int64 `json:"failed"` // ended with an error, or partial, or unknown
	Refused   int64 `json:"refused"`
	Charge    int64 `json:"charge_nano"`
	Overdraft int64 `json:"overdraft_nano"`
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_tokens"` // part of the input
	Output    int64 `json:"output_tokens"`
	Fallbacks int64 `json:"fallbacks"` // requests that more than one attempt was made for
}

func (s *spent) add(r *store.Row) {
	if r.Outcome == store.OutcomeRefused {
		s.Refused++
		return
	}
	s.Requests++
	switch r.Outcome {
	case store.OutcomeError, store.OutcomePartial, store.OutcomeUnknown, store.OutcomeAmbiguous:
		s.Failed++
	}
	s.Charge += r.ChargeNano
	s.Overdraft += r.OverdraftNano
	s.Input += r.Usage.Prompt()
	s.Cached += r.Usage.CachedInput
	s.Output += r.Usage.Output
	if len(r.Attempts) > 1 {
		s.Fallbacks++
	}
}

// perRequest is the cost of one request; 0 without any.
func (s *spent) perRequest() int64 {
	if s.Requests == 0 {
		return 0
	}
	return s.Charge / s.Requests
}

// recentSpending is what the ledger has of late.
type recentSpending struct {
	span    time.Duration // that it covers
	records int           // that were read for it
	tenants map[string]*spent
	keys    map[string]*spent
	last    map[string]time.Time // of a tenant: its newest request

	backends map[string]*attempts
	losses   map[string]map[string]int // by route and path
	routes   map[string]*spent
	// Copies of requests count for their tenant alone, who is charged, and here.
	shadows map[shadowName]*copied
	primary map[string]*compared // by route: what copies are compared with
}

// spending keeps that for a few seconds: pages ask for it again and again.
type spending struct {
	mu   sync.Mutex
	at   time.Time
	last *recentSpending

	reports found[string, spendReport]
}

// recentOf looks at the ledger of the last day, as far as that can be done in
// bounded time: then the span is shorter.
func (c *control) recentOf(ctx context.Context) (*recentSpending, error) {
	if c.server == nil {
		return c.scanRecent(ctx)
	}
	s := &c.server.spending
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := c.now(); s.last == nil || now.Sub(s.at) > max(recentLife, keptLife(s.last.records)) || now.Before(s.at) {
		r, err := c.scanRecent(ctx)
		if err != nil {
			return nil, err
		}
		s.last, s.at = r, now
	}
	return s.last, nil
}

func (c *control) scanRecent(ctx context.Context) (*recentSpending, error) {
	r := &recentSpending{span: recentSpan, tenants: map[string]*spent{}, keys: map[string]*spent{}, last: map[string]time.Time{},
		backends: map[string]*attempts{}, losses: map[string]map[string]int{}, routes: map[string]*spent{},
		shadows: map[shadowName]*copied{}, primary: map[string]*compared{}}
	now := c.now()
	got, err := c.store.Scan(ctx, now.Add(-recentSpan), maxRecent, func(written time.Time, row *store.Row) {
		into(r.tenants, row.Tenant).add(row)
		into(r.keys, row.KeyID).add(row)
		if policy.IsShadow(row.KeyID) {
			r.copy(row)
		} else {
			into(r.routes, row.Route).add(row)
			r.attempt(row)
			r.compare(row)
		}
		if written.After(r.last[row.Tenant]) {
			r.last[row.Tenant] = written
		}
	})
	for _, a := range r.backends {
		a.rank()
	}
	r.rankCopies()
	r.records = got.Records
	if got.Records > 0 && (!got.Complete || now.Sub(got.From) < recentSpan) {
		// The ledger is younger than a day, or more happened than is looked at.
		r.span = max(now.Sub(got.From), time.Minute)
	}
	return r, err
}

func into(m map[string]*spent, key string) *spent {
	s := m[key]
	if s == nil {
		s = &spent{}
		m[key] = s
	}
	return s
}

// budgetPosition is one budget in its present window, with where it leads.
type budgetPosition struct {
	Tenant string       `json:"tenant"`
	KeyID  string       `json:"key_id,omitempty"` // empty: the tenant's own
	Period store.Period `json:"period"`
	Window string       `json:"window"` // "2026-11-29", "2026-11" or "total"
	Starts time.Time    `json:"starts,omitzero"`
	Ends   time.Time    `json:"ends,omitzero"` // zero: never
	Cap    int64        `json:"cap_nano"`
	Spent  int64        `json:"spent_nano"`
	Held   int64        `json:"held_nano"` // for requests that run
	Free   int64        `json:"free_nano"` // what may still be held
	Part   float64      `json:"part"`      // spent and held, of the cap; 1 is all of it
	// Rate is what was spent an hour lately, over RateSpan; Forecast what will have
	// been spent at the window's end at that rate. Without an end there is none.
	Rate     int64         `json:"rate_nano_per_hour"`
	RateSpan time.Duration `json:"rate_span_ns"`
	Forecast *int64        `json:"forecast_nano,omitempty"`
	// Exhausted is when the cap is reached at that rate, if that is before the
	// window ends.
	Exhausted time.Time `json:"exhausted_at,omitzero"`
}

// policyNow is the policy of the running server, or one for this command.
func (c *control) policyNow() (*policy.Policy, error) {
	if c.server != nil {
		return c.server.policy, nil
	}
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	names := localModels(conf, c.dir)
	specs := make([]modelSpec, len(names))
	for i := range names {
		specs[i].Name = names[i]
	}
	return policy.New(policyConfig(conf, specs), policy.Options{Store: c.store, Local: specNames(specs)})
}

// budgets lists the positions of all budgets, those of one tenant if it is named.
func (c *control) budgets(ctx context.Context, tenant string) ([]budgetPosition, error) {
	p, err := c.policyNow()
	if err != nil {
		return nil, err
	}
	states, err := p.Budgets()
	if err != nil {
		return nil, err
	}
	recent, err := c.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	now, out := c.now(), []budgetPosition{}
	for i := range states {
		s := &states[i]
		if tenant != "" && s.Tenant != tenant {
			continue
		}
		b := budgetPosition{Tenant: s.Tenant, KeyID: s.KeyID, Period: s.Period, Window: s.Window.ID, Starts: s.Window.Start, Ends: s.Window.End,
			Cap: s.CapNano, Spent: s.SpentNano, Held: s.HeldNano, Free: max(0, s.CapNano-s.SpentNano-s.HeldNano)}
		lately := recent.tenants[s.Tenant]
		if s.KeyID != "" {
			lately = recent.keys[s.KeyID]
		}
		b.forecast(lately, recent.span, now)
		out = append(out, b)
	}
	return out, nil
}

// forecast says where a budget leads at the recent rate. A hold counts as spent:
// it will mostly have been.
func (b *budgetPosition) forecast(lately *spent, span time.Duration, now time.Time) {
	b.RateSpan = span
	if lately != nil {
		b.Rate = int64(float64(lately.Charge) / span.Hours())
	}
	taken := b.Spent + b.Held
	switch {
	case b.Cap > 0:
		b.Part = float64(taken) / float64(b.Cap)
	case taken > 0 || b.Cap == 0:
		b.Part = 1
	}
	if !b.Ends.IsZero() {
		f := taken + int64(float64(b.Rate)*max(0, b.Ends.Sub(now).Hours()))
		b.Forecast = &f
	}
	if left := b.Cap - taken; left <= 0 {
		b.Exhausted = now
	} else if b.Rate > 0 {
		if hours := float64(left) / float64(b.Rate); hours < 24*365*10 {
			if at := now.Add(time.Duration(hours * float64(time.Hour))); b.Ends.IsZero() || at.Before(b.Ends) {
				b.Exhausted = at
			}
		}
	}
}

// spendQuery asks what was spent.
type spendQuery struct {
	Since  time.Time `json:"since,omitzero"` // of when requests ended; default: 30 days ago
	Until  time.Time `json:"until,omitzero"`
	By     []string  `json:"by,omitempty"` // up to three of tenant, key, model, route, upstream, day, hour; default: tenant
	Tenant string    `json:"tenant,omitempty"`
	KeyID  string    `json:"key_id,omitempty"`
	Model  string    `json:"model,omitempty"`
	Route  string    `json:"route,omitempty"`
	Limit  int       `json:"limit,omitempty"` // most rows, 1 to 10000; default 1000
}

// spendRow is what the requests of one group came to.
type spendRow struct {
	Tenant   string `json:"tenant,omitempty"`
	KeyID    string `json:"key_id,omitempty"`
	Model    string `json:"model,omitempty"`
	Route    string `json:"route,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Day      string `json:"day,omitempty"`  // in the zone of the configuration
	Hour     string `json:"hour,omitempty"` // "2026-11-29T14", likewise
	spent
	PerRequest int64 `json:"per_request_nano"`
}

type spendKey struct{ tenant, key, model, route, upstream, day, hour string }

// spendReport is an answer to a spendQuery.
type spendReport struct {
	Since   time.Time  `json:"since"`
	Until   time.Time  `json:"until"`
	By      []string   `json:"by"`
	Rows    []spendRow `json:"rows"` // what cost most comes first; days and hours in their order
	Total   spendRow   `json:"total"`
	More    int        `json:"more_rows,omitempty"` // left out by the limit
	Scanned int        `json:"records_scanned"`
	// Complete: all of the span was looked at; else only what ended after From.
	Complete bool      `json:"complete"`
	From     time.Time `json:"from"`
}

var spendDimensions = []string{"tenant", "key", "model", "route", "upstream", "day", "hour"}

func (q *spendQuery) check(now time.Time) error {
	if len(q.By) == 0 {
		q.By = []string{"tenant"}
	}
	if len(q.By) > 3 {
		return infer.Invalid("by", "cannot group by %d things, wanted at most 3", len(q.By))
	}
	for i, d := range q.By {
		if !slices.Contains(spendDimensions, d) || slices.Index(q.By, d) < i {
			return infer.Invalid("by", "cannot group by %.32q, wanted each at most once of %q", d, spendDimensions)
		}
	}
	if q.Limit == 0 {
		q.Limit = 1000
	}
	if q.Limit < 1 || q.Limit > 10_000 {
		return infer.Invalid("limit", "cannot be %d, wanted 1 to 10000", q.Limit)
	}
	if q.Since.IsZero() {
		q.Since = now.Add(-30 * 24 * time.Hour)
	}
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Until.Before(q.Since) {
		return infer.Invalid("until", "is before since")
	}
	return nil
}

// groupOf is the group of a row, by what is asked for.
func (q *spendQuery) groupOf(written time.Time, r *store.Row, zone *time.Location) spendKey {
	var k spendKey
	for _, d := range q.By {
		switch d {
		case "tenant":
			k.tenant = r.Tenant
		case "key":
			k.key = r.KeyID
		case "model":
			k.model = r.Model
		case "route":
			k.route = r.Route
		case "upstream":
			k.upstream = r.Backend
		case "day":
			k.day = written.In(zone).Format(time.DateOnly)
		case "hour":
			k.hour = written.In(zone).Format("2006-01-02T15")
		}
	}
	return k
}

// reportSpend sums up the ledger. A request counts when it has ended. A report
// that much was read for is served for a while to who asks the same.
func reportSpend(ctx context.Context, c *control, q spendQuery) (spendReport, error) {
	asked := fmt.Sprintf("%+v", q)
	if err := q.check(c.now()); err != nil {
		return spendReport{}, err
	}
	if c.server == nil {
		return sumSpend(ctx, c, q)
	}
	return c.server.spending.reports.get(asked, c.now, func() (spendReport, int, error) {
		r, err := sumSpend(ctx, c, q)
		return r, r.Scanned, err
	})
}

func sumSpend(ctx context.Context, c *control, q spendQuery) (spendReport, error) {
	conf, err := c.config()
	if err != nil {
		return spendReport{}, err
	}
	zone, err := time.LoadLocation(conf.Zone)
	if err != nil {
		return spendReport{}, err
	}
	groups := map[spendKey]*spent{}
	var total spent
	got, err := c.store.Scan(ctx, q.Since, maxReport, func(written time.Time, r *store.Row) {
		if !written.Before(q.Until) || q.Tenant != "" && r.Tenant != q.Tenant || q.KeyID != "" && r.KeyID != q.KeyID ||
			q.Model != "" && r.Model != q.Model || q.Route != "" && r.Route != q.Route {
			return
		}
		k := q.groupOf(written, r, zone)
		if groups[k] == nil {
			groups[k] = &spent{}
		}
		groups[k].add(r)
		total.add(r)
	})
	out := spendReport{Since: q.Since, Until: q.Until, By: q.By, Rows: []spendRow{}, Scanned: got.Records, Complete: got.Complete, From: got.From}
	out.Total = spendRow{spent: total, PerRequest: total.perRequest()}
	for k, s := range groups {
		out.Rows = append(out.Rows, spendRow{k.tenant, k.key, k.model, k.route, k.upstream, k.day, k.hour, *s, s.perRequest()})
	}
	slices.SortFunc(out.Rows, func(a, b spendRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Hour, b.Hour), cmp.Compare(b.Charge, a.Charge), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Upstream, b.Upstream))
	})
	if len(out.Rows) > q.Limit {
		out.More = len(out.Rows) - q.Limit
		out.Rows = out.Rows[:q.Limit]
	}
	return out, err
}
