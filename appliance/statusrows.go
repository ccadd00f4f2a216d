package appliance

import (
	"context"
	"slices"

	"hearth/appliance/config"
	"hearth/policy"
	"hearth/store"
	"hearth/web"
)

// recentRows is how many rows of the ledger the status page shows.
const recentRows = 12

// upstreamStates tells how the deployments of the configured upstreams are, and
// lists the upstreams that no route names. The engine in this box is told by its
// models, unless a route puts it beside others.
func upstreamStates(c *config.Config, health []policy.CandidateHealth) []web.UpstreamStatus {
	var out []web.UpstreamStatus
	for i := range health {
		h := &health[i]
		if h.Upstream == policy.Local && slices.Equal(h.Routes, []string{h.Model}) {
			continue
		}
		out = append(out, web.UpstreamStatus{
			Name: h.Upstream, Model: h.Model, Routes: h.Routes, State: h.State, For: h.For, Open: h.Outstanding, Waiting: h.Waiting,
			Failures: h.Failures, LastFailure: string(h.LastFailure), Succeeded: h.Successes, Failed: h.Failed, Fallbacks: h.Fallbacks, Retries: h.Retries,
		})
	}
	for i := range c.Upstreams {
		name := c.Upstreams[i].Name
		if !slices.ContainsFunc(out, func(u web.UpstreamStatus) bool { return u.Name == name }) {
			out = append(out, web.UpstreamStatus{Name: name, State: "unused"})
		}
	}
	return out
}

// recent gives the newest rows of the ledger.
func (a *Appliance) recent(ctx context.Context) []web.RecentRequest {
	page, err := a.store.List(ctx, store.Filter{Limit: recentRows})
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("cannot read the ledger for the status page", "error", err)
		}
		return nil
	}
	out := make([]web.RecentRequest, len(page.Rows))
	for i := range page.Rows {
		r := &page.Rows[i]
		out[i] = web.RecentRequest{
			ID: r.RequestID, Started: r.Started, Tenant: r.Tenant, Model: r.Model, Upstream: r.Backend, Attempts: len(r.Attempts),
			Outcome: string(r.Outcome), Error: r.ErrorCode, Losses: r.Losses, ChargeNano: r.ChargeNano,
		}
	}
	return out
}
