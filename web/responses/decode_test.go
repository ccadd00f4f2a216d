package responses

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

func decode(t testing.TB, body string) (*infer.Request, wire.Options) {
	t.Helper()
	r, o, err := Dialect{}.DecodeRequest(nil, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r, o
}

var indices = regexp.MustCompile(`\[\d+\]`)

// TestFields holds every row of the table against the decoder: its body notes
// the feature at that path, and no other that is not named in the row.
func TestFields(t *testing.T) {
	for _, f := range Fields() {
		body := f.Base
		if body == "" {
			rest := map[string]json.RawMessage{"model": json.RawMessage(`"m"`), "input": json.RawMessage(`"a"`)}
			rest[f.Path] = json.RawMessage(f.Example)
			b, err := json.Marshal(rest)
			if err != nil {
				t.Fatal(f.Path, err)
			}
			body = string(b)
		}
		r, _, err := Dialect{}.DecodeRequest(nil, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", f.Path, err)
			continue
		}
		if f.Feature == "" {
			if len(r.Uses) > 0 {
				t.Errorf("%s: noted %v, wanted nothing", f.Path, r.Uses)
			}
			continue
		}
		path, _, _ := strings.Cut(f.Path, " ")
		head, _, _ := strings.Cut(path, "[")
		head, _, _ = strings.Cut(head, ".")
		ok := slices.ContainsFunc(r.Uses, func(u infer.Use) bool {
			got := indices.ReplaceAllString(u.Path, "[]")
			return u.Feature == f.Feature && (strings.HasPrefix(got, head))
		})
		if !ok {
			t.Errorf("%s: noted %v, wanted %s", f.Path, r.Uses, f.Feature)
		}
		for _, u := range r.Uses {
			if u.Feature == infer.FeatureUnknown {
				t.Errorf("%s: %s is unknown", f.Path, u.Path)
			}
		}
	}
}

// TestUnknown holds that what nobody knows is noted with its path wherever it
// stands, and that a null says nothing.
func TestUnknown(t *testing.T) {
	r, _ := decode(t, `{"model":"m","new":1,"old":null,"text":{"tone":"x"},"reasoning":{"depth":2},"stream_options":{"x":1},"include":["y"],
		"tools":[{"type":"function","name":"f","colour":"red"}],
		"input":[{"role":"user","mood":1,"content":[{"type":"input_text","text":"a","font":"b"},{"type":"input_smell","x":1}]},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}","speed":1},{"type":"function_call_output","call_id":"c","output":"","w":1},
			{"type":"reasoning","summary":[],"q":1},{"type":"dance"}]}`)
	var got []string
	for _, u := range r.Uses {
		if u.Feature == infer.FeatureUnknown {
			got = append(got, u.Path)
		}
	}
	slices.Sort(got)
	want := []string{"include[0]", "input[0].content[0].font", "input[0].content[1]", "input[0].mood", "input[1].speed", "input[2].w", "input[3].q", "input[4]",
		"new", "reasoning.depth", "stream_options.x", "text.tone", "tools[0].colour"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestRefusals holds, for each fault, the parameter that is named.
func TestRefusals(t *testing.T) {
	for body, param := range map[string]string{
		`[]`:                         "",
		`{"model": "m", "input": [`:  "",
		`{"input":"a"}`:              "model",
		`{"model":""}`:               "model",
		`{"model":7,"input":"a"}`:    "model",
		`{"model":"m"}`:              "input",
		`{"model":"m","input":[]}`:   "input",
		`{"model":"m","input":7}`:    "input",
		`{"model":"m","input":[7]}`:  "input[0]",
		`{"model":"m","input":[{}]}`: "input[0]",
		`{"model":"m","input":[{"role":"king","content":"a"}]}`:                                                            "input[0].role",
		`{"model":"m","input":[{"role":"user"}]}`:                                                                          "input[0]",
		`{"model":"m","input":[{"role":"user","content":[{"text":"a"}]}]}`:                                                 "input[0].content[0]",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"ftp://x"}]}]}`:                 "input[0].content[0]",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,!"}]}]}`: "input[0].content[0]",
		`{"model":"m","input":[{"type":"function_call","name":"f","arguments":""}]}`:                                       "input[0]",
		`{"model":"m","input":[{"type":"function_call_output","output":""}]}`:                                              "input[0]",
		`{"model":"m","input":"a","temperature":3}`:                                                                        "temperature",
		`{"model":"m","input":"a","temperature":"hot"}`:                                                                    "temperature",
		`{"model":"m","input":"a","top_p":0}`:                                                                              "top_p",
		`{"model":"m","input":"a","max_output_tokens":0}`:                                                                  "max_output_tokens",
		`{"model":"m","input":"a","stream":1}`:                                                                             "stream",
		`{"model":"m","input":"a","tools":[{}]}`:                                                                           "tools[0]",
		`{"model":"m","input":"a","tools":[{"type":"function"}]}`:                                                          "tools[0]",
		`{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]}`:                  "tools[1]",
		`{"model":"m","input":"a","tools":[{"type":"function","name":"f","parameters":7}]}`:                                "tools[0].parameters",
		`{"model":"m","input":"a","tool_choice":"required"}`:                                                               "tool_choice",
		`{"model":"m","input":"a","tool_choice":{"type":"function","name":"f"}}`:                                           "tool_choice",
		`{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"n"}}}`:                                    "text.format",
		`{"model":"m","input":"a","metadata":7}`:                                                                           "metadata",
		`{"model":"m","input":"a","background":true,"store":false}`:                                                        "background",
	} {
		_, _, err := Dialect{}.DecodeRequest(nil, []byte(body))
		e := infer.AsError(err)
		if err == nil || e.Code != infer.CodeInvalid || e.Param != param {
			t.Errorf("%s: got %v, wanted an error about %q", body, err, param)
		}
	}
}

// codex is a request in the shape of Codex's second turn.
const codex = `{"model":"m","instructions":"You are an agent.","store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
"reasoning":{"effort":"medium","summary":"auto"},"text":{"verbosity":"low"},"tool_choice":"auto","parallel_tool_calls":false,
"tools":[{"type":"function","name":"shell","description":"Runs it.","strict":false,"parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}}},
 {"type":"custom","name":"apply_patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}},
 {"type":"namespace","name":"mcp__files","description":"Files.","tools":[{"type":"function","name":"read","parameters":{}},{"type":"function","name":"write","parameters":{}}]},
 {"type":"web_search"}],
"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"Sandboxed."}]},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]},
 {"type":"reasoning","summary":[{"type":"summary_text","text":"Look first."}],"encrypted_content":"hearth.1.s.SIG"},
 {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Looking."}]},
 {"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"command\":[\"ls\"]}"},
 {"type":"function_call","call_id":"c2","name":"read","namespace":"mcp__files","arguments":""},
 {"type":"custom_tool_call","call_id":"c3","name":"apply_patch","input":"*** Begin"},
 {"type":"function_call_output","call_id":"c1","output":"a.go"},
 {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"text"}]},
 {"type":"custom_tool_call_output","call_id":"c3","output":"done"}]}`

func TestCodex(t *testing.T) {
	r, o := decode(t, codex)
	if !o.Stream || !r.Stream || r.Thinking != (infer.Thinking{Effort: "medium", Summary: "auto"}) || r.Hints.CacheKey != "k" || r.Hints.Verbosity != "low" || r.ParallelToolCalls {
		t.Errorf("got %+v %+v", r.Thinking, r.Hints)
	}
	var turns []string
	for _, m := range r.Messages {
		s := string(m.Role) + ":" + m.Text()
		for _, th := range m.Thoughts {
			s += fmt.Sprintf(" <%s|%s|%s>", th.Text, th.Signature, th.ID)
		}
		for _, c := range m.ToolCalls {
			s += fmt.Sprintf(" %s=%s(%s)", c.ID, c.Name, c.Arguments)
		}
		turns = append(turns, s+m.ToolCallID)
	}
	want := []string{"system:You are an agent.", "developer:Sandboxed.", "user:Fix it.",
		`assistant:Looking. <Look first.|SIG|> c1=shell({"command":["ls"]}) c2=mcp__files__read({}) c3=apply_patch({"input":"*** Begin"})`,
		"tool:a.goc1", "tool:textc2", "tool:donec3"}
	if !slices.Equal(turns, want) {
		t.Errorf("got  %q\nwant %q", turns, want)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"shell", "apply_patch", "mcp__files__read", "mcp__files__write"}) {
		t.Errorf("tools are %q", names)
	}
	if c := r.Tools[1].Custom; c == nil || c.Syntax != "lark" {
		t.Errorf("the tool of free text is %+v", r.Tools[1])
	}
	// What a target without anything beyond functions loses is reported, not
	// refused: an agent sends all of this with every request.
	plain := map[infer.Feature]infer.Class{infer.FeatureTools: infer.Carried, infer.FeatureToolSerial: infer.Carried, infer.FeatureToolCustom: infer.Emulated, infer.FeatureMaxTokens: infer.Carried}
	lost := infer.Losses(r.Uses, func(f infer.Feature) infer.Class {
		if c, ok := plain[f]; ok {
			return c
		}
		return infer.Dropped
	})
	for _, l := range lost {
		if l.Refusable() {
			t.Errorf("%s (%s) would be refused", l.Path, l.Feature)
		}
	}
	if !slices.ContainsFunc(lost, func(l infer.Loss) bool {
		return l.Path == "tools[3].web_search" && l.Feature == infer.FeatureToolHostedOptional
	}) {
		t.Errorf("the hosted tool is not among the losses: %v", lost)
	}
}

// TestHosted holds what a hosted tool means under each choice.
func TestHosted(t *testing.T) {
	for choice, want := range map[string]infer.Feature{
		`"auto"`: infer.FeatureToolHostedOptional, `"required"`: infer.FeatureToolHostedOptional, `"none"`: "",
		`{"type":"web_search"}`: infer.FeatureToolHosted, `{"type":"function","name":"f"}`: infer.FeatureToolHostedOptional,
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`: infer.FeatureToolHosted,
	} {
		r, _ := decode(t, `{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"web_search"}],"tool_choice":`+choice+`}`)
		var got infer.Feature
		for _, u := range r.Uses {
			if u.Path == "tools[1].web_search" {
				got = u.Feature
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", choice, got, want)
		}
	}
	r, _ := decode(t, `{"model":"m","input":"a","tools":[{"type":"web_search"}],"tool_choice":"required"}`)
	if !slices.Contains(r.Uses, infer.Use{Feature: infer.FeatureToolHosted, Path: "tools[0].web_search"}) {
		t.Errorf("a hosted tool that must be used: %v", r.Uses)
	}
	r, _ = decode(t, `{"model":"m","input":"a","tools":[{"type":"web search\r\nx: y"}]}`)
	if !slices.ContainsFunc(r.Uses, func(u infer.Use) bool { return u.Path == "tools[0]" }) {
		t.Errorf("a tool whose type is no word: %v", r.Uses)
	}
}

// TestFlatNames holds that names made of namespaces fit every provider and never
// collide.
func TestFlatNames(t *testing.T) {
	d := &decoder{t: &Turn{}}
	long := strings.Repeat("n", 70)
	seen := map[string]bool{}
	for _, n := range [][2]string{{"a", "b"}, {"a__b", "c"}, {"a", "b__c"}, {long, "x"}, {long, "y"}, {"x", long}, {"sp ace", "x"}, {"é", "x"}} {
		flat := d.flat(n[0], n[1])
		if len(flat) > maxFlatName || !plain(flat) || d.flat(n[0], n[1]) != flat {
			t.Errorf("%q became %q", n, flat)
		}
		if seen[flat] {
			t.Errorf("%q became %q, which another is", n, flat)
		}
		seen[flat] = true
	}
}

// fakeState has one response of each kind.
type fakeState struct{ off bool }

const ownID = "resp_h0123456789abcdef0123456789abcdef"

func (s fakeState) Keeps() bool { return !s.off }

func (fakeState) Earlier(id string) ([][]byte, bool, error) {
	items := [][]byte{[]byte(`{"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"one"}]}`),
		[]byte(`{"type":"message","id":"msg_h0123456789abcdef0123456789abcdef_0","role":"assistant","content":[{"type":"output_text","text":"two","annotations":[]}]}`)}
	switch id {
	case ownID:
		return items, false, nil
	case "resp_68":
		return items, true, nil
	}
	return nil, false, infer.Errorf(infer.CodeNotFound, "no")
}

func TestEarlier(t *testing.T) {
	d := Dialect{State: fakeState{}}
	read := func(body string) (*infer.Request, *Turn, error) {
		r, o, err := d.DecodeRequest(nil, []byte(body))
		if err != nil {
			return nil, nil, err
		}
		return r, o.Own.(*Turn), nil
	}
	r, turn, err := read(`{"model":"m","input":"three","previous_response_id":"` + ownID + `"}`)
	if err != nil || len(r.Messages) != 3 || r.Messages[1].Text() != "two" || len(turn.Items) != 3 || len(r.Uses) != 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	// A provider of the dialect does not know our ids: it is sent the turns.
	if got := string(r.Wire.Set["previous_response_id"]); got != "null" || !strings.Contains(string(r.Wire.Set["input"]), `"two"`) {
		t.Errorf("the wire is %s", r.Wire.Set)
	}
	r, _, err = read(`{"model":"m","input":"three","previous_response_id":"resp_68"}`)
	if err != nil || len(r.Messages) != 3 || r.Wire.Set != nil {
		t.Errorf("of a provider's: got %+v, %v", r, err)
	}
	for _, body := range []string{
		`{"model":"m","input":"three","previous_response_id":"resp_h00000000000000000000000000000000"}`,
		`{"model":"m","input":[{"type":"item_reference","id":"msg_h00000000000000000000000000000000_0"}]}`,
		`{"model":"m","input":[{"type":"item_reference","id":"msg_h0123456789abcdef0123456789abcdef_7"}]}`,
	} {
		if _, _, err := read(body); err == nil || infer.AsError(err).Code != infer.CodeInvalid || infer.AsError(err).Param == "" {
			t.Errorf("%s: %v", body, err)
		}
	}
	r, _, err = read(`{"model":"m","input":[{"id":"msg_h0123456789abcdef0123456789abcdef_0"},{"role":"user","content":"b"}]}`)
	if err != nil || len(r.Messages) != 2 || r.Messages[0].Text() != "two" || r.Wire.Set["input"] == nil {
		t.Errorf("a reference: %+v, %v", r, err)
	}
	off := Dialect{State: fakeState{off: true}}
	r, _, err = off.DecodeRequest(nil, []byte(`{"model":"m","input":"three","previous_response_id":"`+ownID+`"}`))
	if err != nil || len(r.Uses) != 1 || r.Uses[0].Feature != infer.FeatureState || r.Uses[0].Why == "" {
		t.Errorf("without state: %+v, %v", r, err)
	}
}

func TestOwn(t *testing.T) {
	id := ResponseID("req_0123456789abcdef0123456789abcdef")
	if got, ok := Own(itemID("message", id, 3, true)); !ok || got != id {
		t.Errorf("got %q of %q", got, itemID("message", id, 3, true))
	}
	for _, id := range []string{"", "resp_0123456789abcdef0123456789abcdef", "resp_h", "resp_hX123456789abcdef0123456789abcdef", "msg_h01", strings.Repeat("h", 200)} {
		if _, ok := Own(id); ok {
			t.Errorf("%q passes for ours", id)
		}
	}
}

func TestListedItems(t *testing.T) {
	items := [][]byte{[]byte(`{"role":"user","content":"a"}`), []byte(`{"role":"assistant","content":"b"}`),
		[]byte(`{"type":"function_call_output","id":null,"call_id":"c","output":"d"}`), []byte(`{"type":"message","id":"msg_x","role":"user","content":[]}`)}
	SetIDs(items, ownID)
	page := Page{Limit: 3, Ascending: true}
	list, err := page.List(items)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"object":"list","data":[{"id":"msg_h0123456789abcdef0123456789abcdef_i0","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"a"}]},` +
		`{"id":"msg_h0123456789abcdef0123456789abcdef_i1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]},` +
		`{"id":"fco_h0123456789abcdef0123456789abcdef_i2","type":"function_call_output","call_id":"c","output":"d"}],` +
		`"first_id":"msg_h0123456789abcdef0123456789abcdef_i0","last_id":"fco_h0123456789abcdef0123456789abcdef_i2","has_more":true}` + "\n"
	if string(list) != want {
		t.Errorf("got  %s\nwant %s", list, want)
	}
	page = Page{Limit: 20, After: "msg_h0123456789abcdef0123456789abcdef_i1"}
	if list, err = page.List(items); err != nil || !strings.Contains(string(list), `_i0"`) || strings.Contains(string(list), `_i1","type"`) || !strings.Contains(string(list), `"has_more":false`) {
		t.Errorf("the second page is %s, %v", list, err)
	}
	page.After = "nobody"
	if _, err := page.List(items); infer.AsError(err).Param != "after" {
		t.Errorf("after nobody: %v", err)
	}
}

// BenchmarkDecode reads a request of the size that an agent sends.
func BenchmarkDecode(b *testing.B) {
	tools := strings.Repeat(`{"type":"function","name":"f%d","description":"`+strings.Repeat("words ", 100)+`","strict":false,"parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"string"}}}}},`, 20)
	for i := range 20 {
		tools = strings.Replace(tools, "%d", fmt.Sprint(i), 1)
	}
	body := []byte(strings.Replace(codex, `"tools":[`, `"tools":[`+tools, 1) + strings.Repeat(" ", 24<<10))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (Dialect{}).DecodeRequest(nil, body); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(codex))
	for _, row := range Fields() {
		if row.Base != "" {
			f.Add([]byte(row.Base))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, o, err := Dialect{State: fakeState{}}.DecodeRequest(nil, body)
		if err != nil {
			return
		}
		turn := o.Own.(*Turn)
		SetIDs(turn.Items, ownID)
		if !json.Valid(joinItems(turn.Items)) {
			t.Fatalf("the items are no JSON: %s", joinItems(turn.Items))
		}
		r.ID = "req_0123456789abcdef0123456789abcdef"
		if obj := NewStream(r, o).Opening(Queued); !json.Valid(obj) {
			t.Fatalf("the object is no JSON: %s", obj)
		}
		own := *r
		own.Wire = nil
		if out, err := (Client{}).EncodeRequest(&own, wire.Target{Model: "m"}); err == nil && !json.Valid(out.Body) {
			t.Fatalf("the request is no JSON: %s", out.Body)
		}
	})
}
