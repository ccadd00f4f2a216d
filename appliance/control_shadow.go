package appliance

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// shadowRow is one shadow of a route: what it may get, and what became of that.
type shadowRow struct {
	Upstream        string        `json:"upstream"`
	Model           string        `json:"model"`
	Share           float64       `json:"share"`  // of the route's requests, 0 to 1
	Tenant          string        `json:"tenant"` // who is charged
	MaxConcurrent   int           `json:"max_concurrent"`
	MaxOutputTokens int           `json:"max_output_tokens"`
	Deadline        time.Duration `json:"deadline_ns"`
	Priced          bool          `json:"priced"`
	Price           store.Price   `json:"price"`
	Open            int           `json:"open"` // copies that run
	Eligible        bool          `json:"eligible"`
	Why             string        `json:"why,omitempty"` // why none can be made now
	// Dropped counts the copies that were not made since the start, by reason.
	Dropped map[string]uint64 `json:"dropped"`
	// Recent is what copies came to over the route's recent_span_ns.
	Recent copied `json:"recent"`
}

// copied is what the copies for one shadow came to.
type copied struct {
	compared
	Runs     int64            `json:"runs"`
	Failed   int64            `json:"failed"` // all that were not answered whole
	Input    int64            `json:"input_tokens"`
	Output   int64            `json:"output_tokens"`
	Charge   int64            `json:"charge_nano"`
	Finish   map[string]int64 `json:"finish"`
	Failures map[string]int64 `json:"failures"` // by class, or else by code of the error
}

// compared are times of requests that were answered whole: of the attempt that
// answered, and to the first token. Milliseconds, nearest rank.
type compared struct {
	Answered int64 `json:"answered"`
	P50      int64 `json:"p50_ms"`
	P95      int64 `json:"p95_ms"`
	TTFT50   int64 `json:"ttft_p50_ms"`
	TTFT95   int64 `json:"ttft_p95_ms"`
	// PerAnswer is the mean of the tokens of an answer.
	PerAnswer float64 `json:"output_per_answer"`

	output     int64
	took, ttft []time.Duration
}

// maxFinishes bounds the names that are counted apart.
const maxFinishes = 16

func (k *compared) add(row *store.Row) {
	if row.Outcome != store.OutcomeComplete || len(row.Attempts) == 0 {
		return
	}
	k.Answered++
	k.output += row.Usage.Output
	if len(k.took) < maxTimes {
		k.took = append(k.took, row.Attempts[len(row.Attempts)-1].Took)
	}
	if row.TTFT > 0 && len(k.ttft) < maxTimes {
		k.ttft = append(k.ttft, row.TTFT)
	}
}

func (k *compared) rank() {
	k.P50, k.P95 = rankedMS(k.took, 50), rankedMS(k.took, 95)
	k.TTFT50, k.TTFT95 = rankedMS(k.ttft, 50), rankedMS(k.ttft, 95)
	if k.Answered > 0 {
		k.PerAnswer = math.Round(float64(k.output)/float64(k.Answered)*10) / 10
	}
	k.took, k.ttft = nil, nil
}

// rankedMS is a percentile by nearest rank, in milliseconds; 0 of nothing.
func rankedMS(list []time.Duration, percent int) int64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)*percent+99)/100-1].Milliseconds()
}

// copy counts the row of a copy.
func (r *recentSpending) copy(row *store.Row) {
	if len(row.Attempts) == 0 {
		return // it runs, or its process died with it
	}
	at := &row.Attempts[0]
	n := shadowName{row.Route, at.Backend, at.Model}
	k := r.shadows[n]
	if k == nil {
		k = &copied{Finish: map[string]int64{}, Failures: map[string]int64{}}
		r.shadows[n] = k
	}
	k.add(row)
	k.Runs++
	k.Input += row.Usage.Prompt()
	k.Output += row.Usage.Output
	k.Charge += row.ChargeNano
	if row.Outcome == store.OutcomeComplete {
		if len(k.Finish) < maxFinishes || k.Finish[row.Finish] > 0 {
			k.Finish[row.Finish]++
		}
		return
	}
	k.Failed++
	why := at.Failure
	if why == "" || row.Termination == store.TermDeadline {
		why = row.ErrorCode
	}
	if len(k.Failures) < maxFinishes || k.Failures[why] > 0 {
		k.Failures[why]++
	}
}

// compare counts the row of a request for comparison with copies.
func (r *recentSpending) compare(row *store.Row) {
	k := r.primary[row.Route]
	if k == nil {
		k = &compared{}
		r.primary[row.Route] = k
	}
	k.add(row)
}

func (r *recentSpending) rankCopies() {
	for _, k := range r.shadows {
		k.rank()
	}
	for _, k := range r.primary {
		k.rank()
	}
}

// shadows fills in who gets copies.
func (r *routeRow) shadows(c *control, st *policy.RouteState, recent *recentSpending) {
	for _, s := range st.Shadows {
		k, conf := s.Shadow.Candidate(), s.Config
		row := shadowRow{Upstream: k.Backend, Model: k.Model, Share: conf.Share, Tenant: conf.Tenant, MaxConcurrent: conf.MaxConcurrent,
			MaxOutputTokens: conf.MaxOutputTokens, Deadline: time.Duration(conf.Deadline), Priced: k.Priced, Price: k.Price, Open: s.Open,
			Why: c.whyNoCopy(&s), Dropped: map[string]uint64{}, Recent: copied{Finish: map[string]int64{}, Failures: map[string]int64{}}}
		row.Eligible = row.Why == ""
		if got := recent.shadows[shadowNameOf(s.Shadow)]; got != nil {
			row.Recent = *got
		}
		if c.server != nil {
			row.Dropped = c.server.shadows.drops(shadowNameOf(s.Shadow))
		}
		r.Shadows = append(r.Shadows, row)
	}
	if len(r.Shadows) > 0 {
		if r.Primary = recent.primary[r.Name]; r.Primary == nil {
			r.Primary = &compared{}
		}
	}
}

// whyNoCopy says why no copy can be made now; empty: one can.
func (c *control) whyNoCopy(s *policy.ShadowState) string {
	switch s.Barred {
	case policy.ShadowFull:
		return "as many copies run as may, or its upstream has no room to spare"
	case policy.ShadowEjected:
		return "it is out of service after repeated failures"
	case policy.ShadowBlocked:
		return "its provider asked to be left alone"
	}
	k := s.Shadow.Candidate()
	if s.Config.Share == 0 {
		return "its share is 0"
	}
	if k.Backend != policy.Local || c.server == nil {
		return ""
	}
	_, release, err := c.server.models.acquire(k.Model)
	if err != nil {
		return infer.AsError(err).Message
	}
	release()
	return ""
}

// shadowEdit changes the share of a shadow.
func (r *routeUpdate) shadowEdit(at string, route *policy.RouteConfig, tables []map[string]any) (configEdit, error) {
	if !(r.ShadowShare >= 0 && r.ShadowShare <= 100) {
		return configEdit{}, infer.Invalid("shadow_percent", "cannot be %v, wanted 0 to 100", r.ShadowShare)
	}
	i := slices.IndexFunc(route.Shadows, func(k policy.ShadowConfig) bool { return k.Upstream+"/"+k.Model == r.Shadow })
	if i < 0 {
		return configEdit{}, infer.Invalid("shadow", "the route has no shadow %.128q", r.Shadow)
	}
	if len(tables) != len(route.Shadows) || tables[i]["upstream"] != route.Shadows[i].Upstream {
		return configEdit{}, infer.Errorf(infer.CodeConflict, "cannot change the shadows of route %q: the file is not what is served, reload it first", r.Name)
	}
	return configEdit{Path: fmt.Sprintf("%s.shadow[%d].share", at, i), Value: math.Round(r.ShadowShare*1e4) / 1e6}, nil
}

// shadowed notes the routes that send copies to the upstream.
func (r *upstreamRow) shadowed(routes []policy.RouteConfig) {
	for i := range routes {
		if !slices.ContainsFunc(routes[i].Shadows, func(s policy.ShadowConfig) bool { return s.Upstream == r.Name }) {
			continue
		}
		if !slices.Contains(r.Routes, routes[i].Model) {
			r.Routes = append(r.Routes, routes[i].Model)
			slices.Sort(r.Routes)
		}
		if r.State == "unused" {
			r.State = policy.ClassShadow
		}
	}
}
