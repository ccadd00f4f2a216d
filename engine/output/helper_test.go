package output

import (
	"fmt"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// answer is what a consumer makes of the events of one choice.
type answer struct {
	text, reasoning string
	calls           []string // name(arguments)
	finish          infer.FinishReason
	stop            string
	tokens          int
	events          int
}

func (a answer) String() string {
	return fmt.Sprintf("text %q reasoning %q calls %q finish %q stop %q", a.text, a.reasoning, a.calls, a.finish, a.stop)
}

// consume checks the rules that every stream keeps, and adds the events up.
type consumer struct {
	t     testing.TB
	a     answer
	ended bool
	ids   map[string]bool
	begun []infer.ToolDelta
}

func (c *consumer) take(events []infer.Event) {
	for _, ev := range events {
		if c.ended {
			c.t.Fatalf("event %v after the finish", ev.Kind)
		}
		c.a.events++
		c.a.tokens += ev.Tokens
		switch ev.Kind {
		case infer.EventText, infer.EventReasoning:
			if ev.Text == "" {
				c.t.Fatal("empty delta")
			}
			if ev.Kind == infer.EventText {
				c.a.text += ev.Text
			} else {
				c.a.reasoning += ev.Text
			}
		case infer.EventTool:
			c.tool(ev.Tool)
		case infer.EventFinish:
			c.a.finish, c.a.stop, c.ended = ev.Finish, ev.Stop, true
		default:
			c.t.Fatalf("event of kind %v", ev.Kind)
		}
	}
}

func (c *consumer) tool(d *infer.ToolDelta) {
	if d.Index == len(c.begun) {
		if d.Name == "" || d.ID == "" || c.ids[d.ID] {
			c.t.Fatalf("call %d begins with name %q, id %q", d.Index, d.Name, d.ID)
		}
		if c.ids == nil {
			c.ids = map[string]bool{}
		}
		c.ids[d.ID] = true
		c.begun = append(c.begun, *d)
		return
	}
	if d.Index != len(c.begun)-1 || d.Name != "" || d.ID != "" || d.Arguments == "" {
		c.t.Fatalf("delta %+v of call %d", d, len(c.begun)-1)
	}
	c.begun[d.Index].Arguments += d.Arguments
}

func (c *consumer) done() answer {
	if !c.ended {
		c.t.Fatal("no finish")
	}
	for _, d := range c.begun {
		c.a.calls = append(c.a.calls, d.Name+"("+d.Arguments+")")
	}
	return c.a
}

// feed pushes text in pieces of the given size until the pipeline stops.
func feed(t testing.TB, o Options, text string, size int, reason infer.FinishReason) answer {
	p := New(o)
	c := &consumer{t: t}
	pushed := 0
	for i := 0; i < len(text); i += size {
		ev, stopped := p.Push(int32(i), []byte(text[i:min(i+size, len(text))]), nil)
		pushed++
		c.take(ev)
		if stopped {
			reason = infer.FinishStop
			break
		}
	}
	c.take(p.Finish(reason))
	a := c.done()
	if a.tokens != pushed {
		t.Fatalf("%d tokens in the events, %d were pushed", a.tokens, pushed)
	}
	return a
}

// feedAll wants the same answer whatever the cut.
func feedAll(t testing.TB, o Options, text string, reason infer.FinishReason) answer {
	whole := feed(t, o, text, max(len(text), 1), reason)
	for _, size := range []int{1, 2, 3, 4, 5, 7, 11, 16, 50} {
		if a := feed(t, o, text, size, reason); a.String() != whole.String() {
			t.Fatalf("pieces of %d bytes of %q:\n got %v\nwant %v", size, text, a, whole)
		}
	}
	return whole
}

var tools = []infer.Tool{
	{Name: "get_weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"opts":{"type":"object"},"on":{"type":"boolean"}}}`)},
	{Name: "add", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`)},
	{Name: "run", Parameters: []byte(`{"type":"object","properties":{"cmd":{"type":"string"}}}`)},
}

func join(calls []string) string { return strings.Join(calls, " | ") }
