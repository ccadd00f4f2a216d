package appliance

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"hearth/store"
)

// shadowMetrics count copies, apart from requests: no copy is in the metrics of
// latency, tokens and requests. What copies cost is in hearth_spend_usd_total of
// the tenant that is charged.
type shadowMetrics struct {
	runs, dropped, tokens, finished, spend *prometheus.CounterVec
	took, ttft                             *prometheus.HistogramVec
	tenants                                *tenantNames
	spent                                  *prometheus.CounterVec
}

var shadowLabelNames = []string{"route", "upstream", "model_name"}

func shadowAnd(more ...string) []string {
	return append(append([]string{}, shadowLabelNames...), more...)
}

func newShadowMetrics(t *telemetry, count func(name, help string, labels ...string) *prometheus.CounterVec,
	hist func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec) *shadowMetrics {
	return &shadowMetrics{
		runs:     count("hearth_shadow_requests_total", "Copies of a route's requests by outcome, as in the ledger.", shadowAnd("outcome")...),
		dropped:  count("hearth_shadow_dropped_total", "Copies that were to be made and were not, by reason.", shadowAnd("reason")...),
		tokens:   count("hearth_shadow_tokens_total", "Tokens of copies by kind: input, output.", shadowAnd("kind")...),
		finished: count("hearth_shadow_finished_total", "Copies that were answered whole, by finish reason.", shadowAnd("finished_reason")...),
		spend:    count("hearth_shadow_spend_usd_total", "Charges for copies in US dollars.", shadowLabelNames...),
		took:     hist("hearth_shadow_latency_seconds", "Time from the start of a copy to its end, of those answered whole.", requestBuckets, shadowLabelNames...),
		ttft:     hist("hearth_shadow_time_to_first_token_seconds", "Time from the start of a copy to its first token.", ttftBuckets, shadowLabelNames...),
		tenants:  t.tenants, spent: t.spend,
	}
}

// ended notes a copy that was made.
func (m *shadowMetrics) ended(r *shadowRun, row *store.Row) {
	n := shadowNameOf(r.shadow)
	with := func(v *prometheus.CounterVec, more ...string) prometheus.Counter {
		return v.WithLabelValues(append([]string{n.route, n.upstream, n.model}, more...)...)
	}
	with(m.runs, string(row.Outcome)).Inc()
	usd := float64(row.ChargeNano) / 1e9
	with(m.spend).Add(usd)
	m.spent.WithLabelValues(m.tenants.label(r.shadow.Tenant)).Add(usd)
	u := r.got.total()
	with(m.tokens, "input").Add(float64(max(0, u.PromptTokens)))
	with(m.tokens, "output").Add(float64(max(0, u.CompletionTokens)))
	if !r.first.IsZero() {
		m.ttft.WithLabelValues(n.route, n.upstream, n.model).Observe(r.first.Sub(r.began).Seconds())
	}
	if row.Outcome != store.OutcomeComplete {
		return
	}
	m.took.WithLabelValues(n.route, n.upstream, n.model).Observe(r.a.now().Sub(r.began).Seconds())
	for f := range strings.SplitSeq(row.Finish, ",") {
		if f != "" {
			with(m.finished, f).Inc()
		}
	}
}
