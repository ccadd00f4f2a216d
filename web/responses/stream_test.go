package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

func start() infer.Event {
	return infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "m1"}, Usage: &infer.Usage{PromptTokens: 11, Estimated: true}}
}
func say(s string) infer.Event   { return infer.Event{Kind: infer.EventText, Text: s, Tokens: 1} }
func think(s string) infer.Event { return infer.Event{Kind: infer.EventReasoning, Text: s, Tokens: 1} }
func call(i int, id, name, args string) infer.Event {
	return infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: i, ID: id, Name: name, Arguments: args}}
}
func finish(f infer.FinishReason) infer.Event {
	return infer.Event{Kind: infer.EventFinish, Finish: f}
}
func usage(u infer.Usage) infer.Event { return infer.Event{Kind: infer.EventUsage, Usage: &u} }

var counted = usage(infer.Usage{PromptTokens: 120, CachedTokens: 96, CacheWriteTokens: 4, CompletionTokens: 7, ReasoningTokens: 2})

// encode plays events into a stream; an error ends it, if one is given.
func encode(t testing.TB, body string, fail *infer.Error, evs ...infer.Event) (*Stream, []byte) {
	t.Helper()
	r, o, err := Dialect{}.DecodeRequest(nil, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r.ID, o.Created = "req_0123456789abcdef0123456789abcdef", time.Unix(1_750_000_000, 0)
	s := NewStream(r, o)
	s.now = func() time.Time { return time.Unix(1_750_000_001, 0) }
	var out []byte
	for _, ev := range evs {
		if out, err = s.Event(out, ev); err != nil {
			t.Fatal(err)
		}
	}
	if fail != nil {
		out = s.Error(out, fail)
	}
	return s, s.End(out)
}

// outline is a stream in short: one line an event, with what it says.
func outline(t testing.TB, frames []byte) string {
	t.Helper()
	var b strings.Builder
	rd := sse.NewReader(bytes.NewReader(frames), 0)
	for n := 0; ; n++ {
		ev, err := rd.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(ev.Data, &v); err != nil {
			t.Fatalf("%v: %s", err, ev.Data)
		}
		if v["type"] != ev.Name || v["sequence_number"] != float64(n) {
			t.Errorf("event %d is %s: %s", n, ev.Name, ev.Data)
		}
		fmt.Fprint(&b, strings.TrimPrefix(ev.Name, "response."))
		for _, k := range []string{"output_index", "content_index", "summary_index", "delta", "text", "refusal", "arguments", "input", "logprobs", "obfuscation"} {
			if x, ok := v[k]; ok && !(k == "logprobs" && len(x.([]any)) == 0) {
				fmt.Fprintf(&b, " %v", x)
			}
		}
		if p, ok := v["part"].(map[string]any); ok {
			fmt.Fprintf(&b, " %v:%v%v", p["type"], p["text"], p["refusal"])
		}
		if it, ok := v["item"].(map[string]any); ok {
			b.WriteString(" " + itemOutline(it))
		}
		if r, ok := v["response"].(map[string]any); ok {
			fmt.Fprintf(&b, " %s %v %v", r["status"], r["incomplete_details"], r["error"])
			for _, it := range r["output"].([]any) {
				b.WriteString(" " + itemOutline(it.(map[string]any)))
			}
			if u, ok := r["usage"].(map[string]any); ok {
				fmt.Fprintf(&b, " %v/%v", u["input_tokens"], u["output_tokens"])
			}
		}
		b.WriteByte('\n')
	}
}

func itemOutline(it map[string]any) string {
	s := fmt.Sprintf("[%v %v", it["type"], it["status"])
	for _, k := range []string{"namespace", "name", "arguments", "input", "encrypted_content"} {
		if x, ok := it[k]; ok {
			s += fmt.Sprintf(" %v", x)
		}
	}
	for _, k := range []string{"summary", "content"} {
		parts, _ := it[k].([]any)
		for _, p := range parts {
			p := p.(map[string]any)
			s += fmt.Sprintf(" %v:%v%v", p["type"], p["text"], p["refusal"])
		}
	}
	return strings.ReplaceAll(s, "<nil>", "") + "]"
}

func golden(t *testing.T, frames []byte, want string) {
	t.Helper()
	got := strings.ReplaceAll(outline(t, frames), "<nil>", "-")
	want = strings.TrimLeft(strings.ReplaceAll(want, "\t", ""), "\n")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const plainBody = `{"model":"m","input":"a","stream":true}`

func TestStreamText(t *testing.T) {
	_, out := encode(t, plainBody, nil, start(), say(""), say("The kettle"), say(" is on."), finish(infer.FinishStop), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [message in_progress]
	content_part.added 0 0 output_text:-
	output_text.delta 0 0 The kettle
	output_text.delta 0 0  is on.
	output_text.done 0 0 The kettle is on.
	content_part.done 0 0 output_text:The kettle is on.-
	output_item.done 0 [message completed output_text:The kettle is on.]
	completed completed - - [message completed output_text:The kettle is on.] 120/7
	`)
	if want := `"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":96,"cache_write_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":127}`; !bytes.Contains(out, []byte(want)) {
		t.Errorf("the usage is not %s", want)
	}
}

// Nothing at all is an answer too.
func TestStreamEmpty(t *testing.T) {
	_, out := encode(t, plainBody, nil, start(), finish(infer.FinishStop), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	completed completed - - 120/7
	`)
}

// The pieces of two calls that alternate go to the right call; text before and
// after calls makes two messages.
func TestStreamCalls(t *testing.T) {
	_, out := encode(t, `{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"g"}]}]}`, nil,
		start(), say("One."), call(0, "c0", "f", ""), call(1, "c1", "ns__g", ""), call(1, "", "", `{"a":`), call(0, "", "", `{}`), call(1, "", "", `1}`), say("Two."),
		finish(infer.FinishToolCalls), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [message in_progress]
	content_part.added 0 0 output_text:-
	output_text.delta 0 0 One.
	output_text.done 0 0 One.
	content_part.done 0 0 output_text:One.-
	output_item.done 0 [message completed output_text:One.]
	output_item.added 1 [function_call in_progress f ]
	output_item.added 2 [function_call in_progress ns g ]
	function_call_arguments.delta 2 {"a":
	function_call_arguments.delta 1 {}
	function_call_arguments.delta 2 1}
	output_item.added 3 [message in_progress]
	content_part.added 3 0 output_text:-
	output_text.delta 3 0 Two.
	output_text.done 3 0 Two.
	content_part.done 3 0 output_text:Two.-
	output_item.done 3 [message completed output_text:Two.]
	function_call_arguments.done 1 {}
	output_item.done 1 [function_call completed f {}]
	function_call_arguments.done 2 {"a":1}
	output_item.done 2 [function_call completed ns g {"a":1}]
	completed completed - - [message completed output_text:One.] [function_call completed f {}] [function_call completed ns g {"a":1}] [message completed output_text:Two.] 120/7
	`)
}

// Two calls never share an id, whatever the provider says.
func TestStreamCallIDs(t *testing.T) {
	s, _ := encode(t, plainBody, nil, start(), call(0, "same", "f", "{}"), call(1, "same", "f", "{}"), call(2, "", "f", "{}"), finish(infer.FinishToolCalls), counted)
	for _, id := range []string{"same", "call_h0123456789abcdef0123456789abcdef_1", "call_h0123456789abcdef0123456789abcdef_2"} {
		if n := bytes.Count(s.Body(), []byte(`"call_id":"`+id+`"`)); n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
}

func TestStreamCustom(t *testing.T) {
	_, out := encode(t, `{"model":"m","input":"a","tools":[{"type":"custom","name":"p"}]}`, nil,
		start(), call(0, "c0", "p", `{"input":"*** `), call(0, "", "", `Begin\n"}`), finish(infer.FinishToolCalls), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [custom_tool_call in_progress p ]
	custom_tool_call_input.delta 0 *** Begin

	custom_tool_call_input.done 0 *** Begin

	output_item.done 0 [custom_tool_call completed p *** Begin
	]
	completed completed - - [custom_tool_call completed p *** Begin
	] 120/7
	`)
}

// Reasoning comes as it was asked for: a summary, or the text; a seal ends its
// piece, and what is redacted is a piece of its own.
func TestStreamReasoning(t *testing.T) {
	evs := []infer.Event{start(), think("Hm."), {Kind: infer.EventReasoning, Signature: "S"}, {Kind: infer.EventReasoning, Redacted: "R"}, think("More."), say("Four."), finish(infer.FinishStop), counted}
	_, out := encode(t, `{"model":"m","input":"a","reasoning":{"summary":"auto"}}`, nil, evs...)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [reasoning ]
	reasoning_summary_part.added 0 0 summary_text:-
	reasoning_summary_text.delta 0 0 Hm.
	reasoning_summary_text.done 0 0 Hm.
	reasoning_summary_part.done 0 0 summary_text:Hm.-
	output_item.done 0 [reasoning  hearth.1.s.S summary_text:Hm.]
	output_item.added 1 [reasoning ]
	output_item.done 1 [reasoning  hearth.1.r.R]
	output_item.added 2 [reasoning ]
	reasoning_summary_part.added 2 0 summary_text:-
	reasoning_summary_text.delta 2 0 More.
	reasoning_summary_text.done 2 0 More.
	reasoning_summary_part.done 2 0 summary_text:More.-
	output_item.done 2 [reasoning  summary_text:More.]
	output_item.added 3 [message in_progress]
	content_part.added 3 0 output_text:-
	output_text.delta 3 0 Four.
	output_text.done 3 0 Four.
	content_part.done 3 0 output_text:Four.-
	output_item.done 3 [message completed output_text:Four.]
	completed completed - - [reasoning  hearth.1.s.S summary_text:Hm.] [reasoning  hearth.1.r.R] [reasoning  summary_text:More.] [message completed output_text:Four.] 120/7
	`)
	_, out = encode(t, plainBody, nil, start(), think("Hm."), say("Four."), finish(infer.FinishStop), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [reasoning ]
	content_part.added 0 0 reasoning_text:-
	reasoning_text.delta 0 0 Hm.
	reasoning_text.done 0 0 Hm.
	content_part.done 0 0 reasoning_text:Hm.-
	output_item.done 0 [reasoning  reasoning_text:Hm.]
	output_item.added 1 [message in_progress]
	content_part.added 1 0 output_text:-
	output_text.delta 1 0 Four.
	output_text.done 1 0 Four.
	content_part.done 1 0 output_text:Four.-
	output_item.done 1 [message completed output_text:Four.]
	completed completed - - [reasoning  reasoning_text:Hm.] [message completed output_text:Four.] 120/7
	`)
}

func TestStreamEnds(t *testing.T) {
	for f, want := range map[infer.FinishReason]string{
		infer.FinishLength:        "incomplete incomplete map[reason:max_output_tokens] - [message incomplete output_text:Some] 120/7",
		infer.FinishContext:       "incomplete incomplete map[reason:max_output_tokens] - [message incomplete output_text:Some] 120/7",
		infer.FinishContentFilter: "incomplete incomplete map[reason:content_filter] - [message incomplete output_text:Some] 120/7",
		infer.FinishRefusal:       "incomplete incomplete map[reason:content_filter] - [message incomplete output_text:Some] 120/7",
		infer.FinishPause:         "incomplete incomplete map[reason:pause_turn] - [message incomplete output_text:Some] 120/7",
		infer.FinishStop:          "completed completed - - [message completed output_text:Some] 120/7",
	} {
		_, out := encode(t, plainBody, nil, start(), say("Some"), finish(f), counted)
		lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(outline(t, out), "<nil>", "-")), "\n")
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("%s: got %s, want %s", f, got, want)
		}
	}
	_, out := encode(t, plainBody, nil, start(), infer.Event{Kind: infer.EventText, Text: "I won't.", Refusal: true}, finish(infer.FinishRefusal), counted)
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [message in_progress]
	content_part.added 0 0 refusal:-
	refusal.delta 0 0 I won't.
	refusal.done 0 0 I won't.
	content_part.done 0 0 refusal:-I won't.
	output_item.done 0 [message completed refusal:I won't.]
	completed completed - - [message completed refusal:I won't.] 120/7
	`)
}

// However a stream breaks off, it ends with response.failed.
func TestStreamFails(t *testing.T) {
	_, out := encode(t, plainBody, &infer.Error{Code: infer.CodeOverloaded, Message: "the provider is overloaded"}, start(), say("First"))
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [message in_progress]
	content_part.added 0 0 output_text:-
	output_text.delta 0 0 First
	failed failed - map[code:server_is_overloaded message:the provider is overloaded] [message incomplete output_text:First]
	`)
	s, out := encode(t, plainBody, &infer.Error{Code: infer.CodeQuota, Message: "x"})
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	failed failed - map[code:insufficient_quota message:x]
	`)
	if more := s.Error(nil, infer.Errorf(infer.CodeInternal, "again")); more != nil {
		t.Errorf("two ends: %s", more)
	}
}

// Streamed and whole answers are the same object.
func TestWhole(t *testing.T) {
	body := `{"model":"m","input":"a","reasoning":{"summary":"auto"},"tools":[{"type":"function","name":"f"}],"metadata":{"a":"b"},"temperature":0.5,"store":false,"top_logprobs":1}`
	lps := []infer.TokenLogprob{{Bytes: []byte("Hi"), Logprob: -0.5, Top: []infer.TopLogprob{{Bytes: []byte("Ho"), Logprob: -1}}}}
	s, _ := encode(t, body, nil, start(), infer.Event{Kind: infer.EventReasoning, Text: "Hm.", Signature: "S"}, infer.Event{Kind: infer.EventText, Text: "Hi", Logprobs: lps}, call(0, "c", "f", "{}"), finish(infer.FinishToolCalls), counted)
	r, o := decode(t, body)
	r.ID, o.Created = "req_0123456789abcdef0123456789abcdef", time.Unix(1_750_000_000, 0)
	var buf bytes.Buffer
	err := Dialect{}.EncodeResponse(&buf, r, o, &wire.Answer{Model: infer.Served{Name: "m1"}, Usage: *counted.Usage, Choices: []wire.Choice{{
		Text: "Hi", Logprobs: lps, Thoughts: []infer.Thought{{Text: "Hm.", Signature: "S"}}, ToolCalls: []infer.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}, Finish: infer.FinishToolCalls}}})
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.Body(), &want); err != nil {
		t.Fatal(err)
	}
	delete(got, "completed_at")
	delete(want, "completed_at")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for k, v := range map[string]string{"object": "response", "model": "m1", "store": "false", "metadata": "map[a:b]", "temperature": "0.5", "previous_response_id": "<nil>", "tool_choice": "auto", "truncation": "disabled"} {
		if fmt.Sprint(got[k]) != v {
			t.Errorf("%s is %v, want %s", k, got[k], v)
		}
	}
	if !strings.Contains(buf.String(), `"logprobs":[{"token":"Hi","bytes":[72,105],"logprob":-0.5,"top_logprobs":[{"token":"Ho","bytes":[72,111],"logprob":-1}]}]`) {
		t.Errorf("the log-probabilities are missing: %s", buf.String())
	}
}

// What cannot be stored says so.
func TestStreamSave(t *testing.T) {
	r, o := decode(t, plainBody)
	s := NewStream(r, o)
	s.Save = func([]byte) error { return io.ErrShortWrite }
	for _, ev := range []infer.Event{start(), finish(infer.FinishStop), counted} {
		if _, err := s.Event(nil, ev); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Contains(s.Body(), []byte(`"store":false`)) {
		t.Errorf("got %s", s.Body())
	}
}

// A replay says what the stream said.
func TestReplay(t *testing.T) {
	body := `{"model":"m","input":"a","reasoning":{"summary":"auto"},"tools":[{"type":"function","name":"f"},{"type":"custom","name":"p"}]}`
	s, _ := encode(t, body, nil, start(), infer.Event{Kind: infer.EventReasoning, Text: "Hm.", Signature: "S"}, say("Hi"), call(0, "c", "f", "{}"), call(1, "d", "p", `{"input":"x"}`), finish(infer.FinishToolCalls), counted)
	out, err := Replay(s.Body())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, out, `
	created in_progress - -
	in_progress in_progress - -
	output_item.added 0 [reasoning  hearth.1.s.S]
	reasoning_summary_part.added 0 0 summary_text:-
	reasoning_summary_text.delta 0 0 Hm.
	reasoning_summary_text.done 0 0 Hm.
	reasoning_summary_part.done 0 0 summary_text:Hm.-
	output_item.done 0 [reasoning  hearth.1.s.S summary_text:Hm.]
	output_item.added 1 [message in_progress]
	content_part.added 1 0 output_text:-
	output_text.delta 1 0 Hi
	output_text.done 1 0 Hi
	content_part.done 1 0 output_text:Hi-
	output_item.done 1 [message completed output_text:Hi]
	output_item.added 2 [function_call in_progress f ]
	function_call_arguments.delta 2 {}
	function_call_arguments.done 2 {}
	output_item.done 2 [function_call completed f {}]
	output_item.added 3 [custom_tool_call in_progress p ]
	custom_tool_call_input.delta 3 x
	custom_tool_call_input.done 3 x
	output_item.done 3 [custom_tool_call completed p x]
	completed completed - - [reasoning  hearth.1.s.S summary_text:Hm.] [message completed output_text:Hi] [function_call completed f {}] [custom_tool_call completed p x] 120/7
	`)
	n := 5
	if rest := SkipFrames(out, &n); !bytes.HasPrefix(rest, []byte("event: response.reasoning_summary_text.done")) || n != 0 {
		t.Errorf("the sixth event is %.60s", rest)
	}
}

// A stream that breaks the rules of infer.Event is our fault, and an error.
func TestStreamBugs(t *testing.T) {
	for name, evs := range map[string][]infer.Event{
		"two ends":       {counted, counted},
		"a nameless":     {call(0, "c", "", "")},
		"a gap":          {call(1, "c", "f", "")},
		"another choice": {{Kind: infer.EventText, Choice: 1, Text: "a"}},
		"no tool":        {{Kind: infer.EventTool}},
		"no usage":       {{Kind: infer.EventUsage}},
	} {
		r, o := decode(t, plainBody)
		s := NewStream(r, o)
		var err error
		for _, ev := range evs {
			_, err = s.Event(nil, ev)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	r, o := decode(b, plainBody)
	r.ID = "req_0123456789abcdef0123456789abcdef"
	buf := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		s := NewStream(r, o)
		buf, _ = s.Event(buf[:0], start())
		for range 64 {
			buf, _ = s.Event(buf[:0], say(" word"))
		}
		buf, _ = s.Event(buf[:0], finish(infer.FinishStop))
		buf, _ = s.Event(buf[:0], counted)
	}
}
