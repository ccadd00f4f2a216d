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

const responsesPath = "/v1/responses"

// respond makes a response and gives its id and the object.
func (b *bench) respond(body string, header ...string) (string, map[string]any) {
	b.t.Helper()
	a := b.do("POST", responsesPath, body, header...)
	if a.status != 200 {
		b.t.Fatalf("%s: %d %s", body, a.status, a.body)
	}
	v := a.js(b.t)
	return v["id"].(string), v
}

// answered is the text of a response object.
func answered(v map[string]any) string {
	text := ""
	out, _ := v["output"].([]any)
	for _, it := range out {
		parts, _ := it.(map[string]any)["content"].([]any)
		for _, p := range parts {
			if p := p.(map[string]any); p["type"] == "output_text" {
				text += p["text"].(string)
			}
		}
	}
	return text
}

// eventNames are the types of the events of a stream; the last one's response is
// returned too.
func eventNames(t *testing.T, body []byte) (out []string, last map[string]any) {
	t.Helper()
	for i, data := range events(t, body) {
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		if n, ok := v["sequence_number"].(float64); !ok || i > 0 && int(n) < i {
			t.Errorf("event %d has the number %v", i, v["sequence_number"])
		}
		out = append(out, v["type"].(string))
		if r, ok := v["response"].(map[string]any); ok {
			last = r
		}
	}
	return out, last
}

func TestResponses(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, path := range []string{"/v1/responses", "/responses", "/v1/responses/"} {
		a := b.do("POST", path, `{"model":"parrot","input":"good day"}`)
		if v := a.js(t); a.status != 200 || v["object"] != "response" || v["status"] != "completed" || answered(v) != "You said: good day" || a.header.Get("X-Hearth-Contract") == "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := b.do("POST", responsesPath, `{"model":"parrot","input":"good day","stream":true}`)
	ev, last := eventNames(t, a.body)
	if a.status != 200 || ev[0] != "response.created" || ev[1] != "response.in_progress" || ev[len(ev)-1] != "response.completed" || answered(last) != "You said: good day" {
		t.Errorf("%d %q", a.status, ev)
	}
	// However it breaks off, it ends with response.failed; before the first byte
	// an error is an HTTP error.
	for _, asked := range []string{"die", "crash"} {
		a = b.do("POST", responsesPath, `{"model":"parrot","input":"`+asked+`","stream":true}`)
		ev, last = eventNames(t, a.body)
		if a.status != 200 || ev[len(ev)-1] != "response.failed" || last["status"] != "failed" || last["error"] == nil || answered(last) != "so far" {
			t.Errorf("%s: %d %s", asked, a.status, a.body)
		}
	}
	for _, stream := range []string{"true", "false"} {
		a = b.do("POST", responsesPath, `{"model":"parrot","input":"error overloaded","stream":`+stream+`}`)
		if a.errorOf(t); a.status != 503 {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	for body, param := range map[string]string{`{"model":"parrot"}`: "input", `{"model":"parrot","input":"a","temperature":9}`: "temperature"} {
		a = b.do("POST", responsesPath, body)
		if e := a.errorOf(t); a.status != 400 || e["param"] != param || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a = b.do("POST", responsesPath, `{"model":"parrot","input":"a"}`, "Authorization", ""); a.status != 401 {
		t.Errorf("without a key: %d", a.status)
	}
	if a = b.do("PUT", responsesPath, `{}`); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("PUT: %d %v", a.status, a.header)
	}
	if n := b.do("POST", "/v1/responses/input_tokens", `{"model":"parrot","input":"one two three"}`).js(t); n["input_tokens"] != 3.0 || n["object"] != "response.input_tokens" {
		t.Errorf("counted %v", n)
	}
}

func TestResponsesState(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	first, _ := b.respond(`{"model":"parrot","instructions":"Be brief.","input":"one"}`)
	second, v := b.respond(`{"model":"parrot","input":[{"role":"user","content":"two"}],"previous_response_id":"` + first + `"}`)
	if v["previous_response_id"] != first || answered(v) != "You said: two" {
		t.Errorf("got %v", v)
	}
	r := b.svc.Last.Load()
	if len(r.Messages) != 3 || r.Messages[0].Text() != "one" || r.Messages[1].Text() != "You said: one" || r.Messages[1].Role != infer.RoleAssistant || len(r.Uses) != 0 {
		t.Errorf("the turns are %+v, %v", r.Messages, r.Uses)
	}
	get := func(path string, status int) map[string]any {
		t.Helper()
		a := b.do("GET", path, "")
		if a.status != status {
			t.Fatalf("GET %s: %d %s", path, a.status, a.body)
		}
		return a.js(t)
	}
	if v := get("/v1/responses/"+second, 200); answered(v) != "You said: two" {
		t.Errorf("got %v", v)
	}
	list := get("/responses/"+second+"/input_items?order=asc&limit=2", 200)
	data := list["data"].([]any)
	if len(data) != 2 || list["has_more"] != true || list["last_id"] != data[1].(map[string]any)["id"] {
		t.Errorf("got %v", list)
	}
	list = get("/v1/responses/"+second+"/input_items?order=asc&after="+list["last_id"].(string), 200)
	if data := list["data"].([]any); len(data) != 1 || list["has_more"] != false || data[0].(map[string]any)["role"] != "user" {
		t.Errorf("the second page is %v", list)
	}
	get("/v1/responses/"+second+"/input_items?limit=0", 400)
	get("/v1/responses/"+second+"/input_items?order=up", 400)
	get("/v1/responses/"+second+"/input_items?after=x", 400)
	ev, last := eventNames(t, b.do("GET", "/v1/responses/"+first+"?stream=true", "").body)
	if ev[0] != "response.created" || ev[len(ev)-1] != "response.completed" || answered(last) != "You said: one" {
		t.Errorf("the replay is %q", ev)
	}
	get("/v1/responses/"+first+"?stream=true&starting_after=3", 400)
	get("/v1/responses/"+first+"?stream=true&starting_after=x", 400)
	if a := b.do("POST", "/v1/responses/"+first+"/cancel", ""); a.status != 400 {
		t.Errorf("cancel of one that is no background run: %d %s", a.status, a.body)
	}
	a := b.do("DELETE", "/v1/responses/"+first, "")
	if v := a.js(t); a.status != 200 || v["deleted"] != true || v["id"] != first {
		t.Errorf("got %d %s", a.status, a.body)
	}
	get("/v1/responses/"+first, 404)
	if a := b.do("DELETE", "/v1/responses/"+first, ""); a.status != 404 {
		t.Errorf("deleted twice: %d", a.status)
	}
	a = b.do("POST", responsesPath, `{"model":"parrot","input":"x","previous_response_id":"`+first+`"}`)
	if e := a.errorOf(t); a.status != 400 || e["param"] != "previous_response_id" {
		t.Errorf("of a deleted one: %d %s", a.status, a.body)
	}
	// The second stands by itself.
	if _, v := b.respond(`{"model":"parrot","input":"three","previous_response_id":"` + second + `"}`); answered(v) != "You said: three" || len(b.svc.Last.Load().Messages) != 5 {
		t.Errorf("got %v", v)
	}
	n := b.svc.StoredResponses()
	id, v := b.respond(`{"model":"parrot","input":"x","store":false}`)
	if v["store"] != false || b.svc.StoredResponses() != n {
		t.Errorf("stored what must not be: %v", v)
	}
	get("/v1/responses/"+id, 404)
}

// What one tenant has stored does not exist for another.
func TestResponsesTenants(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	id, v := b.respond(`{"model":"parrot","input":"secret"}`)
	item := v["output"].([]any)[0].(map[string]any)["id"].(string)
	other := []string{"Authorization", "Bearer " + webtest.Key2}
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}, {"GET", "?stream=true"}} {
		if a := b.do(c[0], responsesPath+"/"+id+c[1], "", other...); a.status != 404 || strings.Contains(string(a.body), "secret") {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
	for _, body := range []string{`{"model":"parrot","input":"x","previous_response_id":"` + id + `"}`, `{"model":"parrot","input":[{"type":"item_reference","id":"` + item + `"}]}`} {
		if a := b.do("POST", responsesPath, body, other...); a.status != 400 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := b.do("POST", responsesPath, `{"model":"parrot","input":[{"type":"item_reference","id":"`+item+`"},{"role":"user","content":"go on"}]}`); a.status != 200 || b.svc.Last.Load().Messages[0].Text() != "You said: secret" {
		t.Errorf("the tenant's own: %d %s", a.status, a.body)
	}
	if a := b.do("GET", responsesPath+"/"+id, ""); a.status != 200 {
		t.Errorf("after all that: %d", a.status)
	}
}

func TestResponsesNoState(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	b.svc.NoState = true
	id, v := b.respond(`{"model":"parrot","input":"x","store":true}`)
	if v["store"] != false {
		t.Errorf("got %v", v)
	}
	if a := b.do("GET", responsesPath+"/"+id, ""); a.status != 404 {
		t.Errorf("got %d", a.status)
	}
	if a := b.do("POST", responsesPath, `{"model":"parrot","input":"x","background":true}`); a.status != 400 || a.errorOf(t)["param"] != "background" {
		t.Errorf("in the background: %d %s", a.status, a.body)
	}
	b.respond(`{"model":"parrot","input":"x","previous_response_id":"` + id + `"}`)
	if u := b.svc.Last.Load().Uses; len(u) != 1 || u[0].Feature != infer.FeatureState {
		t.Errorf("an earlier response that nobody knows: %v", u)
	}
}

// status polls a response until it has come to its end.
func (b *bench) status(id string) map[string]any {
	b.t.Helper()
	for range 500 {
		v := b.do("GET", responsesPath+"/"+id, "").js(b.t)
		if s := v["status"]; s != "in_progress" && s != "queued" {
			return v
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.t.Fatal("the run does not end")
	return nil
}

func TestResponsesBackground(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	id, v := b.respond(`{"model":"parrot","input":"wait 100ms","background":true}`)
	if v["status"] != "queued" || v["background"] != true || v["output"] == nil {
		t.Errorf("got %v", v)
	}
	if v := b.do("GET", responsesPath+"/"+id, "").js(t); v["status"] != "in_progress" {
		t.Errorf("at once: %v", v["status"])
	}
	if a := b.do("POST", responsesPath, `{"model":"parrot","input":"x","previous_response_id":"`+id+`"}`); a.status != 409 {
		t.Errorf("a turn after one that runs: %d %s", a.status, a.body)
	}
	if v := b.status(id); v["status"] != "completed" || answered(v) != "waited" || v["background"] != true {
		t.Errorf("got %v", v)
	}
	if a := b.do("POST", responsesPath+"/"+id+"/cancel", ""); a.js(t)["status"] != "completed" {
		t.Errorf("cancel after the end: %s", a.body)
	}
	id, _ = b.respond(`{"model":"parrot","input":"die","background":true}`)
	if v := b.status(id); v["status"] != "failed" || v["error"] == nil || answered(v) != "so far" {
		t.Errorf("got %v", v)
	}
	id, _ = b.respond(`{"model":"parrot","input":"wait 1h","background":true}`)
	if v := b.do("POST", responsesPath+"/"+id+"/cancel", "").js(t); v["status"] != "cancelled" || v["error"] != nil {
		t.Errorf("cancelled: %v", v)
	}
	id, _ = b.respond(`{"model":"parrot","input":"wait 1h","background":true}`)
	if a := b.do("DELETE", responsesPath+"/"+id, ""); a.status != 200 {
		t.Errorf("got %d", a.status)
	}
	b.svc.Wait()
	if a := b.do("GET", responsesPath+"/"+id, ""); a.status != 404 {
		t.Errorf("a deleted run came back: %d %s", a.status, a.body)
	}
}

// A run in the background can be left, and followed again from any event.
func TestResponsesBackgroundStream(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", responsesPath, `{"model":"parrot","input":"a b c d","background":true,"stream":true}`)
	all, last := eventNames(t, a.body)
	if all[len(all)-1] != "response.completed" || answered(last) != "You said: a b c d" {
		t.Fatalf("got %s", a.body)
	}
	id := last["id"].(string)
	for _, from := range []int{0, 3, len(all) - 2, len(all) - 1} {
		a := b.do("GET", fmt.Sprintf("%s/%s?stream=true&starting_after=%d", responsesPath, id, from), "")
		ev, _ := eventNames(t, a.body)
		if want := all[from+1:]; strings.Join(ev, " ") != strings.Join(want, " ") {
			t.Errorf("after %d: got %q, want %q", from, ev, want)
		}
	}
	id, _ = b.respond(`{"model":"parrot","input":"wait 200ms","background":true}`)
	ev, last := eventNames(t, b.do("GET", responsesPath+"/"+id+"?stream=true", "").body)
	if ev[0] != "response.created" || ev[len(ev)-1] != "response.completed" || answered(last) != "waited" {
		t.Errorf("followed live: %q", ev)
	}
	b.svc.Wait()
}

// A response that was running when the server went away has failed.
func TestResponsesOrphan(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	err := b.svc.SaveResponse(context.Background(), &web.Grant{Tenant: "acme"}, &web.StoredResponse{
		ID: "resp_x", Body: []byte(`{"id":"resp_x","object":"response","status":"in_progress","error":null,"background":true,"output":[]}`), Input: []byte(`[]`)})
	if err != nil {
		t.Fatal(err)
	}
	v := b.do("GET", responsesPath+"/resp_x", "").js(t)
	if v["status"] != "failed" || v["error"].(map[string]any)["message"] == "" {
		t.Errorf("got %v", v)
	}
}

// What a provider of the dialect answers goes through as it came and is kept
// under its own id; the next turn is then the provider's, and ours elsewhere.
func TestResponsesNative(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	object := `{"id":"resp_68","object":"response","status":"completed","new":{"x":1},"output":[{"type":"message","id":"msg_68","role":"assistant","content":[{"type":"output_text","text":"native"}]}]}`
	frames := []infer.Frame{{Event: "response.created", Data: []byte(`{"type":"response.created","sequence_number":0,"response":{"id":"resp_68"}}`)},
		{Event: "response.strange", Data: []byte(`{"type":"response.strange","sequence_number":1}`)},
		{Event: "response.completed", Data: []byte(`{"type":"response.completed","sequence_number":2,"response":` + object + `}`)}}
	cut := false
	b.svc.Hook = func(_ context.Context, _ *web.Grant, r *infer.Request, yield func(infer.Event, error) bool) {
		u := infer.Usage{PromptTokens: 1, CompletionTokens: 1}
		if !r.Stream {
			_ = yield(infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "m", Native: true}}, nil) &&
				yield(infer.Event{Kind: infer.EventText, Text: "native"}, nil) && yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) &&
				yield(infer.Event{Kind: infer.EventUsage, Usage: &u, Frame: &infer.Frame{Data: []byte(object)}}, nil)
			return
		}
		if !yield(infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "m", Native: true}, Frame: &frames[0]}, nil) || !yield(infer.Event{Kind: infer.EventFrame, Frame: &frames[1]}, nil) {
			return
		}
		if cut {
			yield(infer.Event{}, infer.Errorf(infer.CodeUpstream, "the provider was lost"))
			return
		}
		_ = yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) && yield(infer.Event{Kind: infer.EventUsage, Usage: &u, Frame: &frames[2]}, nil)
	}
	for _, stream := range []bool{false, true} {
		a := b.do("POST", responsesPath, fmt.Sprintf(`{"model":"parrot","input":"x","stream":%v}`, stream))
		want := object
		if stream {
			want = ""
			for _, f := range frames {
				want += "event: " + f.Event + "\ndata: " + string(f.Data) + "\n\n"
			}
		}
		if string(a.body) != want {
			t.Errorf("got  %s\nwant %s", a.body, want)
		}
		if a := b.do("GET", responsesPath+"/resp_68", ""); strings.TrimSpace(string(a.body)) != object {
			t.Errorf("kept: %d %s", a.status, a.body)
		}
		b.do("POST", responsesPath, `{"model":"parrot","input":"y","previous_response_id":"resp_68"}`)
		r := b.svc.Last.Load()
		if len(r.Messages) != 3 || r.Messages[1].Text() != "native" || r.Wire.Set["input"] != nil {
			t.Errorf("the next turn is %+v with %s", r.Messages, r.Wire.Set)
		}
		if a := b.do("DELETE", responsesPath+"/resp_68", ""); a.status != 200 {
			t.Errorf("got %d", a.status)
		}
	}
	if b.do("POST", responsesPath, `{"model":"parrot","input":"x","store":false}`); b.do("GET", responsesPath+"/resp_68", "").status != 404 {
		t.Error("kept what must not be")
	}
	cut = true
	a := b.do("POST", responsesPath, `{"model":"parrot","input":"x","stream":true}`)
	ev, last := eventNames(t, a.body)
	if ev[len(ev)-1] != "response.failed" || last["id"] != "resp_68" || !strings.Contains(string(a.body), `"sequence_number":2,"response":{"id":"resp_68"`) {
		t.Errorf("cut: %s", a.body)
	}
	cut = false
	id, _ := b.respond(`{"model":"parrot","input":"x","background":true}`)
	if v := b.status(id); v["id"] != id || v["new"] == nil || answered(v) != "native" {
		t.Errorf("in the background: %v", v)
	}
	b.svc.Wait()
}
