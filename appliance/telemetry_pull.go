package appliance

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/engine/worker/report"
	"hearth/policy"
)

// tenantNames bounds the tenants that get a label of their own: the first so
// many that are seen, the rest is "other".
type tenantNames struct {
	mu   sync.RWMutex // guards below
	most int
	seen map[string]bool
}

func newTenantNames(most int) *tenantNames { return &tenantNames{most: most, seen: map[string]bool{}} }

func (n *tenantNames) label(tenant string) string {
	n.mu.RLock()
	known := n.seen[tenant]
	n.mu.RUnlock()
	if known {
		return tenant
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[tenant] {
		if len(n.seen) >= n.most {
			return "other"
		}
		n.seen[tenant] = true
	}
	return tenant
}

// allow changes the bound. Labels that exist stay: a counter does not go back.
func (n *tenantNames) allow(most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.most = most
}

// puller turns the Stats of the other parts into metrics at each scrape.
type puller struct {
	a    *Appliance
	desc map[string]*prometheus.Desc
}

// pulledMetric is a metric of the puller.
type pulledMetric struct {
	name, help string
	labels     []string
}

// pulled lists the metrics of the puller; those of devices stand with them.
var pulled = []pulledMetric{
	{"vllm:num_requests_running", "Sequences in the running batch.", servedLabelNames},
	{"vllm:num_requests_waiting", "Requests that wait to run.", servedLabelNames},
	{"vllm:kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1.", servedLabelNames},
	{"vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", servedLabelNames},
	{"vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", servedLabelNames},
	{"vllm:num_preemptions_total", "Sequences preempted for lack of KV blocks.", servedLabelNames},
	{"vllm:prompt_tokens_total", "Prompt tokens processed.", servedLabelNames},
	{"vllm:generation_tokens_total", "Tokens generated.", servedLabelNames},
	{"vllm:spec_decode_num_draft_tokens_total", "Tokens guessed ahead and computed.", servedLabelNames},
	{"vllm:spec_decode_num_accepted_tokens_total", "Of the tokens guessed ahead, those that were right.", servedLabelNames},
	{"vllm:iteration_tokens_total", "Tokens computed in a step.", servedLabelNames},
	{"vllm:cache_config_info", "1, with how the cache is set up. num_gpu_blocks counts the blocks on whatever device there is.", servedAnd("block_size", "num_gpu_blocks", "cache_dtype", "enable_prefix_caching")},
	{"hearth_model_ready", "1 if the model answers.", servedLabelNames},
	{"hearth_model_degraded", "1, with the reason why a model runs on less than it was meant to, such as no_driver.", append(slices.Clone(servedLabelNames), "reason")},
	{"hearth_kv_blocks", "KV blocks by state: used, cached, free.", servedAnd("state")},
	{"hearth_engine_steps_total", "Completed steps: the progress of the engine.", servedLabelNames},
	{"hearth_engine_memory_bytes", "Memory of the engine by use: weights, kv.", servedAnd("use")},
	{"hearth_worker_restarts_total", "Times the worker process was replaced.", servedLabelNames},
	{"hearth_upstream_state", "1 for the state that a deployment is in.", []string{"upstream", "model_name", "state"}},
	{"hearth_upstream_open_requests", "Requests open at a deployment.", []string{"upstream", "model_name"}},
	{"hearth_upstream_waiting_requests", "Requests that wait for a place at a deployment.", []string{"upstream", "model_name"}},
	{"hearth_upstream_fallbacks_total", "Attempts at a deployment after another had failed or was passed over.", []string{"upstream", "model_name"}},
	{"hearth_upstream_retries_total", "Attempts at a deployment that had been asked before in the same request.", []string{"upstream", "model_name"}},
	{"hearth_shadow_open_requests", "Copies of a route's requests that run.", shadowLabelNames},
	{"hearth_ready", "1 if new work is admitted.", nil},
	{"hearth_ledger_position", "Sequence number of the last ledger record.", nil},
	{"hearth_ledger_open_holds", "Holds that are not settled yet.", nil},
	{"hearth_ledger_held_usd", "Sum of the open holds.", nil},
	{"hearth_ledger_commits_total", "Transactions written.", nil},
	{"hearth_ledger_operations_total", "Operations in those transactions.", nil},
	{"hearth_ledger_commit_seconds_total", "Time spent writing them.", nil},
	{"hearth_ledger_queue", "Operations that wait for the next transaction.", nil},
	{"hearth_ledger_file_bytes", "Size of the database file.", nil},
	{"hearth_ledger_failed", "1 if the ledger takes no new work.", nil},
	{"hearth_budget_cap_usd", "Cap of a budget in its present window.", []string{"tenant", "period"}},
	{"hearth_budget_spent_usd", "Spent in the present window.", []string{"tenant", "period"}},
	{"hearth_budget_held_usd", "Held in the present window.", []string{"tenant", "period"}},
	{"hearth_certificate_expiry_seconds", "Time until a certificate ends; negative: it has ended.", []string{"source", "name"}},
	{"hearth_certificate_expiry_timestamp_seconds", "When a certificate ends, in Unix time.", []string{"source", "name"}},
	{"hearth_config_generation", "Configurations taken since the start.", nil},
	{"hearth_config_info", "1, with the digest of the configuration in force.", []string{"revision"}},
	{"hearth_start_time_seconds", "When the server began, in Unix time.", nil},
	{"hearth_log_records_total", "Records written to the log by level.", []string{"level"}},
	{"hearth_trace_spans_total", "Spans by what became of them: exported, dropped here, rejected by the collector.", []string{"result"}},
	{"hearth_trace_posts_total", "Posts to the collector by result: ok, failed.", []string{"result"}},
	{"hearth_trace_queue", "Requests whose spans wait to be sent.", nil},
	{"hearth_retained_items", "Requests whose content is kept.", []string{"retention"}},
	{"hearth_retained_bytes", "Size of kept content.", []string{"retention"}},
	{"hearth_retained_total", "Requests whose content was to be kept, by result: kept, dropped, failed.", []string{"result"}},
}

// metricInfo describes one exported metric.
type metricInfo struct {
	name, kind, help string
	labels           []string
}

func newPuller(a *Appliance) *puller {
	p := &puller{a: a, desc: map[string]*prometheus.Desc{}}
	for _, m := range append(devicesPulled(), pulled...) {
		p.desc[m.name] = prometheus.NewDesc(m.name, m.help, m.labels, nil)
	}
	return p
}

// Describe implements prometheus.Collector.
func (p *puller) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range p.desc {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *puller) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(p.desc[name], prometheus.GaugeValue, v, labels...)
	}
	counter := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(p.desc[name], prometheus.CounterValue, v, labels...)
	}
	p.models(ctx, gauge, counter, ch)
	p.upstreams(gauge, counter)
	p.shadows(gauge)
	p.ledger(gauge, counter)
	p.budgets(gauge)
	p.devices(ctx, gauge, counter)
	p.observers(gauge, counter)
	ends := map[string]bool{}
	for _, c := range p.a.certificates() {
		if id := c.Source + " " + firstOf(c.Names); ends[id] {
			continue
		} else {
			ends[id] = true
		}
		gauge("hearth_certificate_expiry_timestamp_seconds", float64(c.NotAfter.Unix()), c.Source, firstOf(c.Names))
		gauge("hearth_certificate_expiry_seconds", c.NotAfter.Sub(p.a.now()).Seconds(), c.Source, firstOf(c.Names))
	}
	ready, _ := p.a.Ready()
	gauge("hearth_ready", truth(ready))
	gauge("hearth_config_generation", float64(p.a.generation.Load()))
	gauge("hearth_config_info", 1, p.a.configRevision())
	gauge("hearth_start_time_seconds", float64(p.a.started.UnixNano())/1e9)
}

type emit func(name string, v float64, labels ...string)

func (p *puller) models(ctx context.Context, gauge, counter emit, ch chan<- prometheus.Metric) {
	for _, m := range p.a.models.states(ctx) {
		l, s := servedLabels{m.info.Name, m.info.Device}, m.health.Stats
		gauge("vllm:num_requests_running", float64(s.Running), l.values()...)
		gauge("vllm:num_requests_waiting", float64(s.Waiting), l.values()...)
		if s.BlocksTotal > 0 {
			gauge("vllm:kv_cache_usage_perc", float64(s.BlocksUsed)/float64(s.BlocksTotal), l.values()...)
		}
		counter("vllm:prefix_cache_queries_total", float64(s.PrefixQueries), l.values()...)
		counter("vllm:prefix_cache_hits_total", float64(s.PrefixHits), l.values()...)
		counter("vllm:num_preemptions_total", float64(s.Preemptions), l.values()...)
		counter("vllm:prompt_tokens_total", float64(s.PromptTokens), l.values()...)
		counter("vllm:generation_tokens_total", float64(s.OutputTokens), l.values()...)
		counter("vllm:spec_decode_num_draft_tokens_total", float64(s.DraftTokens), l.values()...)
		counter("vllm:spec_decode_num_accepted_tokens_total", float64(s.AcceptedTokens), l.values()...)
		gauge("hearth_model_ready", truth(m.health.Ready), l.values()...)
		if why := m.health.Degraded; why != "" {
			gauge("hearth_model_degraded", 1, l.values(string(report.CodeOf(why)))...)
		}
		gauge("hearth_kv_blocks", float64(s.BlocksUsed), l.values("used")...)
		gauge("hearth_kv_blocks", float64(s.BlocksCached), l.values("cached")...)
		gauge("hearth_kv_blocks", float64(max(0, s.BlocksTotal-s.BlocksUsed-s.BlocksCached)), l.values("free")...)
		counter("hearth_engine_steps_total", float64(s.Steps), l.values()...)
		gauge("hearth_engine_memory_bytes", float64(s.WeightBytes), l.values("weights")...)
		gauge("hearth_engine_memory_bytes", float64(s.KVBytes), l.values("kv")...)
		counter("hearth_worker_restarts_total", float64(s.WorkerRestarts), l.values()...)
		p.engine(&m, l, gauge, ch)
	}
}

// engine tells what an engine's steps and its cache are like.
func (p *puller) engine(m *modelState, l servedLabels, gauge emit, ch chan<- prometheus.Metric) {
	s := &m.health.Stats
	if s.BlocksTotal > 0 {
		reuse := "True" // as Python writes it: dashboards of vLLM match the word
		if lm := p.a.models.get(m.info.Name); lm != nil && !lm.spec.PrefixCache {
			reuse = "False"
		}
		gauge("vllm:cache_config_info", 1, l.values(strconv.Itoa(s.BlockTokens), strconv.Itoa(s.BlocksTotal), "float32", reuse)...)
	}
	if len(s.StepTokens) != len(infer.StepTokenEdges)+1 {
		return
	}
	buckets, n := make(map[float64]uint64, len(infer.StepTokenEdges)), uint64(0)
	for i, edge := range infer.StepTokenEdges {
		n += s.StepTokens[i]
		buckets[float64(edge)] = n
	}
	n += s.StepTokens[len(infer.StepTokenEdges)]
	ch <- prometheus.MustNewConstHistogram(p.desc["vllm:iteration_tokens_total"], n, float64(s.StepTokenSum), buckets, l.values()...)
}

// observers tells how the other ways of watching do.
func (p *puller) observers(gauge, counter emit) {
	for i, name := range config.LogLevels {
		counter("hearth_log_records_total", float64(p.a.logs.written[i].Load()), name)
	}
	s := p.a.traces.stats()
	counter("hearth_trace_spans_total", float64(s.Exported), "exported")
	counter("hearth_trace_spans_total", float64(s.Dropped), "dropped")
	counter("hearth_trace_spans_total", float64(s.Rejected), "rejected")
	counter("hearth_trace_posts_total", float64(s.Posts-min(s.Posts, s.Failures)), "ok")
	counter("hearth_trace_posts_total", float64(s.Failures), "failed")
	gauge("hearth_trace_queue", float64(s.Waiting))
	kept := p.a.retained.stats()
	for _, k := range kept.by {
		gauge("hearth_retained_items", float64(k.items), k.name)
		gauge("hearth_retained_bytes", float64(k.bytes), k.name)
	}
	counter("hearth_retained_total", float64(kept.kept), "kept")
	counter("hearth_retained_total", float64(kept.dropped), "dropped")
	counter("hearth_retained_total", float64(kept.failed), "failed")
}

func (p *puller) upstreams(gauge, counter emit) {
	for _, h := range p.a.policy.Health() {
		if h.Upstream == policy.Local {
			continue
		}
		gauge("hearth_upstream_state", 1, h.Upstream, h.Model, string(h.State))
		gauge("hearth_upstream_open_requests", float64(h.Outstanding), h.Upstream, h.Model)
		gauge("hearth_upstream_waiting_requests", float64(h.Waiting), h.Upstream, h.Model)
		counter("hearth_upstream_fallbacks_total", float64(h.Fallbacks), h.Upstream, h.Model)
		counter("hearth_upstream_retries_total", float64(h.Retries), h.Upstream, h.Model)
	}
}

func (p *puller) shadows(gauge emit) {
	for _, st := range p.a.policy.Routes() {
		for _, s := range st.Shadows {
			n := shadowNameOf(s.Shadow)
			gauge("hearth_shadow_open_requests", float64(s.Open), n.route, n.upstream, n.model)
		}
	}
}

func (p *puller) ledger(gauge, counter emit) {
	s := p.a.store.Stats()
	gauge("hearth_ledger_position", float64(s.Seq))
	gauge("hearth_ledger_open_holds", float64(s.OpenHolds))
	gauge("hearth_ledger_held_usd", float64(s.HeldNano)/1e9)
	counter("hearth_ledger_commits_total", float64(s.Commits))
	counter("hearth_ledger_operations_total", float64(s.Ops))
	counter("hearth_ledger_commit_seconds_total", s.CommitTime.Seconds())
	gauge("hearth_ledger_queue", float64(s.Queued))
	gauge("hearth_ledger_file_bytes", float64(s.FileBytes))
	gauge("hearth_ledger_failed", truth(s.Failed || s.Full))
}

// budgets shows the budgets of tenants; those of keys would be too many labels.
func (p *puller) budgets(gauge emit) {
	list, err := p.a.policy.Budgets()
	if err != nil {
		return // the ledger says so in its own metric
	}
	seen := map[[2]string]bool{}
	for _, b := range list {
		l := [2]string{p.a.telemetry.tenants.label(b.Tenant), string(b.Period)}
		if b.KeyID != "" || seen[l] {
			continue
		}
		seen[l] = true
		gauge("hearth_budget_cap_usd", float64(b.CapNano)/1e9, l[:]...)
		gauge("hearth_budget_spent_usd", float64(b.SpentNano)/1e9, l[:]...)
		gauge("hearth_budget_held_usd", float64(b.HeldNano)/1e9, l[:]...)
	}
}

// servedAnd are the labels of a local model and more.
func servedAnd(more ...string) []string { return slices.Concat(servedLabelNames, more) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
