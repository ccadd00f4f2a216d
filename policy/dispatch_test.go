package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearth/engine/infer"
	"hearth/store"
)

func half() float64 { return 0.5 }

// upstreamsNamed gives plain upstreams that are never ejected.
func upstreamsNamed(names ...string) []UpstreamConfig {
	never := 0
	var out []UpstreamConfig
	for _, n := range names {
		out = append(out, UpstreamConfig{Name: n, Kind: "openai", Health: HealthConfig{EjectAfter: &never}})
	}
	return out
}

func candidatesAt(names ...string) []CandidateConfig {
	var out []CandidateConfig
	for _, n := range names {
		out = append(out, CandidateConfig{Upstream: n, Model: "m"})
	}
	return out
}

func next(t *testing.T, d *Dispatch) *Attempt {
	t.Helper()
	a, err := d.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func refused(t *testing.T, d *Dispatch) *infer.Error {
	t.Helper()
	a, err := d.Next(context.Background())
	if err == nil {
		t.Fatalf("attempt %d at %s was made", a.Number, a.Candidate.Backend)
	}
	return infer.AsError(err)
}

func TestFallbackThenRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dispatcher(t, Config{Upstreams: upstreamsNamed("a", "b"), Routes: []RouteConfig{{Model: "r", Effect: ReadOnly, Candidates: candidatesAt("a", "b")}}}, half)
		d := p.Dispatch(p.routeNamed("r"), DispatchRequest{Deadline: time.Now().Add(12 * time.Second)})
		start := time.Now()
		var seen []string
		for range 3 {
			a := next(t, d)
			seen = append(seen, fmt.Sprint(a.Candidate.Backend, "@", time.Since(start)))
			a.Done(AttemptResult{Err: failed(infer.FailServer, false, 0)})
		}
		if e := refused(t, d); !e.NoRetry || e.Upstream.Class != infer.FailServer {
			t.Errorf("told %+v", e)
		}
		// 250ms, half of it by chance: 125ms + 62.5ms
		if got := strings.Join(seen, " "); got != "a@0s b@0s a@187.5ms" {
			t.Errorf("attempts %s", got)
		}
		if h := p.Health(); h[0].Retries != 0 || h[0].Fallbacks != 1 || h[1].Fallbacks != 1 || h[0].Failed != 2 || h[1].LastFailure != infer.FailServer {
			t.Errorf("health %+v", h)
		}
	})
}

func TestUnknownOutcomeIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		effect     string
		repeatable bool
		class      infer.FailureClass
		unsent     bool
		want       Verdict
	}{
		"lost, effectful":             {Effectful, false, infer.FailLost, false, Verdict{Again: false, Ambiguous: true}},
		"lost, idempotency key":       {Effectful, true, infer.FailLost, false, Verdict{Again: true, Ambiguous: true}},
		"lost, read-only":             {ReadOnly, false, infer.FailLost, false, Verdict{Again: true, Ambiguous: true}},
		"lost before it was sent":     {Effectful, false, infer.FailLost, true, Verdict{Again: true}},
		"timeout, effectful":          {Effectful, false, infer.FailTimeout, false, Verdict{Ambiguous: true}},
		"server error, effectful":     {Effectful, false, infer.FailServer, false, Verdict{}},
		"refused, effectful":          {Effectful, false, infer.FailRateLimit, false, Verdict{Again: true}},
		"not listed":                  {ReadOnly, false, infer.FailMalformed, false, Verdict{}},
		"the request":                 {ReadOnly, false, infer.FailRequest, true, Verdict{}},
		"quota, which is not listed":  {ReadOnly, false, infer.FailQuota, true, Verdict{}},
		"no connection, effectful":    {Effectful, false, infer.FailConnect, true, Verdict{Again: true}},
		"no room, effectful, refused": {Effectful, false, infer.FailOverload, true, Verdict{Again: true}},
	} {
		p := dispatcher(t, Config{Upstreams: upstreamsNamed("a", "b"), Routes: []RouteConfig{{Model: "r", Effect: c.effect, Candidates: candidatesAt("a", "b")}}}, half)
		d := p.Dispatch(p.routeNamed("r"), DispatchRequest{Repeatable: c.repeatable})
		got := next(t, d).Done(AttemptResult{Err: failed(c.class, c.unsent, 0)})
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if _, err := d.Next(context.Background()); (err == nil) != c.want.Again {
			t.Errorf("%s: then %v", name, err)
		} else if err != nil && !infer.AsError(err).NoRetry {
			t.Errorf("%s: the client may repeat it", name)
		}
	}
}

func TestNothingFollowsDelivery(t *testing.T) {
	p := dispatcher(t, Config{Upstreams: upstreamsNamed("a", "b"), Routes: []RouteConfig{{Model: "r", Effect: ReadOnly, Candidates: candidatesAt("a", "b")}}}, half)
	d := p.Dispatch(p.routeNamed("r"), DispatchRequest{})
	if v := next(t, d).Done(AttemptResult{Err: failed(infer.FailLost, true, 0), Delivered: true}); v.Again {
		t.Error("another attempt is allowed")
	}
	refused(t, d)
}

// A provider's wait holds for everybody in its domain: others are asked, it is
// waited out within the deadline, or the client is told.
func TestQuotaDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dispatcher(t, Config{Upstreams: upstreamsNamed("a", "b"), Routes: []RouteConfig{
			{Model: "one", Effect: ReadOnly, Candidates: []CandidateConfig{{Upstream: "a", Model: "m", QuotaDomain: "q"}}},
			{Model: "two", Effect: ReadOnly, Candidates: []CandidateConfig{{Upstream: "a", Model: "m", QuotaDomain: "q"}, {Upstream: "b", Model: "m"}}},
			{Model: "own", Effect: ReadOnly, Candidates: []CandidateConfig{{Upstream: "a", Model: "m"}}},
		}}, half)
		d := p.Dispatch(p.routeNamed("one"), DispatchRequest{Deadline: time.Now().Add(time.Second)})
		next(t, d).Done(AttemptResult{Err: failed(infer.FailRateLimit, true, 5500*time.Millisecond)})
		if e := refused(t, d); e.Code != infer.CodeRateLimited || e.RetryAfter != 6*time.Second || e.NoRetry {
			t.Errorf("told %+v", e)
		}
		if a := next(t, p.Dispatch(p.routeNamed("two"), DispatchRequest{})); a.Candidate.Backend != "b" {
			t.Error("the blocked candidate was asked")
		}
		if a := next(t, p.Dispatch(p.routeNamed("own"), DispatchRequest{})); a.Candidate.Backend != "a" {
			t.Error("another domain is blocked")
		}
		if h := p.Health()[0]; h.State != Blocked || h.Blocked["q"] != 5500*time.Millisecond {
			t.Errorf("health %+v", h)
		}
		e := refused(t, p.Dispatch(p.routeNamed("one"), DispatchRequest{Deadline: time.Now().Add(5 * time.Second)}))
		if e.Code != infer.CodeRateLimited || e.RetryAfter != 6*time.Second {
			t.Errorf("told %+v", e)
		}
		start := time.Now()
		next(t, p.Dispatch(p.routeNamed("one"), DispatchRequest{Deadline: time.Now().Add(10 * time.Second)}))
		if took := time.Since(start); took < 5500*time.Millisecond || took > 6*time.Second {
			t.Errorf("waited for %v", took)
		}
	})
}

// TestUnusableBesideEjected holds that a request is told not only that its one
// candidate is out, but also why no other takes it.
func TestUnusableBesideEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		us := upstreamsNamed("a", "b")
		*us[0].Health.EjectAfter, us[0].Health.EjectFor = 1, Duration(10*time.Second)
		p := dispatcher(t, Config{Upstreams: us, Routes: []RouteConfig{{Model: "r", Retry: RetryConfig{Attempts: 1}, Candidates: candidatesAt("a", "b")}}}, half)
		lossy := infer.Unsupported("n", "n would be lost")
		lossy.Losses = []infer.Loss{{Path: "n", Feature: infer.FeatureChoices, Class: infer.Dropped}}
		ask := func() *Dispatch {
			return p.Dispatch(p.routeNamed("r"), DispatchRequest{Usable: func(i int) error {
				if i == 1 {
					return lossy
				}
				return nil
			}})
		}
		next(t, ask()).Done(AttemptResult{Err: failed(infer.FailConnect, true, 0)})
		e := refused(t, ask())
		if e.Code != infer.CodeUnavailable || e.RetryAfter != 10*time.Second || e.Param != "n" || len(e.Losses) != 1 || e.NoRetry ||
			!strings.HasSuffix(e.Message, "does not take this request: n would be lost") {
			t.Errorf("told %+v", e)
		}
	})
}

func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		us := upstreamsNamed("a")
		*us[0].Health.EjectAfter, us[0].Health.EjectFor, us[0].Health.EjectMax = 2, Duration(10*time.Second), Duration(30*time.Second)
		p := dispatcher(t, Config{Upstreams: us, Routes: []RouteConfig{{Model: "r", Retry: RetryConfig{Attempts: 1}, Candidates: candidatesAt("a")}}}, half)
		ask := func() *Dispatch { return p.Dispatch(p.routeNamed("r"), DispatchRequest{}) }
		fail := AttemptResult{Err: failed(infer.FailConnect, true, 0)}
		late := next(t, ask()) // began before it was taken out: tells nothing about later
		next(t, ask()).Done(fail)
		next(t, ask()).Done(AttemptResult{Err: failed(infer.FailRateLimit, true, 0)}) // speaks neither for nor against it
		next(t, ask()).Done(AttemptResult{Left: true})
		next(t, ask()).Done(fail)
		for i, span := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second} {
			if e := refused(t, ask()); e.Code != infer.CodeUnavailable || e.RetryAfter != span {
				t.Fatalf("ejection %d: told %+v", i, e)
			}
			if h := p.Health()[0]; h.State != Ejected || h.For != span {
				t.Errorf("ejection %d: %+v", i, h)
			}
			if i == 0 {
				late.Done(fail)
			}
			time.Sleep(span)
			if h := p.Health()[0]; h.State != HalfOpen {
				t.Errorf("ejection %d: %+v", i, h)
			}
			trial := next(t, ask())
			refused(t, ask()) // one at a time
			trial.Done(AttemptResult{Left: true})
			trial = next(t, ask())
			trial.Done(fail)
		}
		time.Sleep(30 * time.Second)
		next(t, ask()).Done(AttemptResult{Delivered: true})
		if h := p.Health()[0]; h.State != Healthy || h.Failures != 0 {
			t.Errorf("in the end %+v", h)
		}
		p.ReportProbe("a", false)
		p.ReportProbe("a", false)
		p.ReportProbe("nobody", false)
		refused(t, ask())
		p.ReportProbe("a", true)
		next(t, ask()).Done(AttemptResult{Delivered: true})
	})
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		us := upstreamsNamed("a")
		us[0].MaxConcurrent = 1
		p := dispatcher(t, Config{Upstreams: us, Routes: []RouteConfig{
			{Model: "r", Candidates: candidatesAt("a"), Queue: QueueConfig{Depth: 4, Wait: Duration(10 * time.Second)}},
			{Model: "now", Candidates: candidatesAt("a")},
		}}, half)
		hold := next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{}))
		if e := refused(t, p.Dispatch(p.routeNamed("now"), DispatchRequest{})); e.Code != infer.CodeOverloaded || e.RetryAfter != time.Second {
			t.Errorf("without a queue: %+v", e)
		}
		var mu sync.Mutex
		var order []string
		note := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, s)
		}
		noted := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(order, " ")
		}
		wait := func(tenant string) {
			go func() {
				a, err := p.Dispatch(p.routeNamed("r"), DispatchRequest{Identity: &Identity{Tenant: tenant}}).Next(context.Background())
				if err != nil {
					note(tenant + ":" + string(infer.AsError(err).Code))
					return
				}
				note(tenant)
				time.Sleep(time.Second)
				a.Done(AttemptResult{Delivered: true})
			}()
			synctest.Wait()
		}
		for _, tenant := range []string{"x", "x", "x", "y", "z"} {
			wait(tenant)
		}
		if got := noted(); got != "z:overloaded" {
			t.Errorf("with a full queue: %s", got)
		}
		time.Sleep(time.Second)
		hold.Done(AttemptResult{Delivered: true})
		time.Sleep(10 * time.Second)
		if got := noted(); got != "z:overloaded x y x x" {
			t.Errorf("served in the order %s", got)
		}
		hold = next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{}))
		start := time.Now()
		if e := refused(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{})); e.Code != infer.CodeOverloaded || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), e)
		}
		hold.Done(AttemptResult{Left: true})
	})
}

func TestReloadKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := func(limit int, upstreams ...string) Config {
			us := upstreamsNamed(upstreams...)
			for i := range us {
				one := 1
				us[i].MaxConcurrent, us[i].Health.EjectAfter = limit, &one
			}
			return Config{Upstreams: us, Routes: []RouteConfig{{Model: "r", Candidates: candidatesAt(upstreams...), Queue: QueueConfig{Depth: 1}}}}
		}
		p := dispatcher(t, c(1, "a"), half)
		old := p.routeNamed("r")
		hold := next(t, p.Dispatch(old, DispatchRequest{}))
		served := make(chan *Attempt, 1)
		go func() {
			a, _ := p.Dispatch(old, DispatchRequest{}).Next(context.Background())
			served <- a
		}()
		synctest.Wait()
		p.swap(t, c(2, "a", "b"))
		if a := next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{})); a.Candidate.Backend != "a" || p.Health()[0].Outstanding != 2 {
			t.Errorf("after the reload %s was asked: %+v", a.Candidate.Backend, p.Health())
		} else {
			a.Done(AttemptResult{Err: failed(infer.FailConnect, true, 0)})
		}
		p.swap(t, c(2, "a"))
		if h := p.Health()[0]; h.State != Ejected || h.Outstanding != 1 || h.Failed != 1 {
			t.Errorf("after another reload %+v", h)
		}
		time.Sleep(time.Minute)
		hold.Done(AttemptResult{Delivered: true})
		(<-served).Done(AttemptResult{Delivered: true})
		if h := p.Health()[0]; h.Outstanding != 0 || h.State != Healthy {
			t.Errorf("in the end %+v", h)
		}
	})
}

func TestSplits(t *testing.T) {
	config := func(split string, weights ...int) Config {
		c := Config{Routes: []RouteConfig{{Model: "r", Split: split}}}
		for i, w := range weights {
			name := fmt.Sprint("u", i)
			c.Upstreams = append(c.Upstreams, upstreamsNamed(name)...)
			c.Routes[0].Candidates = append(c.Routes[0].Candidates, CandidateConfig{Upstream: name, Model: "m", Weight: w})
		}
		return c
	}
	ask := func(p *Policy, prefix uint64) *Attempt {
		return next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{Prefix: prefix}))
	}
	t.Run("weighted", func(t *testing.T) {
		p, order := dispatcher(t, config(SplitWeighted, 5, 1, 1), half), ""
		for range 7 {
			order += fmt.Sprint(ask(p, 0).Index)
		}
		if order != "0010200" { // nginx's own example
			t.Errorf("chosen: %s", order)
		}
	})
	t.Run("least outstanding", func(t *testing.T) {
		p := dispatcher(t, config(SplitLeast, 1, 1, 2), half)
		open := map[int]int{}
		for range 8 {
			open[ask(p, 0).Index]++
		}
		if open[0] != 2 || open[1] != 2 || open[2] != 4 {
			t.Errorf("open: %v", open)
		}
	})
	t.Run("prefix", func(t *testing.T) {
		p := dispatcher(t, config(SplitPrefix, 1, 1, 1, 1), half)
		homes := make([]int, 4000)
		count := map[int]int{}
		for i := range homes {
			a := ask(p, mix(uint64(i)))
			homes[i] = a.Index
			count[a.Index]++
			a.Done(AttemptResult{Delivered: true})
		}
		for i, n := range count {
			if n < 900 || n > 1100 {
				t.Errorf("candidate %d draws %d of 4000", i, n)
			}
		}
		moved := 0
		p.swap(t, config(SplitPrefix, 1, 1, 1)) // the last one goes
		for i, home := range homes {
			a := ask(p, mix(uint64(i)))
			if a.Index != home && home != 3 {
				moved++
			}
			a.Done(AttemptResult{Delivered: true})
		}
		if moved != 0 {
			t.Errorf("%d prefixes moved between candidates that stayed", moved)
		}
		// One prefix alone, many at once: the load is bounded.
		open := make([]int, 3)
		for range 300 {
			open[ask(p, 7).Index]++
		}
		if slices.Max(open) > 127 {
			t.Errorf("open: %v", open)
		}
	})
}

func TestScope(t *testing.T) {
	us := upstreamsNamed("eu", "us", "open")
	us[0].Region, us[0].DataClasses = "eu-1", []string{"public", "internal"}
	us[1].Region, us[1].DataClasses = "us-1", []string{"public", "internal"}
	c := Config{Upstreams: us, Routes: []RouteConfig{
		{Model: "both", Effect: ReadOnly, DataClasses: []string{"public", "internal"}, Candidates: candidatesAt("us", "eu")},
		{Model: "acts", DataClasses: []string{"internal"}, Candidates: candidatesAt("eu")},
		{Model: "any", Effect: ReadOnly, Candidates: append(candidatesAt("open"), CandidateConfig{Upstream: Local})},
	}}
	w := newWorld(t, c)
	for name, k := range map[string]struct {
		tenant TenantConfig
		key    store.Key
		want   string // per route: the candidates, or the rule
	}{
		"all":              {TenantConfig{}, store.Key{}, "us,eu eu open,local"},
		"read-only":        {TenantConfig{Effects: []string{ReadOnly}}, store.Key{}, "us,eu effects open,local"},
		"key read-only":    {TenantConfig{}, store.Key{Effects: []string{ReadOnly}}, "us,eu effects open,local"},
		"public":           {TenantConfig{DataClasses: []string{"public"}}, store.Key{}, "us,eu data_classes open,local"},
		"in Europe":        {TenantConfig{Regions: []string{"eu-1"}}, store.Key{}, "eu eu local"},
		"key in America":   {TenantConfig{}, store.Key{Regions: []string{"us-1"}}, "us regions local"},
		"nowhere":          {TenantConfig{Regions: []string{"eu-1"}}, store.Key{Regions: []string{"us-1"}}, "regions regions local"},
		"no class at all":  {TenantConfig{DataClasses: []string{"public"}}, store.Key{DataClasses: []string{"secret"}}, "data_classes data_classes data_classes"},
		"narrowed by key":  {TenantConfig{DataClasses: []string{"public", "internal"}}, store.Key{DataClasses: []string{"public"}}, "us,eu data_classes open,local"},
		"secret elsewhere": {TenantConfig{DataClasses: []string{"secret"}}, store.Key{}, "data_classes data_classes open,local"},
	} {
		k.tenant.Name = "default"
		c.Tenants = []TenantConfig{k.tenant}
		if err := w.p.Reload(c); err != nil {
			t.Fatal(err)
		}
		id := w.key(k.key)
		var got []string
		for _, m := range []string{"both", "acts", "any"} {
			r, err := w.p.Route(id, m)
			if err != nil {
				e := wantCode(t, err, infer.CodeForbidden)
				got = append(got, strings.Trim(e.Message[strings.LastIndexByte(e.Message, ' '):], " ()"))
				continue
			}
			var names []string
			for i := range r.Candidates {
				names = append(names, r.Candidates[i].Backend)
			}
			got = append(got, strings.Join(names, ","))
		}
		if s := strings.Join(got, " "); s != k.want {
			t.Errorf("%s: got %s, want %s", name, s, k.want)
		}
		listed := 1 // the local model
		if name == "no class at all" {
			listed = 0
		}
		for _, f := range strings.Fields(k.want) {
			if !strings.Contains("effects regions data_classes", f) {
				listed++
			}
		}
		if n := len(w.p.Models(id)); n != listed {
			t.Errorf("%s: %d models are listed, want %d", name, n, listed)
		}
	}
}

func TestAllowTools(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", Tools: []string{"get_*", "web_*"}}}})
	id := w.key(store.Key{Tools: []string{"get_time", "web_search*"}})
	wire := &infer.Wire{Body: []byte(`{"tools":[{"name":"get_time","allowed_callers":["x"]},{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"},
		{"googleSearch":{}},{"web_fetch":{}},{"type":"custom","name":"get_x"},{"type":"function","function":{"name":"get_y"}}]}`)}
	for name, c := range map[string]struct {
		tools []infer.Tool
		uses  []infer.Use
		ok    bool
	}{
		"none":           {nil, nil, true},
		"one":            {[]infer.Tool{{Name: "get_time"}}, nil, true},
		"tenant's only":  {[]infer.Tool{{Name: "get_date"}}, nil, false},
		"hosted":         {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[1]"}}, true},
		"with its kind":  {nil, []infer.Use{{Feature: infer.FeatureToolHostedOptional, Path: "tools[1].web_search_20250305"}}, true},
		"hosted bash":    {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[2].bash_20250124"}}, false},
		"by its key":     {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[3].googleSearch"}}, false},
		"unknown key":    {nil, []infer.Use{{Feature: infer.FeatureUnknown, Path: "tools[4].web_fetch"}}, false},
		"unknown type":   {nil, []infer.Use{{Feature: infer.FeatureUnknown, Path: "tools[2]"}}, false},
		"about one":      {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[0].allowed_callers"}, {Feature: infer.FeatureUnknown, Path: "tools[6].x"}}, true},
		"of free text":   {[]infer.Tool{{Name: "get_time"}}, []infer.Use{{Feature: infer.FeatureToolCustom, Path: "tools[5]"}}, true},
		"nowhere":        {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[17]"}}, false},
		"servers":        {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "mcp_servers"}}, false},
		"something else": {nil, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "something"}}, true},
	} {
		r := infer.Request{Tools: c.tools, Uses: c.uses, Wire: wire}
		if err := w.p.AllowTools(id, &r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Tools are declared in more places than one, and a list of allowed tools holds
// for all of them.
func TestAllowToolsBesideTools(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", Tools: []string{"calc"}}}})
	id := w.key(store.Key{})
	for _, c := range []struct {
		dialect, body string
		uses          []infer.Use
		ok            bool
	}{
		{dialectChat, `{"web_search_options":{}}`, nil, false},
		{dialectChat, `{"web_search_options":null}`, nil, true},
		{dialectChat, `{"plugins":[{"id":"web"}]}`, nil, false},
		{dialectChat, `{"search_parameters":{}}`, nil, false},
		{dialectCompletions, `{"prompt":"x"}`, nil, true},
		{dialectResponses, `{"prompt":{"id":"p"}}`, nil, false},
		{dialectResponses, `{"input":[{"type":"tool_search_output","tools":[{"type":"function","name":"shell"}]}]}`, nil, false},
		{dialectResponses, `{"input":[{"type":"tool_search_output","tools":[{"type":"mcp","name":"calc"}]}]}`, nil, false},
		{dialectResponses, `{"input":[{"type":"tool_search_output","tools":[{"type":"function","name":"calc"}]}]}`, nil, true},
		{dialectResponses, `{"input":[{"type":"tool_search_output","tools":{"type":"function","name":"calc"}}]}`, nil, false},
		{dialectResponses, `{"input":[{"role":"user","content":"x"}]}`, nil, true},
		{dialectAnthropic, `{"container":{"skills":[]}}`, nil, false},
		{dialectAnthropic, `{}`, []infer.Use{{Feature: infer.FeatureUnknown, Path: furtherFields}}, false},
		{dialectGemini, `{"tools":{"googleSearch":{}}}`, []infer.Use{{Feature: infer.FeatureUnknown, Path: "tools"}}, false},
		{dialectGemini, `{"tools":{"googleSearch":{}}}`, []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools.googleSearch"}}, false},
		{dialectGemini, `{"tools":{"functionDeclarations":[]}}`, []infer.Use{{Feature: infer.FeatureUnknown, Path: "tools.functionDeclarations[0].x"}}, true},
	} {
		r := infer.Request{Uses: c.uses, Wire: &infer.Wire{Dialect: c.dialect, Body: []byte(c.body)}}
		if err := w.p.AllowTools(id, &r); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.dialect, c.body, err)
		}
	}
}

func TestRevision(t *testing.T) {
	base := func() Config {
		us := upstreamsNamed("a", "b")
		return Config{PriceVersion: "1", Upstreams: us, Rules: []RuleConfig{{Name: "w", Kind: ruleKeyword, Words: []string{"x"}}},
			Routes: []RouteConfig{{Model: "r", Candidates: candidatesAt("a"), Rules: []string{"w"}}, {Model: "s", Candidates: candidatesAt("b")}},
			Prices: []PriceConfig{{Model: "a/m", InputUSDPerM: 1}}}
	}
	revision := func(change func(c *Config)) string {
		c := base()
		change(&c)
		return dispatcher(t, c, half).routeNamed("r").Revision
	}
	was := revision(func(*Config) {})
	for name, c := range map[string]struct {
		change func(c *Config)
		same   bool
	}{
		"nothing":          {func(c *Config) {}, true},
		"another route":    {func(c *Config) { c.Routes[1].Class = "x" }, true},
		"another upstream": {func(c *Config) { c.Upstreams[1].Region = "x" }, true},
		"tenants":          {func(c *Config) { c.Tenants = []TenantConfig{{Name: "x"}} }, true},
		"the route":        {func(c *Config) { c.Routes[0].OnLoss = "report" }, false},
		"its upstream":     {func(c *Config) { c.Upstreams[0].Credential = "env:OTHER" }, false},
		"its rule":         {func(c *Config) { c.Rules[0].Words[0] = "y" }, false},
		"its price":        {func(c *Config) { c.Prices[0].InputUSDPerM = 2 }, false},
		"the table":        {func(c *Config) { c.PriceVersion = "2" }, false},
	} {
		if got := revision(c.change); (got == was) != c.same || len(got) != 16 {
			t.Errorf("%s: revision %s, was %s", name, got, was)
		}
	}
}

func BenchmarkDispatch(b *testing.B) {
	c := Config{Upstreams: upstreamsNamed("a", "b", "c"), Routes: []RouteConfig{{Model: "r", Split: SplitLeast, Effect: ReadOnly, Candidates: candidatesAt("a", "b", "c")}}}
	p := dispatcher(b, c, half)
	route, ctx := p.routeNamed("r"), context.Background()
	usable := func(int) error { return nil }
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a, err := p.Dispatch(route, DispatchRequest{Usable: usable}).Next(ctx)
			if err != nil {
				b.Fatal(err)
			}
			a.Done(AttemptResult{Delivered: true})
		}
	})
}

func TestCallerLeavesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dispatcher(t, Config{Upstreams: upstreamsNamed("a"), Routes: []RouteConfig{{Model: "r", Effect: ReadOnly, Candidates: candidatesAt("a"), Retry: RetryConfig{Backoff: Duration(time.Second)}}}}, half)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		d := p.Dispatch(p.routeNamed("r"), DispatchRequest{})
		next(t, d).Done(AttemptResult{Err: failed(infer.FailServer, false, 0)})
		start := time.Now()
		if _, err := d.Next(ctx); !errors.Is(err, gone) || time.Since(start) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if _, err := d.Next(ctx); !errors.Is(err, gone) {
			t.Errorf("then %v", err)
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	c := Config{Upstreams: upstreamsNamed("a", "b"), Routes: []RouteConfig{{Model: "r", Candidates: candidatesAt("a", "b")}}}
	c.Tenants = []TenantConfig{{Name: "default", Effects: []string{ReadOnly, Effectful}, DataClasses: []string{"public"}}}
	c.Upstreams[0].Region, c.Upstreams[1].Region = "eu", "eu"
	p := dispatcher(b, c, half)
	s := p.snap.Load()
	t, k, r := s.tenants["default"], &store.Key{}, p.routeNamed("r")
	b.ReportAllocs()
	for range b.N {
		sc := scopeOf(t, k)
		if _, err := sc.permit(r); err != nil {
			b.Fatal(err)
		}
	}
}
