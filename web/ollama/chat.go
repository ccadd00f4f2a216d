package ollama

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Chat is the dialect of POST /api/chat.
type Chat struct{}

var _ wire.Dialect = Chat{}

// DecodeRequest implements wire.Dialect. A request without messages asks only
// that the model be loaded (or unloaded, see Hints.KeepAlive).
func (Chat) DecodeRequest(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := root(body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d := newDecoder(infer.Chat)
	if err := members(v, d.chatField); err != nil {
		return nil, wire.Options{}, err
	}
	if err := d.finish(); err != nil {
		return nil, wire.Options{}, err
	}
	if n := len(d.r.Messages); n > 0 {
		if last := &d.r.Messages[n-1]; last.Role == infer.RoleAssistant && len(last.ToolCalls) == 0 {
			d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeaturePrefill, Path: "messages"})
			d.r.ContinueFinalMessage, d.r.AddGenerationPrompt = true, false
		}
	}
	d.r.Wire = &infer.Wire{Dialect: NameChat, Body: body}
	return d.r, d.options(), nil
}

func (d *decoder) options() wire.Options {
	return wire.Options{Stream: d.stream, HideReasoning: d.r.Thinking.Switch == "off", Created: time.Now()}
}

// chatField takes one member of a chat request.
func (d *decoder) chatField(key string, v jsonread.Value) error {
	switch key {
	case "messages":
		return v.Items(maxMessages, func(_ int, m jsonread.Value) error { return d.message(m) })
	case "tools":
		return v.Items(maxTools, func(_ int, m jsonread.Value) error { return d.tool(m) })
	}
	return d.shared(key, v)
}

// message reads one turn.
func (d *decoder) message(v jsonread.Value) error {
	var m infer.Message
	var text, role string
	var images []infer.Part
	err := members(v, func(key string, f jsonread.Value) (err error) {
		switch key {
		case "role":
			err = str(&role, f, maxShort)
		case "content":
			err = str(&text, f, maxText)
		case "thinking":
			if err = str(&m.Reasoning, f, maxText); m.Reasoning != "" {
				m.Thoughts = []infer.Thought{{Text: m.Reasoning}}
				d.use(infer.FeatureThought, f)
			}
		case "images":
			images, err = d.images(f)
		case "tool_calls":
			err = f.Items(maxToolCalls, func(_ int, c jsonread.Value) error { return d.call(&m, c) })
		case "tool_name":
			err = str(&m.Name, f, maxToolName)
		case "tool_call_id":
			err = str(&m.ToolCallID, f, maxShort)
		default:
			err = d.unknown(f)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch role = strings.ToLower(role); role {
	case "system", "user", "assistant", "tool":
		m.Role = infer.Role(role)
	case "developer":
		m.Role = infer.RoleDeveloper
		d.use(infer.FeatureDeveloperRole, v)
	default:
		return v.Errorf("cannot use %s.role: got %q, wanted system, user, assistant or tool", v.Path(), jsonread.Shorten(role, 40))
	}
	if len(m.ToolCalls) > 0 && m.Role != infer.RoleAssistant {
		return v.Errorf("cannot use %s: only a turn of the assistant may call a tool", v.Path())
	}
	if m.Role == infer.RoleSystem && len(d.r.Messages) > 0 && d.r.Messages[len(d.r.Messages)-1].Role != infer.RoleSystem {
		d.use(infer.FeatureSystemMidway, v)
	}
	if text != "" || len(images) == 0 && len(m.ToolCalls) == 0 {
		m.Content = append(m.Content, infer.Part{Type: "text", Text: text})
	}
	m.Content = append(m.Content, images...)
	if m.Role == infer.RoleTool {
		if len(images) > 0 {
			d.use(infer.FeatureToolResultMedia, v)
		}
		d.answer(&m)
	}
	d.r.Messages = append(d.r.Messages, m)
	return nil
}

// call reads one tool call. Ids are optional on this wire; one that is missing is
// made from its place, so that the result can name it.
func (d *decoder) call(m *infer.Message, v jsonread.Value) error {
	c := infer.ToolCall{Arguments: "{}"}
	err := members(v, func(key string, f jsonread.Value) error {
		switch key {
		case "id":
			return str(&c.ID, f, maxShort)
		case "type":
			_, err := f.Enum("function")
			return err
		case "function":
			return members(f, func(key string, a jsonread.Value) error {
				switch key {
				case "name":
					return str(&c.Name, a, maxToolName)
				case "arguments":
					if a.Kind() == jsonread.String { // as OpenAI's clients write it
						return str(&c.Arguments, a, maxText)
					}
					if a.Kind() != jsonread.Object {
						return a.Wrong("an object")
					}
					c.Arguments = string(a.Raw())
					return nil
				case "index":
					return nil
				}
				return d.unknown(a)
			})
		}
		return d.unknown(f)
	})
	if err != nil {
		return err
	}
	if c.Name == "" {
		return v.Errorf("cannot use %s: got no function name", v.Path())
	}
	d.calls++
	if c.ID == "" {
		c.ID = "call_" + strconv.Itoa(d.calls)
	}
	m.ToolCalls = append(m.ToolCalls, c)
	if len(d.open) == maxOpen {
		d.open = d.open[1:]
	}
	d.open = append(d.open, c)
	return nil
}

// answer finds the call that a result belongs to: by id, by name, or the first
// that is open.
func (d *decoder) answer(m *infer.Message) {
	i := slices.IndexFunc(d.open, func(c infer.ToolCall) bool {
		return m.ToolCallID == c.ID || m.ToolCallID == "" && (m.Name == "" || m.Name == c.Name)
	})
	if i >= 0 {
		m.ToolCallID, m.Name = d.open[i].ID, d.open[i].Name
		d.open = slices.Delete(d.open, i, i+1)
		return
	}
	if m.ToolCallID == "" {
		d.calls++
		m.ToolCallID = "call_" + strconv.Itoa(d.calls)
	}
}

// tool reads one tool.
func (d *decoder) tool(v jsonread.Value) error {
	var t infer.Tool
	kind := "function"
	err := members(v, func(key string, f jsonread.Value) error {
		switch key {
		case "type":
			return str(&kind, f, maxShort)
		case "function":
			return members(f, func(key string, m jsonread.Value) error {
				switch key {
				case "name":
					return str(&t.Name, m, maxToolName)
				case "description":
					return str(&t.Description, m, 1<<20)
				case "parameters":
					if m.Kind() != jsonread.Object {
						return m.Wrong("a JSON schema, which is an object")
					}
					t.Parameters = m.Clone()
					return nil
				case "strict":
					on, err := m.Bool()
					if t.Strict = on; on {
						d.use(infer.FeatureToolStrict, m)
					}
					return err
				}
				return d.unknown(m)
			})
		}
		return d.unknown(f)
	})
	switch {
	case err != nil:
		return err
	case kind != "function" && kind != "":
		d.use(infer.FeatureToolHosted, v)
		return nil
	case t.Name == "":
		return v.Errorf("cannot use %s: got no function name", v.Path())
	case slices.ContainsFunc(d.r.Tools, func(o infer.Tool) bool { return o.Name == t.Name }):
		return v.Errorf("cannot use %s: the name %q comes twice", v.Path(), t.Name)
	}
	d.use(infer.FeatureTools, v)
	d.r.Tools = append(d.r.Tools, t)
	return nil
}
