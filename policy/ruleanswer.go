package policy

import (
	"iter"
	"slices"

	"hearth/engine/infer"
)

// AnswerFilter applies the rules of a route to one answer, event by event.
//
// Where a rule denies or redacts, text is held back until no match can begin in
// it, and the answer is no longer passed on as it came: events lose their Frame
// and the start says that it is not native. Calls of tools are then held back
// until they are complete. A match is looked for within one unbroken run of text
// or reasoning of a choice. Rules that only tag, and checks of schemas, hold
// nothing back; a check that denies ends the answer with an error in place of its
// finish.
type AnswerFilter struct {
	rules   *Rules
	request *infer.Request
	hold    bool
	choices map[int]*filteredChoice
	counts  map[*textRule]int
	checks  []Decision
	tokens  int // of events that were held back whole
	out     []infer.Event
}

// filteredChoice is what one choice of an answer has brought so far.
type filteredChoice struct {
	index int
	run   infer.EventKind // of the text that is open: EventText, EventReasoning, EventTool for none
	// refusal says that the open text is the model's words of declining.
	refusal bool
	text    chain
	whole   []byte // the text for the json rule
	calls   []*filteredCall
	held    int // bytes of arguments
	large   bool
}

type filteredCall struct {
	delta     infer.ToolDelta
	arguments []byte
}

// maxHeldBytes bounds the arguments, and the text for a json rule, of one choice.
const maxHeldBytes = 4 << 20

// After gives the filter for one attempt at answering r; nil if answers pass as
// they are.
func (rs *Rules) After(r *infer.Request) *AnswerFilter {
	if rs == nil || len(rs.answers) == 0 && (rs.arguments == nil || len(r.Tools) == 0) && (rs.json == nil || !wantsJSON(r)) {
		return nil
	}
	return &AnswerFilter{rules: rs, request: r, hold: rs.holder() != nil, choices: map[int]*filteredChoice{}, counts: map[*textRule]int{}}
}

func wantsJSON(r *infer.Request) bool {
	return r.Format.Kind == infer.FormatJSONObject || r.Format.Kind == infer.FormatJSONSchema
}

// Filter passes the events of an answer on. The nil filter gives them as they
// are. Breaking out of the loop breaks out of events.
func (f *AnswerFilter) Filter(events iter.Seq2[infer.Event, error]) iter.Seq2[infer.Event, error] {
	if f == nil {
		return events
	}
	return func(yield func(infer.Event, error) bool) {
		for ev, err := range events {
			if err != nil {
				yield(ev, err)
				return
			}
			out, err := f.Event(ev)
			for i := range out {
				if !yield(out[i], nil) {
					return
				}
			}
			if err != nil {
				yield(infer.Event{}, err)
				return
			}
		}
	}
}

// Event takes one event and gives those that can be passed on now; they are valid
// until the next call. After an error nothing may follow.
func (f *AnswerFilter) Event(ev infer.Event) ([]infer.Event, error) {
	f.out = f.out[:0]
	var err error
	switch ev.Kind {
	case infer.EventStart:
		if f.hold && ev.Model != nil && ev.Model.Native {
			own := *ev.Model
			own.Native = false
			ev.Model = &own
		}
		f.pass(ev)
	case infer.EventText, infer.EventReasoning:
		err = f.text(ev)
	case infer.EventTool:
		err = f.tool(ev)
	case infer.EventFinish:
		if err = f.finish(&ev); err == nil {
			f.pass(ev)
		}
	case infer.EventUsage:
		for _, c := range f.sorted() {
			if err = f.end(c); err != nil {
				return f.out, err
			}
		}
		f.pass(ev)
	default:
		f.pass(ev)
	}
	return f.out, err
}

// pass gives an event on, without its frame where the answer is looked through.
func (f *AnswerFilter) pass(ev infer.Event) {
	if f.hold {
		if ev.Kind == infer.EventFrame {
			return
		}
		ev.Frame = nil
		ev.Tokens += f.tokens
		f.tokens = 0
	}
	f.out = append(f.out, ev)
}

func (f *AnswerFilter) choice(i int) *filteredChoice {
	c := f.choices[i]
	if c == nil {
		c = &filteredChoice{index: i, run: infer.EventTool}
		f.choices[i] = c
	}
	return c
}

func (f *AnswerFilter) sorted() []*filteredChoice {
	var out []*filteredChoice
	for _, c := range f.choices {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *filteredChoice) int { return a.index - b.index })
	return out
}

// text looks through a piece of text or reasoning.
func (f *AnswerFilter) text(ev infer.Event) error {
	c := f.choice(ev.Choice)
	if len(f.rules.answers) == 0 {
		c.keep(f.rules.json, &ev)
		f.pass(ev)
		return nil
	}
	if c.run != ev.Kind || c.refusal != ev.Refusal {
		if err := f.end(c); err != nil {
			return err
		}
		c.run, c.refusal, c.text = ev.Kind, ev.Refusal, newChain(f.rules.answers)
	}
	// A seal closes a piece of reasoning.
	out, deny := c.text.feed([]byte(ev.Text), ev.Signature != "" || ev.Redacted != "")
	if deny != nil {
		return f.deny(c, deny)
	}
	if ev.Signature != "" || ev.Redacted != "" {
		f.close(c)
	}
	if f.hold {
		ev.Text, ev.TokenIDs, ev.Logprobs = string(out), nil, nil
		if ev.Text == "" && ev.Signature == "" && ev.Redacted == "" {
			f.tokens += ev.Tokens
			return nil
		}
	}
	c.keep(f.rules.json, &ev)
	f.pass(ev)
	return nil
}

// keep collects the text that a json rule checks.
func (c *filteredChoice) keep(json *checkRule, ev *infer.Event) {
	if json == nil || ev.Kind != infer.EventText || ev.Refusal {
		return
	}
	if c.large = c.large || len(c.whole)+len(ev.Text) > maxHeldBytes; !c.large {
		c.whole = append(c.whole, ev.Text...)
	}
}

// end ends the run of text that is open in a choice, and gives what was held.
func (f *AnswerFilter) end(c *filteredChoice) error {
	if c.run == infer.EventTool {
		return nil
	}
	kind := c.run
	out, deny := c.text.feed(nil, true)
	if deny != nil {
		return f.deny(c, deny)
	}
	f.close(c)
	if f.hold && len(out) > 0 {
		ev := infer.Event{Kind: kind, Choice: c.index, Text: string(out), Refusal: c.refusal}
		c.keep(f.rules.json, &ev)
		f.pass(ev)
	}
	return nil
}

// close counts what was found in a run.
func (f *AnswerFilter) close(c *filteredChoice) {
	for i := range c.text {
		f.counts[c.text[i].rule] += c.text[i].count
	}
	c.run, c.text = infer.EventTool, nil
}

func (f *AnswerFilter) deny(c *filteredChoice, by *textRule) error {
	f.close(c)
	f.counts[by] = max(f.counts[by], 1)
	return denied(infer.CodeForbidden, by.name, "", "the answer holds what may not be passed on")
}

// tool collects a piece of a call.
func (f *AnswerFilter) tool(ev infer.Event) error {
	c := f.choice(ev.Choice)
	if err := f.end(c); err != nil {
		return err
	}
	if ev.Tool != nil && (len(f.rules.answers) > 0 || f.rules.arguments != nil) {
		if err := c.collect(ev.Tool); err != nil {
			return err
		}
	}
	if f.hold {
		f.tokens += ev.Tokens
		return nil
	}
	f.pass(ev)
	return nil
}

func (c *filteredChoice) collect(d *infer.ToolDelta) error {
	i := slices.IndexFunc(c.calls, func(k *filteredCall) bool { return k.delta.Index == d.Index })
	if i < 0 {
		i = len(c.calls)
		c.calls = append(c.calls, &filteredCall{delta: infer.ToolDelta{Index: d.Index}})
	}
	k := c.calls[i]
	if d.ID != "" {
		k.delta.ID = d.ID
	}
	if d.Name != "" {
		k.delta.Name = d.Name
	}
	if c.held += len(d.Arguments); c.held > maxHeldBytes {
		return denied(infer.CodeUpstream, "tool calls", "", "the arguments of the answer's tool calls are too long to be checked")
	}
	k.arguments = append(k.arguments, d.Arguments...)
	return nil
}

// finish checks a choice before its finish is passed on.
func (f *AnswerFilter) finish(ev *infer.Event) error {
	c := f.choice(ev.Choice)
	if err := f.end(c); err != nil {
		return err
	}
	for _, k := range c.calls {
		if err := f.call(c, k); err != nil {
			return err
		}
	}
	if err := f.checkJSON(c, ev.Finish); err != nil {
		return err
	}
	delete(f.choices, ev.Choice)
	return nil
}

// call looks through a complete call and gives it on if it was held.
func (f *AnswerFilter) call(c *filteredChoice, k *filteredCall) error {
	for _, t := range f.rules.answers {
		v := visitor{f: func(s string, _ bool) string {
			out, n := t.find(s)
			f.counts[t] += n
			return out
		}}
		before := f.counts[t]
		v.fixed(k.delta.Name)
		k.arguments = v.loose(k.arguments)
		if t.action == actionDeny && f.counts[t] > before {
			return denied(infer.CodeForbidden, t.name, "", "the answer holds what may not be passed on")
		}
	}
	if err := f.checkCall(k); err != nil {
		return err
	}
	if f.hold {
		d := k.delta
		d.Arguments = string(k.arguments)
		f.pass(infer.Event{Kind: infer.EventTool, Choice: c.index, Tool: &d})
	}
	return nil
}

// checkCall checks the arguments of a call against what the request declares.
func (f *AnswerFilter) checkCall(k *filteredCall) error {
	if f.rules.arguments == nil {
		return nil
	}
	i := slices.IndexFunc(f.request.Tools, func(t infer.Tool) bool { return t.Name == k.delta.Name })
	text := string(k.arguments)
	if text == "" {
		text = "{}"
	}
	ok := false
	switch {
	case i < 0: // never declared, unless by a type that has a form of its own
		ok = len(declaredTools(f.request)) > len(f.request.Tools)
	case len(f.request.Tools[i].Parameters) == 0:
		ok = matches(nil, text)
	default:
		schema, err := f.rules.schemas.get(f.request.Tools[i].Parameters)
		ok = err == nil && matches(schema, text)
	}
	if ok {
		return nil
	}
	return f.failed(f.rules.arguments, "the model's tool call does not keep to what the request declares")
}

// checkJSON checks the text of a choice that was to be JSON.
func (f *AnswerFilter) checkJSON(c *filteredChoice, finish infer.FinishReason) error {
	if f.rules.json == nil || !wantsJSON(f.request) || len(c.calls) > 0 || finish == infer.FinishToolCalls || finish == infer.FinishRefusal || finish == infer.FinishContentFilter {
		return nil
	}
	ok := false
	switch {
	case c.large:
	case f.request.Format.Kind == infer.FormatJSONObject:
		ok = matches(nil, string(c.whole))
	default:
		schema, err := f.rules.schemas.get(f.request.Format.Schema)
		ok = err == nil && matches(schema, string(c.whole))
	}
	if ok {
		return nil
	}
	return f.failed(f.rules.json, "the model's answer does not keep to the schema of the request")
}

func (f *AnswerFilter) failed(by *checkRule, message string) error {
	f.checks = append(f.checks, Decision{by.name, by.action, onAnswer, 1})
	if by.action == actionDeny {
		return denied(infer.CodeUpstream, by.name, "", "%s", message)
	}
	return nil
}

// Decisions lists what the rules did to the answer so far, in their order.
func (f *AnswerFilter) Decisions() []Decision {
	if f == nil {
		return nil
	}
	var out []Decision
	for _, t := range f.rules.answers {
		n := f.counts[t]
		for _, c := range f.choices {
			for i := range c.text {
				if c.text[i].rule == t {
					n += c.text[i].count
				}
			}
		}
		if n > 0 {
			out = append(out, Decision{t.name, t.action, onAnswer, n})
		}
	}
	for _, d := range f.checks {
		if i := slices.IndexFunc(out, func(o Decision) bool { return o.Rule == d.Rule }); i >= 0 {
			out[i].Count++
		} else {
			out = append(out, d)
		}
	}
	return out
}
