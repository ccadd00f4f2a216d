package appliance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"hearth/appliance/observe"
)

var updateMetrics = flag.Bool("update-metrics", false, "write METRICS.md anew")

const metricsDoc = "../METRICS.md"

const metricsHead = `# Metrics

What ` + "`GET /metrics`" + ` tells, in the text format of Prometheus. This machine is answered without a key, others with an API key.
Names that begin with ` + "`vllm:`" + ` are vLLM's, with its meaning and its bucket edges, so that dashboards and autoscalers made for it work;
` + "`DCGM_FI_`" + ` are those of NVIDIA's exporter and appear where a GPU worker reports a device. ` + "`engine`" + ` is always "0". ` + "`device`" + ` is where a
model runs ("cpu", "cuda:0") or, for a provider's model, the name of the upstream. Tenants have a label of their own up to
` + "`[telemetry] tenants`" + `, the rest is "other". A device's figure that cannot be read is absent. Beside these there are the ` + "`go_`" + ` and ` + "`process_`" + `
metrics of the Prometheus client library.

` + "`hearth observe dashboard|rules|alerts`" + ` prints a Grafana dashboard, recording rules and alerts for these names.

This table is held to the program by a test (` + "`go test ./appliance -run TestMetricsDoc -update-metrics`" + ` writes it).

| name | type | labels | meaning |
| --- | --- | --- | --- |
`

// Every metric that is exported stands in the document, and nothing else does.
func TestMetricsDoc(t *testing.T) {
	list := catalogue()
	slices.SortFunc(list, func(a, b metricInfo) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, m := range list {
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	if *updateMetrics {
		if err := os.WriteFile(metricsDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	doc, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(doc) != b.String() {
		t.Error("METRICS.md is not what is exported: go test ./appliance -run TestMetricsDoc -update-metrics")
	}
}

// What a scrape gives is in the catalogue, with the type that it says.
func TestMetricsCatalogue(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
		t.Fatal(err)
	}
	families, err := b.telemetry.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]metricInfo{}
	for _, m := range catalogue() {
		if known[m.name].name != "" {
			t.Errorf("%s is twice in the catalogue", m.name)
		}
		known[m.name] = m
	}
	seen := map[string]bool{}
	for _, f := range families {
		name := f.GetName()
		seen[name] = true
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		m, ok := known[name]
		if !ok {
			t.Errorf("%s is exported and not in the catalogue", name)
		} else if kind := strings.ToLower(f.GetType().String()); kind != m.kind {
			t.Errorf("%s is a %s, the catalogue says %s", name, kind, m.kind)
		}
	}
	for _, name := range []string{
		"vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds",
		"vllm:request_prompt_tokens", "vllm:request_generation_tokens", "vllm:request_success_total", "vllm:time_per_output_token_seconds",
		"hearth_request_cost_usd", "hearth_tokens_total", "hearth_config_info", "hearth_certificate_expiry_seconds", "hearth_device_memory_bytes", "hearth_log_records_total",
	} {
		if !seen[name] {
			t.Errorf("no metric %s", name)
		}
	}
}

var promDesc = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)"`)

// catalogue lists every metric of ours that may be exported.
func catalogue() []metricInfo {
	all := newTelemetry(0).pushed
	for _, m := range append(devicesPulled(), pulled...) {
		kind := "gauge"
		switch {
		case m.name == "vllm:iteration_tokens_total":
			kind = "histogram"
		case strings.HasSuffix(m.name, "_total") || strings.HasSuffix(m.name, "_TOTAL"):
			kind = "counter"
		}
		all = append(all, metricInfo{m.name, kind, m.help, m.labels})
	}
	for _, d := range []*prometheus.Desc{backupAt, backupSize, backupCount, backupFault, drillAt, drillOK} {
		m := promDesc.FindStringSubmatch(d.String())
		all = append(all, metricInfo{m[1], "gauge", m[2], nil})
	}
	return all
}

var (
	promWord  = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	promStrip = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	promCall  = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*\s*\(`)
)

// metricNames are the names of series in an expression.
func metricNames(expr string) []string {
	expr = promStrip.ReplaceAllString(expr, " ")
	expr = promCall.ReplaceAllString(expr, "(")
	var out []string
	for _, w := range promWord.FindAllString(expr, -1) {
		switch w {
		case "and", "or", "unless", "bool", "offset", "sum", "min", "max", "avg", "count":
		default:
			out = append(out, w)
		}
	}
	return out
}

var yamlExpr = regexp.MustCompile(`(?m)^ +(?:- )?(record|alert|expr): *(>-\n(?:          .*\n)+|.*\n)`)

// Every series that the dashboard, the rules and the alerts ask for is exported,
// or recorded by the rules.
func TestObserveFilesAskForWhatThereIs(t *testing.T) {
	known := map[string]bool{"process_resident_memory_bytes": true, "process_cpu_seconds_total": true}
	for _, m := range catalogue() {
		known[m.name] = true
		if m.kind == "histogram" {
			known[m.name+"_bucket"], known[m.name+"_sum"], known[m.name+"_count"] = true, true, true
		}
	}
	asked := map[string][]string{} // by file
	for _, f := range observe.Files() {
		if f.Name == "dashboard" {
			for _, m := range regexp.MustCompile(`"expr": "((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(string(f.Data), -1) {
				asked[f.Name] = append(asked[f.Name], strings.ReplaceAll(m[1], `\"`, `"`))
			}
			continue
		}
		for _, m := range yamlExpr.FindAllStringSubmatch(string(f.Data), -1) {
			switch text := strings.TrimSpace(strings.TrimPrefix(m[2], ">-")); m[1] {
			case "record":
				known[text] = true
			case "expr":
				asked[f.Name] = append(asked[f.Name], text)
			}
		}
	}
	for file, least := range map[string]int{"dashboard": 60, "rules": 16, "alerts": 20} {
		if len(asked[file]) < least {
			t.Errorf("%s: found %d expressions, wanted at least %d", file, len(asked[file]), least)
		}
		for _, expr := range asked[file] {
			names := metricNames(expr)
			if len(names) == 0 {
				t.Errorf("%s: no series in %s", file, expr)
			}
			for _, n := range names {
				if !known[n] {
					t.Errorf("%s asks for %s, which nobody exports: %s", file, n, expr)
				}
			}
		}
	}
}
