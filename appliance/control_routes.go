package appliance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"hearth/appliance/config/edit"
	"hearth/appliance/upstream"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
	"hearth/web/admin"
)

type upstreamName struct {
	Name string `json:"name"`
}

type upstreamReset struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"` // empty: all at this upstream
}

// routeRow is one route: what serves it, and whether it can.
type routeRow struct {
	Name        string         `json:"name"`
	Aliases     []string       `json:"aliases"`
	Implied     bool           `json:"implied,omitempty"` // a local model that no [[route]] names
	Contract    string         `json:"contract"`
	Class       string         `json:"class,omitempty"`
	Effect      string         `json:"effect"`
	Split       string         `json:"split"`
	OnLoss      string         `json:"on_loss"`
	Deadline    time.Duration  `json:"deadline_ns"`
	Revision    string         `json:"revision"`
	Attempts    int            `json:"attempts"` // most of one request
	RetryOn     []string       `json:"retry_on"`
	Rules       []string       `json:"rules"`
	DataClasses []string       `json:"data_classes"`
	Regions     []string       `json:"regions"`
	Qualified   string         `json:"qualification"` // "off" or "enforce"
	State       string         `json:"state"`         // "up", "degraded" (a candidate is out), "down" (all are)
	Why         string         `json:"why,omitempty"` // why it is not up
	Waiting     int            `json:"waiting"`
	QueueDepth  int            `json:"queue_depth"`
	Candidates  []candidateRow `json:"candidates"`
	// Recent is what its requests came to, Losses the fields that translation lost
	// most often, over RecentSpan.
	Recent     spent         `json:"recent"`
	RecentSpan time.Duration `json:"recent_span_ns"`
	PerRequest int64         `json:"per_request_nano"`
	Losses     []lossCount   `json:"losses"`
	// Shadows get copies of its requests, whose answers are thrown away; Primary is
	// what those they are compared with took: the requests of the route itself.
	Shadows []shadowRow `json:"shadows"`
	Primary *compared   `json:"primary,omitempty"`
}

// candidateRow is one candidate of a route.
type candidateRow struct {
	Upstream      string        `json:"upstream"`
	Model         string        `json:"model"`
	Weight        int           `json:"weight"`
	Share         float64       `json:"share"` // of new requests while all are well, 0 to 1; -1: decided request by request
	MaxConcurrent int           `json:"max_concurrent"`
	QuotaDomain   string        `json:"quota_domain"`
	Priced        bool          `json:"priced"`
	Price         store.Price   `json:"price"`
	State         string        `json:"state"`
	For           time.Duration `json:"for_ns"`
	Open          int           `json:"open"`
	Eligible      bool          `json:"eligible"` // a request could go there now
	Why           string        `json:"why,omitempty"`
	// Evidence says of a route with qualification whether it may be asked at all.
	Evidence *qualified `json:"evidence,omitempty"`
}

type lossCount struct {
	Field string `json:"field"`
	Count int    `json:"count"`
}

// routeUpdate changes how a route chooses. What is left out stays as it is.
type routeUpdate struct {
	Name  string `json:"name"`
	Split string `json:"split,omitempty"`
	// Weights of candidates, "upstream/model"; the others keep theirs.
	Weights []candidateWeight `json:"weights,omitempty"`
	// Order names all candidates, "upstream/model", in the order to be.
	Order []string `json:"order,omitempty"`
	// Canary gives one candidate a share of new requests, in percent, 0.1 to 99.9:
	// the split becomes "weighted", and the others share the rest as before. With
	// split "ordered" that is the first of them; those that only stand by get the
	// least weight there is.
	Canary      string  `json:"canary,omitempty"` // "upstream/model"
	CanaryShare float64 `json:"canary_percent,omitempty"`
	OnLoss      string  `json:"on_loss,omitempty"`
	// Shadow gets copies of a share of requests, in percent, 0 to 100; 0 pauses it.
	Shadow      string  `json:"shadow,omitempty"` // "upstream/model"
	ShadowShare float64 `json:"shadow_percent,omitempty"`
	editGuard
}

type candidateWeight struct {
	Candidate string `json:"candidate"` // "upstream/model"
	Weight    int    `json:"weight"`    // 1 to 1000
}

var (
	opUpstreamList = operation[none, []upstreamRow]{
		name: "upstream/list", place: "GET /upstreams", access: admin.Read,
		summary: "upstreams: health, breaker, last failure, latency, fallbacks, and whether their credentials can be read",
		run:     listUpstreams,
	}
	opUpstreamProbe = operation[upstreamName, upstream.Probed]{
		name: "upstream/probe", place: "POST /upstreams/{name}/probe", access: admin.Operate,
		summary: "ask an upstream now whether it answers",
		subject: func(r upstreamName) string { return r.Name },
		detail:  func(_ upstreamName, p upstream.Probed) string { return probedText(&p) },
		run:     probeUpstream,
	}
	opUpstreamReset = operation[upstreamReset, none]{
		name: "upstream/reset", place: "POST /upstreams/{name}/reset", access: admin.Operate,
		summary: "close the breaker: take what was ejected back into use at once",
		subject: func(r upstreamReset) string { return r.Name + "/" + r.Model },
		run: func(_ context.Context, c *control, r upstreamReset) (none, error) {
			if c.server == nil {
				return none{}, errNoServer
			}
			if c.server.policy.Readmit(r.Name, r.Model) < 0 {
				return none{}, infer.Errorf(infer.CodeNotFound, "no route names an upstream %.64q", r.Name)
			}
			return none{}, nil
		},
	}
	opRouteList = operation[tenantQuery, []routeRow]{
		name: "route/list", place: "GET /routes", access: admin.ReadTenant,
		summary: "routes with their candidates, whether each can be asked and why not; of a tenant: the names that it may ask for",
		run:     listRoutes,
		tenant:  func(q *tenantQuery) *string { return &q.Tenant },
	}
	opRouteUpdate = operation[routeUpdate, applied]{
		name: "route/update", place: "POST /routes/{name}", access: admin.Operate,
		summary: "change split, weights, order, or the share of a canary or a shadow in the configuration",
		run:     updateRoute,
	}
)

func probedText(p *upstream.Probed) string {
	if p.OK {
		return fmt.Sprintf("answered with status %d", p.Status)
	}
	return p.Reason
}

func probeUpstream(ctx context.Context, c *control, r upstreamName) (upstream.Probed, error) {
	if c.server == nil {
		return upstream.Probed{}, errNoServer
	}
	if !slices.ContainsFunc(c.server.config().Upstreams, func(u policy.UpstreamConfig) bool { return u.Name == r.Name }) {
		return upstream.Probed{}, infer.Errorf(infer.CodeNotFound, "there is no upstream %.64q", r.Name)
	}
	up, release, err := c.server.upstreams.acquire(r.Name)
	if err != nil {
		return upstream.Probed{}, err
	}
	defer release()
	return up.Probe(ctx), nil
}

func listRoutes(ctx context.Context, c *control, q tenantQuery) ([]routeRow, error) {
	p, err := c.policyNow()
	if err != nil {
		return nil, err
	}
	recent, err := c.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	out := []routeRow{}
	for _, st := range p.Routes() {
		if q.Tenant != "" {
			// What serves it is not the tenant's to know.
			if p.MayUse(q.Tenant, st.Route.Name) {
				out = append(out, routeRow{Name: st.Route.Name, Aliases: append([]string{}, st.Aliases...), Contract: st.Route.Contract,
					RetryOn: []string{}, Rules: []string{}, DataClasses: []string{}, Regions: []string{}, Candidates: []candidateRow{}, Losses: []lossCount{}, Shadows: []shadowRow{}})
			}
			continue
		}
		row := routeOf(&st)
		row.candidates(ctx, c, &st)
		row.RecentSpan = recent.span
		if s := recent.routes[row.Name]; s != nil {
			row.Recent, row.PerRequest = *s, s.perRequest()
		}
		row.Losses = mostLost(recent.losses[row.Name])
		row.shadows(c, &st, recent)
		out = append(out, row)
	}
	return out, nil
}

// routeOf is what the configuration says of a route.
func routeOf(st *policy.RouteState) routeRow {
	r := st.Route
	list := func(l []string) []string { return append([]string{}, l...) }
	row := routeRow{Name: r.Name, Aliases: list(st.Aliases), Contract: r.Contract, Class: r.Class, Deadline: r.Deadline, Revision: r.Revision, Waiting: st.Waiting,
		Effect: policy.ReadOnly, Split: policy.SplitOrdered, OnLoss: "reject", Attempts: 1, RetryOn: []string{}, Rules: []string{}, DataClasses: []string{},
		Regions: []string{}, Candidates: []candidateRow{}, Losses: []lossCount{}, Shadows: []shadowRow{}, Implied: r.Config == nil, Qualified: "off"}
	if k := r.Config; k != nil {
		row.Effect, row.Split, row.OnLoss, row.Attempts, row.RetryOn = k.Effect, k.Split, k.OnLoss, k.Retry.Attempts, list(k.Retry.On)
		row.Rules, row.DataClasses, row.Regions, row.QueueDepth = list(k.Rules), list(k.DataClasses), list(k.Regions), k.Queue.Depth
		row.Qualified = k.Qualification
	}
	return row
}

// candidates fills in who serves the route, and from that its state.
func (r *routeRow) candidates(ctx context.Context, c *control, st *policy.RouteState) {
	sum, eligible := 0, 0
	for i := range st.Route.Candidates {
		sum += st.Route.Candidates[i].Weight
	}
	for i := range st.Route.Candidates {
		k, s := &st.Route.Candidates[i], &st.Candidates[i]
		row := candidateRow{Upstream: k.Backend, Model: k.Model, Weight: k.Weight, MaxConcurrent: k.MaxConcurrent, QuotaDomain: k.QuotaDomain,
			Priced: k.Priced, Price: k.Price, State: s.State, For: s.For, Open: s.Outstanding, Eligible: true}
		switch {
		case r.Split == policy.SplitWeighted:
			row.Share = float64(k.Weight) / float64(sum)
		case r.Split == policy.SplitOrdered && i == 0:
			row.Share = 1
		case r.Split != policy.SplitOrdered && len(st.Route.Candidates) > 1:
			row.Share = -1
		case r.Split != policy.SplitOrdered:
			row.Share = 1
		}
		row.Why = c.whyNot(k, s)
		if r.Qualified == policy.QualificationEnforce {
			q := c.qualify(ctx, st.Route.Contract, k)
			if row.Evidence = &q; !q.OK {
				row.Why = q.Why
			}
		}
		if row.Eligible = row.Why == ""; row.Eligible {
			eligible++
		} else if r.Why == "" {
			r.Why = k.Backend + "/" + k.Model + ": " + row.Why
		}
		r.Candidates = append(r.Candidates, row)
	}
	switch {
	case eligible == len(r.Candidates):
		r.State, r.Why = "up", ""
	case eligible > 0:
		r.State = "degraded"
	default:
		r.State = "down"
	}
}

// whyNot says why no request can go to a candidate now; empty: one can.
func (c *control) whyNot(k *policy.Candidate, s *policy.CandidateState) string {
	switch s.State {
	case policy.Ejected:
		return "it is out of service after repeated failures, for " + s.For.Round(time.Second).String()
	case policy.Blocked:
		return "its provider asked to be left alone, for " + s.For.Round(time.Second).String()
	}
	if s.Full {
		return "it has as many requests as it may"
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

// mostLost lists the fields that were lost most often.
func mostLost(m map[string]int) []lossCount {
	out := []lossCount{}
	for f, n := range m {
		out = append(out, lossCount{f, n})
	}
	slices.SortFunc(out, func(a, b lossCount) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		if a.Field < b.Field {
			return -1
		}
		return 1
	})
	return out[:min(len(out), 20)]
}

// updateRoute edits the table of a route.
func updateRoute(ctx context.Context, c *control, r routeUpdate) (applied, error) {
	conf, err := c.config()
	if err != nil {
		return applied{}, err
	}
	i := slices.IndexFunc(conf.Routes, func(k policy.RouteConfig) bool { return k.Model == r.Name })
	if i < 0 {
		return applied{}, infer.Errorf(infer.CodeNotFound, "the configuration has no route %.64q", r.Name)
	}
	route := conf.Routes[i]
	route.Candidates = slices.Clone(route.Candidates)
	at, table, err := c.routeTable(r.Name)
	if err != nil {
		return applied{}, err
	}
	tables := tablesOf(table["candidate"])
	if len(tables) != len(route.Candidates) && len(r.Weights)+len(r.Order) > 0 || len(tables) != len(route.Candidates) && r.Canary != "" {
		return applied{}, infer.Errorf(infer.CodeConflict, "cannot change the candidates of route %q: the file is not what is served, reload it first", r.Name)
	}
	edits, err := r.edits(at, &route, tables)
	if err != nil {
		return applied{}, err
	}
	if r.Shadow != "" {
		e, err := r.shadowEdit(at, &route, tablesOf(table["shadow"]))
		if err != nil {
			return applied{}, err
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return applied{}, infer.Invalid("weights", "there is nothing to change")
	}
	return setConfig(ctx, c, configSet{Changes: edits, IfMatch: r.IfMatch, Note: r.Note, DryRun: r.DryRun})
}

// routeTable finds the table of a route in the file.
func (c *control) routeTable(name string) (path string, table map[string]any, err error) {
	text, err := c.current()
	if err != nil {
		return "", nil, err
	}
	d, err := edit.Parse(text)
	if err != nil {
		return "", nil, infer.Errorf(infer.CodeConflict, "cannot change keys of a file that is no TOML now: %v", err)
	}
	v, _ := d.Get(edit.Path{edit.Key("route")})
	for i, t := range tablesOf(v) {
		if t["model"] == name {
			return fmt.Sprintf("route[%d]", i), t, nil
		}
	}
	return "", nil, infer.Errorf(infer.CodeNotFound, "the file has no route %.64q", name)
}

// tablesOf is an array of tables, however it was decoded.
func tablesOf(v any) []map[string]any {
	switch l := v.(type) {
	case []map[string]any:
		return l
	case []any:
		var out []map[string]any
		for _, e := range l {
			t, _ := e.(map[string]any)
			out = append(out, t)
		}
		return out
	}
	return nil
}

func (r *routeUpdate) edits(at string, route *policy.RouteConfig, tables []map[string]any) ([]configEdit, error) {
	var edits []configEdit
	find := func(field, name string) (int, error) {
		i := slices.IndexFunc(route.Candidates, func(k policy.CandidateConfig) bool { return k.Upstream+"/"+k.Model == name })
		if i < 0 {
			return 0, infer.Invalid(field, "the route has no candidate %.128q", name)
		}
		return i, nil
	}
	weights := map[int]int{}
	for n, w := range r.Weights {
		i, err := find(fmt.Sprintf("weights[%d].candidate", n), w.Candidate)
		if err != nil {
			return nil, err
		}
		weights[i] = w.Weight
	}
	if r.Canary != "" {
		i, err := find("canary", r.Canary)
		if err != nil {
			return nil, err
		}
		if weights, err = r.canary(route, i); err != nil {
			return nil, err
		}
		r.Split = policy.SplitWeighted
	}
	if r.Split != "" {
		edits = append(edits, configEdit{Path: at + ".split", Value: r.Split})
	}
	if r.OnLoss != "" {
		edits = append(edits, configEdit{Path: at + ".on_loss", Value: r.OnLoss})
	}
	for i := range route.Candidates {
		if w, ok := weights[i]; ok {
			edits = append(edits, configEdit{Path: fmt.Sprintf("%s.candidate[%d].weight", at, i), Value: int64(w)})
			tables[i]["weight"] = int64(w)
		}
	}
	if len(r.Order) == 0 {
		return edits, nil
	}
	if len(r.Order) != len(route.Candidates) {
		return nil, infer.Invalid("order", "names %d candidates, wanted all %d", len(r.Order), len(route.Candidates))
	}
	var order []int
	for n, name := range r.Order {
		i, err := find(fmt.Sprintf("order[%d]", n), name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(order, i) {
			return nil, infer.Invalid(fmt.Sprintf("order[%d]", n), "names %.128q twice", name)
		}
		order = append(order, i)
	}
	if slices.IsSorted(order) {
		return edits, nil
	}
	// Tables cannot change places: they are written anew, comments within go.
	edits = append(edits, configEdit{Path: at + ".candidate", Delete: true})
	for _, i := range order {
		edits = append(edits, configEdit{Path: at + ".candidate", Append: true, Value: tables[i]})
	}
	return edits, nil
}

// canary gives one candidate its share, in parts of a thousand, the others the
// rest by the weights they have.
func (r *routeUpdate) canary(route *policy.RouteConfig, at int) (map[int]int, error) {
	if !(r.CanaryShare >= 0.1 && r.CanaryShare <= 99.9) {
		return nil, infer.Invalid("canary_percent", "cannot be %v, wanted 0.1 to 99.9", r.CanaryShare)
	}
	if len(route.Candidates) < 2 {
		return nil, infer.Invalid("canary", "is the only candidate of the route")
	}
	share := int(math.Round(r.CanaryShare * 10))
	sum, first := 0, -1
	for i, k := range route.Candidates {
		if i == at {
			continue
		}
		if sum += k.Weight; first < 0 {
			first = i
		}
	}
	weights := map[int]int{at: share}
	for i, k := range route.Candidates {
		switch {
		case i == at:
		case route.Split == policy.SplitOrdered && i == first:
			weights[i] = max(1, 1000-share-(len(route.Candidates)-2))
		case route.Split == policy.SplitOrdered:
			weights[i] = 1
		default:
			weights[i] = max(1, int(math.Round(float64(k.Weight)*float64(1000-share)/float64(sum))))
		}
	}
	return weights, nil
}
