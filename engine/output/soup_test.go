package output

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// Random soups of markers and pieces of JSON, where broken calls are the rule:
// the cut never matters, and without a call nothing of the text is lost.
func TestToolSoup(t *testing.T) {
	formats := []*ToolFormat{Generic, Hermes, Llama3, Mistral, MistralArgs, Phi4, Qwen3Coder, DeepSeek, DeepSeekR1}
	pieces := []string{`{"name": "add", "arguments": {"a": 1}}`, `{"name": "`, `add`, `run`, `", "arguments": `, `", "parameters": `, `{`, `}`, `[`, `]`, `"`, `, `, ":", "\n", " ", "x",
		"\"\\", "null", `{"cmd": "</tool_call>"}`, "<parameter=cmd>", "</parameter>", "<function=run>", "</function>", "<parameter=", ">", "function", "\n```json\n", "```", "[CALL_ID]", "; ", "日", "\xe6", "<tool_", "-1.5e3"}
	for seed := range uint64(6000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		f := formats[rng.IntN(len(formats))]
		marks := append(append([]string{}, f.Markers...), f.begins...)
		in := ""
		for range 1 + rng.IntN(14) {
			if rng.IntN(3) == 0 {
				in += marks[rng.IntN(len(marks))]
			} else {
				in += pieces[rng.IntN(len(pieces))]
			}
		}
		o := Options{Format: f, Tools: tools, SingleCall: rng.IntN(4) == 0}
		reason := infer.FinishStop
		if rng.IntN(3) == 0 {
			reason = infer.FinishLength
		}
		whole := feed(t, o, in, len(in), reason)
		for range 3 {
			size := 1 + rng.IntN(9)
			if cut := feed(t, o, in, size, reason); cut.String() != whole.String() {
				t.Fatalf("seed %d, %s, %q in pieces of %d:\n got %v\nwant %v", seed, f.Name, in, size, cut, whole)
			}
		}
		var d Decoder
		want := string(d.Flush(d.Append(nil, []byte(in))))
		if len(whole.calls) == 0 && (reason == infer.FinishStop && whole.text != want || !strings.HasPrefix(want, whole.text)) {
			t.Fatalf("seed %d, %s: lost text of %q: %v", seed, f.Name, in, whole)
		}
		if len(whole.calls) == 0 && whole.finish == infer.FinishToolCalls {
			t.Fatal(fmt.Sprint("seed ", seed, ": tool calls without a call"))
		}
		for _, c := range whole.calls {
			if args := c[strings.Index(c, "(")+1 : len(c)-1]; whole.finish == infer.FinishToolCalls && !json.Valid([]byte(args)) {
				t.Fatalf("seed %d, %s, %q: arguments %s are claimed complete", seed, f.Name, in, args)
			}
		}
	}
}
