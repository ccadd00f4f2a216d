package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// asked is a request of another dialect, streamed or not.
func asked(stream bool) *infer.Request {
	r := infer.NewRequest()
	r.ID, r.Model, r.Stream = "req_0123456789abcdef", "m", stream
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "hi"}}}}
	return r
}

// streamOf reads frames, one a line, and gives the events in a short form.
func streamOf(t *testing.T, r *infer.Request, o *wire.Outgoing, frames string) ([]infer.Event, error) {
	t.Helper()
	d := NewChatClient("").NewDecoder(r, o)
	var evs []infer.Event
	var err error
	for _, f := range strings.Split(strings.TrimSpace(frames), "\n") {
		buf := []byte(strings.TrimSpace(f))
		if evs, err = d.Frame(evs, "", buf); err != nil {
			return evs, err
		}
		for i := range buf {
			buf[i] = 'X' // what is kept must be a copy
		}
	}
	return d.End(evs)
}

func brief(evs []infer.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		at := ""
		if ev.Choice > 0 {
			at = fmt.Sprintf("%d:", ev.Choice)
		}
		switch ev.Kind {
		case infer.EventStart:
			fmt.Fprintf(&b, "start(%s) ", ev.Model.Name)
		case infer.EventText:
			if ev.Refusal {
				at += "refusal"
			}
			fmt.Fprintf(&b, "%stext(%s) ", at, ev.Text)
		case infer.EventReasoning:
			fmt.Fprintf(&b, "%smind(%s) ", at, ev.Text)
		case infer.EventTool:
			fmt.Fprintf(&b, "%stool(%d %s %s %s) ", at, ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
		case infer.EventFinish:
			fmt.Fprintf(&b, "%sfinish(%s%s) ", at, ev.Finish, ev.Stop)
		case infer.EventUsage:
			u := *ev.Usage
			fmt.Fprintf(&b, "usage(%d %d %d %d %d", u.PromptTokens, u.CachedTokens, u.CacheWriteTokens, u.CompletionTokens, u.ReasoningTokens)
			if u.Estimated {
				b.WriteString(" estimated")
			}
			b.WriteString(")")
		case infer.EventFrame:
			b.WriteString("frame ")
		}
	}
	return b.String()
}

// delta is a chunk of one choice.
func delta(d, finish string) string {
	if finish == "" {
		finish = "null"
	} else {
		finish = `"` + finish + `"`
	}
	return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":` + d + `,"finish_reason":` + finish + `}]}`
}

const (
	role     = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	counted1 = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"up","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`
	done     = "[DONE]"
)

// TestStreams reads what providers are known to send. Each case is a kind of
// departure that has broken a client or a gateway.
func TestStreams(t *testing.T) {
	lines := func(s ...string) string { return strings.Join(s, "\n") }
	for _, c := range []struct{ name, in, want string }{
		{"plain", lines(role, delta(`{"content":"a"}`, ""), delta(`{"content":"b"}`, ""), delta(`{}`, "stop"), counted1, done),
			"start(up) text(a) text(b) finish(stop) usage(11 0 0 7 0)"},
		{"content, finish and usage in one chunk", lines(`{"model":"up","choices":[{"index":0,"delta":{"content":"all"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, done),
			"start(up) text(all) finish(length) usage(3 0 0 1 0)"},
		{"no choices before the first", lines(`{"id":"","model":"","choices":[],"prompt_filter_results":[{}]}`, delta(`{"content":"a"}`, "stop"), counted1, done),
			"start(m) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"choices null and missing", lines(`{"choices":null}`, `{"object":"x"}`, delta(`{"content":"a"}`, "stop"), done),
			"start(m) text(a) finish(stop) usage(5 0 0 1 0 estimated)"},
		{"no role, null content, null tool_calls", lines(delta(`{"content":null,"tool_calls":null}`, ""), delta(`{"content":"a"}`, "stop"), counted1, done),
			"start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"no end mark, finish seen", lines(delta(`{"content":"a"}`, ""), delta(`{}`, "stop"), counted1),
			"start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"text behind the finish", lines(delta(`{"content":"a"}`, "stop"), delta(`{"content":"b"}`, ""), done),
			"start(up) text(a) text(b) finish(stop) usage(5 0 0 2 0 estimated)"},
		{"finish reason empty, not null", lines(`{"model":"up","choices":[{"delta":{"content":"a"},"finish_reason":""}]}`, delta(`{}`, "stop"), counted1, done),
			"start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"zeros that are stated", lines(delta(`{}`, "stop"), `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":0,"total_tokens":11}}`, done),
			"start(up) finish(stop) usage(11 0 0 0 0)"},
		{"an empty usage states nothing", lines(delta(`{"content":"a"}`, "stop"), `{"choices":[],"usage":{}}`, done),
			"start(up) text(a) finish(stop) usage(5 0 0 1 0 estimated)"},
		{"running usage, the last counts", lines(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, done),
			"start(m) text(a) finish(stop) usage(3 0 0 2 0)"},
		{"cache details", lines(delta(`{}`, "stop"), `{"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":7,"total_tokens":127,"prompt_tokens_details":{"cached_tokens":96,"cache_write_tokens":20},"completion_tokens_details":{"reasoning_tokens":5}}}`, done),
			"start(up) finish(stop) usage(120 96 20 7 5)"},
		{"DeepSeek's cache", lines(delta(`{}`, "stop"), `{"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":7,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":56}}`, done),
			"start(up) finish(stop) usage(120 64 0 7 0)"},
		{"more cached than there was", lines(delta(`{}`, "stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":96}}}`, done),
			"start(up) finish(stop) usage(10 10 0 7 0)"},
		{"reasoning beside the completion", lines(delta(`{}`, "stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":47,"completion_tokens_details":{"reasoning_tokens":30}}}`, done),
			"start(up) finish(stop) usage(10 0 0 37 30)"},
		{"Groq's place for the count", lines(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":1}}}`, done),
			"start(m) text(a) finish(stop) usage(3 0 0 1 0)"},
		{"Moonshot's place for the count", lines(`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":1,"cached_tokens":2}}]}`, done),
			"start(m) finish(stop) usage(3 2 0 1 0)"},
		{"reasoning by each name", lines(delta(`{"reasoning_content":"a"}`, ""), delta(`{"reasoning":"b","reasoning_content":"b"}`, ""), delta(`{"thinking":"c"}`, ""), delta(`{"reasoning":"d","reasoning_details":[{"type":"reasoning.text","text":"d"}]}`, ""), delta(`{"reasoning_details":[{"type":"reasoning.summary","summary":"e"},{"type":"reasoning.encrypted","data":"zz"}]}`, ""), delta(`{"content":"f"}`, "stop"), counted1, done),
			"start(up) mind(a) mind(b) mind(c) mind(d) mind(e) text(f) finish(stop) usage(11 0 0 7 0)"},
		{"Mistral's parts", lines(delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"b"}]}`, "stop"), counted1, done),
			"start(up) mind(a) text(b) finish(stop) usage(11 0 0 7 0)"},
		{"a refusal", lines(delta(`{"refusal":"I won't."}`, ""), delta(`{}`, "stop"), counted1, done),
			"start(up) refusaltext(I won't.) finish(refusal) usage(11 0 0 7 0)"},
		{"one call in pieces", lines(delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`, ""), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`, ""), delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f ) tool(0   {"a") tool(0   :1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"interleaved", lines(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{\"b"}}]}`, ""), delta(`{"tool_calls":[{"index":1,"function":{"arguments":"\":2}"}},{"index":0,"function":{"arguments":"\":1}"}}]}`, ""), delta(`{}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {"a) tool(1 c2 g {"b) tool(1   ":2}) tool(0   ":1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"no index", lines(delta(`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]}`, ""), delta(`{"tool_calls":[{"id":"c2","function":{"name":"g","arguments":"{}"}}]}`, ""), delta(`{}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {}) tool(1 c2 g {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"no index, pieces without id", lines(delta(`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{"}}]}`, ""), delta(`{"tool_calls":[{"function":{"arguments":"}"}}]}`, ""), delta(`{}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {) tool(0   }) finish(tool_calls) usage(11 0 0 7 0)`},
		{"no index and no id, whole calls", lines(delta(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{\"a\":1}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 call_0123456789abcdef_0 f {}) tool(1 call_0123456789abcdef_1 f {"a":1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"index 0 for all, new ids", lines(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`, ""), delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"f","arguments":"{}"}}]}`, ""), delta(`{}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {}) tool(1 c2 f {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"index 0 for all, no ids", lines(delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}`, ""), delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}`, "stop"), counted1, done),
			`start(up) tool(0 call_0123456789abcdef_0 f {}) tool(1 call_0123456789abcdef_1 f {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"id and name repeated", lines(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\""}}]}`, ""), delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":":1}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {"a") tool(0   :1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"name repeated without id", lines(delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\""}}]}`, ""), delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 call_0123456789abcdef_0 f {"a") tool(0   :1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"a gap in the indices, out of order", lines(delta(`{"tool_calls":[{"index":3,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`, ""), delta(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {}) tool(1 c2 g {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"the name comes late", lines(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"arguments":"{"}}]}`, ""), delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}`, "tool_calls"), counted1, done),
			`start(up) tool(0 c1 f {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"arguments as an object", lines(delta(`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":1}}}]}`, "stop"), counted1, done),
			`start(up) tool(0 c1 f {"a":1}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"the older form", lines(delta(`{"function_call":{"name":"f","arguments":""}}`, ""), delta(`{"function_call":{"arguments":"{}"}}`, "function_call"), counted1, done),
			`start(up) tool(0 call_0123456789abcdef_0 f ) tool(0   {}) finish(tool_calls) usage(11 0 0 7 0)`},
		{"TGI's words", lines(delta(`{"content":"a"}`, "eos_token"), counted1, done), "start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"vLLM's stop string", lines(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop","stop_reason":"END"}]}`, counted1, done), "start(m) text(a) finish(stopEND) usage(11 0 0 7 0)"},
		{"vLLM's stop token", lines(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop","stop_reason":151645}]}`, counted1, done), "start(m) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"a reason not yet invented", lines(delta(`{"content":"a"}`, "vacation"), counted1, done), "start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"escapes", lines(delta(`{"content":"\u00e9\ud83d\ude00\n"}`, "stop"), counted1, done), "start(up) text(é😀\n) finish(stop) usage(11 0 0 7 0)"},
		{"half a surrogate pair", lines(delta(`{"content":"a\ud83d"}`, "stop"), counted1, done), "start(up) text(a\ufffd) finish(stop) usage(11 0 0 7 0)"},
		{"data behind the end mark", lines(delta(`{"content":"a"}`, "stop"), counted1, done, `garbage`), "start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"error null", lines(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, counted1, done), "start(m) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"members in another order", lines(`{"choices":[{"finish_reason":"stop","delta":{"content":"a"},"index":0}],"model":"up"}`, counted1, done), "start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
		{"a whole message in a stream", lines(`{"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, counted1, done), "start(up) text(a) finish(stop) usage(11 0 0 7 0)"},
	} {
		evs, err := streamOf(t, asked(true), &wire.Outgoing{Stream: true, Usage: true}, c.in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := strings.TrimSpace(brief(evs)); got != strings.TrimSpace(c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestBrokenStreams holds that an answer which is not complete never looks so.
func TestBrokenStreams(t *testing.T) {
	for _, c := range []struct {
		name, in string
		class    infer.FailureClass
		code     infer.Code
	}{
		{"nothing", "", infer.FailLost, infer.CodeUpstream},
		{"only the end mark", done, infer.FailLost, infer.CodeUpstream},
		{"only the role", role, infer.FailLost, infer.CodeUpstream},
		{"no finish", role + "\n" + delta(`{"content":"a"}`, ""), infer.FailLost, infer.CodeUpstream},
		{"an end mark without a finish", delta(`{"content":"a"}`, "") + "\n" + done, infer.FailLost, infer.CodeUpstream},
		{"an error", delta(`{"content":"a"}`, "") + "\n" + `{"error":{"message":"Engine stopped.","type":"server_error"}}`, infer.FailServer, infer.CodeUpstream},
		{"an error in words", `{"error":"out of memory"}`, infer.FailServer, infer.CodeUpstream},
		{"OpenRouter's error", `{"id":"x","error":{"code":429,"message":"slow down"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, infer.FailRateLimit, infer.CodeRateLimited},
		{"an error within a choice", `{"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"x"}}]}`, infer.FailServer, infer.CodeUpstream},
		{"overloaded", `{"error":{"type":"overloaded_error","message":"x"}}`, infer.FailOverload, infer.CodeOverloaded},
		{"vLLM's older form", `{"object":"error","message":"the prompt is longer than the maximum context length","type":"BadRequestError","code":400}`, infer.FailRequest, infer.CodeContextLength},
		{"an answer that was given up", delta(`{"content":"a"}`, "abort"), infer.FailServer, infer.CodeUpstream},
		{"no JSON", `{"choices":[{`, infer.FailMalformed, infer.CodeUpstream},
		{"a page", `<html><body>502</body></html>`, infer.FailMalformed, infer.CodeUpstream},
		{"a list", `[]`, infer.FailMalformed, infer.CodeUpstream},
		{"a choice beyond", `{"choices":[{"index":7,"delta":{"content":"a"}}]}`, infer.FailMalformed, infer.CodeUpstream},
		{"a call without a name", delta(`{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"{}"}}]}`, "tool_calls") + "\n" + done, infer.FailMalformed, infer.CodeUpstream},
	} {
		evs, err := streamOf(t, asked(true), &wire.Outgoing{Stream: true}, c.in)
		e := infer.AsError(err)
		if err == nil || e.Upstream == nil || e.Upstream.Class != c.class || e.Code != c.code {
			t.Errorf("%s: got %s, %v", c.name, brief(evs), err)
		}
		if s := brief(evs); strings.Contains(s, "usage(") || strings.Contains(s, "finish(") {
			t.Errorf("%s: it looks complete: %s", c.name, s)
		}
	}
	d := NewChatClient("").NewDecoder(asked(true), &wire.Outgoing{Stream: true})
	if _, err := d.Frame(nil, "error", []byte(`{"message":"x","code":503}`)); err == nil || infer.AsError(err).Upstream.Class != infer.FailOverload {
		t.Errorf("an error by its name: got %v", err)
	}
}

// TestNativeStream holds that frames are passed on as they came, in order, each
// once, but for the count that the caller did not ask for.
func TestNativeStream(t *testing.T) {
	in := []string{role, delta(`{"content":"a"}`, ""), `{"object":"chat.completion.chunk","x_vendor":{"t":1.0},"choices":[]}`, delta(`{"content":"b","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "stop"), counted1, done}
	for _, wanted := range []bool{true, false} {
		r := asked(true)
		evs, err := streamOf(t, r, &wire.Outgoing{Stream: true, Native: true, Usage: !wanted}, strings.Join(in, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ev := range evs {
			if ev.Frame != nil {
				got = append(got, string(ev.Frame.Data))
			}
		}
		want := in
		if !wanted {
			want = append(append([]string(nil), in[:4]...), done)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("wanted %v: got\n%s", wanted, strings.Join(got, "\n"))
		}
		last := evs[len(evs)-1]
		if !evs[0].Model.Native || last.Kind != infer.EventUsage || last.Usage.CompletionTokens != 7 || string(last.Frame.Data) != done {
			t.Errorf("got %s", brief(evs))
		}
	}
	// An end mark is added where the provider sends none, as clients wait for it.
	evs, err := streamOf(t, asked(true), &wire.Outgoing{Stream: true, Native: true}, role+"\n"+delta(`{"content":"a"}`, "stop"))
	if err != nil || string(evs[len(evs)-1].Frame.Data) != done {
		t.Errorf("got %s, %v", brief(evs), err)
	}
}

// TestMendedFrames holds that a frame which breaks the dialect is mended where it
// is broken, and is the same everywhere else.
func TestMendedFrames(t *testing.T) {
	call := func(s string) string { return delta(`{"role":"assistant","tool_calls":[`+s+`]}`, "") }
	later := func(s string) string { return delta(`{"tool_calls":[`+s+`]}`, "") }
	const first = `{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}`
	end := delta(`{}`, "tool_calls")
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"no role", []string{delta(`{"content":"a"}`, ""), delta(`{"content":"b"}`, "stop")}, []string{delta(`{"role":"assistant","content":"a"}`, ""), delta(`{"content":"b"}`, "stop")}},
		{"no role, empty delta", []string{delta(`{}`, "stop")}, []string{delta(`{"role":"assistant"}`, "stop")}},
		{"no index of the choice, no object", []string{`{"x":1.0,"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}, []string{`{"object":"chat.completion.chunk","x":1.0,"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}},
		{"an index that is none", []string{`{"object":"chat.completion.chunk","choices":[{"index": -1,"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}, []string{`{"object":"chat.completion.chunk","choices":[{"index": 0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}},
		{"another object", []string{`{"object":"","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}, []string{`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}`}},
		{"a word of its own", []string{delta(`{"role":"assistant","content":"a"}`, "eos_token")}, []string{delta(`{"role":"assistant","content":"a"}`, "stop")}},
		{"an empty word", []string{`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":""}]}`, end}, []string{`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`, end}},
		{"calls without index and type", []string{call(`{"id":"c1","function":{"name":"f","arguments":"{}"}}`), later(`{"id":"c2","function":{"name":"g","arguments":"{}"}}`), end},
			[]string{call(`{"index":0,"type":"function","id":"c1","function":{"name":"f","arguments":"{}"}}`), later(`{"index":1,"type":"function","id":"c2","function":{"name":"g","arguments":"{}"}}`), end}},
		{"index 0 for all", []string{call(first), later(`{"index":0,"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}`), end},
			[]string{call(first), later(`{"index":1,"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}`), end}},
		{"id and name repeated", []string{call(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}`), later(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"}"}}`), later(`{"index":0,"id":null,"function":{"name":null,"arguments":""}}`), end},
			[]string{call(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}`), later(`{"index":0,"id":"","type":"function","function":{"name":"","arguments":"}"}}`), later(`{"index":0,"id":"","function":{"name":"","arguments":""}}`), end}},
		{"no id", []string{call(`{"index":0,"type":"function","function":{"name":"f","arguments":"{}"}}`), end}, []string{call(`{"id":"call_0123456789abcdef_0","index":0,"type":"function","function":{"name":"f","arguments":"{}"}}`), end}},
		{"an empty id", []string{call(`{"index":0,"id":"","type":"function","function":{"name":"f","arguments":"{}"}}`), end}, []string{call(`{"index":0,"id":"call_0123456789abcdef_0","type":"function","function":{"name":"f","arguments":"{}"}}`), end}},
		{"arguments as an object", []string{call(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":{"a": 1}}}`), end}, []string{call(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}`), end}},
		{"a head that is empty, before the answer", []string{`{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"x":1.0}]}`, role, delta(`{}`, "stop")},
			[]string{`{"id":"x","object":"chat.completion.chunk","created":1,"model":"up","choices":[],"prompt_filter_results":[{"x":1.0}]}`, role, delta(`{}`, "stop")}},
		{"chunks that say nothing", []string{role, `{"id":"x","object":"chat.completion.chunk","created":1,"model":"up","choices":[]}`, `{"id":"x","choices":null}`, delta(`{}`, "stop")}, []string{role, delta(`{}`, "stop")}},
	} {
		evs, err := streamOf(t, asked(true), &wire.Outgoing{Stream: true, Native: true, Usage: true}, strings.Join(c.in, "\n"))
		var got []string
		for _, ev := range evs {
			if ev.Frame != nil {
				got = append(got, string(ev.Frame.Data))
			}
		}
		if want := append(c.want, done); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", c.name, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if evs[0].Kind != infer.EventStart {
			t.Errorf("%s: the start is not first", c.name)
		}
	}
	body := `{"x":1.50,"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"finish_reason":"eos_token"}]}`
	evs, err := NewChatClient("").DecodeAnswer(asked(false), &wire.Outgoing{Native: true}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"x":1.50,"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"call_0123456789abcdef_0","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"stop"}]}`
	if got := string(evs[len(evs)-1].Frame.Data); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTwoChoices(t *testing.T) {
	r := asked(true)
	r.Sampling.N = 2
	in := `{"choices":[{"index":0,"delta":{"content":"one"}}]}
		{"choices":[{"index":1,"delta":{"content":"two"}}]}
		{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	if evs, err := streamOf(t, r, &wire.Outgoing{Stream: true}, in); err == nil {
		t.Errorf("one of two choices ended: got %s", brief(evs))
	}
	evs, err := streamOf(t, r, &wire.Outgoing{Stream: true}, in+"\n"+`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`+"\n"+done)
	if got := brief(evs); err != nil || got != "start(m) text(one) 1:text(two) finish(stop) 1:finish(length) usage(5 0 0 2 0 estimated)" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWholeAnswers(t *testing.T) {
	whole := func(native bool, body string) (string, *infer.Frame, error) {
		evs, err := NewChatClient("").DecodeAnswer(asked(false), &wire.Outgoing{Native: native}, []byte(body))
		if err != nil {
			return "", nil, err
		}
		return brief(evs), evs[len(evs)-1].Frame, nil
	}
	for body, want := range map[string]string{
		`{"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"reasoning_content":"b"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7}}`:                                                                                    "start(up) mind(b) text(a) finish(stop) usage(11 0 0 7 0)",
		`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":""}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`: "start(m) tool(0 c1 f ) tool(1 c2 g {}) finish(tool_calls) usage(1 0 0 2 0)",
		`{"choices":[{"message":{"role":"assistant","content":null,"refusal":"no"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`:                                                                                                                                                   "start(m) refusaltext(no) finish(refusal) usage(1 0 0 2 0)",
		`{"choices":[{"message":{"role":"assistant","content":"Counted words"},"finish_reason":"stop"}]}`:                                                                                                                                                                                                         "start(m) text(Counted words) finish(stop) usage(5 0 0 3 0 estimated)",
	} {
		if got, _, err := whole(false, body); err != nil || got != want {
			t.Errorf("%.60s: got %s, %v", body, got, err)
		}
		if _, f, err := whole(true, body); err != nil || string(f.Data) != body {
			t.Errorf("%.60s: got %v, %v", body, f, err)
		}
	}
	for body, class := range map[string]infer.FailureClass{
		`<html><h1>nginx on edge-0447</h1></html>`: infer.FailMalformed, ``: infer.FailMalformed, `{}`: infer.FailMalformed, `{"choices":[]}`: infer.FailMalformed,
		`{"error":{"message":"Engine is down.","type":"server_error"}}`: infer.FailServer, `{"choices":[{"message":{"content":"a"}}]`: infer.FailMalformed,
	} {
		_, _, err := whole(false, body)
		if e := infer.AsError(err); err == nil || e.Upstream == nil || e.Upstream.Class != class || strings.Contains(e.Message, "edge") {
			t.Errorf("%.40q: got %v", body, err)
		}
	}
	// Asked for a stream, answered at once: it is told as a stream of our own.
	evs, err := NewChatClient("").DecodeAnswer(asked(true), &wire.Outgoing{Native: true, Stream: true}, []byte(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`))
	if err != nil || evs[0].Model.Native || evs[len(evs)-1].Frame != nil {
		t.Errorf("got %s, %v", brief(evs), err)
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		status      int
		body        string
		code        infer.Code
		class       infer.FailureClass
		param, part string
	}{
		{400, `{"error":{"message":"The reply may have at most 4096 tokens.","type":"invalid_request_error","param":"max_tokens","code":null}}`, infer.CodeInvalid, infer.FailRequest, "max_tokens", "at most 4096 tokens"},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`, infer.CodeContextLength, infer.FailRequest, "", "8192"},
		{400, `{"object":"error","message":"bad things","type":"BadRequestError","code":400}`, infer.CodeInvalid, infer.FailRequest, "", "bad things"},
		{400, `{"error":"the request exceeds the context window","error_type":"validation"}`, infer.CodeContextLength, infer.FailRequest, "", "exceeds"},
		{422, `{"detail":"A field has the wrong shape."}`, infer.CodeInvalid, infer.FailRequest, "", "wrong shape"},
		{401, `{"error":{"message":"Wrong key upkey-openai-7c1e.","type":"authentication_error"}}`, infer.CodeUpstream, infer.FailAuth, "", "credential"},
		{404, `{"error":{"message":"No such model here."}}`, infer.CodeUpstream, infer.FailRequest, "", "does not know"},
		{429, `{"error":{"message":"x","type":"rate_limit_error"}}`, infer.CodeRateLimited, infer.FailRateLimit, "", "rate"},
		{429, `{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}`, infer.CodeQuota, infer.FailQuota, "", "used up"},
		{502, `<html>upkey-openai-7c1e</html>`, infer.CodeUpstream, infer.FailServer, "", "failed"},
		{500, `{"error":{"message":"File /srv/model/worker_17.py, line 81"}}`, infer.CodeUpstream, infer.FailServer, "", "failed"},
	} {
		e := NewChatClient("").DecodeError(c.status, http.Header{}, []byte(c.body))
		if e.Code != c.code || e.Upstream.Class != c.class || e.Param != c.param || !strings.Contains(e.Message, c.part) || strings.Contains(e.Message, "upkey") || strings.Contains(e.Message, "/srv") {
			t.Errorf("%d %.50s: got %+v %+v", c.status, c.body, e, e.Upstream)
		}
	}
}

// FuzzAnswer holds that no answer makes the decoders panic, that an answer is
// either complete or an error that says how the provider failed, and that the
// same holds for each way of reading it.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls") + "\n" + counted1 + "\n[DONE]"))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":"a"}]},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}]}}]}`))
	f.Add([]byte(`{"error":{"code":"429","message":"x"}}`))
	f.Add([]byte(`{"data":[{"index":0,"embedding":[0.5,1e3]},{"index":1,"embedding":"AACAPw=="}],"usage":{"prompt_tokens":2}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		check := func(evs []infer.Event, err error) {
			if err != nil {
				if e := infer.AsError(err); e.Upstream == nil || e.Code == infer.CodeInternal {
					t.Fatalf("an error without a class: %v", err)
				}
				return
			}
			if len(evs) > 0 && evs[len(evs)-1].Kind != infer.EventUsage {
				t.Fatalf("an end without usage: %s", brief(evs))
			}
		}
		for _, native := range []bool{false, true} {
			o := &wire.Outgoing{Native: native, Stream: true, Usage: true}
			r := asked(true)
			r.Sampling.Logprobs, r.Sampling.N = true, 2
			d := NewChatClient("").NewDecoder(r, o)
			var evs []infer.Event
			var err error
			for _, line := range strings.Split(string(in), "\n") {
				if evs, err = d.Frame(evs, "", []byte(line)); err != nil {
					break
				}
			}
			if err == nil {
				evs, err = d.End(evs)
			}
			check(evs, err)
			if slices.ContainsFunc(strings.Split(string(in), "\n"), func(l string) bool { return l != done && !json.Valid([]byte(l)) }) {
				evs = nil // what came broken within a string stays so
			}
			for _, ev := range evs {
				if ev.Frame != nil && string(ev.Frame.Data) != done && !json.Valid(ev.Frame.Data) {
					t.Fatalf("a frame that is no JSON: %q", ev.Frame.Data)
				}
			}
			evs, err = NewCompletionsClient("").DecodeAnswer(r, &wire.Outgoing{Native: native}, in)
			check(evs, err)
			if err == nil && !native {
				c := wire.NewCollector(r)
				for _, ev := range evs {
					if err := c.Add(ev); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := c.Answer(); err != nil {
					t.Fatal(err)
				}
			}
			_, err = NewEmbeddingsClient("").DecodeEmbed(&infer.EmbedRequest{Inputs: make([]infer.Prompt, 2)}, &wire.Outgoing{Native: native}, in)
			check(nil, err)
		}
		if e := NewChatClient("").DecodeError(400, nil, in); !json.Valid(appendError(nil, e)) {
			t.Fatal("an error that is no JSON")
		}
	})
}

// BenchmarkChatDecoder reads one stream of 64 chunks, passed on as it came.
func BenchmarkChatDecoder(b *testing.B) {
	frames := [][]byte{[]byte(role)}
	for range 64 {
		frames = append(frames, []byte(delta(`{"content":" word"}`, "")))
	}
	frames = append(frames, []byte(delta(`{}`, "stop")), []byte(counted1), []byte(done))
	for _, native := range []bool{true, false} {
		b.Run(map[bool]string{true: "native", false: "typed"}[native], func(b *testing.B) {
			b.ReportAllocs()
			r, o := asked(true), &wire.Outgoing{Stream: true, Native: native, Usage: true}
			evs := make([]infer.Event, 0, 8)
			for b.Loop() {
				d := NewChatClient("").NewDecoder(r, o)
				for _, f := range frames {
					var err error
					if evs, err = d.Frame(evs[:0], "", f); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
