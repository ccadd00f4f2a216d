package conform

import (
	"encoding/json"
	"slices"
	"strings"
)

// told is what a provider's dialect makes of a finish that its model had: not
// each has a word for each.
func told(out, finish string) string {
	words := map[string]map[string]string{
		"openai-chat":      {"refusal": "content_filter", "stop_sequence": "stop", "context": "length", "pause": "stop"},
		"openai-responses": {"stop_sequence": "stop", "context": "length", "pause": "stop"},
		"anthropic":        {"content_filter": "refusal"},
		"gemini":           {"refusal": "content_filter", "stop_sequence": "stop", "context": "length", "pause": "stop"},
		"ollama-chat":      {"refusal": "stop", "content_filter": "stop", "stop_sequence": "stop", "context": "length", "pause": "stop"},
		"bedrock-converse": {"refusal": "content_filter", "pause": "stop", "stop_sequence": "stop"},
	}[out]
	if w := words[finish]; w != "" {
		return w
	}
	return finish
}

// shown are the words that an inbound dialect may have for a finish.
func shown(in, finish string) []string {
	switch in {
	case Messages:
		switch finish {
		case "content_filter":
			return []string{"refusal"}
		case "context":
			return []string{"context", "length"}
		case "stop":
			return []string{"stop", "stop_sequence"} // a sequence that matched may be found out
		}
		return []string{finish}
	case Gemini:
		switch finish {
		case "tool_calls", "stop_sequence", "pause":
			return []string{"stop"}
		case "refusal":
			return []string{"content_filter"}
		}
	case Ollama:
		switch finish {
		case "tool_calls", "stop_sequence", "pause":
			return []string{"stop"}
		case "refusal", "content_filter":
			return []string{"stop", "content_filter", "refusal"}
		}
	default:
		switch finish {
		case "refusal":
			return []string{"content_filter", "stop"}
		case "stop_sequence":
			return []string{"stop"}
		case "pause":
			return []string{"stop", "length"}
		}
	}
	if finish == "context" {
		return []string{"length"}
	}
	return []string{finish}
}

var (
	tellsCached    = []string{"openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse"}
	showsCached    = []string{Chat, Responses, Messages, Gemini}
	tellsReasoning = []string{"openai-chat", "openai-responses", "gemini"}
	showsReasoning = []string{Chat, Responses, Gemini}
)

// answer holds what was seen to the last script's answer.
func (j *judgement) answer(c *Case) {
	if len(c.Scripts) == 0 || j.s.Status != 200 {
		return
	}
	var sc said
	if err := json.Unmarshal(c.Scripts[len(c.Scripts)-1], &sc); err != nil || sc.Answer == nil {
		j.bad("BUG: a case that expects an answer has none in its script")
		return
	}
	a := sc.Answer
	var words, thoughts strings.Builder
	var calls []Call
	for _, p := range a.Parts {
		words.WriteString(strings.Repeat(p.Text, max(1, p.Repeat)) + p.Refusal)
		thoughts.WriteString(p.Reasoning)
		if p.Tool != nil {
			calls = append(calls, *p.Tool)
		}
	}
	s := j.s
	if s.Text != words.String() {
		j.bad("text %.200q, wanted %.200q", s.Text, words.String())
	}
	if s.Thought != "" && s.Thought != thoughts.String() {
		j.bad("reasoning %.100q, wanted %.100q", s.Thought, thoughts.String())
	}
	j.calls(calls)
	finish := a.Finish
	if finish == "" {
		finish = "stop"
		if len(calls) > 0 {
			finish = "tool_calls"
		}
	}
	ok := shown(j.in, told(j.out, finish))
	if !slices.Contains(ok, s.Finish) {
		j.bad("finish %q, wanted %v", s.Finish, ok)
	}
	if a.When == "absent" || c.Ask.NoUsage && j.stream && j.in == Chat {
		return
	}
	u := Tally{a.Usage.Fresh + a.Usage.Cached + a.Usage.CacheWrite + a.Usage.CacheWriteHour, a.Usage.Cached, a.Usage.Output, a.Usage.Reasoning}
	if a.When == "zero" {
		u = Tally{}
	}
	j.usage(&u)
}

func (j *judgement) calls(want []Call) {
	got := j.s.Calls
	if len(got) != len(want) {
		j.bad("%d calls, wanted %d: %+v", len(got), len(want), got)
		return
	}
	ids := map[string]bool{}
	for i := range want {
		args := want[i].Args
		if args == "" {
			args = "{}"
		}
		had := got[i].Args
		if had == "" {
			had = "{}"
		}
		if got[i].Name != want[i].Name || !sameJSON(had, args) {
			j.bad("call %d is %s %.100q, wanted %s %.100q", i, got[i].Name, got[i].Args, want[i].Name, want[i].Args)
		}
		if j.in != Gemini && j.in != Ollama && (got[i].ID == "" || ids[got[i].ID]) {
			j.bad("call %d has the id %q, empty or taken", i, got[i].ID)
		}
		ids[got[i].ID] = true
	}
}

// sameJSON compares by value; what is no JSON by its bytes.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return subset(x, y) && subset(y, x)
}

func (j *judgement) usage(want *Tally) {
	got := j.s.Usage
	if got == nil {
		j.bad("no usage, wanted %+v", *want)
		return
	}
	if got.Prompt != want.Prompt || got.Output != want.Output {
		j.bad("usage %+v, wanted %+v", *got, *want)
	}
	if slices.Contains(tellsCached, j.out) && slices.Contains(showsCached, j.in) && max(got.Cached, 0) != want.Cached {
		j.bad("%d cached tokens, wanted %d", got.Cached, want.Cached)
	}
	if slices.Contains(tellsReasoning, j.out) && slices.Contains(showsReasoning, j.in) && max(got.Reasoning, 0) != want.Reasoning {
		j.bad("%d reasoning tokens, wanted %d", got.Reasoning, want.Reasoning)
	}
}
