package invoice

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/store"
)

// exports of each known format, made up here, with what they come to.
var exports = []struct {
	name, text string
	want       map[string]Sums // by day and model
}{
	{"anthropic-usage-csv", `usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count
2026-11-01,claude-large-20260101,k,Default,standard,≤ 200k,100,10,20,30,40,0
2026-11-01,claude-large-20260101,k2,Default,standard,≤ 200k,1,0,0,0,4,0
`, map[string]Sums{"2026-11-01 claude-large": {Fresh: 101, CacheWrite: 10, CacheWriteHour: 20, Cached: 30, Output: 44}}},
	{"anthropic-cost-csv", `usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,cost_type
2026-11-01,Claude Large,Default,k,message,≤ 200k,input_no_cache,0.05,token
2026-11-01,Claude Large,Default,k,message,≤ 200k,output,0.000000001,token
`, map[string]Sums{"2026-11-01 claude large": {Cost: 50_000_001}}},
	{"anthropic-usage-api", `{"data":[{"starting_at":"2026-11-01T00:00:00Z","ending_at":"2026-11-02T00:00:00Z","results":[
 {"uncached_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":2,"ephemeral_5m_input_tokens":3},"cache_read_input_tokens":4,"output_tokens":6,"model":"claude-large","workspace_id":null}]},
 {"starting_at":"2026-11-02T00:00:00Z","ending_at":"2026-11-03T00:00:00Z","results":[]}],"has_more":true,"next_page":"x"}
{"data":[{"starting_at":"2026-11-02T00:00:00Z","results":[{"uncached_input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_read_input_tokens":0,"output_tokens":1,"model":"claude-large"}]}],"has_more":false}`,
		map[string]Sums{"2026-11-01 claude-large": {Fresh: 5, CacheWriteHour: 2, CacheWrite: 3, Cached: 4, Output: 6}, "2026-11-02 claude-large": {Fresh: 1, Output: 1}}},
	{"anthropic-cost-api", `{"data":[{"starting_at":"2026-11-01T00:00:00Z","results":[{"currency":"USD","amount":"123.456789","model":"claude-large","token_type":"output_tokens","cost_type":"tokens"}]}]}`,
		map[string]Sums{"2026-11-01 claude-large": {Cost: 1_234_567_890}}},
	{"openai-usage-csv", `start_time,end_time,start_time_iso,project_id,num_model_requests,model,input_tokens,output_tokens,input_cached_tokens
1793491200,1793577600,2026-11-01T00:00:00+00:00,p,3,gpt-9-2026-05-13,1000,50,800
`, map[string]Sums{"2026-11-01 gpt-9": {Requests: 3, Input: 1000, Output: 50, Cached: 800}}},
	{"openai-usage-csv", `{"object":"page","data":[{"object":"bucket","start_time":1793491200,"end_time":1793577600,"results":[{"object":"organization.usage.completions.result","input_tokens":7,"output_tokens":5,"input_cached_tokens":0,"num_model_requests":1,"project_id":null,"model":"gpt-9"}]}],"has_more":false,"next_page":null}`,
		map[string]Sums{"2026-11-01 gpt-9": {Requests: 1, Input: 7, Output: 5}}},
	{"openai-cost-csv", "start_time,amount_value,amount_currency,line_item\n1793491200,0.06,usd,\"gpt-9-2026-05-13, input\"\n1793491200,1.5e-05,usd,\"gpt-9-2026-05-13, output\"\n",
		map[string]Sums{"2026-11-01 gpt-9": {Cost: 60_015_000}}},
	{"openai-cost-api", `{"data":[{"start_time":1793491200,"results":[{"amount":{"value":0.06,"currency":"usd"},"line_item":"gpt-9, input"}]}]}`,
		map[string]Sums{"2026-11-01 gpt-9": {Cost: 60_000_000}}},
	{"aws-cur", `lineItem/UsageStartDate,lineItem/ProductCode,lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode,pricing/unit
2026-11-01T05:00:00Z,AmazonEC2,USE1-BoxUsage,1,9.99,USD,Hrs
2026-11-01T05:00:00Z,AmazonBedrock,USE1-Claude9Large-input-tokens,1.5,0.0045,USD,1K tokens
2026-11-01T06:00:00Z,AmazonBedrock,USE1-Claude9Large-output-tokens,0.25,0.00375,USD,1K tokens
`, map[string]Sums{"2026-11-01 claude9large": {Fresh: 1500, Output: 250, Cost: 8_250_000}}},
	{"google-billing", `{"usage_start_time":"2026-11-01 07:00:00 UTC","sku":{"description":"Gemini 9 Pro Text Output - Predictions"},"usage":{"amount":12.0,"unit":"count"},"cost":0.5,"currency":"USD"}`,
		map[string]Sums{"2026-11-01 gemini 9 pro": {Output: 12, Cost: 500_000_000}}},
	{"generic", "\xef\xbb\xbfdate,model,input_tokens,output_tokens,cost\r\n2026-11-01,m,3,4,$0.5\r\n",
		map[string]Sums{"2026-11-01 m": {Input: 3, Output: 4, Cost: 500_000_000}}},
}

func readAll(t testing.TB, text string, m *Mapping, o Options) (*Book, *Export) {
	t.Helper()
	x, err := Open(strings.NewReader(text), "", m)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBook(x.Mapping, o)
	for {
		l, err := x.Next()
		if errors.Is(err, io.EOF) {
			return b, x
		}
		if err == nil {
			err = b.Line(l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestKnownExports(t *testing.T) {
	for _, e := range exports {
		b, x := readAll(t, e.text, nil, Options{})
		if x.Mapping.Name != e.name {
			t.Errorf("%s is taken for %s", e.name, x.Mapping.Name)
		}
		if len(b.groups) != len(e.want) {
			t.Errorf("%s: %d groups", e.name, len(b.groups))
		}
		for k, g := range b.groups {
			want := e.want[k.day+" "+k.model]
			for _, m := range Measures {
				if g.theirs[m] != want[m] {
					t.Errorf("%s, %v: %s is %d, want %d", e.name, k, m, g.theirs[m], want[m])
				}
			}
		}
		for _, k := range Known {
			if err := k.check(); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	}
}

func row(id, upstream, model string, started time.Time, in, out, charge int64) *store.Row {
	r := &store.Row{Opening: store.Opening{RequestID: id, Started: started},
		Result: store.Result{Outcome: store.OutcomeComplete, Usage: store.Usage{FreshInput: in, Output: out}, Attempts: []store.Attempt{
			{Backend: "east", Provider: "openai", Model: model, Started: started, Failure: "overload"},
			{Backend: "west", Provider: "openai", Model: model, Started: started, Sent: true, UpstreamRequestID: upstream}}}}
	r.ChargeNano = charge
	return r
}

// TestByRequest finds each way in which an export and the ledger can differ.
func TestByRequest(t *testing.T) {
	m, err := ReadMapping([]byte(`time = "at"
model = "model"
request_id = "id"
fresh_input = "in"
output = "out"
cost = "usd"
[models]
"Nine" = "gpt-9"
`))
	if err != nil {
		t.Fatal(err)
	}
	text := `at,model,id,in,out,usd
2026-11-01T10:00:00Z,Nine,up-1,10,5,0.5
2026-11-01T23:59:59Z,Nine,up-2,10,5,0.5
2026-11-01T10:00:00Z,Nine,up-3,10,6,0.5
2026-11-01T10:00:00Z,Nine,up-4,1,1,0.1
2026-11-01T10:00:00Z,Nine,up-5,8,8,0.25
`
	b, x := readAll(t, text, m, Options{Provider: "west"})
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	since, until := b.Span()
	if since.Day() != 31 || until.Day() != 3 {
		t.Errorf("span: %v to %v", since, until)
	}
	lost := row("r6", "up-5", "gpt-9", noon, 0, 0, 900)
	lost.Outcome = store.OutcomeAmbiguous
	other := row("r7", "up-9", "gpt-9", noon, 1, 1, 1)
	other.Attempts[1].Backend = "local"
	for _, r := range []*store.Row{
		row("r1", "up-1", "gpt-9-2026-05-13", noon, 10, 5, 500_000_000),
		row("r2", "up-2", "gpt-9", noon.Add(12*time.Hour), 10, 5, 500_000_000), // over midnight here
		row("r3", "up-3", "gpt-9", noon, 10, 5, 500_000_000),
		row("r4", "up-8", "gpt-9", noon, 2, 2, 2), row("r5", "", "gpt-9", noon, 1, 0, 0), lost, other,
		row("before", "", "gpt-9", noon.AddDate(0, 0, -1), 1, 1, 1),
	} {
		if err := b.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	r := b.Report(x)
	q := r.Requests
	if r.OK() || q.Matched != 3 || q.DifferCount != 1 || q.Differ[0].RequestID != "r3" || len(q.Differ[0].Differences) != 1 ||
		!slices.Equal(q.MissingHere, []string{"up-4"}) || !slices.Equal(q.MissingThere, []string{"r4"}) || q.Unnamed != 1 {
		t.Errorf("requests: %+v", q)
	}
	if len(r.Candidates) != 1 || r.Candidates[0].RequestID != "r6" || *r.Candidates[0].TheirsNano != 250_000_000 {
		t.Errorf("candidates: %+v", r.Candidates)
	}
	if len(r.Groups) != 1 || r.Groups[0].State != Differs || r.Groups[0].Model != "gpt-9" || r.Groups[0].Ours[Output] != 17 || r.Groups[0].Theirs[Output] != 25 {
		t.Errorf("groups: %+v", r.Groups)
	}
}

func TestTolerance(t *testing.T) {
	text := "date,model,input_tokens,output_tokens,cost\n2026-11-01,m,1000,100,1.00\n2026-11-02,gone,1,1,0\n"
	at := time.Date(2026, 11, 1, 1, 0, 0, 0, time.UTC)
	report := func(o Options, rows ...*store.Row) *Report {
		b, x := readAll(t, text, nil, o)
		for _, r := range rows {
			if err := b.Row(r); err != nil {
				t.Fatal(err)
			}
		}
		return b.Report(x)
	}
	near := row("r", "", "M", at, 995, 100, 1_004_000_000)
	if r := report(Options{ToleranceNano: 10_000_000}, near); r.OK() || r.Groups[0].State != Differs || len(r.Groups[0].Differences) != 1 || r.Groups[1].State != MissingHere {
		t.Errorf("%+v", r)
	}
	until := at.AddDate(0, 0, 1).Truncate(24 * time.Hour)
	if r := report(Options{Tolerance: 0.01, Until: until}, near); !r.OK() || r.Same != 1 {
		t.Errorf("%+v", r)
	}
	if r := report(Options{Tolerance: 0.01, Until: until}, near, row("x", "", "n", at, 1, 1, 1)); r.OK() || r.Groups[1].State != MissingThere {
		t.Errorf("%+v", r)
	}
}

func TestBadExports(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20)
	for _, text := range []string{"", "\n", "a,b\n1,2\n", "date,model,input_tokens,output_tokens,cost\n", "date,model,input_tokens,output_tokens,cost\n1,2\n",
		"date,model,input_tokens,output_tokens,cost\nyesterday,m,1,1,1\n", "date,model,input_tokens,output_tokens,cost\n2026-11-01,m,x,1,1\n",
		"date,model,input_tokens,output_tokens,cost\n2026-11-01,m,1,1,1e99\n", "[", "[1]", "{}", "{", `{"data":[1]}`, deep,
		"start_time,amount_value,amount_currency,line_item\n1793491200,1,eur,x\n", "date,model,input_tokens,output_tokens,cost\n\"2026"} {
		x, err := Open(strings.NewReader(text), "", nil)
		for err == nil {
			_, err = x.Next()
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%.60q is read to its end", text)
		}
	}
	if _, err := Open(strings.NewReader("a"), "xml", nil); err == nil {
		t.Error("format xml is read")
	}
	for _, bad := range []string{"", "time = 1", `time = "a"`, "time = \"a\"\nmodel = \"b\"", "time = \"a\"\nmodel = \"b\"\ntokens = \"c\"", "time = \"a\"\nmodel = \"b\"\noutput = \"c\"\ncost_unit = \"eur\"",
		"time = \"a\"\nmodel = \"b\"\noutput = \"c\"\nnonsense = 1"} {
		if _, err := ReadMapping([]byte(bad)); err == nil {
			t.Errorf("mapping %q is taken", bad)
		}
	}
}

func TestScaled(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "1": 1e9, "-1": -1e9, "0.0000000005": 1, "0.0000000004": 0, "-0.0000000005": -1, "1.5e-05": 15000, "$2.5": 2_500_000_000, "9223372036": 9223372036e9} {
		if got, err := scaled(s, 1e9); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "1e999", "1e-999", "9223372037", "0x1", "1/2", "-9223372036854775808", "1_0", "NaN"} {
		if n, err := scaled(s, 1e9); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
}

// FuzzExport reads arbitrary bytes as an export of every format.
func FuzzExport(f *testing.F) {
	for _, e := range exports {
		f.Add(e.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := Open(strings.NewReader(text), "", nil)
		if err != nil {
			return
		}
		b := NewBook(x.Mapping, Options{})
		for {
			l, err := x.Next()
			if err == nil {
				err = b.Line(l)
			}
			if err != nil {
				break
			}
		}
		b.Report(x)
	})
}

func BenchmarkRead(b *testing.B) {
	var s strings.Builder
	s.WriteString("date,model,input_tokens,output_tokens,cost\n")
	for i := range 10_000 {
		fmt.Fprintf(&s, "2026-11-%02d,m%d,%d,%d,0.%09d\n", 1+i%30, i%50, i, i, i)
	}
	b.SetBytes(int64(s.Len()))
	for b.Loop() {
		readAll(b, s.String(), nil, Options{})
	}
}
