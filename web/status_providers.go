package web

import (
	"slices"
	"strings"
	"time"
)

// upstreamView is a deployment at a provider as the page shows it.
type upstreamView struct {
	Name      string `json:"name"`
	Model     string `json:"model"`
	Routes    string `json:"routes"`
	State     string `json:"state"` // in words
	Good      bool   `json:"good"`
	Open      int    `json:"open"`
	Waiting   int    `json:"waiting"`
	Failures  int    `json:"failures"` // in a row
	Last      string `json:"last_failure"`
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	Fallbacks uint64 `json:"fallbacks"`
	Retries   uint64 `json:"retries"`
}

// recentView is a row of the ledger as the page shows it.
type recentView struct {
	ID       string `json:"id"`
	Started  string `json:"started"` // RFC 3339
	Clock    string `json:"clock"`   // the time of day, UTC
	Tenant   string `json:"tenant"`
	Model    string `json:"model"`
	Upstream string `json:"upstream"`
	Attempts int    `json:"attempts"`
	Outcome  string `json:"outcome"`
	Error    string `json:"error"`
	Good     bool   `json:"good"`
	Lost     string `json:"lost"`
	Charge   int64  `json:"charge_nano"`
}

// addProviders fills in what operators see of providers and of the last
// requests, and lets the chat ask for their routes.
func (v *statusView) addProviders(st *Status) {
	for i := range st.Upstreams {
		u := &st.Upstreams[i]
		for _, r := range u.Routes {
			if !slices.Contains(v.Choices, r) {
				v.Choices = append(v.Choices, r)
			}
		}
		v.Upstreams = append(v.Upstreams, upstreamView{
			Name: u.Name, Model: u.Model, Routes: strings.Join(u.Routes, ", "), State: stateText(u), Good: u.State == "healthy", Open: u.Open, Waiting: u.Waiting,
			Failures: u.Failures, Last: u.LastFailure, Succeeded: u.Succeeded, Failed: u.Failed, Fallbacks: u.Fallbacks, Retries: u.Retries,
		})
	}
	for i := range st.Recent {
		r := &st.Recent[i]
		started := r.Started.UTC()
		v.Recent = append(v.Recent, recentView{
			ID: r.ID, Started: started.Format(time.RFC3339), Clock: started.Format(time.TimeOnly), Tenant: r.Tenant, Model: r.Model, Upstream: r.Upstream,
			Attempts: r.Attempts, Outcome: r.Outcome, Error: r.Error, Good: r.Error == "", Lost: strings.Join(r.Losses, ", "), Charge: r.ChargeNano,
		})
	}
}

// stateText tells the state of a deployment and how long it lasts.
func stateText(u *UpstreamStatus) string {
	var text string
	switch u.State {
	case "ejected":
		text = "out of service"
	case "blocked":
		text = "asked to wait"
	case "half-open":
		return "on trial"
	case "unused":
		return "no route names it"
	default:
		return u.State
	}
	if u.For > 0 {
		text += ", " + clockText(int64((u.For+time.Second-1)/time.Second))
	}
	return text
}
