package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// told is what a client makes of a stream.
type told struct {
	order  []string
	blocks []map[string]any
	stop   string
	seq    any
	start  map[string]any // usage of message_start
	usage  map[string]any // of message_delta
	id     string
	model  string
	err    map[string]any
	pings  int
}

// lint reads a stream as strictly as the order of the API's events allows.
func lint(t *testing.T, stream []byte) told {
	t.Helper()
	var out told
	open, stopped := -1, false
	var args strings.Builder
	rd := sse.NewReader(bytes.NewReader(stream), 0)
	for {
		ev, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := json.Unmarshal(ev.Data, &o); err != nil {
			t.Fatalf("%v in %s", err, ev.Data)
		}
		kind, _ := o["type"].(string)
		if kind != ev.Name {
			t.Errorf("event %q carries %q", ev.Name, kind)
		}
		if kind == "ping" {
			out.pings++
			continue
		}
		if len(out.order) == 0 && kind != "message_start" && kind != "error" {
			t.Errorf("%s comes first", kind)
		}
		if stopped || out.err != nil {
			t.Errorf("%s comes after the end", kind)
		}
		if n := len(out.order); n == 0 || out.order[n-1] != kind {
			out.order = append(out.order, kind)
		}
		i := -1
		if f, ok := o["index"].(float64); ok {
			i = int(f)
		}
		switch kind {
		case "message_start":
			m := o["message"].(map[string]any)
			out.start = m["usage"].(map[string]any)
			out.id, out.model = m["id"].(string), m["model"].(string)
			for _, key := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
				if _, ok := out.start[key].(float64); !ok {
					t.Errorf("message_start has no %s", key)
				}
			}
			if m["role"] != "assistant" || m["type"] != "message" || len(m["content"].([]any)) != 0 {
				t.Errorf("message_start holds %v", m)
			}
		case "content_block_start":
			if open >= 0 || i != len(out.blocks) {
				t.Errorf("block %d starts while %d is open and %d have begun", i, open, len(out.blocks))
			}
			open = i
			out.blocks = append(out.blocks, o["content_block"].(map[string]any))
			args.Reset()
		case "content_block_delta":
			if i != open {
				t.Errorf("a delta of block %d while %d is open", i, open)
				continue
			}
			b, d := out.blocks[i], o["delta"].(map[string]any)
			fits := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}
			if fits[d["type"].(string)] != b["type"] {
				t.Errorf("a %v in a %v", d["type"], b["type"])
			}
			for _, key := range []string{"text", "thinking", "signature"} {
				if s, ok := d[key].(string); ok {
					b[key] = b[key].(string) + s
				}
			}
			if s, ok := d["partial_json"].(string); ok {
				args.WriteString(s)
			}
		case "content_block_stop":
			if i != open {
				t.Errorf("block %d stops while %d is open", i, open)
			}
			if out.blocks[i]["type"] == "tool_use" && args.Len() > 0 {
				var v any
				if json.Unmarshal([]byte(args.String()), &v) != nil {
					v = args.String()
				}
				out.blocks[i]["input"] = v
			}
			open = -1
		case "message_delta":
			if open >= 0 {
				t.Error("message_delta while a block is open")
			}
			d := o["delta"].(map[string]any)
			out.stop, out.seq = d["stop_reason"].(string), d["stop_sequence"]
			out.usage = o["usage"].(map[string]any)
		case "message_stop":
			stopped = true
			if open >= 0 || out.stop == "" {
				t.Error("message_stop with a block open or without a reason")
			}
		case "error":
			out.err = o["error"].(map[string]any)
		default:
			t.Errorf("unknown event %s", kind)
		}
	}
	return out
}

// play encodes events as a stream.
func play(t *testing.T, o wire.Options, events ...infer.Event) []byte {
	t.Helper()
	s := newStream(chat(nil), o)
	var out []byte
	for _, ev := range events {
		var err error
		if out, err = s.Event(out, ev); err != nil {
			t.Fatal(err)
		}
	}
	return s.End(out)
}

var (
	evStart = infer.Event{Kind: infer.EventStart, Usage: &infer.Usage{PromptTokens: 13, CachedTokens: 2}, Model: &infer.Served{Name: "served"}}
	evUsage = infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 30, CachedTokens: 5, CacheWriteTokens: 7, CacheWriteHourTokens: 3, CompletionTokens: 9, ReasoningTokens: 4}}
)

func say(s string) infer.Event   { return infer.Event{Kind: infer.EventText, Text: s} }
func think(s string) infer.Event { return infer.Event{Kind: infer.EventReasoning, Text: s} }
func end(f infer.FinishReason) infer.Event {
	return infer.Event{Kind: infer.EventFinish, Finish: f}
}
func tool(i int, id, args string) infer.Event {
	d := &infer.ToolDelta{Index: i, ID: id, Arguments: args}
	if id != "" {
		d.Name = "w"
	}
	return infer.Event{Kind: infer.EventTool, Tool: d}
}

// blocksOf writes the blocks down: kind and content.
func blocksOf(a told) string {
	var out []string
	for _, b := range a.blocks {
		switch b["type"] {
		case "text":
			out = append(out, "text:"+b["text"].(string))
		case "thinking":
			out = append(out, "thinking:"+b["thinking"].(string)+"/"+b["signature"].(string))
		case "redacted_thinking":
			out = append(out, "redacted:"+b["data"].(string))
		case "tool_use":
			in, _ := json.Marshal(b["input"])
			out = append(out, fmt.Sprintf("tool:%v/%v/%s", b["id"], b["name"], in))
		}
	}
	return strings.Join(out, " ")
}

func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		events []infer.Event
		blocks string
		stop   string
	}{
		"text":           {[]infer.Event{say("a"), say(""), say("b\n\"ü")}, "text:ab\n\"ü", "end_turn"},
		"nothing":        {nil, "", "end_turn"},
		"thinking":       {[]infer.Event{think("hm"), {Kind: infer.EventReasoning, Signature: "sig"}, {Kind: infer.EventReasoning, Redacted: "red"}, think("more"), say("a")}, "thinking:hm/sig redacted:red thinking:more/ text:a", "end_turn"},
		"call first":     {[]infer.Event{tool(0, "t0", ""), tool(0, "", `{"a":`), tool(0, "", `1}`)}, `tool:t0/w/{"a":1}`, "tool_use"},
		"text then call": {[]infer.Event{say("x"), tool(0, "t0", `{}`)}, `text:x tool:t0/w/{}`, "tool_use"},
		"no arguments":   {[]infer.Event{tool(0, "t0", "")}, `tool:t0/w/{}`, "tool_use"},
		"in turn":        {[]infer.Event{tool(0, "t0", `{"a":1}`), tool(1, "t1", `{"b"`), tool(1, "", `:2}`)}, `tool:t0/w/{"a":1} tool:t1/w/{"b":2}`, "tool_use"},
		"alternating":    {[]infer.Event{tool(0, "t0", ""), tool(1, "t1", ""), tool(0, "", `{"a":`), tool(1, "", `{"b":`), tool(0, "", `"}"}`), tool(1, "", `2}`), tool(2, "t2", `{}`)}, `tool:t0/w/{"a":"}"} tool:t1/w/{"b":2} tool:t2/w/{}`, "tool_use"},
		"text between":   {[]infer.Event{tool(0, "t0", `{"a"`), say("x"), say("y"), tool(0, "", `:1}`), say("z"), tool(1, "t1", `{}`), say("end")}, `tool:t0/w/{"a":1} text:xyz tool:t1/w/{} text:end`, "tool_use"},
		"text after":     {[]infer.Event{say("x"), tool(0, "t0", `{}`), say("y")}, `text:x tool:t0/w/{} text:y`, "tool_use"},
		"cut":            {[]infer.Event{tool(0, "t0", `{"city":"Os`), tool(1, "t1", `{"a"`), end(infer.FinishLength)}, `tool:t0/w/"{\"city\":\"Os" tool:t1/w/"{\"a\""`, "max_tokens"},
		"refusal":        {[]infer.Event{say("no"), end(infer.FinishRefusal)}, "text:no", "refusal"},
		"filtered":       {[]infer.Event{end(infer.FinishContentFilter)}, "", "refusal"},
		"pause":          {[]infer.Event{end(infer.FinishPause)}, "", "pause_turn"},
		"context":        {[]infer.Event{end(infer.FinishContext)}, "", "model_context_window_exceeded"},
		"stop sequence":  {[]infer.Event{say("a"), {Kind: infer.EventFinish, Finish: infer.FinishStop, Stop: "END"}}, "text:a", "stop_sequence"},
		"calls unsaid":   {[]infer.Event{tool(0, "t0", `{}`), end(infer.FinishStop)}, `tool:t0/w/{}`, "tool_use"},
		"calls claimed":  {[]infer.Event{say("a"), end(infer.FinishToolCalls)}, "text:a", "end_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			events := append([]infer.Event{evStart}, c.events...)
			if events[len(events)-1].Kind != infer.EventFinish {
				events = append(events, end(infer.FinishStop))
			}
			a := lint(t, play(t, wire.Options{}, append(events, evUsage)...))
			if got := blocksOf(a); got != c.blocks {
				t.Errorf("got  %s\nwant %s", got, c.blocks)
			}
			if a.stop != c.stop || (a.seq != nil) != (c.stop == "stop_sequence") {
				t.Errorf("got %s %v, want %s", a.stop, a.seq, c.stop)
			}
			if a.id != "msg_1" || a.model != "served" || a.start["input_tokens"] != 11.0 || a.start["cache_read_input_tokens"] != 2.0 {
				t.Errorf("got %s %s %v", a.id, a.model, a.start)
			}
			want := map[string]any{"input_tokens": 18.0, "cache_creation_input_tokens": 7.0, "cache_read_input_tokens": 5.0, "output_tokens": 9.0,
				"cache_creation": map[string]any{"ephemeral_5m_input_tokens": 4.0, "ephemeral_1h_input_tokens": 3.0}, "output_tokens_details": map[string]any{"thinking_tokens": 4.0}}
			if !reflect.DeepEqual(a.usage, want) {
				t.Errorf("usage: got %v", a.usage)
			}
		})
	}
}

// TestStreamPieces sends the pieces of a call as they come, not at its end.
func TestStreamPieces(t *testing.T) {
	s := newStream(chat(nil), wire.Options{})
	for _, c := range []struct {
		ev   infer.Event
		want string
	}{
		{evStart, "message_start"}, {tool(0, "t0", ""), "tool_use"}, {tool(0, "", `{"a`), `{\"a`}, {tool(0, "", `":1}`), `\":1}`},
		{tool(1, "t1", `{`), "content_block_stop"}, {tool(1, "", `}`), `"}"`}, {say("x"), "text_delta"},
	} {
		out, err := s.Event(nil, c.ev)
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%+v: got %s %v, want %s", c.ev, out, err, c.want)
		}
	}
}

// TestStreamHidden leaves reasoning out, but not its seals.
func TestStreamHidden(t *testing.T) {
	a := lint(t, play(t, wire.Options{HideReasoning: true}, evStart, think("hm"), infer.Event{Kind: infer.EventReasoning, Signature: "s"}, say("a"), end(infer.FinishStop), evUsage))
	if got := blocksOf(a); got != "thinking:/s text:a" {
		t.Errorf("got %s", got)
	}
}

// TestStreamError ends with the error: no stop is claimed and nothing follows.
func TestStreamError(t *testing.T) {
	s := newStream(chat(nil), wire.Options{})
	out, _ := s.Event(nil, evStart)
	out, _ = s.Event(out, say("First"))
	out = s.Ping(out)
	out = s.Error(out, &infer.Error{Code: infer.CodeOverloaded, Message: "too much"})
	a := lint(t, out)
	if a.stop != "" || a.err["type"] != "overloaded_error" || a.err["message"] != "too much" || a.pings != 1 || blocksOf(a) != "text:First" {
		t.Errorf("got %+v", a)
	}
	if got := string(newStream(chat(nil), wire.Options{}).Ping(nil)); got != ": ping\n\n" {
		t.Errorf("before the start: got %q", got)
	}
}

// TestStreamFaults holds that broken rules of events are errors.
func TestStreamFaults(t *testing.T) {
	for name, events := range map[string][]infer.Event{
		"two starts":   {evStart, evStart},
		"choice":       {evStart, {Kind: infer.EventText, Choice: 1, Text: "a"}},
		"after end":    {evStart, end(infer.FinishStop), say("a")},
		"no end":       {evStart, evUsage},
		"after usage":  {evStart, end(infer.FinishStop), evUsage, evUsage},
		"no tool":      {evStart, {Kind: infer.EventTool}},
		"skipped call": {evStart, tool(1, "t", "")},
		"no such call": {evStart, tool(0, "", "{}")},
		"reopened":     {evStart, tool(0, "t", "{}"), say("a"), tool(0, "", "{}")},
		"unknown":      {evStart, {Kind: 99}},
	} {
		s := newStream(chat(nil), wire.Options{})
		var err error
		for _, ev := range events {
			if _, err = s.Event(nil, ev); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestStreamAnyOrder plays calls whose pieces come in any order, with text
// between: every stream is well formed and loses nothing.
func TestStreamAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(4)
		left := make([][]byte, n)
		for i := range left {
			left[i] = fmt.Appendf(nil, `{"k%d":["}\"{",{"x":%d}]}`, i, i)
		}
		events := []infer.Event{evStart}
		begun, text := 0, ""
		for {
			open := []int{}
			for i := range begun {
				if len(left[i]) > 0 {
					open = append(open, i)
				}
			}
			switch k := rnd.IntN(4); {
			case k == 0:
				s := fmt.Sprint(len(events), " ")
				text += s
				events = append(events, say(s))
				continue
			case k == 1 && begun < n:
				events = append(events, tool(begun, fmt.Sprint("t", begun), ""))
				begun++
				continue
			case len(open) > 0:
				i := open[rnd.IntN(len(open))]
				m := 1 + rnd.IntN(len(left[i]))
				events = append(events, tool(i, "", string(left[i][:m])))
				left[i] = left[i][m:]
				continue
			}
			if begun == n && len(open) == 0 {
				break
			}
		}
		a := lint(t, play(t, wire.Options{}, append(events, end(infer.FinishToolCalls), evUsage)...))
		got, calls := "", 0
		for _, b := range a.blocks {
			if b["type"] == "text" {
				got += b["text"].(string)
				continue
			}
			in, _ := json.Marshal(b["input"])
			if want := fmt.Sprintf(`{"k%d":["}\"{",{"x":%d}]}`, calls, calls); string(in) != want || b["id"] != fmt.Sprint("t", calls) {
				t.Errorf("seed %d: got %s, want %s", seed, in, want)
			}
			calls++
		}
		if got != text || calls != n {
			t.Errorf("seed %d: got text %q and %d calls, want %q and %d", seed, got, calls, text, n)
		}
		if t.Failed() {
			return
		}
	}
}

// TestAnswer encodes whole answers.
func TestAnswer(t *testing.T) {
	c := wire.NewCollector(chat(nil))
	for _, ev := range []infer.Event{evStart, think("hm"), {Kind: infer.EventReasoning, Signature: "s"}, {Kind: infer.EventReasoning, Redacted: "d"}, think("loose"), say("a"), say("b"), tool(0, "t0", `{"a": [1, 2]}`), tool(1, "t1", ""), tool(2, "t2", `{"cut`), end(infer.FinishToolCalls), evUsage} {
		if err := c.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	a, err := c.Answer()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (Messages{}).EncodeResponse(&b, chat(nil), wire.Options{}, a); err != nil {
		t.Fatal(err)
	}
	same(t, "answer", b.Bytes(), `{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"thinking","thinking":"loose","signature":""},{"type":"text","text":"ab"},
		{"type":"tool_use","id":"t0","name":"w","input":{"a":[1,2]}},{"type":"tool_use","id":"t1","name":"w","input":{}},{"type":"tool_use","id":"t2","name":"w","input":{"invalid_json":"{\"cut"}}],"stop_reason":"tool_use","stop_sequence":null,
		"usage":{"input_tokens":18,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":3},"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}`)
	// What was written is read back as what it was, but for what was cut.
	events, err := Client{}.DecodeAnswer(chat(nil), &wire.Outgoing{}, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := brief(events), `start mind:hm/s/ mind://d mind:loose// text:ab tool0:t0/w/ tool0://{"a": [1, 2]} tool1:t1/w/ tool1://{} tool2:t2/w/ tool2://{"invalid_json":"{\"cut"} finish:tool_calls/ usage`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if u := events[len(events)-1].Usage; *u != *evUsage.Usage {
		t.Errorf("usage: got %+v", u)
	}
}

// TestStreamBack reads an encoded stream with the client: the events come back.
func TestStreamBack(t *testing.T) {
	in := []infer.Event{evStart, think("hm"), {Kind: infer.EventReasoning, Signature: "s"}, say("a"), say("b"), tool(0, "t0", `{"a":`), tool(0, "", `1}`), end(infer.FinishToolCalls), evUsage}
	d := Client{}.NewDecoder(chat(nil), &wire.Outgoing{Stream: true})
	rd := sse.NewReader(bytes.NewReader(play(t, wire.Options{}, in...)), 0)
	var events []infer.Event
	for {
		ev, err := rd.Next()
		if err != nil {
			break
		}
		if events, err = d.Frame(events, ev.Name, ev.Data); err != nil {
			t.Fatal(err)
		}
	}
	events, err := d.End(events)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := brief(events), `start mind:hm// mind:/s/ text:a text:b tool0:t0/w/ tool0://{"a": tool0://1} finish:tool_calls/ usage`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if u := events[len(events)-1].Usage; *u != *evUsage.Usage {
		t.Errorf("usage: got %+v", u)
	}
}

// TestErrors holds every code to the API's table of statuses and types.
func TestErrors(t *testing.T) {
	types := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error",
		408: "invalid_request_error", 409: "conflict_error", 413: "request_too_large", 415: "invalid_request_error", 431: "invalid_request_error", 500: "api_error",
		502: "api_error", 503: "api_error", 504: "timeout_error", 529: "overloaded_error"}
	for code, w := range errorTable {
		status, body := EncodeError(&infer.Error{Code: code, Param: "x.y", Message: "no <way>"}, "req_9")
		want := types[status]
		if status == 429 {
			want = map[infer.Code]string{infer.CodeQuota: "billing_error", infer.CodeRateLimited: "rate_limit_error"}[code]
		}
		if w.kind != want {
			t.Errorf("%s: got %d %s, want %s", code, status, w.kind, want)
		}
		same(t, string(code), body, `{"type":"error","error":{"type":"`+want+`","message":"x.y: no <way>"},"request_id":"req_9"}`)
	}
	if status, body := EncodeError(&infer.Error{Code: "never heard of"}, ""); status != 500 || !strings.Contains(string(body), `"the request failed"`) {
		t.Errorf("got %d %s", status, body)
	}
	if got := message(&infer.Error{Param: "top_k", Message: "cannot use top_k"}); got != "cannot use top_k" {
		t.Errorf("got %q", got)
	}
}
