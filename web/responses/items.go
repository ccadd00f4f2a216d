package responses

import (
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// items reads the input of a request: a text, or items.
func (d *decoder) items(v jsonread.Value) error {
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Str()
		if err != nil {
			return err
		}
		d.keep(textItem(s))
		d.say(infer.Message{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: s}}}, "")
		return nil
	case jsonread.Array:
		return v.Items(maxItems, func(_ int, m jsonread.Value) error { return d.inputItem(m) })
	}
	return v.Wrong("a text or an array of items")
}

// textItem is the item that a plain text stands for.
func textItem(s string) []byte {
	b := jsonwrite.String([]byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":`), s)
	return append(b, "}]}"...)
}

// inputItem keeps an item of the request itself and reads it. What the item
// refers to takes its place.
func (d *decoder) inputItem(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("an item, which is an object")
	}
	if kind, err := itemType(v); err != nil {
		return err
	} else if kind == "item_reference" {
		return d.reference(v)
	}
	d.keep(v.Raw())
	return d.item(v)
}

// keep adds an item to those that the answer rests on.
func (d *decoder) keep(item []byte) { d.t.Items = append(d.t.Items, item) }

// itemType is the type of an item. A message need not say that it is one, nor a
// reference.
func itemType(v jsonread.Value) (string, error) {
	tv, ok := v.Get("type")
	if ok && !tv.IsNull() {
		return tv.Str()
	}
	if _, ok := v.Get("role"); ok {
		return "message", nil
	}
	if _, ok := v.Get("id"); ok {
		return "item_reference", nil
	}
	return "", v.Errorf("cannot use %s: got neither type nor role", v.Path())
}

// item adds one item to the conversation.
func (d *decoder) item(v jsonread.Value) error {
	kind, err := itemType(v)
	if err != nil {
		return err
	}
	switch kind {
	case "message":
		return d.message(v)
	case "function_call":
		return d.call(v, "arguments")
	case "custom_tool_call":
		return d.call(v, "input")
	case "function_call_output", "custom_tool_call_output":
		return d.result(v)
	case "reasoning":
		return d.thought(v)
	case "additional_tools":
		if tv, ok := v.Get("tools"); ok {
			return d.tools(tv)
		}
		return nil
	case "compaction", "compaction_summary", "compaction_trigger", "configuration_update":
		d.stateless(kindPath(v, kind), "only OpenAI's own models can read it")
		return nil
	}
	if slices.Contains(hostedItems, kind) {
		d.use(infer.FeatureToolCallHosted, kindPath(v, kind))
		return nil
	}
	return d.unknown(v)
}

// earlier puts the turns of the previous response before those of the request.
func (d *decoder) earlier() error {
	if d.state == nil || !d.state.Keeps() {
		d.stateless(d.previous.Path(), "responses are not kept here")
		return nil
	}
	items, native, err := d.state.Earlier(d.t.Previous)
	if err != nil {
		return notFound(err, *d.previous, "previous_response_id")
	}
	d.rewrite = d.rewrite || !native
	for _, raw := range items {
		v, err := jsonread.Parse(raw, jsonread.Limits{})
		if err != nil {
			return infer.AsError(err)
		}
		d.keep(v.Raw())
		// What earlier turns hold was weighed when they were sent; here it counts
		// for the target of this turn.
		if err := d.item(v); err != nil {
			return err
		}
	}
	if len(d.t.Items) > maxItems {
		return d.previous.Errorf("cannot go on from the previous response: it has more than %d items", maxItems)
	}
	return nil
}

// reference reads {"type": "item_reference", "id"}: an item of an earlier
// response, whose id tells which.
func (d *decoder) reference(v jsonread.Value) error {
	iv, ok := v.Get("id")
	if !ok {
		return v.Errorf("cannot use %s: got no id", v.Path())
	}
	id, err := label(iv)
	if err != nil {
		return err
	}
	response, own := Own(id)
	if !own || d.state == nil || !d.state.Keeps() {
		d.stateless(kindPath(v, "item_reference"), "the item was not made here")
		return nil
	}
	if d.loaded++; d.loaded > maxReference {
		return v.Errorf("cannot use %s: got more than %d references", v.Path(), maxReference)
	}
	items, _, err := d.state.Earlier(response)
	if err != nil {
		return notFound(err, iv, iv.Path())
	}
	for _, raw := range items {
		it, err := jsonread.Parse(raw, jsonread.Limits{})
		if err != nil {
			return infer.AsError(err)
		}
		if m, ok := it.Get("id"); ok && string(m.Raw()) == string(iv.Raw()) {
			d.keep(it.Raw())
			d.rewrite = d.rewrite || d.previous == nil
			return d.item(it)
		}
	}
	return notFound(infer.Errorf(infer.CodeNotFound, ""), iv, iv.Path())
}

// notFound is OpenAI's answer about a response or item that is not there: 400,
// since the route exists.
func notFound(err error, v jsonread.Value, param string) error {
	e := infer.AsError(err)
	if e.Code != infer.CodeNotFound {
		return e
	}
	return v.Errorf("cannot find what %s names: it does not exist, was not stored, or has expired", param)
}

// endTurn closes the assistant turn that items were being added to.
func (d *decoder) endTurn() {
	if d.turn != nil {
		d.r.Messages = append(d.r.Messages, *d.turn)
		d.turn = nil
	}
}

// assistant is the assistant turn that the next item belongs to. Reasoning,
// text and calls that follow each other are one turn.
func (d *decoder) assistant() *infer.Message {
	if d.turn == nil {
		d.turn = &infer.Message{Role: infer.RoleAssistant}
	}
	d.others = true
	return d.turn
}

// say adds a turn that is one item.
func (d *decoder) say(m infer.Message, path string) {
	d.endTurn()
	system := m.Role == infer.RoleSystem || m.Role == infer.RoleDeveloper
	if system && d.others && path != "" {
		d.use(infer.FeatureSystemMidway, path)
	}
	if m.Role == infer.RoleDeveloper && path != "" {
		d.use(infer.FeatureDeveloperRole, path+".role")
	}
	d.others = d.others || !system
	d.r.Messages = append(d.r.Messages, m)
}

// message reads a turn of the user, the system or the assistant.
func (d *decoder) message(v jsonread.Value) error {
	rv, ok := v.Get("role")
	if !ok {
		return v.Errorf("cannot use %s: got no role", v.Path())
	}
	role, err := rv.Enum("user", "assistant", "system", "developer")
	if err != nil {
		return err
	}
	var m infer.Message
	seen := false
	err = v.Members(func(key string, mv jsonread.Value) (err error) {
		switch key {
		case "type", "role", "id", "status":
		case "content":
			seen = true
			m.Content, err = d.parts(mv, role == "assistant")
		case "phase": // commentary or final answer: a label
			if !mv.IsNull() {
				d.own(infer.FeatureMetadata, mv.Path())
			}
		case "name":
			if m.Name, err = label(mv); m.Name != "" {
				d.use(infer.FeatureMessageName, mv.Path())
			}
		default:
			return d.unknown(mv)
		}
		return err
	})
	if err == nil && !seen {
		err = v.Errorf("cannot use %s: got no content", v.Path())
	}
	if err != nil {
		return err
	}
	m.Role = infer.Role(role)
	if role != "assistant" {
		d.say(m, v.Path())
		return nil
	}
	// Two texts are two turns, unless calls stand between: results must follow.
	if d.turn != nil && len(d.turn.Content) > 0 && len(d.turn.ToolCalls) == 0 {
		d.endTurn()
	}
	t := d.assistant()
	t.Content = append(t.Content, m.Content...)
	return nil
}

// call reads an earlier call of a function or of a tool of free text.
func (d *decoder) call(v jsonread.Value, field string) error {
	var c infer.ToolCall
	var space string
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type", "id", "status":
		case "call_id":
			c.ID, err = label(m)
		case "name":
			c.Name, err = label(m)
		case "namespace":
			if !m.IsNull() {
				space, err = label(m)
			}
		case field:
			c.Arguments, err = m.Str()
		case "caller":
			return d.caller(m)
		default:
			return d.unknown(m)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.ID == "":
		return v.Errorf("cannot use %s: got no call_id", v.Path())
	case c.Name == "":
		return v.Errorf("cannot use %s: got no name", v.Path())
	}
	if space != "" {
		c.Name = d.flat(space, c.Name)
	}
	switch {
	case field == "input":
		c.Arguments = string(append(jsonwrite.String([]byte(`{"input":`), c.Arguments), '}'))
		d.use(infer.FeatureToolCustom, kindPath(v, "custom_tool_call"))
	case c.Arguments == "":
		c.Arguments = "{}"
	}
	t := d.assistant()
	t.ToolCalls = append(t.ToolCalls, c)
	return nil
}

// caller tells what made a call: the model, or a program that the provider ran.
func (d *decoder) caller(v jsonread.Value) error {
	if tv, ok := v.Get("type"); ok && string(tv.Raw()) != `"direct"` {
		d.use(infer.FeatureToolCallHosted, v.Path())
	}
	return nil
}

// result reads the output of a call.
func (d *decoder) result(v jsonread.Value) error {
	m := infer.Message{Role: infer.RoleTool}
	seen := false
	err := v.Members(func(key string, mv jsonread.Value) (err error) {
		switch key {
		case "type", "id", "status", "name", "namespace":
		case "call_id":
			m.ToolCallID, err = label(mv)
		case "output":
			seen = true
			m.Content, err = d.parts(mv, false)
			for _, p := range m.Content {
				if p.Type != "text" {
					d.use(infer.FeatureToolResultMedia, mv.Path())
					break
				}
			}
		case "caller":
			return d.caller(mv)
		default:
			return d.unknown(mv)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case m.ToolCallID == "":
		return v.Errorf("cannot use %s: got no call_id", v.Path())
	case !seen:
		return v.Errorf("cannot use %s: got no output", v.Path())
	}
	d.say(m, v.Path())
	return nil
}

// thought reads a piece of earlier reasoning.
func (d *decoder) thought(v jsonread.Value) error {
	var t infer.Thought
	sealed := ""
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type", "status":
		case "id":
			if !m.IsNull() {
				t.ID, err = label(m)
			}
		case "summary", "content":
			if m.IsNull() {
				return nil
			}
			return m.Items(maxParts, func(_ int, p jsonread.Value) error {
				tv, ok := p.Get("text")
				if !ok {
					return d.unknown(p)
				}
				s, err := tv.Str()
				if t.Text != "" && s != "" {
					t.Text += "\n\n"
				}
				t.Text += s
				return err
			})
		case "encrypted_content":
			if !m.IsNull() {
				sealed, err = m.Str()
			}
		default:
			return d.unknown(m)
		}
		return err
	})
	if err != nil {
		return err
	}
	place := kindPath(v, "reasoning")
	own := sealed != "" && openThought(&t, sealed)
	switch {
	case own: // what we sealed goes back to where it came from, or is left out
		t.ID = ""
		d.use(infer.FeatureReasoningEncrypted, place+".encrypted_content")
	case sealed != "":
		d.use(infer.FeatureThoughtSealed, place+".encrypted_content")
	}
	if t.Text == "" && t.Signature == "" && t.Redacted == "" {
		return nil
	}
	// Reasoning begins a turn: what was said before it was another.
	if d.turn != nil && len(d.turn.Content)+len(d.turn.ToolCalls) > 0 && len(d.turn.ToolCalls) == 0 {
		d.endTurn()
	}
	// The text itself is what a reader was shown: OpenAI's own models are given the
	// sealed form only.
	if t.Text != "" && !own {
		d.use(infer.FeatureThoughtSummary, place)
	}
	m := d.assistant()
	m.Thoughts = append(m.Thoughts, t)
	if m.Reasoning != "" && t.Text != "" {
		m.Reasoning += "\n\n"
	}
	m.Reasoning += t.Text
	return nil
}
