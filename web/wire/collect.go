package wire

import (
	"fmt"
	"strings"
	"time"

	"hearth/engine/infer"
)

// Collector builds an Answer from the events of one generation. A stream that
// breaks the rules of infer.Event is our own fault and ends in an error, never
// in an answer that looks whole.
type Collector struct {
	a    Answer
	text []strings.Builder
	mind []strings.Builder // reasoning
	from []int             // where in mind the thought that is open begins
	args [][][]byte        // of each call of each choice
	done bool
}

// Choices is how many choices r asks for.
func Choices(r *infer.Request) int {
	if r.Kind == infer.Completion {
		return max(1, len(r.Prompts)) * max(1, r.Sampling.N)
	}
	return max(1, r.Sampling.N)
}

// NewCollector prepares for the answer to r.
func NewCollector(r *infer.Request) *Collector {
	n := Choices(r)
	c := &Collector{text: make([]strings.Builder, n), mind: make([]strings.Builder, n), from: make([]int, n), args: make([][][]byte, n)}
	c.a.Model.Name = r.Model
	c.a.Choices = make([]Choice, n)
	return c
}

// Add takes the next event.
func (c *Collector) Add(ev infer.Event) error {
	if ev.Choice < 0 || ev.Choice >= len(c.a.Choices) {
		return bug("an event of choice %d where there are %d", ev.Choice, len(c.a.Choices))
	}
	if c.done {
		return bug("an event after the usage")
	}
	if c.a.Model.Native && ev.Frame != nil {
		c.a.Frame = ev.Frame
	}
	if ev.Kind != infer.EventStart && c.a.First.IsZero() {
		c.a.First = time.Now()
	}
	ch := &c.a.Choices[ev.Choice]
	ch.Logprobs = append(ch.Logprobs, ev.Logprobs...)
	ch.TokenIDs = append(ch.TokenIDs, ev.TokenIDs...)
	switch ev.Kind {
	case infer.EventStart:
		if ev.Model != nil {
			c.a.Model = *ev.Model
		}
	case infer.EventText:
		if ev.Refusal {
			ch.Refusal += ev.Text
			return nil
		}
		c.text[ev.Choice].WriteString(ev.Text)
	case infer.EventReasoning:
		c.mind[ev.Choice].WriteString(ev.Text)
		c.thought(ev)
	case infer.EventTool:
		return c.tool(ev)
	case infer.EventFinish:
		if ch.Finish != "" {
			return bug("two ends of choice %d", ev.Choice)
		}
		ch.Finish, ch.Stop = ev.Finish, ev.Stop
	case infer.EventUsage:
		if ev.Usage == nil {
			return bug("a usage event without usage")
		}
		c.a.Usage, c.done = *ev.Usage, true
	case infer.EventFrame:
	default:
		return bug("an event of unknown kind %d", ev.Kind)
	}
	return nil
}

// thought closes a piece of reasoning where the event seals it.
func (c *Collector) thought(ev infer.Event) {
	ch := &c.a.Choices[ev.Choice]
	if ev.Signature != "" {
		all := c.mind[ev.Choice].String()
		ch.Thoughts = append(ch.Thoughts, infer.Thought{Text: all[c.from[ev.Choice]:], Signature: ev.Signature})
		c.from[ev.Choice] = len(all)
	}
	if ev.Redacted != "" {
		c.closeThought(ev.Choice)
		ch.Thoughts = append(ch.Thoughts, infer.Thought{Redacted: ev.Redacted})
	}
}

// closeThought ends reasoning that no seal ended.
func (c *Collector) closeThought(choice int) {
	if all := c.mind[choice].String(); len(all) > c.from[choice] {
		c.a.Choices[choice].Thoughts = append(c.a.Choices[choice].Thoughts, infer.Thought{Text: all[c.from[choice]:]})
		c.from[choice] = len(all)
	}
}

func (c *Collector) tool(ev infer.Event) error {
	d, ch := ev.Tool, &c.a.Choices[ev.Choice]
	switch {
	case d == nil:
		return bug("a tool event without a tool")
	case d.Index == len(ch.ToolCalls) && d.ID != "":
		ch.ToolCalls = append(ch.ToolCalls, infer.ToolCall{ID: d.ID, Name: d.Name})
		c.args[ev.Choice] = append(c.args[ev.Choice], nil)
	case d.Index < 0 || d.Index >= len(ch.ToolCalls):
		return bug("a piece of tool call %d where %d have begun", d.Index, len(ch.ToolCalls))
	}
	c.args[ev.Choice][d.Index] = append(c.args[ev.Choice][d.Index], d.Arguments...)
	return nil
}

// Answer is the finished answer; an error if the stream was not complete.
func (c *Collector) Answer() (*Answer, error) {
	if !c.done {
		return nil, bug("a stream without usage")
	}
	for i := range c.a.Choices {
		ch := &c.a.Choices[i]
		if ch.Finish == "" {
			return nil, bug("choice %d without an end", i)
		}
		c.closeThought(i)
		ch.Text, ch.Reasoning = c.text[i].String(), c.mind[i].String()
		for k := range ch.ToolCalls {
			ch.ToolCalls[k].Arguments = string(c.args[i][k])
		}
	}
	return &c.a, nil
}

// bug is a fault of whoever made the events. It is an error, not a panic: one
// broken stream is no reason to end the others.
func bug(format string, args ...any) error {
	return infer.AsError(fmt.Errorf("BUG: "+format, args...))
}
