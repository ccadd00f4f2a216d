package output

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"hearth/engine/infer"
)

func TestDecoder(t *testing.T) {
	for _, c := range []struct {
		pieces []string
		want   []string // what each piece releases, then the flush
	}{
		{[]string{"\xe8\xb5", "\x8b"}, []string{"", "赋", ""}},
		{[]string{"\xed\xa0\x80"}, []string{"\ufffd\ufffd\ufffd", ""}},
		{[]string{"\xed", "\xa0", "\x80"}, []string{"", "\ufffd\ufffd", "\ufffd", ""}},
		{[]string{"\xe2\x80\x41"}, []string{"\ufffdA", ""}},
		{[]string{"\xe2", "\x80", "\x41"}, []string{"", "", "\ufffdA", ""}},
		{[]string{"ab\xffcd"}, []string{"ab\ufffdcd", ""}},
		{[]string{"\xf0\x9f\x98", "\x80x"}, []string{"", "😀x", ""}},
		{[]string{"\xf0\x9f\x98", "x"}, []string{"", "\ufffdx", ""}},
		{[]string{"\xf0\x9f\x98"}, []string{"", "\ufffd"}},
		{[]string{"\xc0\x80"}, []string{"\ufffd\ufffd", ""}},
		{[]string{"\xf4\x90\x80\x80"}, []string{"\ufffd\ufffd\ufffd\ufffd", ""}},
		{[]string{"\xe2\x80", "\xe2\x80\x99"}, []string{"", "\ufffd’", ""}},
		{[]string{"\ufffd"}, []string{"\ufffd", ""}},
	} {
		var d Decoder
		for i, p := range append(c.pieces, "") {
			got := string(d.Append(nil, []byte(p)))
			if i == len(c.pieces) {
				got = string(d.Flush(nil))
			}
			if got != c.want[i] {
				t.Errorf("%q, piece %d: got %q, want %q", c.pieces, i, got, c.want[i])
			}
		}
	}
}

func TestStops(t *testing.T) {
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	stop := infer.FinishStop
	for _, c := range []struct {
		stops      []string
		in         string
		text, stop string
	}{
		{[]string{"DEFGHIJ"}, alphabet, "ABC", "DEFGHIJ"},
		{[]string{"\n"}, "really?", "really?", ""},
		{[]string{"really?never"}, "really?", "really?", ""},
		{[]string{"XYZ", "no", "CDE"}, alphabet, "AB", "CDE"},
		{[]string{"CDEFGH", "CDE"}, alphabet, "AB", "CDE"}, // one begins another: at once
		{[]string{"BCDE", "CD"}, alphabet, "AB", "CD"},     // complete first
		{[]string{"DE", "BCDE"}, alphabet, "A", "BCDE"},    // complete together: the longest
		{[]string{"ababc"}, "abababc.", "ab", "ababc"},
		{[]string{"日本"}, "naïve 日本 😀", "naïve ", "日本"},
		{[]string{"é"}, "è è é", "è è ", "é"},
		{[]string{""}, "abc", "abc", ""},
		{[]string{"A"}, alphabet, "", "A"},
		{nil, alphabet, alphabet, ""},
	} {
		o := Options{Stops: NewStopSet(c.stops)}
		a := feedAll(t, o, c.in, stop)
		if a.text != c.text || a.stop != c.stop || a.finish != stop {
			t.Errorf("stops %q: %v", c.stops, a)
		}
		o.IncludeStop = true
		if a := feedAll(t, o, c.in, stop); a.text != c.text+c.stop && c.stop != "" {
			t.Errorf("stops %q, included: %v", c.stops, a)
		}
	}
}

// A stop that is complete with the last token allowed is a stop, not the limit.
func TestStopAtLimit(t *testing.T) {
	a := feed(t, Options{Stops: NewStopSet([]string{"yz"})}, "xyz", 1, infer.FinishLength)
	if a.text != "x" || a.finish != infer.FinishStop || a.stop != "yz" {
		t.Error(a)
	}
}

// At any time only the longest end that begins a stop is held.
func TestStopHoldsLeast(t *testing.T) {
	stops := []string{"abcabd", "bcx", "\n\n"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := New(Options{Stops: NewStopSet(stops)})
		text, out := "", ""
		for range 40 {
			piece := string("abcdx\n"[rng.IntN(6)])
			text += piece
			ev, stopped := p.Push(0, []byte(piece), nil)
			for _, e := range ev {
				out += e.Text
			}
			if stopped {
				break
			}
			held := 0
			for _, s := range stops {
				for n := 1; n < len(s); n++ {
					if strings.HasSuffix(text, s[:n]) {
						held = max(held, n)
					}
				}
			}
			if out != text[:len(text)-held] {
				t.Fatalf("after %q came %q", text, out)
			}
		}
	}
}

func TestHugeStops(t *testing.T) {
	var many []string
	for i := range 4000 {
		many = append(many, fmt.Sprintf("\u2063%d", i))
	}
	for _, stops := range [][]string{many, {strings.Repeat("\u2063", 33000)}} {
		if a := feed(t, Options{Stops: NewStopSet(stops)}, "An answer.", 2, infer.FinishStop); a.text != "An answer." {
			t.Error(a)
		}
	}
}

func TestReasoning(t *testing.T) {
	f := ReasoningFormat{"<think>", "</think>"}
	stop := infer.FinishStop
	for _, c := range []struct {
		in              string
		open, keep      bool
		reasoning, text string
	}{
		{"<think>\nsimple sum\n</think>\n\n4", false, false, "simple sum", "4"},
		{"<think>\n\n</think>\n\n4", false, false, "", "4"},
		{"\n<think>a</think>b", false, false, "a", "b"},
		{"\nsimple sum\n\nyes\n</think>\n\n4", true, false, "simple sum\n\nyes", "4"},
		{"no mark", false, false, "", "no mark"},
		{"  lead", false, false, "", "  lead"},
		{"<thin", false, false, "", "<thin"},
		{"a <think>b</think>", false, false, "", "a <think>b</think>"},
		{"<think>never closed\n", false, false, "never closed\n", ""},
		{"<think>almost </thin", false, false, "almost </thin", ""},
		{"x</think>", true, false, "x", ""},
		{"<think>a</think> <think>b</think>", false, false, "a", "<think>b</think>"},
		{"<think>\na\n</think>\n\n4", false, true, "", "<think>\na\n</think>\n\n4"},
		{"\na\n</think>\n\n4", true, true, "", "\na\n</think>\n\n4"},
		{"", false, false, "", ""},
	} {
		a := feedAll(t, Options{Reasoning: f, InReasoning: c.open, KeepReasoning: c.keep}, c.in, stop)
		if a.text != c.text || a.reasoning != c.reasoning {
			t.Errorf("%q: %v", c.in, a)
		}
	}
}

// Calls inside reasoning are thoughts, not calls, also where reasoning stays in
// the text.
func TestReasoningAndTools(t *testing.T) {
	call := `<tool_call>{"name": "add", "arguments": {}}</tool_call>`
	o := Options{Reasoning: ReasoningFormat{"<think>", "</think>"}, Format: Hermes, Tools: tools}
	a := feedAll(t, o, "<think>"+call+"</think>\n\n"+call, infer.FinishStop)
	if a.reasoning != call || a.text != "" || join(a.calls) != "add({})" || a.finish != infer.FinishToolCalls {
		t.Error(a)
	}
	o.KeepReasoning = true
	a = feedAll(t, o, "<think>"+call+"</think>\n\n"+call, infer.FinishStop)
	if a.text != "<think>"+call+"</think>\n\n" || join(a.calls) != "add({})" {
		t.Error(a)
	}
}

// A forced call comes behind reasoning that is split off, or at once.
func TestReasoningAndForcedCalls(t *testing.T) {
	call := `<tool_call>{"name": "add", "arguments": {}}</tool_call>`
	o := Options{Reasoning: ReasoningFormat{"<think>", "</think>"}, InReasoning: true, Format: Hermes, Tools: tools, Forced: true}
	a := feedAll(t, o, "hm\n</think>\n\n"+call, infer.FinishStop)
	if a.reasoning != "hm" || a.text != "" || join(a.calls) != "add({})" || a.finish != infer.FinishToolCalls {
		t.Error(a)
	}
	if a = feedAll(t, o, "hm\n</think>\n\n<tool", infer.FinishLength); a.reasoning != "hm" || a.text != "" || a.finish != infer.FinishLength {
		t.Error(a)
	}
	o.InReasoning = false
	if a = feedAll(t, o, "<thi", infer.FinishLength); a.reasoning != "" || a.text != "" {
		t.Error(a)
	}
	o.KeepReasoning = true
	if a = feedAll(t, o, call, infer.FinishStop); a.text != "" || join(a.calls) != "add({})" {
		t.Error(a)
	}
}

func TestReasoningTokens(t *testing.T) {
	p := New(Options{Reasoning: ReasoningFormat{"<think>", "</think>"}})
	for _, s := range []string{"<think>", "\n", "a", " b", "\n", "</think>", "\n\n", "4"} {
		p.Push(0, []byte(s), nil)
	}
	if n := p.ReasoningTokens(); n != 5 {
		t.Errorf("got %d reasoning tokens, want 5", n)
	}
}

// Each event carries the tokens that it completed, those of swallowed or cut
// text go on to the next event, and nothing is counted twice.
func TestAttribution(t *testing.T) {
	p := New(Options{Stops: NewStopSet([]string{"STOP"}), Logprobs: true, TokenIDs: true})
	var got []string
	show := func(events []infer.Event) {
		for _, e := range events {
			if len(e.TokenIDs) != e.Tokens || len(e.Logprobs) != e.Tokens {
				t.Fatalf("event of %d tokens has %d ids and %d log-probabilities", e.Tokens, len(e.TokenIDs), len(e.Logprobs))
			}
			for i := range e.TokenIDs {
				if e.Logprobs[i].ID != e.TokenIDs[i] {
					t.Fatal("log-probability of another token")
				}
			}
			got = append(got, fmt.Sprint(e.Text, e.TokenIDs))
		}
	}
	for i, s := range []string{"a", "\xe8\xb5", "\x8b", " ST", "EP", "x S", "", "TO", "P more"} {
		ev, stopped := p.Push(int32(i), []byte(s), &infer.TokenLogprob{ID: int32(i), Bytes: []byte(s)})
		show(ev)
		if stopped != (i == 8) {
			t.Errorf("token %d: stopped %v", i, stopped)
		}
	}
	show(p.Finish(infer.FinishStop))
	want := []string{"a[0]", "赋[1 2]", " []", "STEP[3 4]", "x []", "[5 6 7 8]"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if p.Finish(infer.FinishStop) != nil {
		t.Error("a second finish gave events")
	}
}

func TestCallIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	next := CallIDs(rng.Uint64)
	seen := map[string]bool{}
	for range 1000 {
		id := next()
		if len(id) != 29 || !strings.HasPrefix(id, "call_") || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

// No byte is lost, whatever comes in: without calls the text is the decoded
// input, and the cut never matters.
func FuzzPipeline(f *testing.F) {
	f.Add("<think>a</think><tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>", uint8(3), uint8(0))
	f.Add("[TOOL_CALLS]add[ARGS]{\"a\": \"\xff\"}", uint8(1), uint8(3))
	f.Add("<tool_call><function=run><parameter=cmd>ls</parameter></function>", uint8(2), uint8(6))
	f.Add("a\xe8\xb5\x8bSTOP", uint8(1), uint8(9))
	f.Add("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{}\n```<｜tool▁call▁end｜>", uint8(4), uint8(8))
	formats := []*ToolFormat{Generic, Hermes, Llama3, Mistral, MistralArgs, Phi4, Qwen3Coder, DeepSeek, DeepSeekR1, nil}
	f.Fuzz(func(t *testing.T, in string, size, kind uint8) {
		o := Options{Format: formats[int(kind)%len(formats)], Tools: tools, SingleCall: kind&64 != 0,
			Stops: NewStopSet([]string{"STOP", "\n\n\n"}), Reasoning: ReasoningFormat{"<think>", "</think>"}, KeepReasoning: kind&128 != 0}
		reason := infer.FinishStop
		if kind&32 != 0 {
			reason = infer.FinishLength
		}
		whole := feed(t, o, in, max(len(in), 1), reason)
		cut := feed(t, o, in, int(size%13)+1, reason)
		if whole.String() != cut.String() {
			t.Fatalf("%q\nwhole %v\n cut %v", in, whole, cut)
		}
		if !utf8.ValidString(whole.text + whole.reasoning + join(whole.calls)) {
			t.Fatal("invalid UTF-8 came out")
		}
		if len(whole.calls) == 0 && o.KeepReasoning && whole.stop == "" {
			var d Decoder
			want := string(d.Flush(d.Append(nil, []byte(in))))
			if whole.text != want && (reason == infer.FinishStop || o.Format == nil || !strings.HasPrefix(want, whole.text)) {
				t.Fatalf("got %q, want %q", whole.text, want)
			}
		}
	})
}

func BenchmarkPush(b *testing.B) {
	set := NewStopSet([]string{"\nUser:", "###"})
	for _, c := range []struct {
		name string
		o    Options
	}{{"plain", Options{}}, {"stops", Options{Stops: set}}, {"all", Options{Stops: set, Format: Hermes, Tools: tools, Reasoning: ReasoningFormat{"<think>", "</think>"}}}} {
		b.Run(c.name, func(b *testing.B) {
			p := New(c.o)
			piece := []byte(" token")
			b.ReportAllocs()
			for range b.N {
				p.Push(1, piece, nil)
			}
		})
	}
}
