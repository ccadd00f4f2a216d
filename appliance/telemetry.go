package appliance

import (
	"net/http"
	"strconv"
	"sync"
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
	promptTokens, outputSize prometheus.Observer
}

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
		t.promptHist.WithLabelValues(v...), t.genHist.WithLabelValues(v...)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.served[l] = s
	return s
}

// telemetry holds every metric. Other parts do not know the library: they are
// asked for their Stats at each scrape.
type telemetry struct {
	registry *prometheus.Registry

	ttft, itl, tpot, e2e     *prometheus.HistogramVec
	promptHist, genHist      *prometheus.HistogramVec
	success                  *prometheus.CounterVec
	calls                    *prometheus.CounterVec
	spend                    *prometheus.CounterVec
	refusals                 *prometheus.CounterVec
	attempts, fallbacks      *prometheus.CounterVec
	exchanges                *prometheus.CounterVec
	exchangeTime             *prometheus.HistogramVec
	bytes                    *prometheus.CounterVec
	open                     prometheus.Gauge
	tenants                  *tenantNames
	ttftRing, tpotRing, ring latencyRing

	mu     sync.RWMutex // guards below
	served map[servedLabels]*servedMetrics
}

func newTelemetry(tenants int) *telemetry {
	t := &telemetry{registry: prometheus.NewRegistry(), tenants: newTenantNames(tenants), served: map[servedLabels]*servedMetrics{}}
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		t.registry.MustRegister(h)
		return h
	}
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
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
	t.success = count("vllm:request_success_total", "Finished requests by finish reason.", append(servedLabelNames, "finished_reason")...)
	t.calls = count("hearth_requests_total", "Requests by outcome, as in the ledger.", "model_name", "tenant", "outcome", "code")
	t.spend = count("hearth_spend_usd_total", "Charges in US dollars.", "tenant")
	t.refusals = count("hearth_refused_total", "Requests turned away before their body was read, by reason.", "reason")
	t.attempts = count("hearth_attempts_total", "Attempts at a candidate by outcome and, where a provider failed, the class of its failure.", "upstream", "model_name", "outcome", "failure")
	t.fallbacks = count("hearth_repeated_requests_total", "Requests that took more than one attempt, by their outcome.", "outcome")
	t.exchanges = count("hearth_http_requests_total", "HTTP exchanges.", "route", "method", "status")
	t.exchangeTime = hist("hearth_http_request_duration_seconds", "Duration of HTTP exchanges.", httpBuckets, "route")
	t.bytes = count("hearth_http_bytes_total", "Bytes of HTTP bodies.", "direction")
	t.open = prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearth_requests_open", Help: "Requests being served."})
	b := readBuild()
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

func (t *telemetry) firstToken(s *servedMetrics, after time.Duration) {
	s.ttft.Observe(after.Seconds())
	t.ttftRing.add(time.Now(), after)
}

// nextTokens notes that n tokens came after a pause.
func (t *telemetry) nextTokens(s *servedMetrics, pause time.Duration, n int) {
	for range n {
		s.itl.Observe(pause.Seconds() / float64(n))
	}
}

// callEnds notes how a request ended.
func (t *telemetry) callEnds(c *call, row store.Row) {
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
	if c.target == nil {
		return
	}
	if len(c.tries) > 0 && c.outcome != store.OutcomeCancelled { // others were asked before
		t.fallbacks.WithLabelValues(string(c.outcome)).Inc()
	}
	now, by, use := c.a.now(), c.target.served, c.stream.total()
	if c.outcome == store.OutcomeComplete {
		took := now.Sub(c.grant.Started)
		by.e2e.Observe(took.Seconds())
		t.ring.add(now, took)
		by.promptTokens.Observe(float64(use.PromptTokens))
		by.outputSize.Observe(float64(use.CompletionTokens))
		for _, f := range c.stream.finish {
			t.success.WithLabelValues(by.labels.values(string(f))...).Inc()
		}
	}
	if n := c.stream.tokens; n > 1 {
		per := c.last.Sub(c.first) / time.Duration(n-1)
		by.tpot.Observe(per.Seconds())
		t.tpotRing.add(now, per)
	}
}

// attempt notes how one attempt ended.
func (t *telemetry) attempt(at *store.Attempt, failure infer.FailureClass) {
	t.attempts.WithLabelValues(at.Backend, at.Model, string(at.Outcome), string(failure)).Inc()
}

// denied notes a refusal before the body was read.
func (t *telemetry) denied(code infer.Code) { t.refusals.WithLabelValues(string(code)).Inc() }

// exchange notes a finished HTTP exchange.
func (t *telemetry) exchange(x web.Exchange) {
	t.exchanges.WithLabelValues(x.Route, x.Method, strconv.Itoa(x.Status)).Inc()
	t.exchangeTime.WithLabelValues(x.Route).Observe(x.Duration.Seconds())
	t.bytes.WithLabelValues("in").Add(float64(max(0, x.BytesIn)))
	t.bytes.WithLabelValues("out").Add(float64(max(0, x.BytesOut)))
}

// latencies are the distributions of the last five minutes.
func (t *telemetry) latencies(now time.Time) []latencySummary {
	return []latencySummary{
		t.ttftRing.summary("ttft", now), t.tpotRing.summary("tpot", now), t.ring.summary("e2e", now),
	}
}
