package observe

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The dashboard is written from the tables below:
//
//	go test ./appliance/observe -update
var update = flag.Bool("update", false, "write dashboard.json anew")

// panel is one chart or figure.
type panel struct {
	title, unit string
	kind        string // "timeseries" (default), "stat", "bargauge"
	width       int    // of 24; 0: 8
	help        string
	queries     []query
}

// query is an expression and the legend of what it gives.
type query struct{ legend, expr string }

// quantiles are three queries for the quantiles of a histogram.
func quantiles(metric string) []query {
	var out []query
	for _, q := range []string{"0.50", "0.95", "0.99"} {
		out = append(out, query{"p" + q[2:] + " {{model_name}}",
			fmt.Sprintf(`histogram_quantile(%s, sum by (le, model_name) (rate(%s_bucket{instance=~"$instance",model_name=~"$model"}[$__rate_interval])))`, q, metric)})
	}
	return out
}

const of = `{instance=~"$instance",model_name=~"$model"}`

// rows are the sections of the dashboard.
var rows = []struct {
	title  string
	panels []panel
}{
	{"State", []panel{
		{title: "Ready", kind: "stat", width: 3, queries: []query{{"", `min(hearth_ready{instance=~"$instance"})`}}},
		{title: "Requests running", kind: "stat", width: 3, queries: []query{{"", `sum(vllm:num_requests_running` + of + `)`}}},
		{title: "Requests waiting", kind: "stat", width: 3, queries: []query{{"", `sum(vllm:num_requests_waiting` + of + `)`}}},
		{title: "KV cache in use", kind: "stat", unit: "percentunit", width: 3, queries: []query{{"", `max(vllm:kv_cache_usage_perc` + of + `)`}}},
		{title: "Errors", kind: "stat", unit: "percentunit", width: 3, help: "Failed requests of those that were served.", queries: []query{{"",
			`sum(rate(hearth_requests_total{instance=~"$instance",model_name=~"$model",outcome=~"error|partial|ambiguous|unknown"}[$__rate_interval])) / sum(rate(hearth_requests_total{instance=~"$instance",model_name=~"$model",outcome!="refused"}[$__rate_interval]))`}}},
		{title: "Fallback success", kind: "stat", unit: "percentunit", width: 3, help: "Of the requests that took more than one attempt, those that were answered in the end.", queries: []query{{"",
			`sum(rate(hearth_repeated_requests_total{instance=~"$instance",outcome="complete"}[1h])) / sum(rate(hearth_repeated_requests_total{instance=~"$instance"}[1h]))`}}},
		{title: "Spend in the last hour", kind: "stat", unit: "currencyUSD", width: 3, queries: []query{{"", `sum(increase(hearth_spend_usd_total{instance=~"$instance",tenant=~"$tenant"}[1h]))`}}},
		{title: "Certificate", kind: "stat", unit: "d", width: 3, help: "Days until the first certificate ends.", queries: []query{{"", `min(hearth_certificate_expiry_seconds{instance=~"$instance"}) / 86400`}}},
	}},
	{"Latency", []panel{
		{title: "Time to first token", unit: "s", queries: quantiles("vllm:time_to_first_token_seconds")},
		{title: "Time between tokens", unit: "s", queries: quantiles("vllm:inter_token_latency_seconds")},
		{title: "Time per output token", unit: "s", queries: quantiles("vllm:time_per_output_token_seconds")},
		{title: "Time to the end", unit: "s", queries: quantiles("vllm:e2e_request_latency_seconds")},
		{title: "Where the time goes (mean)", unit: "s", queries: []query{
			{"queue {{model_name}}", mean("vllm:request_queue_time_seconds")},
			{"prefill {{model_name}}", mean("vllm:request_prefill_time_seconds")},
			{"decode {{model_name}}", mean("vllm:request_decode_time_seconds")},
		}},
		{title: "Queue", unit: "s", queries: quantiles("vllm:request_queue_time_seconds")},
	}},
	{"Load", []panel{
		{title: "Requests by outcome", unit: "reqps", queries: []query{{"{{outcome}}", `sum by (outcome) (rate(hearth_requests_total{instance=~"$instance",model_name=~"$model|none",tenant=~"$tenant"}[$__rate_interval]))`}}},
		{title: "Running and waiting", queries: []query{
			{"running {{model_name}}", `sum by (model_name) (vllm:num_requests_running` + of + `)`},
			{"waiting {{model_name}}", `sum by (model_name) (vllm:num_requests_waiting` + of + `)`}}},
		{title: "Tokens in and out", unit: "short", help: "A second, as charged.", queries: []query{
			{"in", `sum(rate(hearth_tokens_total{instance=~"$instance",model_name=~"$model",kind!="output"}[$__rate_interval]))`},
			{"out", `sum(rate(hearth_tokens_total{instance=~"$instance",model_name=~"$model",kind="output"}[$__rate_interval]))`}}},
		{title: "KV cache", unit: "percentunit", queries: []query{{"{{model_name}}", `max by (model_name) (vllm:kv_cache_usage_perc` + of + `)`}}},
		{title: "Prefix cache hits", unit: "percentunit", queries: []query{{"{{model_name}}",
			`sum by (model_name) (rate(vllm:prefix_cache_hits_total` + of + `[$__rate_interval])) / sum by (model_name) (rate(vllm:prefix_cache_queries_total` + of + `[$__rate_interval]))`}}},
		{title: "Preemptions and restarts", unit: "short", queries: []query{
			{"preemptions {{model_name}}", `sum by (model_name) (rate(vllm:num_preemptions_total` + of + `[$__rate_interval]))`},
			{"restarts {{model_name}}", `sum by (model_name) (increase(hearth_worker_restarts_total` + of + `[$__rate_interval]))`}}},
		{title: "Tokens in a step (median)", unit: "short", queries: []query{{"{{model_name}}",
			`histogram_quantile(0.5, sum by (le, model_name) (rate(vllm:iteration_tokens_total_bucket` + of + `[$__rate_interval])))`}}},
		{title: "Prompt length", unit: "short", queries: quantiles("vllm:request_prompt_tokens")},
		{title: "Answer length", unit: "short", queries: quantiles("vllm:request_generation_tokens")},
	}},
	{"Failures", []panel{
		{title: "Errors by reason", unit: "reqps", queries: []query{{"{{code}}",
			`sum by (code) (rate(hearth_requests_total{instance=~"$instance",tenant=~"$tenant",outcome=~"error|partial|ambiguous|unknown"}[$__rate_interval]))`}}},
		{title: "Turned away by reason", unit: "reqps", queries: []query{{"{{reason}}", `sum by (reason) (rate(hearth_denied_total{instance=~"$instance"}[$__rate_interval]))`}}},
		{title: "Attempts that failed", unit: "reqps", queries: []query{{"{{upstream}}: {{failure}}", `sum by (upstream, failure) (rate(hearth_attempts_total{instance=~"$instance",failure!=""}[$__rate_interval]))`}}},
		{title: "Repeated requests", unit: "reqps", queries: []query{{"{{outcome}}", `sum by (outcome) (rate(hearth_repeated_requests_total{instance=~"$instance"}[$__rate_interval]))`}}},
		{title: "Upstreams that are out", queries: []query{{"{{upstream}}/{{model_name}} {{state}}", `hearth_upstream_state{instance=~"$instance",state!="healthy"}`}}},
		{title: "Finish reasons", unit: "reqps", queries: []query{{"{{finished_reason}}", `sum by (finished_reason) (rate(vllm:request_success_total` + of + `[$__rate_interval]))`}}},
	}},
	{"Money", []panel{
		{title: "Spend a tenant", unit: "currencyUSD", help: "An hour.", queries: []query{{"{{tenant}}", `sum by (tenant) (rate(hearth_spend_usd_total{instance=~"$instance",tenant=~"$tenant"}[$__rate_interval])) * 3600`}}},
		{title: "Budget in use", kind: "bargauge", unit: "percentunit", help: "Spent and held, of the cap.", queries: []query{{"{{tenant}} a {{period}}",
			`(hearth_budget_spent_usd{instance=~"$instance",tenant=~"$tenant"} + hearth_budget_held_usd{instance=~"$instance",tenant=~"$tenant"}) / (hearth_budget_cap_usd{instance=~"$instance",tenant=~"$tenant"} > 0)`}}},
		{title: "Cost of a request", unit: "currencyUSD", queries: append([]query{{"mean {{model_name}}", mean("hearth_request_cost_usd")}}, quantiles("hearth_request_cost_usd")[1:2]...)},
		{title: "Spend and cap", unit: "currencyUSD", queries: []query{
			{"{{tenant}} spent in the {{period}}", `hearth_budget_spent_usd{instance=~"$instance",tenant=~"$tenant"}`},
			{"{{tenant}} cap of the {{period}}", `hearth_budget_cap_usd{instance=~"$instance",tenant=~"$tenant"}`}}},
		{title: "Held", unit: "currencyUSD", queries: []query{{"{{instance}}", `hearth_ledger_held_usd{instance=~"$instance"}`}}},
		{title: "Ledger", unit: "short", queries: []query{
			{"records a second", `sum(rate(hearth_ledger_position{instance=~"$instance"}[$__rate_interval]))`},
			{"waiting to be written", `sum(hearth_ledger_queue{instance=~"$instance"})`}}},
	}},
	{"Machine", []panel{
		{title: "Temperature", unit: "celsius", queries: []query{{"{{device}}", `hearth_device_temperature_celsius{instance=~"$instance"}`}}},
		{title: "Power", unit: "watt", queries: []query{{"{{device}}", `hearth_device_power_watts{instance=~"$instance"}`}}},
		{title: "Device memory", unit: "percentunit", queries: []query{{"{{device}}", `hearth_device_memory_used_bytes{instance=~"$instance"} / hearth_device_memory_bytes{instance=~"$instance"}`}}},
		{title: "Device utilization", unit: "percentunit", queries: []query{{"{{device}}", `hearth_device_utilization_ratio{instance=~"$instance"}`}}},
		{title: "Slowed down for heat or power", unit: "short", queries: []query{
			{"{{device}} events", `increase(hearth_device_throttles_total{instance=~"$instance"}[$__rate_interval])`},
			{"{{device}} {{reason}}", `hearth_device_throttled{instance=~"$instance"}`}}},
		{title: "GPU errors", unit: "short", queries: []query{
			{"{{device}} XID", `DCGM_FI_DEV_XID_ERRORS{instance=~"$instance"}`},
			{"{{device}} ECC uncorrected", `DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{instance=~"$instance"}`}}},
		{title: "Server memory", unit: "bytes", queries: []query{{"{{instance}}", `process_resident_memory_bytes{instance=~"$instance"}`}}},
		{title: "Server CPU", unit: "short", help: "Cores.", queries: []query{{"{{instance}}", `rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])`}}},
		{title: "Days of certificates", unit: "d", queries: []query{{"{{name}}", `hearth_certificate_expiry_seconds{instance=~"$instance"} / 86400`}}},
	}},
}

func mean(metric string) string {
	return fmt.Sprintf(`sum by (model_name) (rate(%s_sum%s[$__rate_interval])) / sum by (model_name) (rate(%s_count%s[$__rate_interval]))`, metric, of, metric, of)
}

type object = map[string]any

func build() []byte {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	id, y := 1, 0
	for _, r := range rows {
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}})
		id, y = id+1, y+1
		x, high := 0, 0
		for _, p := range r.panels {
			kind, width, height := p.kind, p.width, 8
			if kind == "" {
				kind = "timeseries"
			}
			if width == 0 {
				width = 8
			}
			if kind == "stat" {
				height = 4
			}
			if x+width > 24 {
				x, y = 0, y+high
			}
			panels = append(panels, p.build(id, kind, source, object{"h": height, "w": width, "x": x, "y": y}))
			id, x, high = id+1, x+width, height
		}
		y += high
	}
	variable := func(name, label, ask string) object {
		return object{"name": name, "label": label, "type": "query", "datasource": source, "query": object{"query": ask, "refId": name}, "definition": ask,
			"refresh": 2, "includeAll": true, "multi": true, "allValue": ".*", "sort": 1, "current": object{"text": "All", "value": "$__all"}}
	}
	board := object{
		"uid": "hearth", "title": "Hearth", "tags": []string{"hearth", "llm"}, "schemaVersion": 39, "version": 1, "editable": true,
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser", "graphTooltip": 1, "panels": panels,
		"annotations": object{"list": []object{}}, "links": []object{},
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "refresh": 1},
			variable("instance", "Instance", `label_values(hearth_build_info, instance)`),
			variable("model", "Model", `label_values(hearth_requests_total, model_name)`),
			variable("tenant", "Tenant", `label_values(hearth_requests_total, tenant)`),
		}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(board); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (p *panel) build(id int, kind string, source, at object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "range": kind != "bargauge", "instant": kind == "bargauge"})
	}
	defaults := object{"unit": p.unit}
	options := object{}
	switch kind {
	case "timeseries":
		defaults["custom"] = object{"lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": false}
		defaults["min"] = 0
		options = object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case "stat":
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "colorMode": "none", "graphMode": "area"}
	case "bargauge":
		defaults["min"], defaults["max"] = 0, 1
		defaults["thresholds"] = object{"mode": "absolute", "steps": []object{{"color": "green", "value": nil}, {"color": "orange", "value": 0.8}, {"color": "red", "value": 0.95}}}
		options = object{"orientation": "horizontal", "displayMode": "basic", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	}
	out := object{"id": id, "type": kind, "title": p.title, "datasource": source, "gridPos": at, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options}
	if p.help != "" {
		out["description"] = p.help
	}
	return out
}

func TestDashboardIsCurrent(t *testing.T) {
	want := build()
	if *update {
		if err := os.WriteFile("dashboard.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(dashboard, want) {
		t.Error("dashboard.json is not what the tables say: go test ./appliance/observe -update")
	}
}

// What people look for first is there.
func TestDashboardShows(t *testing.T) {
	for _, word := range []string{"time_to_first_token", "inter_token_latency", "time_per_output_token", "e2e_request_latency", "0.99", "kv_cache_usage",
		"num_requests_waiting", "num_requests_running", "hearth_tokens_total", "hearth_request_cost_usd", "by (code)", "hearth_repeated_requests_total",
		"hearth_spend_usd_total", "hearth_budget_cap_usd", "device_temperature", "XID", "certificate_expiry"} {
		if !strings.Contains(string(dashboard), word) {
			t.Errorf("the dashboard does not show %s", word)
		}
	}
}
