package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// message is a request of the Messages format.
func message(content string, extra ...string) string {
	return ask(content, append([]string{`"max_tokens":50`}, extra...)...)
}

func TestMessages(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, path := range []string{"/v1/messages", "/v1/messages?beta=true", "/messages", "/v1/v1/messages", "/v1/messages/"} {
		a := b.do("POST", path, message("good day"), "Anthropic-Version", "2026-10-21")
		v := a.js(t)
		if a.status != 200 || fmt.Sprint(v["content"]) != "[map[text:You said: good day type:text]]" || v["stop_reason"] != "end_turn" {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		id := a.header.Get("Request-Id")
		if v["id"] != "msg_"+strings.TrimPrefix(id, "req_") || a.header.Get("X-Hearth-Contract") == "" {
			t.Errorf("%s: id %v of request %s, %v", path, v["id"], id, a.header)
		}
		if a.header.Get("Anthropic-Ratelimit-Requests-Remaining") != "59" || a.header.Get("Anthropic-Ratelimit-Tokens-Limit") != "10000" {
			t.Errorf("%s: limits %v", path, a.header)
		}
		if _, err := time.Parse(time.RFC3339, a.header.Get("Anthropic-Ratelimit-Tokens-Reset")); err != nil {
			t.Error(err)
		}
		u := v["usage"].(map[string]any)
		if u["input_tokens"] != 3.0 || u["cache_read_input_tokens"] != 2.0 || u["output_tokens"] != 4.0 {
			t.Errorf("%s: usage %v", path, u)
		}
	}
	// The older way to send the key, and no version at all.
	if a := b.do("POST", "/v1/messages", message("x"), "Authorization", "", "X-Api-Key", webtest.Key); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if r := b.svc.Last.Load(); r.Wire == nil || r.Wire.Dialect != "anthropic" || string(r.Wire.Body) != message("x") || r.Sampling.MaxTokens != 50 {
		t.Errorf("request: %+v", r)
	}
	if a := b.do("HEAD", "/", "", "Authorization", ""); a.status != 200 {
		t.Errorf("HEAD /: %d", a.status)
	}
}

func TestMessagesStream(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", "/v1/messages", message("think naïve", `"stream":true`))
	want := "message_start content_block_start content_block_delta content_block_stop content_block_start content_block_delta content_block_stop message_delta message_stop"
	var order []string
	text := ""
	for _, e := range events(t, a.body) {
		var o struct {
			Type  string
			Delta struct{ Text string }
		}
		if err := json.Unmarshal([]byte(e), &o); err != nil {
			t.Fatal(err)
		}
		text += o.Delta.Text
		if n := len(order); n == 0 || order[n-1] != o.Type {
			order = append(order, o.Type)
		}
	}
	if got := strings.Join(order, " "); got != want || text != "You said: think naïve" {
		t.Errorf("got %s, %q", got, text)
	}
	// An answer that breaks off ends with the error; no stop is claimed.
	for _, asked := range []string{"die", "crash"} {
		a := b.do("POST", "/v1/messages", message(asked, `"stream":true`))
		s := string(a.body)
		if !strings.Contains(s, "so far") || !strings.Contains(s, "event: error\ndata: {\"type\":\"error\"") || strings.Contains(s, "message_stop") || strings.Contains(s, "message_delta") {
			t.Errorf("%s: got %s", asked, s)
		}
		if !strings.HasSuffix(strings.TrimSpace(s), `"request_id":"`+a.header.Get("Request-Id")+`"}`) {
			t.Errorf("%s: the error does not come last: %s", asked, s)
		}
	}
}

// TestMessagesHeartbeat: a comment before message_start, ping events behind it.
func TestMessagesHeartbeat(t *testing.T) {
	b := start(t, web.Limits{Heartbeat: 120 * time.Millisecond}, nil)
	b.svc.Hook = func(_ context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		time.Sleep(300 * time.Millisecond)
		if !yield(infer.Event{Kind: infer.EventStart, Usage: &infer.Usage{PromptTokens: 3}, Model: &infer.Served{Name: "parrot"}}, nil) {
			return
		}
		time.Sleep(300 * time.Millisecond)
		for _, ev := range []infer.Event{{Kind: infer.EventText, Text: "late"}, {Kind: infer.EventFinish, Finish: infer.FinishStop}, {Kind: infer.EventUsage, Usage: &infer.Usage{}}} {
			if !yield(ev, nil) {
				return
			}
		}
	}
	s := string(b.do("POST", "/v1/messages", message("x", `"stream":true`)).body)
	start, ping := strings.Index(s, "event: message_start"), strings.Index(s, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
	if !strings.HasPrefix(s, ": ping\n\n") || ping < start || ping > strings.Index(s, "late") {
		t.Errorf("got %s", s)
	}
}

// TestMessagesNative passes the frames of a provider on as they are.
func TestMessagesNative(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	frame := func(name, data string) *infer.Frame { return &infer.Frame{Event: name, Data: []byte(data)} }
	b.svc.Hook = func(_ context.Context, _ *web.Grant, r *infer.Request, yield func(infer.Event, error) bool) {
		start := infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "parrot", Native: true}}
		end := infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{}, Frame: frame("", `{"type":"message","x_new": 1}`)}
		if r.Stream {
			start.Frame, end.Frame = frame("message_start", `{"type":"message_start","x":1}`), frame("message_stop", `{"type":"message_stop"}`)
		}
		_ = yield(start, nil) && (!r.Stream || yield(infer.Event{Kind: infer.EventFrame, Frame: frame("new", `{"type":"new"}`)}, nil)) &&
			yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) && yield(end, nil)
	}
	want := "event: message_start\ndata: {\"type\":\"message_start\",\"x\":1}\n\nevent: new\ndata: {\"type\":\"new\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	if a := b.do("POST", "/v1/messages", message("x", `"stream":true`)); string(a.body) != want {
		t.Errorf("got %s", a.body)
	}
	if a := b.do("POST", "/v1/messages", message("x")); string(a.body) != `{"type":"message","x_new": 1}` || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s", a.body)
	}
}

// TestMessagesErrors: whatever refuses, the error has the form of the format.
func TestMessagesErrors(t *testing.T) {
	b := start(t, web.Limits{BodyBytes: 4096}, nil)
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		kind               string
	}{
		{"POST", "/v1/messages", `{"model":`, nil, 400, "invalid_request_error"},
		{"POST", "/v1/messages", ask("x"), nil, 400, "invalid_request_error"}, // no max_tokens
		{"POST", "/v1/messages", message("x"), []string{"Authorization", ""}, 401, "authentication_error"},
		{"POST", "/v1/messages", message("x"), []string{"Authorization", "Bearer forbidden"}, 403, "permission_error"},
		{"POST", "/v1/messages", message("x"), []string{"Authorization", "Bearer limited"}, 429, "rate_limit_error"},
		{"POST", "/v1/messages", message("x"), []string{"Authorization", "Bearer broke"}, 429, "billing_error"},
		{"POST", "/v1/messages", strings.Replace(message("x"), "parrot", "nobody", 1), nil, 404, "not_found_error"},
		{"POST", "/v1/messages", message("error overloaded"), nil, 529, "overloaded_error"},
		{"POST", "/v1/messages", message("error overloaded", `"stream":true`), nil, 529, "overloaded_error"},
		{"POST", "/v1/messages", message("panic"), nil, 500, "api_error"},
		{"POST", "/v1/messages", message(strings.Repeat("x", 5000)), nil, 413, "request_too_large"},
		{"POST", "/v1/messages", message("x"), []string{"Content-Type", "text/plain"}, 415, "invalid_request_error"},
		{"GET", "/v1/messages", "", nil, 405, "invalid_request_error"},
		{"POST", "/v1/messages/nowhere", message("x"), nil, 404, "not_found_error"},
		{"POST", "/v1/nowhere", message("x"), []string{"Anthropic-Version", "2023-06-01"}, 404, "not_found_error"},
		{"GET", "/v1/models/nobody", "", []string{"Anthropic-Version", "2023-06-01"}, 404, "not_found_error"},
		{"GET", "/v1/models", "", []string{"Anthropic-Version", "2023-06-01", "Authorization", "Bearer wrong"}, 401, "authentication_error"},
		{"POST", "/v1/messages/count_tokens", `{"model":"m"}`, nil, 400, "invalid_request_error"},
	} {
		a := b.do(c.method, c.path, c.body, c.header...)
		e := a.errorOf(t)
		v := a.js(t)
		if a.status != c.status || e["type"] != c.kind || v["type"] != "error" || v["request_id"] != a.header.Get("Request-Id") {
			t.Errorf("%s %s %.60s: got %d %s, want %d %s", c.method, c.path, c.body, a.status, a.body, c.status, c.kind)
		}
	}
}

func TestCountTokens(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", "/v1/messages/count_tokens", ask("one two three"))
	if a.status != 200 || string(a.body) != "{\"input_tokens\":3}\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if b.svc.Calls.Load() != 0 {
		t.Error("counting generated")
	}
}

// TestModelsForBoth: one list that both families of SDKs read.
func TestModelsForBoth(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, header := range [][]string{nil, {"Anthropic-Version", "2023-06-01"}} {
		v := b.do("GET", "/v1/models", "", header...).js(t)
		m := v["data"].([]any)[0].(map[string]any)
		if v["object"] != "list" || v["has_more"] != false || v["first_id"] != "parrot" || v["last_id"] != "parrot" || m["type"] != "model" || m["object"] != "model" ||
			m["display_name"] == "" || m["lifecycle"] != "active" || m["max_input_tokens"] != 2048.0 || m["owned_by"] == "" {
			t.Errorf("got %v", v)
		}
		if _, err := time.Parse(time.RFC3339, m["created_at"].(string)); err != nil {
			t.Error(err)
		}
	}
}
