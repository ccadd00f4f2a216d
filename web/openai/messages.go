package openai

import (
	"fmt"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// messages reads a conversation.
func (d *decoder) messages(v jsonread.Value) error {
	if v.Kind() != jsonread.Array {
		return v.Wrong("an array of messages")
	}
	if v.Empty() {
		return v.Errorf("cannot answer an empty conversation: got no messages, wanted at least one")
	}
	return v.Items(maxMessages, func(_ int, m jsonread.Value) error {
		msg, err := d.message(m)
		if err != nil {
			return err
		}
		d.r.Messages = append(d.r.Messages, msg)
		return nil
	})
}

// message reads one turn. The role decides what the other members may be, so it
// is looked for first.
func (d *decoder) message(v jsonread.Value) (infer.Message, error) {
	rv, ok := v.Get("role")
	if !ok {
		if v.Kind() != jsonread.Object {
			return infer.Message{}, v.Wrong("a message, which is an object")
		}
		return infer.Message{}, v.Errorf("cannot use %s: got no role", v.Path())
	}
	role, err := rv.Enum("system", "developer", "user", "assistant", "tool", "function")
	if err != nil {
		if rv.Kind() != jsonread.String {
			return infer.Message{}, err
		}
		if err := d.beyond(rv, err); err != nil {
			return infer.Message{}, err
		}
		role = "user" // what a provider of this dialect may know is read as a turn of some kind
	}
	t := turn{role: role, v: v, d: d}
	t.m.Role = infer.Role(role)
	switch {
	case role == "developer":
		d.use(infer.FeatureDeveloperRole, rv)
	case role != "system":
		d.spoken = true
	}
	if d.spoken && (role == "system" || role == "developer") {
		d.use(infer.FeatureSystemMidway, rv)
	}
	if err := v.Members(t.member); err != nil {
		return infer.Message{}, err
	}
	if err := t.finish(); err != nil {
		return infer.Message{}, err
	}
	return t.m, nil
}

// turn is a message that is being read.
type turn struct {
	role    string
	v       jsonread.Value
	d       *decoder
	m       infer.Message
	content bool // content was there, and not null
	call    *infer.ToolCall
	refusal string
	mark    string // cache breakpoint after the turn
}

func (t *turn) member(key string, v jsonread.Value) error {
	assistant := t.role == "assistant"
	switch key {
	case "role":
		return nil
	case "content":
		return t.setContent(v)
	case "name":
		err := setString(&t.m.Name, v, maxToolName)
		if t.m.Name != "" && t.role != "function" {
			t.d.use(infer.FeatureMessageName, v)
		}
		return err
	case "cache_control":
		mark, err := t.d.cacheMark(v)
		t.mark = mark
		return err
	case "tool_call_id":
		if t.role != "tool" {
			break
		}
		return setString(&t.m.ToolCallID, v, maxSalt)
	case "tool_calls":
		if !assistant {
			break
		}
		return t.setToolCalls(v)
	case "function_call":
		if !assistant {
			break
		}
		return t.setFunctionCall(v)
	case "refusal":
		if !assistant {
			break
		}
		err := setString(&t.refusal, v, maxGrammar*64)
		if t.refusal != "" {
			t.d.use(infer.FeatureRefusalPart, v)
		}
		return err
	case "reasoning_content", "reasoning":
		if !assistant {
			break
		}
		if v.IsNull() {
			return nil
		}
		if t.m.Reasoning != "" {
			return v.Errorf("cannot use both reasoning and reasoning_content of one message")
		}
		err := setString(&t.m.Reasoning, v, 20<<20)
		if t.m.Reasoning != "" {
			t.d.use(infer.FeatureThought, v)
		}
		return err
	case "annotations", "provider_specific_fields", "index", "stop_reason":
		// What answers carry and clients send back with the turn; no model
		// is shown it.
		if assistant {
			return nil
		}
	}
	// Clients write out empty members of one message type for all roles.
	if v.IsNull() || v.Kind() == jsonread.Array && v.Empty() {
		switch key {
		case "tool_call_id", "tool_calls", "function_call", "refusal", "audio", "annotations", "reasoning_content", "reasoning":
			return nil
		}
	}
	if assistant && key == "audio" {
		return t.d.own(infer.FeatureAudio, v, v.Unsupported("cannot use %s: no audio of earlier turns is kept here", v.Path()))
	}
	return t.d.unknown(v)
}

func (t *turn) setToolCalls(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	if v.Kind() == jsonread.Array && !v.Empty() {
		t.d.use(infer.FeatureTools, v)
	}
	return v.Items(maxToolCalls, func(_ int, c jsonread.Value) error {
		var call infer.ToolCall
		var fn, custom *jsonread.Value
		err := c.Members(func(key string, m jsonread.Value) (err error) {
			switch key {
			case "id":
				return setString(&call.ID, m, maxSalt)
			case "type":
				if !m.IsNull() {
					if _, err = m.Enum("function", "custom"); err != nil {
						return t.d.beyond(m, err)
					}
				}
				return err
			case "function":
				fn = &m
				return nil
			case "custom":
				custom = &m
				return nil
			case "index": // left over from the pieces of a stream
				return nil
			}
			return t.d.unknown(m)
		})
		switch {
		case err != nil:
			return err
		case fn == nil && custom == nil:
			return c.Errorf("cannot use %s: got no function", c.Path())
		case call.ID == "":
			return c.Errorf("cannot use %s: got no id", c.Path())
		case fn == nil:
			err = t.d.readCustomCall(*custom, &call)
		default:
			err = t.d.readCall(*fn, &call)
		}
		if err != nil {
			return err
		}
		t.m.ToolCalls = append(t.m.ToolCalls, call)
		return nil
	})
}

// readCustomCall reads {"name", "input"} of a tool that takes free text; its
// arguments are an object with that one string.
func (d *decoder) readCustomCall(v jsonread.Value, call *infer.ToolCall) error {
	input := ""
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "name":
			call.Name, err = m.Str()
			return err
		case "input":
			input, err = m.Str()
			return err
		}
		return d.unknown(m)
	})
	if err == nil && call.Name == "" {
		err = v.Errorf("cannot use %s: got no name", v.Path())
	}
	call.Arguments = string(append(jsonwrite.String([]byte(`{"input":`), input), '}'))
	d.use(infer.FeatureToolCustom, v)
	return err
}

// readCall reads {"name", "arguments"}.
func (d *decoder) readCall(v jsonread.Value, call *infer.ToolCall) error {
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "name":
			call.Name, err = m.Str()
			return err
		case "arguments":
			if m.IsNull() {
				return nil
			}
			call.Arguments, err = m.Str()
			return err
		}
		return d.unknown(m)
	})
	if err == nil && call.Name == "" {
		err = v.Errorf("cannot use %s: got no name", v.Path())
	}
	if call.Arguments == "" {
		call.Arguments = "{}" // a call without arguments, as some models write it
	}
	return err
}

// setFunctionCall reads the older form, which has no id: the one call of a turn
// is known by its place.
func (t *turn) setFunctionCall(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	t.call = &infer.ToolCall{ID: fmt.Sprintf("call_%d", len(t.d.r.Messages))}
	t.d.use(infer.FeatureTools, v)
	return t.d.readCall(v, t.call)
}

// finish holds the turn against the rules of its role.
func (t *turn) finish() error {
	if t.call != nil {
		if len(t.m.ToolCalls) > 0 {
			return t.v.Errorf("cannot use function_call beside tool_calls in %s", t.v.Path())
		}
		t.m.ToolCalls = []infer.ToolCall{*t.call}
	}
	if t.refusal != "" {
		t.m.Content = append(t.m.Content, infer.Part{Type: "text", Text: t.refusal})
		t.content = true
	}
	if n := len(t.m.Content); t.mark != "" && n > 0 {
		t.m.Content[n-1].Cache = t.mark
	}
	switch t.role {
	case "tool":
		if t.m.ToolCallID == "" {
			return t.v.Errorf("cannot use %s: got a tool message without tool_call_id", t.v.Path())
		}
	case "function":
		if err := t.finishFunction(); err != nil {
			return err
		}
	case "assistant":
		return nil // a turn may consist of calls, or of nothing to be continued
	}
	if !t.content {
		return t.v.Errorf("cannot use %s: got no content", t.v.Path())
	}
	return nil
}

// finishFunction turns the result of an older function call into that of a tool
// call: the last call of that name.
func (t *turn) finishFunction() error {
	if t.m.Name == "" {
		return t.v.Errorf("cannot use %s: got a function message without name", t.v.Path())
	}
	t.m.Role = infer.RoleTool
	for i := len(t.d.r.Messages) - 1; i >= 0; i-- {
		for _, c := range t.d.r.Messages[i].ToolCalls {
			if c.Name == t.m.Name {
				t.m.ToolCallID = c.ID
				return nil
			}
		}
	}
	return t.v.Errorf("cannot use %s: no earlier message calls the function %q", t.v.Path(), jsonread.Shorten(t.m.Name, 64))
}

// setContent reads a string or an array of parts.
func (t *turn) setContent(v jsonread.Value) error {
	switch v.Kind() {
	case jsonread.Null:
		return nil
	case jsonread.String:
		s, err := v.Str()
		t.m.Content = []infer.Part{{Type: "text", Text: s}}
		t.content = true
		return err
	case jsonread.Array:
		if v.Empty() && t.role != "assistant" {
			return v.Errorf("cannot use %s: got no parts", v.Path())
		}
		t.content = true
		return v.Items(maxParts, func(_ int, p jsonread.Value) error {
			part, err := t.part(p)
			if err == nil && part.Type != "" {
				t.m.Content = append(t.m.Content, part)
			}
			return err
		})
	}
	return v.Wrong("a string or an array of parts")
}
