package appliance

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// Bucket edges are vLLM's, so that quantiles of its dashboards compare.
var (
	ttftBuckets      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	perTokenBuckets  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokenBuckets     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000}
	costBuckets      = []float64{0.000001, 0.00001, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
	httpBuckets      = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600}
	servedLabelNames = []string{"model_name", "engine", "device"}
)

// servedLabels are the labels of a local model. engine is the number of the
// engine behind a name, as vLLM counts them: ours has one.
type servedLabels struct{ model, device string }

func (l servedLabels) values(more ...string) []string {
	return append([]string{l.model, "0", l.device}, more...)
}

// servedMetrics are those of one set of labels, found once.
type servedMetrics struct {
	labels                   servedLabels
	ttft, itl, tpot, e2e     prometheus.Observer
	queue, prefill, decode   prometheus.Observer
	inference                prometheus.Observer
	promptTokens, outputSize prometheus.Observer
	cost                     prometheus.Observer
	tokens                   [len(tokenKinds)]prometheus.Counter
}

// tokenKinds are the disjoint kinds that hearth_tokens_total counts by.
var tokenKinds = [...]string{"input", "cached", "cache_write", "output"}

// servedBy finds the metrics of what a candidate is.
func (t *telemetry) servedBy(l servedLabels) *servedMetrics {
	t.mu.RLock()
	s := t.served[l]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	v := l.values()
	s = &servedMetrics{l, t.ttft.WithLabelValues(v...), t.itl.WithLabelValues(v...), t.tpot.WithLabelValues(v...), t.e2e.WithLabelValues(v...),
		t.queue.WithLabelValues(v...), t.prefill.WithLabelValues(v...), t.decode.WithLabelValues(v...), t.inference.WithLabelValues(v...),
		t.promptHist.WithLabelValues(v...), t.genHist.WithLabelValues(v...), t.cost.WithLabelValues(v...), [len(tokenKinds)]prometheus.Counter{}}
	for i, kind := range tokenKinds {
		s.tokens[i] = t.tokens.WithLabelValues(l.values(kind)...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.served[l] = s
	return s
}

// telemetry holds every metric. Other parts do not know the library: they are
// asked for their Stats at each scrape.
type telemetry struct {
	registry *prometheus.Registry

	ttft, itl, tpot, e2e              *prometheus.HistogramVec
	queue, prefill, decode, inference *prometheus.HistogramVec
	promptHist, genHist, cost         *prometheus.HistogramVec
	success                           *prometheus.CounterVec
	calls, tokens                     *prometheus.CounterVec
	spend                             *prometheus.CounterVec
	refusals, denials                 *prometheus.CounterVec
	losses, decisions                 *prometheus.CounterVec
	attempts, fallbacks               *prometheus.CounterVec
	exchanges                         *prometheus.CounterVec
	exchangeTime                      *prometheus.HistogramVec
	bytes                             *prometheus.CounterVec
	open                              prometheus.Gauge
	tenants                           *tenantNames
	shadows                           *shadowMetrics
	latency                           latencyClasses
	sums                              sums
	reasons                           reasons
	cpu                               *cpuReader
	digest                            atomic.Pointer[configDigest]

	pushed []metricInfo

	mu     sync.RWMutex // guards below
	served map[servedLabels]*servedMetrics
}

func newTelemetry(tenants int) *telemetry {
	t := &telemetry{registry: prometheus.NewRegistry(), tenants: newTenantNames(tenants), served: map[servedLabels]*servedMetrics{}, cpu: newCPUReader()}
	note := func(name, kind, help string, labels ...string) {
		t.pushed = append(t.pushed, metricInfo{name, kind, help, labels})
	}
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		note(name, "histogram", help, labels...)
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		t.registry.MustRegister(h)
		return h
	}
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		note(name, "counter", help, labels...)
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		t.registry.MustRegister(c)
		return c
	}
	t.ttft = hist("vllm:time_to_first_token_seconds", "Time from the admission of a request to its first token.", ttftBuckets, servedLabelNames...)
	t.itl = hist("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", perTokenBuckets, servedLabelNames...)
	t.tpot = hist("vllm:time_per_output_token_seconds", "Time per token after the first, mean over a request.", perTokenBuckets, servedLabelNames...)
	t.e2e = hist("vllm:e2e_request_latency_seconds", "Time from the admission of a request to its end.", requestBuckets, servedLabelNames...)
	t.promptHist = hist("vllm:request_prompt_tokens", "Prompt tokens of a request.", tokenBuckets, servedLabelNames...)
	t.genHist = hist("vllm:request_generation_tokens", "Generated tokens of a request.", tokenBuckets, servedLabelNames...)
	t.queue = hist("vllm:request_queue_time_seconds", "Time that a request waited for a candidate and for its first step there.", requestBuckets, servedLabelNames...)
	t.prefill = hist("vllm:request_prefill_time_seconds", "Time from the first step of a request, or its sending to a provider, to its first token.", requestBuckets, servedLabelNames...)
	t.decode = hist("vllm:request_decode_time_seconds", "Time from the first token of a request to its last.", requestBuckets, servedLabelNames...)
	t.inference = hist("vllm:request_inference_time_seconds", "Time from the first step of a request, or its sending to a provider, to its last token.", requestBuckets, servedLabelNames...)
	t.cost = hist("hearth_request_cost_usd", "Charge for a request in US dollars.", costBuckets, servedLabelNames...)
	t.success = count("vllm:request_success_total", "Finished requests by finish reason.", servedAnd("finished_reason")...)
	t.calls = count("hearth_requests_total", "Requests by outcome, as in the ledger.", "model_name", "tenant", "outcome", "code")
	t.tokens = count("hearth_tokens_total", "Tokens that were charged for, by kind: input, cached, cache_write, output.", servedAnd("kind")...)
	t.spend = count("hearth_spend_usd_total", "Charges in US dollars.", "tenant")
	t.refusals = count("hearth_refused_total", "Requests turned away before their body was read, by reason.", "reason")
	t.denials = count("hearth_denied_total", "Requests turned away, by reason: the code of the error.", "reason")
	t.losses = count("hearth_losses_total", "Fields of requests that their target has no counterpart for, by class of the loss.", "class")
	t.decisions = count("hearth_rule_decisions_total", "What rules did to requests and answers.", "rule", "action", "on")
	t.attempts = count("hearth_attempts_total", "Attempts at a candidate by outcome and, where a provider failed, the class of its failure.", "upstream", "model_name", "outcome", "failure")
	t.fallbacks = count("hearth_repeated_requests_total", "Requests that took more than one attempt, by their outcome.", "outcome")
	t.exchanges = count("hearth_http_requests_total", "HTTP exchanges.", "route", "method", "status")
	t.exchangeTime = hist("hearth_http_request_duration_seconds", "Duration of HTTP exchanges.", httpBuckets, "route")
	t.bytes = count("hearth_http_bytes_total", "Bytes of HTTP bodies.", "direction")
	t.shadows = newShadowMetrics(t, count, hist)
	t.open = prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearth_requests_open", Help: "Requests being served."})
	note("hearth_requests_open", "gauge", "Requests being served.")
	b := readBuild()
	note("hearth_build_info", "gauge", "What this binary is.", slices.Sorted(maps.Keys(b.labels()))...)
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearth_build_info", Help: "What this binary is.", ConstLabels: b.labels()})
	build.Set(1)
	t.registry.MustRegister(t.open, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return t
}

// handler serves the text exposition.
func (t *telemetry) handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

func (t *telemetry) callBegins() { t.open.Inc() }

func (t *telemetry) firstToken(c *call, after time.Duration) {
	c.target.served.ttft.Observe(after.Seconds())
}

// nextTokens notes that n tokens came after a pause.
func (t *telemetry) nextTokens(s *servedMetrics, pause time.Duration, n int) {
	for range n {
		s.itl.Observe(pause.Seconds() / float64(n))
	}
}

// callEnds notes how a request ended.
func (t *telemetry) callEnds(c *call, row *store.Row) {
	t.open.Dec()
	code := ""
	if c.err != nil {
		code = string(c.err.Code)
	}
	tenant := t.tenants.label(c.grant.Tenant)
	model := "none" // a name that does not exist must not become a label
	if c.target != nil {
		model = c.target.model
	}
	t.calls.WithLabelValues(model, tenant, string(c.outcome), code).Inc()
	t.spend.WithLabelValues(tenant).Add(float64(row.ChargeNano) / 1e9)
	t.sums.call(c, row)
	if c.outcome == store.OutcomeRefused {
		t.deny(c.err.Code)
	}
	t.callDecided(c)
	if c.target == nil {
		return
	}
	if c.repeated() && c.outcome != store.OutcomeCancelled {
		t.fallbacks.WithLabelValues(string(c.outcome)).Inc()
	}
	t.callServed(c, row)
}

// callDecided notes what rules did and what translation lost.
func (t *telemetry) callDecided(c *call) {
	for _, d := range c.decisions {
		t.decisions.WithLabelValues(d.Rule, d.Action, d.On).Inc()
	}
	for _, d := range c.filter.Decisions() {
		t.decisions.WithLabelValues(d.Rule, d.Action, d.On).Inc()
	}
	for i := range c.grant.Losses {
		t.losses.WithLabelValues(string(c.grant.Losses[i].Class)).Inc()
	}
}

// callServed notes times, tokens and cost of a request that was sent somewhere.
func (t *telemetry) callServed(c *call, row *store.Row) {
	now, by, use, in := c.a.now(), c.target.served, c.stream.total(), t.latency.of(c.path.Class)
	all := &t.latency.all
	if row.HoldSeq > 0 {
		by.cost.Observe(float64(row.ChargeNano) / 1e9)
		u := &row.Usage
		for i, n := range [...]int64{u.FreshInput, u.CachedInput, u.CacheWrite + u.CacheWriteHour, u.Output} {
			if n > 0 {
				by.tokens[i].Add(float64(n))
			}
		}
	}
	if !c.first.IsZero() {
		ttft := c.first.Sub(c.grant.Started)
		in.ttft.add(now, ttft)
		all.ttft.add(now, ttft)
	}
	if n := c.stream.tokens; n > 1 {
		per := c.last.Sub(c.first) / time.Duration(n-1)
		by.tpot.Observe(per.Seconds())
		in.tpot.add(now, per)
		all.tpot.add(now, per)
	}
	if c.outcome != store.OutcomeComplete {
		return
	}
	took := now.Sub(c.grant.Started)
	by.e2e.Observe(took.Seconds())
	in.e2e.add(now, took)
	all.e2e.add(now, took)
	by.promptTokens.Observe(float64(use.PromptTokens))
	by.outputSize.Observe(float64(use.CompletionTokens))
	for _, f := range c.stream.finish {
		t.success.WithLabelValues(by.labels.values(string(f))...).Inc()
	}
	if p := c.phases(); p.decode >= 0 && !c.first.IsZero() {
		by.queue.Observe(p.queue.Seconds())
		by.prefill.Observe(p.prefill.Seconds())
		by.decode.Observe(p.decode.Seconds())
		by.inference.Observe((p.prefill + p.decode).Seconds())
	}
}

// attempt notes how one attempt ended.
func (t *telemetry) attempt(at *store.Attempt, failure infer.FailureClass) {
	t.attempts.WithLabelValues(at.Backend, at.Model, string(at.Outcome), string(failure)).Inc()
}

// denied notes a refusal before the body was read.
func (t *telemetry) denied(code infer.Code) {
	t.refusals.WithLabelValues(string(code)).Inc()
	t.sums.refused.Add(1)
	t.deny(code)
}

// deny counts a refusal by its reason.
func (t *telemetry) deny(code infer.Code) {
	t.denials.WithLabelValues(string(code)).Inc()
	t.reasons.add(string(code))
}

// exchange notes a finished HTTP exchange.
func (t *telemetry) exchange(x web.Exchange) {
	t.exchanges.WithLabelValues(x.Route, x.Method, strconv.Itoa(x.Status)).Inc()
	t.exchangeTime.WithLabelValues(x.Route).Observe(x.Duration.Seconds())
	t.bytes.WithLabelValues("in").Add(float64(max(0, x.BytesIn)))
	t.bytes.WithLabelValues("out").Add(float64(max(0, x.BytesOut)))
}

// metricsHandler serves /metrics while the configuration says so.
func (a *Appliance) metricsHandler() http.Handler {
	h := a.telemetry.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.config().Telemetry.Metrics {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
