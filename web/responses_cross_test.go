package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/anthropic"
	"hearth/web/openai"
	"hearth/web/responses"
	"hearth/web/sse"
	"hearth/web/wire"
)

// crossing is a provider's stream, and what a client of the Responses API sees
// of it: the types of the events, and the output items at the end.
type crossing struct {
	name   string
	client wire.Client
	extra  string // members of the request
	sent   string
	types  string // in short: added[0] delta[0] …
	items  string
	end    string // status, reason, usage
}

func chunk(delta, finish string) string {
	if finish == "" {
		finish = "null"
	}
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
}

func block(event, data string) string { return "event: " + event + "\ndata: " + data + "\n\n" }

const (
	chatUsage = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":7,"total_tokens":127,"prompt_tokens_details":{"cached_tokens":96}}}` + "\n\n"
	chatDone  = "data: [DONE]\n\n"
	weather   = `,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]`
)

var (
	msgStart = block("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"usage":{"input_tokens":24,"cache_read_input_tokens":96,"output_tokens":1}}}`)
	msgPing  = block("ping", `{"type":"ping"}`)
	msgStop  = func(reason string) string {
		return block("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":7}}`) + block("message_stop", `{"type":"message_stop"}`)
	}
	msgBlock = func(i int, start string, deltas ...string) string {
		s := block("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, start))
		for _, d := range deltas {
			s += block("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, d))
		}
		return s + block("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
)

var crossings = []crossing{
	{"chat: text", openai.ChatClient{}, "", chunk(`{"role":"assistant","content":""}`, "") + chunk(`{"content":"The kettle"}`, "") + chunk(`{"content":" is on."}`, `"stop"`) + chatUsage + chatDone,
		"created in_progress added[0] part[0] delta[0] delta[0] text[0] partdone[0] done[0] completed", `message(The kettle is on.)`, "completed <nil> 120/7/96"},
	{"chat: no count", openai.ChatClient{}, "", chunk(`{"role":"assistant","content":"Nearly there"}`, `"stop"`) + chatDone,
		"created in_progress added[0] part[0] delta[0] text[0] partdone[0] done[0] completed", `message(Nearly there)`, "completed <nil> 6/3/0"},
	{"chat: interleaved calls", openai.ChatClient{}, weather,
		chunk(`{"role":"assistant","content":null}`, "") +
			chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"get_weather","arguments":""}},{"index":1,"id":"b","type":"function","function":{"name":"get_weather","arguments":""}}]}`, "") +
			chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"city\":"}}]}`, "") + chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`, "") +
			chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"\"Lima\"}"}}]}`, "") + chunk(`{}`, `"tool_calls"`) + chatUsage + chatDone,
		"created in_progress added[0] added[1] args[1] args[0] args[1] argsdone[0] done[0] argsdone[1] done[1] completed", `call a get_weather({}) call b get_weather({"city":"Lima"})`, "completed <nil> 120/7/96"},
	{"chat: reasoning then text", openai.ChatClient{}, "", chunk(`{"role":"assistant","reasoning_content":"Let me add."}`, "") + chunk(`{"content":"Four."}`, "") + chunk(`{}`, `"stop"`) + chatUsage + chatDone,
		"created in_progress added[0] part[0] think[0] thinkdone[0] partdone[0] done[0] added[1] part[1] delta[1] text[1] partdone[1] done[1] completed", `reasoning(Let me add.) message(Four.)`, "completed <nil> 120/7/96"},
	{"chat: cut by length", openai.ChatClient{}, "", chunk(`{"content":"Some text"}`, "") + chunk(`{}`, `"length"`) + chatUsage + chatDone,
		"created in_progress added[0] part[0] delta[0] text[0] partdone[0] done[0] incomplete", `message(Some text)`, "incomplete map[reason:max_output_tokens] 120/7/96"},
	{"chat: refusal", openai.ChatClient{}, "", chunk(`{"role":"assistant","refusal":"I won't."}`, "") + chunk(`{}`, `"stop"`) + chatUsage + chatDone,
		"created in_progress added[0] part[0] refuse[0] refusedone[0] partdone[0] done[0] completed", `message(-I won't.)`, "completed <nil> 120/7/96"},
	{"chat: an error in the stream", openai.ChatClient{}, "", chunk(`{"content":"First part"}`, "") + `data: {"error":{"message":"boom","type":"server_error"}}` + "\n\n",
		"created in_progress added[0] part[0] delta[0] failed", `message(First part)`, "failed <nil> -"},
	{"chat: no end mark", openai.ChatClient{}, "", chunk(`{"content":"First part"}`, ""),
		"created in_progress added[0] part[0] delta[0] failed", `message(First part)`, "failed <nil> -"},
	{"messages: text, pings, unknown events", anthropic.Client{}, "", msgStart + msgPing + msgBlock(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"One"}`, `{"type":"text_delta","text":" two"}`) + block("weather", `{"type":"weather"}`) + msgStop("end_turn"),
		"created in_progress added[0] part[0] delta[0] delta[0] text[0] partdone[0] done[0] completed", `message(One two)`, "completed <nil> 120/7/96"},
	{"messages: thinking, text, calls", anthropic.Client{}, weather + `,"reasoning":{"effort":"low","summary":"auto"}`,
		msgStart + msgBlock(0, `{"type":"thinking","thinking":""}`, `{"type":"thinking_delta","thinking":"Let me look."}`, `{"type":"signature_delta","signature":"SIG"}`) +
			msgBlock(1, `{"type":"redacted_thinking","data":"RED"}`) + msgBlock(2, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Looking."}`) +
			msgBlock(3, `{"type":"tool_use","id":"t1","name":"get_weather","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"city\":"}`, `{"type":"input_json_delta","partial_json":"\"Oslo\"}"}`) +
			msgBlock(4, `{"type":"tool_use","id":"t2","name":"get_weather","input":{}}`) + msgStop("tool_use"),
		"created in_progress added[0] summarypart[0] summary[0] summarydone[0] summarypartdone[0] done[0] added[1] done[1] added[2] part[2] delta[2] text[2] partdone[2] done[2] added[3] args[3] args[3] added[4] args[4] argsdone[3] done[3] argsdone[4] done[4] completed",
		`reasoning(Let me look.) sealed reasoning() sealed message(Looking.) call t1 get_weather({"city":"Oslo"}) call t2 get_weather({})`, "completed <nil> 120/7/96"},
	{"messages: two texts", anthropic.Client{}, "", msgStart + msgBlock(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"A"}`) + msgBlock(1, `{"type":"text","text":""}`, `{"type":"text_delta","text":"B"}`) + msgStop("max_tokens"),
		"created in_progress added[0] part[0] delta[0] delta[0] text[0] partdone[0] done[0] incomplete", `message(AB)`, "incomplete map[reason:max_output_tokens] 120/7/96"},
	{"messages: an error in the stream", anthropic.Client{}, "", msgStart + msgBlock(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"First part"}`) + block("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"created in_progress added[0] part[0] delta[0] failed", `message(First part)`, "failed <nil> -"},
}

var shortNames = strings.NewReplacer("response.", "", "output_item.added", "added", "output_item.done", "done", "content_part.added", "part", "content_part.done", "partdone",
	"output_text.delta", "delta", "output_text.done", "text", "function_call_arguments.delta", "args", "function_call_arguments.done", "argsdone", "refusal.delta", "refuse", "refusal.done", "refusedone",
	"reasoning_summary_part.added", "summarypart", "reasoning_summary_part.done", "summarypartdone", "reasoning_summary_text.delta", "summary", "reasoning_summary_text.done", "summarydone",
	"reasoning_text.delta", "think", "reasoning_text.done", "thinkdone")

// cross plays a provider's stream through its client and out as responses.
func cross(t *testing.T, c *crossing) []byte {
	t.Helper()
	r, o, err := responses.Dialect{}.DecodeRequest(nil, []byte(`{"model":"m","input":"Please.","stream":true`+c.extra+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.ID = "req_0123456789abcdef0123456789abcdef"
	out, err := c.client.EncodeRequest(r, wire.Target{Model: "up", MaxOutput: 100})
	if err != nil {
		t.Fatal(err)
	}
	d, s := c.client.NewDecoder(r, out), responses.NewStream(r, o)
	var frames []byte
	take := func(evs []infer.Event, err error) bool {
		for _, ev := range evs {
			if err == nil {
				frames, err = s.Event(frames, ev)
			}
		}
		if err != nil {
			frames = s.Error(frames, infer.AsError(err))
		}
		return err == nil
	}
	rd := sse.NewReader(strings.NewReader(c.sent), 0)
	for {
		ev, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !take(d.Frame(nil, ev.Name, ev.Data)) {
			return frames
		}
	}
	take(d.End(nil))
	return s.End(frames)
}

// TestResponsesCrossing holds what becomes of the streams of other dialects.
func TestResponsesCrossing(t *testing.T) {
	for i := range crossings {
		c := &crossings[i]
		var types []string
		var last map[string]any
		texts := map[string]string{}
		rd := sse.NewReader(bytes.NewReader(cross(t, c)), 0)
		for n := 0; ; n++ {
			ev, err := rd.Next()
			if err == io.EOF {
				break
			}
			var v map[string]any
			if err := json.Unmarshal(ev.Data, &v); err != nil || v["type"] != ev.Name || v["sequence_number"] != float64(n) {
				t.Errorf("%s: event %d: %v %s", c.name, n, err, ev.Data)
			}
			name := shortNames.Replace(ev.Name)
			if k, ok := v["output_index"]; ok {
				name += fmt.Sprintf("[%v]", k)
				if delta, ok := v["delta"].(string); ok {
					texts[fmt.Sprint(k)] += delta
				}
				for _, whole := range []string{"text", "arguments", "refusal"} {
					if w, ok := v[whole]; ok && w != texts[fmt.Sprint(k)] {
						t.Errorf("%s: %s differs from its deltas", c.name, ev.Name)
					}
				}
			}
			types = append(types, name)
			last, _ = v["response"].(map[string]any)
		}
		if got := strings.Join(types, " "); got != c.types {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.types)
		}
		if got := itemsOf(last); got != c.items {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.items)
		}
		usage := "-"
		if u, ok := last["usage"].(map[string]any); ok {
			usage = fmt.Sprintf("%v/%v/%v", u["input_tokens"], u["output_tokens"], u["input_tokens_details"].(map[string]any)["cached_tokens"])
		}
		if got := fmt.Sprintf("%v %v %s", last["status"], last["incomplete_details"], usage); got != c.end {
			t.Errorf("%s: got %s, want %s", c.name, got, c.end)
		}
		if (last["status"] == "failed") != (last["error"] != nil) {
			t.Errorf("%s: the error is %v", c.name, last["error"])
		}
	}
}

// itemsOf are the output items of a response in short.
func itemsOf(r map[string]any) string {
	var out []string
	list, _ := r["output"].([]any)
	for _, it := range list {
		it := it.(map[string]any)
		text := ""
		for _, k := range []string{"summary", "content"} {
			parts, _ := it[k].([]any)
			for _, p := range parts {
				p := p.(map[string]any)
				if p["type"] == "refusal" {
					text += "-" + p["refusal"].(string)
				} else {
					text += p["text"].(string)
				}
			}
		}
		s := ""
		switch it["type"] {
		case "function_call":
			s = fmt.Sprintf("call %v %v(%v)", it["call_id"], it["name"], it["arguments"])
		default:
			s = fmt.Sprintf("%v(%s)", it["type"], text)
			if it["encrypted_content"] != nil {
				s += " sealed"
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
