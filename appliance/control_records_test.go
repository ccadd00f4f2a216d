package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/appliance/conform"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// must runs an operation on the running appliance.
func must[Req, Resp any](b *testbed, op operation[Req, Resp], r Req) Resp {
	b.t.Helper()
	out, err := op.do(store.As(context.Background(), "test"), b.control(), r)
	if err != nil {
		b.t.Fatalf("%s: %v", op.name, err)
	}
	return out
}

const recordsConfig = `price_version = "t1"

# who pays
[[tenant]]
name = "acme" # a customer
models = ["m", "pair"]
[[tenant.budget]]
period = "day"
cap_usd = "100.00"
[[tenant]]
name = "other"

[[model]]
name = "m"

[[price]]
model = "*"
input_usd_per_m = "0"
output_usd_per_m = "0"

[[price]]
model = "pair"
input_usd_per_m = "0"
output_usd_per_m = "0"

[[upstream]]
name = "east"
kind = "vllm"
base_url = "http://127.0.0.1:9/v1"
credential = "env:HEARTH_TEST_EAST"

[[route]]
model = "m"
[[route.candidate]]
upstream = "local"
model = "m"

[[route]]
model = "pair"
effect = "read-only"
[[route.candidate]] # the steady one
upstream = "local"
model = "m"
[[route.candidate]]
upstream = "east"
model = "big"
`

func (b *testbed) file() string {
	b.t.Helper()
	text, err := os.ReadFile(b.configPath())
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// Tenants are listed with where their budgets lead, and changed in the file with
// comments kept; what a tenant may not see it does not see.
func TestTenants(t *testing.T) {
	b := newTestbedWith(t, recordsConfig)
	for i := range 4 {
		spend(t, b.store, store.Opening{RequestID: fmt.Sprint("a", i), Tenant: "acme", KeyID: "k1", Model: "m", Route: "m"})
	}
	spend(t, b.store, store.Opening{RequestID: "o", Tenant: "other", KeyID: "k2", Model: "pair", Route: "pair"})
	rows := must(b, opTenantList, tenantQuery{})
	if len(rows) != 2 || rows[0].Name != "acme" || rows[0].Recent.Requests != 4 || rows[0].Recent.Charge != 2e9 || rows[0].PerRequest != 5e8 || len(rows[0].Budgets) != 1 {
		t.Fatalf("tenants: %+v", rows)
	}
	if own := must(b, opTenantList, tenantQuery{"other"}); len(own) != 1 || own[0].Name != "other" {
		t.Errorf("one tenant: %+v", own)
	}
	pos := &budgetPosition{Cap: 100, Spent: 30, Held: 10, Ends: time.Unix(7200, 0)}
	pos.forecast(&spent{Charge: 240}, 24*time.Hour, time.Unix(0, 0))
	if pos.Rate != 10 || *pos.Forecast != 60 || !pos.Exhausted.IsZero() || pos.Part != 0.4 {
		t.Errorf("forecast: %+v", pos)
	}
	pos.forecast(&spent{Charge: 2400}, 24*time.Hour, time.Unix(0, 0))
	if want := time.Unix(36*60, 0); !pos.Exhausted.Equal(want) {
		t.Errorf("exhausted at %v, wanted %v", pos.Exhausted, want)
	}
	r := must(b, opSpendReport, spendQuery{By: []string{"tenant", "model"}})
	if len(r.Rows) != 2 || r.Rows[0].Tenant != "acme" || r.Rows[0].Charge != 2e9 || r.Total.Requests != 5 || !r.Complete {
		t.Errorf("report: %+v", r)
	}
	if r := must(b, opSpendReport, spendQuery{By: []string{"day"}, Tenant: "other"}); len(r.Rows) != 1 || r.Total.Requests != 1 || r.Rows[0].Day == "" {
		t.Errorf("report of one tenant: %+v", r)
	}
	fails(b, opSpendReport, spendQuery{By: []string{"tenant", "tenant"}}, infer.CodeInvalid)
	fails(b, opSpendReport, spendQuery{By: []string{"password"}}, infer.CodeInvalid)

	must(b, opTenantCreate, tenantCreate{Name: "fresh", tenantSettings: tenantSettings{Limits: &store.Limits{Concurrency: 3},
		Budgets: &[]tenantBudget{{store.Month, 12_500_000_000}}, Models: &[]string{"m"}}})
	fails(b, opTenantCreate, tenantCreate{Name: "acme"}, infer.CodeConflict)
	fails(b, opTenantUpdate, tenantUpdate{Name: "nobody"}, infer.CodeNotFound)
	must(b, opTenantUpdate, tenantUpdate{Name: "acme", Clear: []string{"models"}, tenantSettings: tenantSettings{Budgets: &[]tenantBudget{{store.Day, 5e9}, {store.Total, 7e9}}}})
	must(b, opTenantPause, tenantPause{Name: "other", Paused: true})
	rows = must(b, opTenantList, tenantQuery{})
	if len(rows) != 3 || len(rows[0].Models) != 0 || len(rows[0].Budgets) != 2 || rows[0].Budgets[0].Cap != 5e9 || !rows[1].Paused ||
		rows[2].Limits.Concurrency != 3 || rows[2].Budgets[0].Cap != 12_500_000_000 {
		t.Errorf("after the changes: %+v", rows)
	}
	if text := b.file(); !strings.Contains(text, "# who pays") || !strings.Contains(text, `"acme" # a customer`) {
		t.Errorf("comments have gone:\n%s", text)
	}
	dry := must(b, opTenantPause, tenantPause{Name: "acme", Paused: true, editGuard: editGuard{DryRun: true}})
	if dry.Diff == "" || must(b, opTenantList, tenantQuery{"acme"})[0].Paused {
		t.Errorf("a dry run: %+v", dry)
	}
	fails(b, opTenantPause, tenantPause{Name: "acme", Paused: true, editGuard: editGuard{IfMatch: strings.Repeat("0", 64)}}, infer.CodeConflict)
	must(b, opKeyCreate, store.Key{Tenant: "fresh", Name: "x"})
	fails(b, opTenantDelete, tenantDelete{Name: "fresh", Confirm: "fresh"}, infer.CodeConflict)
	fails(b, opTenantDelete, tenantDelete{Name: "fresh", Confirm: "yes", RevokeKeys: true}, infer.CodeInvalid)
	must(b, opTenantDelete, tenantDelete{Name: "fresh", Confirm: "fresh", RevokeKeys: true})
	if rows = must(b, opTenantList, tenantQuery{}); len(rows) != 2 {
		t.Errorf("after the end of one: %+v", rows)
	}
}

// Upstreams tell their state and nothing of their secret; routes are changed by
// weight, order and canary.
func TestUpstreamsAndRoutes(t *testing.T) {
	t.Setenv("HEARTH_TEST_EAST", "")
	b := newTestbedWith(t, recordsConfig)
	ups := must(b, opUpstreamList, none{})
	if len(ups) != 1 || ups[0].Credential.Resolvable || ups[0].Credential.Kind != "env" || ups[0].Routes[0] != "pair" || ups[0].State != policy.Healthy {
		t.Fatalf("upstreams: %+v", ups)
	}
	t.Setenv("HEARTH_TEST_EAST", "sk-canary-of-the-east")
	ups = must(b, opUpstreamList, none{})
	if text, _ := json.Marshal(ups); !ups[0].Credential.Resolvable || strings.Contains(string(text), "sk-canary") {
		t.Errorf("upstreams: %s", text)
	}
	if p := must(b, opUpstreamProbe, upstreamName{"east"}); p.OK || p.Reason == "" {
		t.Errorf("probe of nobody: %+v", p)
	}
	if ups = must(b, opUpstreamList, none{}); len(ups[0].Probes) != 1 || !ups[0].Probes[0].Asked {
		t.Errorf("history: %+v", ups[0].Probes)
	}
	fails(b, opUpstreamProbe, upstreamName{"west"}, infer.CodeNotFound)
	fails(b, opUpstreamReset, upstreamReset{Name: "west"}, infer.CodeNotFound)

	// Failures take a deployment out; a reset takes it back.
	for range 5 {
		b.policy.ReportProbe("east", false)
	}
	pair := func() routeRow {
		t.Helper()
		for _, r := range must(b, opRouteList, tenantQuery{}) {
			if r.Name == "pair" {
				return r
			}
		}
		t.Fatal("no route pair")
		return routeRow{}
	}
	if r := pair(); r.State != "degraded" || r.Candidates[1].Eligible || !strings.Contains(r.Why, "out of service") {
		t.Errorf("with one out: %+v", r)
	}
	must(b, opUpstreamReset, upstreamReset{Name: "east"})
	if r := pair(); r.State != "up" || !r.Candidates[1].Eligible || r.Candidates[0].Share != 1 {
		t.Errorf("after the reset: %+v", r)
	}
	// A tenant sees names only.
	own := must(b, opRouteList, tenantQuery{"acme"})
	if len(own) != 2 || len(own[0].Candidates) != 0 || own[0].Revision != "" {
		t.Errorf("of a tenant: %+v", own)
	}
	must(b, opRouteUpdate, routeUpdate{Name: "pair", Canary: "east/big", CanaryShare: 5})
	if r := pair(); r.Split != "weighted" || r.Candidates[1].Weight != 50 || r.Candidates[0].Weight != 950 || r.Candidates[1].Share != 0.05 {
		t.Errorf("with a canary: %+v", r.Candidates)
	}
	must(b, opRouteUpdate, routeUpdate{Name: "pair", Split: "ordered", Order: []string{"east/big", "local/m"}, Weights: []candidateWeight{{"east/big", 7}}})
	if r := pair(); r.Split != "ordered" || r.Candidates[0].Upstream != "east" || r.Candidates[0].Weight != 7 || r.Candidates[1].Weight != 950 {
		t.Errorf("turned round: %+v", r.Candidates)
	}
	fails(b, opRouteUpdate, routeUpdate{Name: "pair", Canary: "east/big", CanaryShare: 100}, infer.CodeInvalid)
	fails(b, opRouteUpdate, routeUpdate{Name: "pair", Order: []string{"east/big", "east/big"}}, infer.CodeInvalid)
	fails(b, opRouteUpdate, routeUpdate{Name: "pair", Weights: []candidateWeight{{"west/x", 1}}}, infer.CodeInvalid)
	fails(b, opRouteUpdate, routeUpdate{Name: "nothing"}, infer.CodeNotFound)
}

// A route that asks for evidence asks nobody without it: unknown, failed, expired
// and of another contract do not pass.
func TestEvidence(t *testing.T) {
	b := newTestbedWith(t, strings.Replace(recordsConfig, "effect = \"read-only\"", "qualification = \"enforce\"", 1))
	b.fake.generate = words(1)
	if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
		t.Fatalf("a route without qualification: %v", err)
	}
	refused := func(when string) {
		t.Helper()
		_, _, err := b.ask(context.Background(), "pair", 0)
		if err == nil || !strings.Contains(err.Error(), "not qualified") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("without evidence")
	list := must(b, opEvidenceList, evidenceQuery{})
	if len(list.Candidates) != 2 || list.Candidates[0].OK || !strings.Contains(list.Candidates[0].Why, "no quality evidence") {
		t.Fatalf("list: %+v", list)
	}
	report, err := conform.NewReport("test", conform.Identity{Name: "local", Model: "m"}, []conform.Outcome{{Case: "x", Result: conform.Passed}})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(report)
	fails(b, opEvidenceAdd, evidenceAdd{Kind: "conformance", Candidate: "local/m", Report: strings.Replace(string(text), `"passed":1`, `"passed":9`, 1)}, infer.CodeInvalid)
	fails(b, opEvidenceAdd, evidenceAdd{Kind: "conformance", Candidate: "east/big", Report: string(text)}, infer.CodeInvalid)
	fails(b, opEvidenceAdd, evidenceAdd{Kind: "load", Candidate: "local/nothing", Report: "x"}, infer.CodeNotFound)
	fails(b, opEvidenceAdd, evidenceAdd{Kind: "hope", Candidate: "local/m", Report: "x"}, infer.CodeInvalid)
	fails(b, opEvidenceAdd, evidenceAdd{Kind: "load", Candidate: "local/m", Report: "x", Digest: "sha256:0"}, infer.CodeInvalid)
	must(b, opEvidenceAdd, evidenceAdd{Kind: "conformance", Candidate: "local/m", Report: string(text)})
	must(b, opEvidenceAdd, evidenceAdd{Kind: "quality", Candidate: "local/m", Report: `{"score": 0.9}`, Passed: true})
	refused("with two of three")
	load := must(b, opEvidenceAdd, evidenceAdd{Kind: "load", Candidate: "local/m", Report: `{"p99_ms": 40}`, Passed: true, ValidFor: "1h"})
	if _, _, err := b.ask(context.Background(), "pair", 0); err != nil {
		t.Fatalf("qualified: %v", err)
	}
	if s := must(b, opEvidenceShow, evidenceID{load.ID}); s.Report != `{"p99_ms": 40}` || s.State != "valid" {
		t.Errorf("show: %+v", s)
	}
	now := b.now()
	rows, err := b.control().evidence(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	fp := b.localContract("m")
	if q := judgeEvidence(rows, "local", "m", fp, now.Add(2*time.Hour)); q.OK || !strings.Contains(q.Why, "expired") {
		t.Errorf("later: %+v", q)
	}
	if q := judgeEvidence(rows, "local", "m", "fp_other", now); q.OK || !strings.Contains(q.Why, "other contract") {
		t.Errorf("changed: %+v", q)
	}
	if q := judgeEvidence(rows, "local", "m", "", now); q.OK {
		t.Errorf("unknown: %+v", q)
	}
	must(b, opEvidenceAdd, evidenceAdd{Kind: "load", Candidate: "local/m", Report: "slower", Passed: false})
	refused("after a gate that failed")
	for _, e := range must(b, opEvidenceList, evidenceQuery{Kind: "load"}).Records {
		if !e.Passed {
			must(b, opEvidenceDelete, evidenceID{e.ID})
		}
	}
	if _, _, err := b.ask(context.Background(), "pair", 0); err != nil {
		t.Errorf("after it was withdrawn: %v", err)
	}
	fails(b, opEvidenceDelete, evidenceID{"report/" + load.ID}, infer.CodeNotFound)
}

// The ledger as operations: where it stands, found again by any column, and an
// invoice that tells what was not known.
func TestLedgerOperations(t *testing.T) {
	b := newTestbed(t)
	ctx := context.Background()
	spend(t, b.store, store.Opening{RequestID: "one", Tenant: "default", KeyID: "k", Model: "m", Route: "m", TraceID: "t-1"})
	spend(t, b.store, store.Opening{RequestID: "two", Tenant: "default", KeyID: "k", Model: "n", Route: "n"})
	for _, f := range []store.Filter{{Request: "one"}, {Trace: "t-1"}, {Route: "m"}, {Model: "m", Upstream: "local", MinNano: 1, MaxNano: 6e8}} {
		if p := must(b, opLedgerList, f); len(p.Rows) != 1 || p.Rows[0].RequestID != "one" {
			t.Errorf("%+v finds %+v", f, p.Rows)
		}
	}
	for _, f := range []store.Filter{{Request: "none"}, {MinNano: 6e8}, {Upstream: "east"}, {Error: "timeout"}} {
		if p := must(b, opLedgerList, f); len(p.Rows) != 0 {
			t.Errorf("%+v finds %+v", f, p.Rows)
		}
	}
	must(b, opLedgerCheck, none{})
	p := must(b, opLedgerPosition, positionQuery{Seq: 1})
	if p.Last == nil || p.Last.Faults != 0 || p.Seq == 0 || len(p.Head) != 64 || len(p.Hash) != 64 {
		t.Errorf("position: %+v", p)
	}
	fails(b, opLedgerPosition, positionQuery{Seq: 1 << 40}, infer.CodeNotFound)
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	if _, err := b.store.Hold(ctx, store.HoldRequest{AmountNano: 1e9, Opening: store.Opening{RequestID: "lost", Tenant: "default", Started: at}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Ambiguous("lost", store.Result{Attempts: []store.Attempt{{Backend: "east", Provider: "openai", Model: "big", Started: at, Sent: true, UpstreamRequestID: "up-7"}}}); err != nil {
		t.Fatal(err)
	}
	in := reconcileInput{Invoice: "Day,SKU,ID,Amount\n2026-11-01,big,up-7,0.25\n", Provider: "east", Map: "time = \"Day\"\nmodel = \"SKU\"\nrequest_id = \"ID\"\ncost = \"Amount\"\n"}
	r := must(b, opLedgerReconcile, in)
	if r.Closable != 1 || len(r.Candidates) != 1 {
		t.Fatalf("report: %+v", r)
	}
	fails(b, opLedgerReconcile, reconcileInput{Invoice: "nonsense"}, infer.CodeInvalid)
	fails(b, opLedgerReconcileApply, reconcileApply{reconcileInput: in}, infer.CodeInvalid)
	done := must(b, opLedgerReconcileApply, reconcileApply{in, "invoice of november"})
	if len(done.Corrected) != 1 || done.Corrected[0].ChargeNano != 250_000_000 || len(done.Failed) != 0 {
		t.Errorf("applied: %+v", done)
	}
	out := filepath.Join(t.TempDir(), "x.csv")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := opLedgerExport.send(ctx, b.control(), exportQuery{store.Filter{Tenant: "default"}, store.CSV}, plainWriter{f}); err != nil {
		t.Error(err)
	}
	text, _ := os.ReadFile(out)
	if n := strings.Count(string(text), "\n"); n != 4 {
		t.Errorf("%d lines exported:\n%s", n, text)
	}
}
