package chattmpl

import (
	"encoding/json"
	"errors"
	"strings"

	"hearth/engine/infer"
)

// Words that no template contains, to be found again in a rendering.
const (
	probeSystem = "zqsystemqz"
	probeUser   = "zquserqz"
	probeOther  = "zqotherqz"
	probeTool   = "zqtoolqz"
	probeTool2  = "zqtwoqz"
	probeKey    = "zqkeyqz"
	probeValue  = "zqvalueqz"
	probeResult = "zqresultqz"
	probeID     = "call_zq0123456789"
)

// probe finds the shapes of input that t wants and what it can express.
func (t *Template) probe() {
	t.probeContent()
	_, ok := t.try(Input{Messages: []infer.Message{say(infer.RoleSystem, probeSystem), say(infer.RoleUser, probeUser)}}, probeSystem, probeUser)
	t.caps.System = ok
	_, t.caps.Tools = t.try(Input{Messages: []infer.Message{say(infer.RoleUser, probeUser)}, Tools: probeTools()}, probeUser, probeTool)
	t.probeCalls()
	t.probeThinking()
}

func say(role infer.Role, s string) infer.Message {
	return infer.Message{Role: role, Content: []infer.Part{{Type: "text", Text: s}}}
}

func probeTools() []infer.Tool {
	return []infer.Tool{{
		Name: probeTool, Description: "A probe.",
		Parameters: json.RawMessage(`{"type": "object", "properties": {"` + probeKey + `": {"type": "string"}}}`),
	}}
}

// try renders in and says whether all the words came out. A template that meets
// a limit on a few words is tried no more.
func (t *Template) try(in Input, words ...string) (string, bool) {
	if t.greedy {
		return "", false
	}
	in.BOS, in.EOS = "<zqbosqz>", "<zqeosqz>"
	out, err := t.render(in)
	t.greedy = errors.Is(err, errLimit)
	if err != nil {
		return "", false
	}
	for _, w := range words {
		if !strings.Contains(out.s, w) {
			return out.s, false
		}
	}
	return out.s, true
}

// probeContent chooses between strings and lists of parts. A template that
// prints a list as it is (Python's or JSON's way) does not handle lists.
func (t *Template) probeContent() {
	two := infer.Message{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: probeUser}, {Type: "text", Text: probeOther}}}
	_, asText := t.try(Input{Messages: []infer.Message{say(infer.RoleUser, probeUser)}, AddGenerationPrompt: true}, probeUser)
	t.form.parts = true
	out, asParts := t.try(Input{Messages: []infer.Message{two}, AddGenerationPrompt: true}, probeUser, probeOther)
	t.form.parts = asParts && !strings.Contains(out, `'text'`) && !strings.Contains(out, `"text"`)
	t.form.partsOnly = !asText && t.form.parts
}

// probeCalls tries the shapes of tool calls, the usual first.
func (t *Template) probeCalls() {
	plain := t.form
	for i := range 8 {
		t.form = plain
		t.form.callsNone, t.form.argsString, t.form.shortIDs = i&1 != 0, i&2 != 0, i&4 != 0
		if t.callsWork() {
			return
		}
	}
	t.form = plain
	t.caps.ToolCalls, t.caps.ToolResults, t.caps.ParallelCalls = false, false, false
}

func probeCall(names ...string) infer.Message {
	m := infer.Message{Role: infer.RoleAssistant}
	for i, n := range names {
		m.ToolCalls = append(m.ToolCalls, infer.ToolCall{
			ID: probeID + string(rune('0'+i)), Name: n, Arguments: `{"` + probeKey + `": "` + probeValue + `"}`})
	}
	return m
}

func probeAnswer(i int) infer.Message {
	m := say(infer.RoleTool, probeResult)
	m.Name, m.ToolCallID = probeTool, probeID+string(rune('0'+i))
	return m
}

// callsWork renders a call and its result. Arguments printed Python's way or
// encoded twice are no success.
func (t *Template) callsWork() bool {
	ask := say(infer.RoleUser, probeUser)
	in := Input{Messages: []infer.Message{ask, probeCall(probeTool), probeAnswer(0)}, Tools: probeTools(), AddGenerationPrompt: true}
	out, ok := t.try(in, probeTool, probeKey, probeValue)
	if !ok {
		in.Messages = in.Messages[:2]
		out, ok = t.try(in, probeTool, probeKey, probeValue)
	}
	// The definition holds name and key too; only the call holds the value.
	if !ok || strings.Contains(out, "'"+probeKey+"'") || strings.Contains(out, `\"`+probeKey) {
		return false
	}
	t.caps.ToolCalls = true
	t.caps.ToolResults = strings.Contains(out, probeResult)
	in.Messages = []infer.Message{ask, probeCall(probeTool, probeTool2), probeAnswer(0), probeAnswer(1)}
	if !t.caps.ToolResults {
		in.Messages = in.Messages[:2]
	}
	_, t.caps.ParallelCalls = t.try(in, probeTool2)
	return true
}

// thinkMarks are the pairs of marks around reasoning, by family.
var thinkMarks = [][2]string{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<seed:think>", "</seed:think>"},
	{"<thinking>", "</thinking>"},
}

func (t *Template) probeThinking() {
	in := Input{Messages: []infer.Message{say(infer.RoleUser, probeUser)}, AddGenerationPrompt: true}
	plain, ok := t.try(in)
	if !ok {
		return
	}
	t.caps.OpensThink = openMark(plain) != ""
	for _, name := range []string{"enable_thinking", "thinking"} {
		on, off := in, in
		on.Args = map[string]json.RawMessage{name: json.RawMessage("true")}
		off.Args = map[string]json.RawMessage{name: json.RawMessage("false")}
		yes, ok1 := t.try(on)
		no, ok2 := t.try(off)
		if ok1 && ok2 && yes != no {
			t.caps.Thinking = true
		}
	}
	t.caps.Reasoning = t.caps.Thinking || t.caps.OpensThink
	for _, m := range thinkMarks {
		if strings.Contains(t.src, m[0]) || strings.Contains(t.src, m[1]) {
			t.caps.Reasoning = true
		}
	}
}

// openMark is the reasoning mark that s ends with, white space aside.
func openMark(s string) string {
	s = strings.TrimRightFunc(s, isSpace)
	for _, m := range thinkMarks {
		if strings.HasSuffix(s, m[0]) {
			return m[0]
		}
	}
	return ""
}
