package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// rulesOf compiles rules for a route that names all of them.
func rulesFor(t testing.TB, rules ...RuleConfig) *Rules {
	t.Helper()
	return routeRules(t, RouteConfig{}, rules...)
}

func routeRules(t testing.TB, r RouteConfig, rules ...RuleConfig) *Rules {
	t.Helper()
	c := Config{Rules: rules}
	r.Model = "m"
	for i := range rules {
		if c.Rules[i].Name == "" {
			c.Rules[i].Name = fmt.Sprint("r", i)
		}
		r.Rules = append(r.Rules, c.Rules[i].Name)
	}
	c.Routes = []RouteConfig{r}
	c.Defaults()
	for _, f := range c.Validate() {
		t.Fatal(f)
	}
	out, err := c.compile(&c.Routes[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func said(text string) *infer.Request {
	r := infer.NewRequest()
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: text}}}}
	r.Wire = &infer.Wire{Dialect: dialectChat, Body: []byte(`{"model":"m","messages":[]}`)}
	return r
}

func TestNoRulesCostNothing(t *testing.T) {
	rs := rulesFor(t)
	if rs != nil {
		t.Fatal("rules where there are none")
	}
	r := said("x")
	if n := testing.AllocsPerRun(100, func() {
		out, d, err := rs.Before(r)
		if out != r || d != nil || err != nil || rs.After(r) != nil {
			t.Fatal("something was done")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDetectors(t *testing.T) {
	for kind, c := range map[string]struct{ yes, no []string }{
		"email": {
			[]string{"ann.lee+x@mail.example.com", "a@b.co", "x_1%2@sub-domain.example.museum"},
			[]string{"a@b", "@example.com", "a@.com", "a@b.c", "user@localhost", "a @b.com", "a@1.2.3.4"},
		},
		"phone": {
			[]string{"+44 20 7946 0958", "+14155550132", "+49 (30) 901820", "(415) 555-0132", "415-555-0132", "415.555.0132"},
			[]string{"4155550132", "+1234567", "+0 123 456 789", "12-34-56", "1415-555-01321", "3.1415-555-0132x", "+1234567890123456"},
		},
		"iban": {
			[]string{"DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19", "FR1420041010050500013M02606", "NO9386011117947"},
			[]string{"DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000", "DE89370400440532013000X", "ADE89370400440532013000"},
		},
		"credit_card": {
			[]string{"4111111111111111", "4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "6011111111111117"},
			[]string{"4111111111111112", "411111111111", "1111111111111117", "41111111111111110000", "x4111111111111111"},
		},
		"ssn": {
			[]string{"219-09-9999"},
			[]string{"000-12-3456", "666-12-3456", "912-12-3456", "219-00-9999", "219-09-0000", "219099999", "1219-09-9999", "219-09-99991", "219-09-9999-1"},
		},
		"ip": {
			[]string{"192.168.1.77", "8.8.8.8", "2001:db8::8a2e:370:7334", "fe80::1", "2001:db8:0:0:1:0:0:1"},
			[]string{"1.2.3", "256.1.1.1", "1.2.3.4.5", "v1.2.3.4", "12:30:45", "std::vector", "::", "a::b"},
		},
		"api_key": {
			[]string{"sk-proj-abcdefghijklmnopqrstuvwx", "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "AKIAIOSFODNN7EXAMPLE", "xoxb-1234567890-abcdefghij",
				"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def_ghi", "-----BEGIN RSA PRIVATE KEY-----\nMIIEow=="},
			[]string{"sk-short", "task-proj-abcdefghijklmnopqrstuvwx", "AKIA", "-----BEGIN CERTIFICATE-----\nMIIEow=="},
		},
	} {
		rule := rulesFor(t, RuleConfig{Kind: rulePII, Detect: []string{kind}, Action: actionRedact, Replacement: "#"}).requests[0].(*textRule)
		for _, yes := range c.yes {
			for _, around := range []string{"%s", "mail: %s, please", "(%s)", "\"%s\"", "ü %s\n"} {
				in := fmt.Sprintf(around, yes)
				if got, n := rule.find(in); n != 1 || got != fmt.Sprintf(around, "#") {
					t.Errorf("%s: %q became %q", kind, in, got)
				}
			}
		}
		for _, no := range c.no {
			if got, n := rule.find(no); n != 0 {
				t.Errorf("%s: %q became %q", kind, no, got)
			}
		}
	}
}

func TestRequestRules(t *testing.T) {
	tools := func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "shell_run"}, {Name: "get_time"}} }
	for name, c := range map[string]struct {
		rule   RuleConfig
		change func(r *infer.Request)
		want   string // decisions, then the code of the error
	}{
		"small":          {RuleConfig{Kind: ruleSize, MaxBytes: 100, MaxMessages: 1}, nil, ""},
		"large":          {RuleConfig{Kind: ruleSize, MaxBytes: 10}, nil, "r0=deny request_too_large"},
		"large, tagged":  {RuleConfig{Kind: ruleSize, MaxBytes: 10, Action: actionTag}, nil, "r0=tag"},
		"many tools":     {RuleConfig{Kind: ruleSize, MaxTools: 1}, tools, "r0=deny invalid_request"},
		"an image":       {RuleConfig{Kind: ruleModality, Allow: []string{"text"}}, func(r *infer.Request) { r.Messages[0].Content[0].Type = "image" }, "r0=deny permission_denied"},
		"a noted video":  {RuleConfig{Kind: ruleModality, Allow: []string{"text"}}, func(r *infer.Request) { r.Uses = []infer.Use{{Feature: infer.FeatureVideo}} }, "r0=deny permission_denied"},
		"text":           {RuleConfig{Kind: ruleModality, Allow: []string{"text"}}, nil, ""},
		"tools":          {RuleConfig{Kind: ruleTools, Deny: []string{"shell*"}}, tools, "r0=deny permission_denied"},
		"tools, listed":  {RuleConfig{Kind: ruleTools, Allow: []string{"get_*"}, Action: actionTag}, tools, "r0=tag"},
		"no tools":       {RuleConfig{Kind: ruleTools, Allow: []string{"get_*"}}, nil, ""},
		"a word":         {RuleConfig{Kind: ruleKeyword, Words: []string{"Bluebird"}}, nil, "r0=deny*2 permission_denied"},
		"a word, tagged": {RuleConfig{Kind: ruleKeyword, Words: []string{"bluebird"}, Action: actionTag}, nil, "r0=tag*2"},
		"part of a word": {RuleConfig{Kind: ruleKeyword, Words: []string{"blue"}}, nil, ""},
		"in a schema": {RuleConfig{Kind: ruleKeyword, Words: []string{"secret"}}, func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "x", Parameters: []byte(`{"a":["sec\u0072et"]}`)}}
		}, "r0=deny permission_denied"},
		"in a label":  {RuleConfig{Kind: rulePII, Detect: []string{"email"}}, func(r *infer.Request) { r.Hints.User = "a@example.com" }, "r0=deny permission_denied"},
		"in a number": {RuleConfig{Kind: rulePII, Detect: []string{"credit_card"}}, func(r *infer.Request) { r.Hints.Metadata = []byte(`{"a":4111111111111111}`) }, "r0=deny permission_denied"},
		"in a file": {RuleConfig{Kind: ruleKeyword, Words: []string{"secret"}}, func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "file", MIME: "text/plain", Data: []byte("a secret")}}
		}, "r0=deny permission_denied"},
		"unknown field": {RuleConfig{Kind: ruleKeyword, Words: []string{"secret"}}, func(r *infer.Request) {
			r.Wire.Body = []byte(`{"x":{"y":["a secret"]}}`)
			r.Uses = []infer.Use{{Feature: infer.FeatureUnknown, Path: "x.y[0]"}}
		}, "r0=deny permission_denied"},
		"unknown place": {RuleConfig{Kind: ruleKeyword, Words: []string{"secret"}}, func(r *infer.Request) {
			r.Wire.Body = []byte(`{"x":"a secret"}`)
			r.Uses = []infer.Use{{Feature: infer.FeatureUnknown, Path: "z"}}
		}, "r0=deny permission_denied"},
		"not replaceable": {RuleConfig{Kind: ruleKeyword, Words: []string{"bob"}, Action: actionRedact}, func(r *infer.Request) { r.Messages[0].Name = "bob" }, "r0=deny permission_denied"},
		"token ids":       {RuleConfig{Kind: ruleKeyword, Words: []string{"bob"}}, func(r *infer.Request) { r.Prompts = []infer.Prompt{{Tokens: []int32{1}}} }, "unsupported"},
		"logprobs":        {RuleConfig{Kind: ruleKeyword, Words: []string{"bob"}, On: []string{onAnswer}}, func(r *infer.Request) { r.Sampling.Logprobs = true }, "unsupported"},
		"bad schema":      {RuleConfig{Kind: ruleToolArguments}, func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "x", Parameters: []byte(`{"type":"strange"}`)}} }, "invalid_request"},
		"foreign schema": {RuleConfig{Kind: ruleJSON}, func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: []byte(`{"$ref":"http://127.0.0.1:1/x"}`)}
		}, "invalid_request"},
	} {
		r := said("the Bluebird and the BLUEBIRD of Rosebluebirds")
		if c.change != nil {
			c.change(r)
		}
		was, _ := json.Marshal(r)
		out, ds, err := rulesFor(t, c.rule).Before(r)
		var got []string
		for _, d := range ds {
			got = append(got, d.String())
		}
		if err != nil {
			e := infer.AsError(err)
			got = append(got, string(e.Code))
			if out != r || e.Code != infer.CodeUnsupported && (!errors.Is(err, ErrDenied) || !strings.Contains(e.Message, `"r0"`)) {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Contains(e.Message, "luebird") || strings.Contains(e.Message, "secret") {
				t.Errorf("%s: the error repeats content: %v", name, err)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
		if is, _ := json.Marshal(r); string(is) != string(was) {
			t.Errorf("%s: the caller's request was changed", name)
		}
	}
}

func TestRedactRequest(t *testing.T) {
	rs := rulesFor(t, RuleConfig{Kind: rulePII, Detect: []string{"email", "credit_card"}, Action: actionRedact})
	r := said("write to ann@example.com or bob@example.org")
	r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, ToolCalls: []infer.ToolCall{{Arguments: `{"to" : "x\u0040example.com", "card":4111111111111111,"n":12}`}}})
	r.Tools = []infer.Tool{{Name: "t", Description: "like c@example.com"}}
	out, ds, err := rs.Before(r)
	if err != nil || len(ds) != 1 || ds[0] != (Decision{"r0", actionRedact, onRequest, 5}) {
		t.Fatalf("%v %v", ds, err)
	}
	if out == r || out.Wire != nil || r.Wire == nil {
		t.Error("the bytes of the request would still be sent")
	}
	got := out.Messages[0].Text() + "|" + out.Messages[1].ToolCalls[0].Arguments + "|" + out.Tools[0].Description
	if got != `write to [redacted] or [redacted]|{"to" : "[redacted]", "card":"[redacted]","n":12}|like [redacted]` {
		t.Errorf("got %s", got)
	}
	if clean := said("nothing here"); true {
		if out, ds, err := rs.Before(clean); out != clean || ds != nil || err != nil {
			t.Error("a clean request was changed")
		}
	}
}

func TestMaxTokens(t *testing.T) {
	for _, c := range []struct {
		dialect, body string
		asked         int
		over          string
		want, code    string // Wire.Set as JSON
	}{
		{dialectChat, `{"max_tokens":50}`, 50, "clamp", "null", ""},
		{dialectChat, `{"max_tokens":500}`, 500, "clamp", `{"max_tokens":100}`, ""},
		{dialectChat, `{"max_tokens":500,"max_completion_tokens":500}`, 500, "clamp", `{"max_completion_tokens":100,"max_tokens":100}`, ""},
		{dialectChat, `{}`, 0, "reject", `{"max_completion_tokens":100}`, ""},
		{dialectChat, `{"max_tokens":500}`, 500, "reject", "", "invalid_request"},
		{dialectAnthropic, `{"max_tokens":500}`, 500, "clamp", `{"max_tokens":100}`, ""},
		{dialectGemini, `{"generation_config":{"temperature":1,"maxOutputTokens":500}}`, 500, "clamp", `{"generation_config":{"maxOutputTokens":100,"temperature":1}}`, ""},
		{dialectGemini, `{}`, 0, "clamp", `{"generationConfig":{"maxOutputTokens":100}}`, ""},
		{dialectOllama, `{"options":{"num_ctx":9,"num_predict":500}}`, 500, "clamp", `{"options":{"num_ctx":9,"num_predict":100}}`, ""},
		{dialectConverse, `{"inferenceConfig":null}`, 0, "clamp", `{"inferenceConfig":{"maxTokens":100}}`, ""},
		{dialectResponses, `{"max_output_tokens":500}`, 500, "clamp", `{"max_output_tokens":100}`, ""},
	} {
		rs := routeRules(t, RouteConfig{MaxOutputTokens: 100, OverMax: c.over})
		r := said("x")
		r.Wire.Dialect, r.Wire.Body, r.Sampling.MaxTokens = c.dialect, []byte(c.body), c.asked
		out, ds, err := rs.Before(r)
		if err != nil {
			if string(infer.AsError(err).Code) != c.code || len(ds) != 1 {
				t.Errorf("%s: %v", c.body, err)
			}
			continue
		}
		set, _ := json.Marshal(out.Wire.Set)
		if string(set) != c.want || c.code != "" || out.Sampling.MaxTokens != min(c.asked, 100) && out.Sampling.MaxTokens != 100 || r.Wire.Set != nil {
			t.Errorf("%s %s: set %s, %d tokens", c.dialect, c.body, set, out.Sampling.MaxTokens)
		}
		if (len(ds) > 0) != (c.asked > 100) {
			t.Errorf("%s: %v", c.body, ds)
		}
	}
}

func TestNormalize(t *testing.T) {
	rs := routeRules(t, RouteConfig{Normalize: []string{"newlines", "trim", "nfc"}}, RuleConfig{Kind: ruleKeyword, Words: []string{"é"}, Action: actionTag})
	r := said(" a\r\nb e\u0301 ")
	out, ds, err := rs.Before(r)
	if err != nil || out.Messages[0].Text() != "a\nb \u00e9" || out.Wire != nil || len(ds) != 1 {
		t.Errorf("%q %v %v", out.Messages[0].Text(), ds, err)
	}
	if same := said("plain"); true {
		if out, _, _ := rs.Before(same); out != same {
			t.Error("a normal request was changed")
		}
	}
}

// answer runs events through a filter.
func answer(f *AnswerFilter, events ...infer.Event) (out []infer.Event, err error) {
	for ev, e := range f.Filter(func(yield func(infer.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}) {
		if e != nil {
			return out, e
		}
		out = append(out, ev)
	}
	return out, nil
}

func textOf(events []infer.Event, kind infer.EventKind) string {
	var b strings.Builder
	for _, ev := range events {
		if ev.Kind == kind {
			b.WriteString(ev.Text)
		}
	}
	return b.String()
}

// pieces cuts a text at random places, also within characters.
func pieces(r *rand.Rand, s string) []string {
	var out []string
	for len(s) > 0 {
		n := 1 + r.IntN(min(len(s), 1+r.IntN(12)))
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

func TestAnswerIsRedactedInPieces(t *testing.T) {
	rs := rulesFor(t, RuleConfig{Kind: rulePII, On: []string{onAnswer}, Detect: []string{"email"}, Action: actionRedact, Replacement: "#"},
		RuleConfig{Kind: ruleKeyword, On: []string{onAnswer}, Words: []string{"blue bird"}, Action: actionTag})
	r := said("x")
	r.Tools = []infer.Tool{{Name: "t"}}
	f := rs.After(r)
	native := infer.Served{Native: true}
	frame := &infer.Frame{Data: []byte("ann@example.com")}
	out, err := answer(f,
		infer.Event{Kind: infer.EventStart, Model: &native, Frame: frame},
		infer.Event{Kind: infer.EventFrame, Frame: frame},
		infer.Event{Kind: infer.EventReasoning, Text: "think of ann@ex", Tokens: 2},
		infer.Event{Kind: infer.EventReasoning, Text: "ample.com", Tokens: 1},
		infer.Event{Kind: infer.EventText, Text: "write to bob", Frame: frame, Tokens: 3},
		infer.Event{Kind: infer.EventText, Text: "@exam", Tokens: 1},
		infer.Event{Kind: infer.EventText, Text: "ple.org, blue b", Tokens: 1},
		infer.Event{Kind: infer.EventText, Text: "ird!", Tokens: 1},
		infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "c1", Name: "t", Arguments: `{"to":"c\u0`}, Tokens: 4},
		infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Arguments: `040example.com"}`}, Tokens: 1},
		infer.Event{Kind: infer.EventFinish, Finish: infer.FinishToolCalls},
		infer.Event{Kind: infer.EventUsage, Frame: frame},
	)
	if err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for _, ev := range out {
		tokens += ev.Tokens
		if ev.Frame != nil || ev.Kind == infer.EventFrame || ev.Model != nil && ev.Model.Native {
			t.Errorf("the answer would be passed on as it came: %+v", ev)
		}
		if ev.Kind == infer.EventTool && (ev.Tool.Arguments != `{"to":"#"}` || ev.Tool.ID != "c1" || ev.Tool.Name != "t") {
			t.Errorf("call %+v", ev.Tool)
		}
	}
	if tokens != 14 {
		t.Errorf("%d tokens, want 14", tokens)
	}
	if got := textOf(out, infer.EventReasoning) + "|" + textOf(out, infer.EventText); got != "think of #|write to #, blue bird!" {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(f.Decisions()); got != "[r0=redact*3 r1=tag]" || !native.Native {
		t.Errorf("decisions %s", got)
	}
	last := out[len(out)-1].Kind
	if last != infer.EventUsage {
		t.Errorf("the last event is %v", last)
	}
}

func TestAnswerIsDenied(t *testing.T) {
	rs := rulesFor(t, RuleConfig{Kind: ruleKeyword, On: []string{onAnswer}, Words: []string{"bluebird"}})
	f := rs.After(said("x"))
	out, err := answer(f, infer.Event{Kind: infer.EventText, Text: "the blue"}, infer.Event{Kind: infer.EventText, Text: "bird is "}, infer.Event{Kind: infer.EventText, Text: "a long way from here"},
		infer.Event{Kind: infer.EventFinish}, infer.Event{Kind: infer.EventUsage})
	e := wantCode(t, err, infer.CodeForbidden)
	if !errors.Is(err, ErrDenied) || !e.NoRetry || strings.Contains(textOf(out, infer.EventText), "blue") || fmt.Sprint(f.Decisions()) != "[r0=deny]" {
		t.Errorf("passed on %q, decisions %v, %v", textOf(out, infer.EventText), f.Decisions(), err)
	}
}

// A tool that is declared by its type alone has no schema to check against.
func TestAnswerCallsTypedTool(t *testing.T) {
	r := said("x")
	r.Wire.Body = []byte(`{"tools":[{"type":"bash_20250124","name":"bash"}]}`)
	r.Uses = []infer.Use{{Feature: infer.FeatureToolHosted, Path: "tools[0].bash_20250124"}}
	r.Tools = []infer.Tool{{Name: "t"}}
	f := rulesFor(t, RuleConfig{Kind: ruleToolArguments}).After(r)
	if _, err := answer(f, infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "c", Name: "bash", Arguments: `{"command":"ls"}`}}, infer.Event{Kind: infer.EventFinish}); err != nil {
		t.Error(err)
	}
}

func TestAnswerChecks(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	call := func(name, args string) []infer.Event {
		return []infer.Event{{Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "c", Name: name, Arguments: args[:len(args)/2]}},
			{Kind: infer.EventTool, Tool: &infer.ToolDelta{Arguments: args[len(args)/2:]}}, {Kind: infer.EventFinish, Finish: infer.FinishToolCalls}, {Kind: infer.EventUsage}}
	}
	text := func(s string) []infer.Event {
		return []infer.Event{{Kind: infer.EventText, Text: s[:len(s)/2]}, {Kind: infer.EventText, Text: s[len(s)/2:]}, {Kind: infer.EventFinish, Finish: infer.FinishStop}, {Kind: infer.EventUsage}}
	}
	for name, c := range map[string]struct {
		kind   string
		format infer.FormatKind
		events []infer.Event
		ok     bool
	}{
		"good call":        {ruleToolArguments, "", call("t", `{"n":1}`), true},
		"no arguments":     {ruleToolArguments, "", call("free", ``), true},
		"bad call":         {ruleToolArguments, "", call("t", `{"n":"1"}`), false},
		"broken call":      {ruleToolArguments, "", call("t", `{"n":1`), false},
		"undeclared call":  {ruleToolArguments, "", call("u", `{"n":1}`), false},
		"no call":          {ruleToolArguments, "", text("hello"), true},
		"good answer":      {ruleJSON, infer.FormatJSONSchema, text(`{"n":1}`), true},
		"bad answer":       {ruleJSON, infer.FormatJSONSchema, text(`{"m":1}`), false},
		"object":           {ruleJSON, infer.FormatJSONObject, text(`{"m":1}`), true},
		"no object":        {ruleJSON, infer.FormatJSONObject, text(`[1]`), false},
		"no JSON asked":    {ruleJSON, "", text("hello"), true},
		"a call in place":  {ruleJSON, infer.FormatJSONObject, call("t", `{}`), true},
		"more than JSON":   {ruleJSON, infer.FormatJSONObject, text("{} {}"), false},
		"nothing at all":   {ruleJSON, infer.FormatJSONObject, text(""), false},
		"large and broken": {ruleJSON, infer.FormatJSONObject, text(strings.Repeat("[", 100_000)), false},
	} {
		for _, action := range []string{actionDeny, actionTag} {
			r := said("x")
			r.Tools, r.Format = []infer.Tool{{Name: "t", Parameters: schema}, {Name: "free"}}, infer.Format{Kind: c.format, Schema: schema}
			rs := rulesFor(t, RuleConfig{Kind: c.kind, Action: action})
			if _, _, err := rs.Before(r); err != nil {
				t.Fatal(name, err)
			}
			f := rs.After(r)
			out, err := answer(f, c.events...)
			if action == actionTag {
				if err != nil || len(out) != len(c.events) {
					t.Errorf("%s: %d events, %v", name, len(out), err)
				}
			} else if (err == nil) != c.ok {
				t.Errorf("%s: %v", name, err)
			} else if err != nil && slices.ContainsFunc(out, func(ev infer.Event) bool { return ev.Kind == infer.EventFinish }) {
				t.Errorf("%s: it was finished", name)
			}
			if d := f.Decisions(); (len(d) == 0) != c.ok {
				t.Errorf("%s: decisions %v", name, d)
			}
		}
	}
}

// alphabet has what the rules of the fuzz test look for, and its beginnings.
var alphabet = []string{"ann@example.com", "a", "@", ".", "example", "com", "+44 20 7946 0958", "+44", " ", "4111 1111 1111 1111", "4111", "-", "219-09-9999", "DE89 3704 0044 0532 0130 00",
	"DE89", "192.168.1.1", "2001:db8::1", ":", "sk-proj-abcdefghijklmnopqrstuvwx", "sk-", "eyJ", "bluebird", "Blue", "bird", "ü", "K", "é", "\xff", "\n", "key-aaaa", "key-", "x", "0", "9",
	"-----BEGIN PRIVATE KEY-----\nAAAA\n", "-----BEGIN ", "(415) 555-0132"}

func fuzzRules(t testing.TB) []*textRule {
	return rulesFor(t,
		RuleConfig{Kind: rulePII, On: []string{onAnswer}, Detect: detectorNames(), Action: actionRedact, Replacement: "#"},
		RuleConfig{Kind: ruleKeyword, On: []string{onAnswer}, Words: []string{"bluebird", "über", "kelvin"}, Action: actionRedact, Replacement: "<w>"},
		RuleConfig{Kind: ruleRegex, On: []string{onAnswer}, Patterns: []string{`\bkey-[a-z]{2,8}\b`, `(?m)^x.{0,3}$`, `\Bbird`, `é|e\x{301}`, `[^a-z]{3}9`, `\Aa{1,9}?x|aa{0,3}`}, Action: actionRedact, Replacement: "!"},
	).answers
}

// inPieces must be the same as whole, for each rule alone and for all in a row.
func checkInPieces(t *testing.T, rules []*textRule, text string, cut func(string) []string) {
	t.Helper()
	want := text
	for i, rule := range append([]*textRule{nil}, rules...) {
		set := rules
		whole := text
		if rule != nil {
			set = []*textRule{rule}
			whole, _ = rule.find(text)
		} else {
			for _, r := range rules {
				want, _ = r.find(want)
			}
			whole = want
		}
		c, got := newChain(set), ""
		for _, p := range cut(text) {
			out, deny := c.feed([]byte(p), false)
			if deny != nil {
				t.Fatal("denied")
			}
			got += string(out)
			held := 0
			for _, s := range c {
				held += len(s.buf) - s.from
			}
			if held > len(set)*(maxMatchBytes+8) {
				t.Errorf("%d bytes are held back", held)
			}
		}
		out, _ := c.feed(nil, true)
		if got += string(out); got != whole {
			t.Fatalf("rule %d: %q\nin pieces %q\nas one    %q", i-1, text, got, whole)
		}
	}
}

func TestRedactionInPieces(t *testing.T) {
	rules := fuzzRules(t)
	r := rand.New(rand.NewPCG(1, 2))
	n := 1000
	if testing.Short() {
		n = 300
	}
	for range n {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		checkInPieces(t, rules, b.String(), func(s string) []string { return pieces(r, s) })
	}
}

// What is found, and so what is left out, does not depend on the pieces.
func FuzzRedactionInPieces(f *testing.F) {
	for i, a := range alphabet {
		f.Add(a+alphabet[(i+7)%len(alphabet)], uint64(i))
	}
	rules := fuzzRules(f)
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 1000 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		checkInPieces(t, rules, text, func(s string) []string { return pieces(r, s) })
	})
}

// A rewritten JSON text stays JSON.
func FuzzRedactJSON(f *testing.F) {
	f.Add(`{"a":["ann@example.com",4111111111111111,-1.5e3,true,null,"\u0041\\"]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) {
			return
		}
		n := 0
		v := visitor{f: func(s string, _ bool) string {
			if n++; n%2 == 0 {
				return s
			}
			return "#"
		}}
		if out := v.json([]byte(s)); !json.Valid(out) {
			t.Errorf("%q became %q", s, out)
		}
	})
}

func BenchmarkAnswerRules(b *testing.B) {
	rs := rulesFor(b, RuleConfig{Kind: rulePII, On: []string{onAnswer}, Detect: detectorNames(), Action: actionRedact})
	r := said("x")
	ev := infer.Event{Kind: infer.EventText, Text: " a few words, 12", Tokens: 1}
	b.ReportAllocs()
	for range b.N {
		f := rs.After(r)
		for range 64 {
			if _, err := f.Event(ev); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// What goes to a provider byte for byte is looked through byte for byte: it makes
// no difference whether a decoder knows the field, or what it takes it for.
func TestTextRulesSeeTheWholeBody(t *testing.T) {
	deny := rulesFor(t, RuleConfig{Kind: ruleKeyword, Words: []string{"bluebird"}})
	redact := rulesFor(t, RuleConfig{Kind: ruleKeyword, Words: []string{"bluebird"}, Action: actionRedact})
	media := strings.Repeat("abcdefgh/bluebird/abcdefgh", 4)
	for _, c := range []struct {
		body  string
		found bool
	}{
		{`{"messages":[]}`, false},
		{`{"prediction":{"type":"content","content":"bluebird"}}`, true},
		{`{"bluebird":1}`, true},
		{`{"a.b":"bluebird","a":{"b":"x"}}`, true},
		{`{"web_search_options":{"user_location":{"city":"blue\u0062ird"}}}`, true},
		{`{"messages":[{"role":"user","content":[{"type":"weird","x":["y","bluebird"]}]}]}`, true},
		{`{"image":{"data":"` + media + `","url":"data:image/png;base64,` + media + `","images":["` + media + `","` + media + `"]}}`, false},
		{`{"image":{"text":"` + media + `"}}`, true},
		{`{"image":{"url":"https://example.org/bluebird"}}`, true},
	} {
		r := said("x")
		r.Wire = &infer.Wire{Dialect: dialectChat, Body: []byte(c.body)}
		if _, _, err := deny.Before(r); (err != nil) != c.found {
			t.Errorf("%s: %v", c.body, err)
		}
		out, _, err := redact.Before(r)
		if err != nil || (out.Wire == nil) != c.found {
			t.Errorf("redacted %s: %v, and the bytes go out: %v", c.body, err, out.Wire != nil)
		}
	}
}
