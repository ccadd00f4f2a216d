package appliance

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hearth/engine/infer"
)

// keptHead is what is known of kept content without its key: no more than the
// ledger's row says.
type keptHead struct {
	Request   string    `json:"id"`
	Trace     string    `json:"trace_id,omitempty"`
	Retention string    `json:"retention"`
	Tenant    string    `json:"tenant"`
	Key       string    `json:"key_id"`
	Model     string    `json:"model"`
	At        time.Time `json:"at"`
	Expires   time.Time `json:"expires"`
}

// keptContent is what is kept of a request.
type keptContent struct {
	Messages  []keptMessage `json:"messages,omitempty"`
	Answers   []keptAnswer  `json:"answers,omitempty"`
	Outcome   string        `json:"outcome"`
	Redacted  int           `json:"redacted"`            // places that were redacted
	Truncated bool          `json:"truncated,omitempty"` // there was more than may be kept
}

type keptMessage struct {
	Role      string     `json:"role"` // "prompt" of a completion, "input" of embeddings
	Name      string     `json:"name,omitempty"`
	Text      string     `json:"text,omitempty"`
	Media     []string   `json:"media,omitempty"` // kinds of what is no text, which is never kept
	ToolCalls []keptCall `json:"tool_calls,omitempty"`
}

type keptAnswer struct {
	Choice    int        `json:"choice"`
	Text      string     `json:"text,omitempty"`
	Reasoning string     `json:"reasoning,omitempty"`
	ToolCalls []keptCall `json:"tool_calls,omitempty"`
	Finish    string     `json:"finish,omitempty"`
}

type keptCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// gathered is the content of one request on its way to be kept. It is used by
// the request's goroutine, then by the one that writes.
type gathered struct {
	rule    *retentionRule
	head    keptHead
	slot    bool
	request *infer.Request
	embed   *infer.EmbedRequest
	choices map[int]*gatheredChoice
	order   []int
	bytes   int // of the answer so far
	outcome string
}

type gatheredChoice struct {
	text, reasoning strings.Builder
	calls           []gatheredCall
	finish          string
}

type gatheredCall struct {
	index     int
	name      string
	arguments strings.Builder
}

// gatherSlack is how much more is gathered than kept, so that what is redacted
// is seen whole where the kept part ends within it.
const (
	gatherSlack    = 8 << 10
	maxGatherCalls = 256
)

func newGathered(t *retentionRule, c *call) *gathered {
	return &gathered{
		rule: t, request: c.request, embed: c.embed, choices: map[int]*gatheredChoice{},
		head: keptHead{
			Request: c.grant.RequestID, Trace: traceID(c.grant.Trace), Retention: t.Name, Tenant: c.grant.Tenant, Key: c.grant.KeyID,
			Model: strings.Clone(c.path.Name), At: c.grant.Started.UTC(), Expires: c.grant.Started.Add(t.TTL.Std()).UTC(),
		},
	}
}

// restart forgets the answer of an attempt that failed before anything of it
// was passed on.
func (g *gathered) restart() {
	if g != nil {
		g.choices, g.order, g.bytes = map[int]*gatheredChoice{}, nil, 0
	}
}

// add takes an event of the answer, as the caller sees it.
func (g *gathered) add(ev *infer.Event) {
	if g == nil || g.bytes > int(g.rule.MaxItem)+gatherSlack {
		return
	}
	answers, tools := g.rule.answers, g.rule.tools
	switch ev.Kind {
	case infer.EventText, infer.EventReasoning, infer.EventFinish:
		if !answers {
			return
		}
	case infer.EventTool:
		if !tools || ev.Tool == nil {
			return
		}
	default:
		return
	}
	c := g.choices[ev.Choice]
	if c == nil {
		c = &gatheredChoice{}
		g.choices[ev.Choice] = c
		g.order = append(g.order, ev.Choice)
	}
	switch ev.Kind {
	case infer.EventText:
		g.bytes += len(ev.Text)
		c.text.WriteString(ev.Text)
	case infer.EventReasoning:
		g.bytes += len(ev.Text)
		c.reasoning.WriteString(ev.Text)
	case infer.EventFinish:
		c.finish = string(ev.Finish)
	case infer.EventTool:
		g.bytes += len(ev.Tool.Arguments) + len(ev.Tool.Name)
		c.tool(ev.Tool)
	}
}

func (c *gatheredChoice) tool(d *infer.ToolDelta) {
	for i := range c.calls {
		if c.calls[i].index == d.Index {
			c.calls[i].name += d.Name
			c.calls[i].arguments.WriteString(d.Arguments)
			return
		}
	}
	if len(c.calls) >= maxGatherCalls {
		return
	}
	c.calls = append(c.calls, gatheredCall{index: d.Index, name: d.Name})
	c.calls[len(c.calls)-1].arguments.WriteString(d.Arguments)
}

// ended notes how the request ended.
func (g *gathered) ended(c *call) { g.outcome = string(c.outcome) }

// sealable redacts what was gathered and writes it out, within the bound.
func (g *gathered) sealable() (*keptHead, []byte, error) {
	k := &keeper{rule: g.rule, left: int(g.rule.MaxItem)}
	out := keptContent{Outcome: g.outcome}
	k.request(&out, g)
	for _, i := range g.order {
		c := g.choices[i]
		a := keptAnswer{Choice: i, Text: k.text(c.text.String()), Reasoning: k.text(c.reasoning.String()), Finish: c.finish}
		for j := range c.calls {
			a.ToolCalls = append(a.ToolCalls, keptCall{k.text(c.calls[j].name), k.json(c.calls[j].arguments.String())})
		}
		out.Answers = append(out.Answers, a)
	}
	out.Redacted, out.Truncated = k.found, k.cut
	b, err := json.Marshal(&out)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write what is kept: %w", err)
	}
	return &g.head, b, nil
}

// keeper redacts texts and cuts them to what is left of the bound.
type keeper struct {
	rule        *retentionRule
	left, found int
	cut         bool
}

func (k *keeper) text(s string) string { return k.take(s, k.rule.redact.Text) }
func (k *keeper) json(s string) string { return k.take(s, k.rule.redact.JSON) }

func (k *keeper) take(s string, redact func(string) (string, int)) string {
	if s == "" {
		return ""
	}
	if k.left <= 0 {
		k.cut = true
		return ""
	}
	if most := k.left + gatherSlack; len(s) > most {
		s, k.cut = strings.ToValidUTF8(s[:most], ""), true
	}
	out, n := redact(s)
	k.found += n
	if len(out) > k.left {
		out, k.cut = strings.ToValidUTF8(out[:k.left], ""), true
	}
	k.left -= len(out)
	return strings.Clone(out)
}

// request writes the prompts out, and the calls and results of tools in them.
func (k *keeper) request(out *keptContent, g *gathered) {
	if g.embed != nil {
		for _, in := range g.embed.Inputs {
			if k.rule.prompts && in.Tokens == nil {
				out.Messages = append(out.Messages, keptMessage{Role: "input", Text: k.text(in.Text)})
			}
		}
		return
	}
	for _, p := range g.request.Prompts {
		if k.rule.prompts && p.Tokens == nil {
			out.Messages = append(out.Messages, keptMessage{Role: "prompt", Text: k.text(p.Text)})
		}
	}
	for i := range g.request.Messages {
		m := &g.request.Messages[i]
		result := m.Role == infer.RoleTool
		msg := keptMessage{Role: string(m.Role), Name: k.text(m.Name)}
		for _, p := range m.Content {
			switch {
			case p.Type != "text" && p.Type != "":
				msg.Media = append(msg.Media, p.Type)
			case result && k.rule.tools:
				msg.Text += k.json(p.Text)
			case !result && k.rule.prompts:
				msg.Text += k.text(p.Text)
			}
		}
		if k.rule.tools {
			for _, c := range m.ToolCalls {
				msg.ToolCalls = append(msg.ToolCalls, keptCall{k.text(c.Name), k.json(c.Arguments)})
			}
		}
		if result && k.rule.tools || !result && k.rule.prompts || len(msg.ToolCalls) > 0 {
			out.Messages = append(out.Messages, msg)
		}
	}
}
