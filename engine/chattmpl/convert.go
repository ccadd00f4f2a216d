package chattmpl

import (
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"sort"
	"strings"

	"hearth/engine/infer"
)

// forms says in which of several legal shapes a template wants its input; the
// probes choose.
type forms struct {
	partsOnly  bool // content must be a list of parts
	parts      bool // content may be a list of parts
	argsString bool // a call's arguments must be JSON text, not an object
	callsNone  bool // content must be none beside tool calls
	shortIDs   bool // call ids must be nine letters or digits
}

// variables builds what the template sees.
func (f forms) variables(in Input) ([]binding, error) {
	messages := &list{user: true, items: make([]value, len(in.Messages))}
	for i := range in.Messages {
		m, err := f.message(&in.Messages[i])
		if err != nil {
			return nil, err
		}
		messages.items[i] = m
	}
	tools, err := toolList(in.Tools)
	if err != nil {
		return nil, err
	}
	vars := []binding{
		{"messages", messages},
		{"tools", tools},
		{"documents", none{}},
		{"add_generation_prompt", in.AddGenerationPrompt},
	}
	if in.BOS != "" {
		vars = append(vars, binding{"bos_token", own(in.BOS)})
	}
	if in.EOS != "" {
		vars = append(vars, binding{"eos_token", own(in.EOS)})
	}
	names := make([]string, 0, len(in.Args))
	for n := range in.Args {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if reserved[n] {
			return nil, infer.Invalid("chat_template_kwargs", "cannot set %q", n)
		}
		v, err := decodeJSON(in.Args[n])
		if err != nil {
			return nil, infer.Invalid("chat_template_kwargs", "%q: %v", n, err)
		}
		vars = append(vars, binding{n, v})
	}
	return vars, nil
}

// reserved are variables that only the engine sets.
var reserved = map[string]bool{"messages": true, "tools": true, "add_generation_prompt": true, "bos_token": true, "eos_token": true,
	"raise_exception": true, "strftime_now": true, "range": true, "namespace": true, "dict": true, "joiner": true, "loop": true}

func (f forms) message(m *infer.Message) (value, error) {
	d := newDict(4)
	d.user = true
	role := m.Role
	switch role {
	case infer.RoleDeveloper:
		role = infer.RoleSystem
	case infer.RoleSystem, infer.RoleUser, infer.RoleAssistant, infer.RoleTool:
	default:
		return nil, infer.Invalid("messages", "unknown role")
	}
	// Roles come from this closed set, so they may count as the template's own.
	d.set(own("role"), own(string(role)))
	content, err := f.content(m)
	if err != nil {
		return nil, err
	}
	d.set(own("content"), content)
	if m.Name != "" {
		d.set(own("name"), fromUser(m.Name))
	}
	if m.Reasoning != "" {
		d.set(own("reasoning_content"), fromUser(m.Reasoning))
	}
	if len(m.ToolCalls) > 0 {
		calls := &list{user: true, items: make([]value, len(m.ToolCalls))}
		for i := range m.ToolCalls {
			calls.items[i] = f.toolCall(&m.ToolCalls[i])
		}
		d.set(own("tool_calls"), calls)
	}
	if m.ToolCallID != "" {
		d.set(own("tool_call_id"), fromUser(f.callID(m.ToolCallID)))
	}
	return d, nil
}

// content gives text as a string, several parts as a list where the template
// takes one.
func (f forms) content(m *infer.Message) (value, error) {
	for i := range m.Content {
		if t := m.Content[i].Type; t != "text" && t != "" {
			return nil, infer.Unsupported("messages", "this model takes text only, got a part of another type")
		}
	}
	if len(m.Content) == 0 && len(m.ToolCalls) > 0 && f.callsNone {
		return none{}, nil
	}
	if !f.partsOnly && !(f.parts && len(m.Content) > 1) {
		return fromUser(m.Text()), nil
	}
	l := &list{user: true}
	for i := range m.Content {
		p := newDict(2)
		p.user = true
		p.set(own("type"), own("text"))
		p.set(own("text"), fromUser(m.Content[i].Text))
		l.items = append(l.items, p)
	}
	return l, nil
}

func (f forms) toolCall(c *infer.ToolCall) value {
	fn := newDict(2)
	fn.user = true
	fn.set(own("name"), fromUser(c.Name))
	fn.set(own("arguments"), f.arguments(c.Arguments))
	d := newDict(3)
	d.user = true
	if c.ID != "" {
		d.set(own("id"), fromUser(f.callID(c.ID)))
	}
	d.set(own("type"), own("function"))
	d.set(own("function"), fn)
	return d
}

// arguments gives an object, or the text where it is none or the template
// wants text.
func (f forms) arguments(s string) value {
	if strings.TrimSpace(s) == "" {
		s = "{}"
	}
	if !f.argsString {
		if v, err := decodeJSON([]byte(s)); err == nil {
			if d, ok := v.(*dict); ok {
				return d
			}
		}
	}
	return fromUser(s)
}

const (
	shortIDLength = 9
	alnum         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// callID maps an id to nine letters or digits where the template insists on
// them, the same for a call and its result.
func (f forms) callID(id string) string {
	if !f.shortIDs || isShortID(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	n := new(big.Int).SetBytes(sum[:])
	base, digit := big.NewInt(int64(len(alnum))), new(big.Int)
	out := make([]byte, shortIDLength)
	for i := range out {
		n.DivMod(n, base, digit)
		out[i] = alnum[digit.Int64()]
	}
	return string(out)
}

func isShortID(id string) bool {
	for i := 0; i < len(id); i++ {
		if strings.IndexByte(alnum, id[i]) < 0 {
			return false
		}
	}
	return len(id) == shortIDLength
}

// toolList is the tools in OpenAI's form, none if there are none.
func toolList(tools []infer.Tool) (value, error) {
	if len(tools) == 0 {
		return none{}, nil
	}
	l := &list{user: true, items: make([]value, len(tools))}
	for i := range tools {
		fn := newDict(3)
		fn.user = true
		fn.set(own("name"), fromUser(tools[i].Name))
		if tools[i].Description != "" {
			fn.set(own("description"), fromUser(tools[i].Description))
		}
		params, err := toolParameters(tools[i].Parameters)
		if err != nil {
			return nil, infer.Invalid("tools", "parameters of tool %d: %v", i, err)
		}
		fn.set(own("parameters"), params)
		d := newDict(2)
		d.user = true
		d.set(own("type"), own("function"))
		d.set(own("function"), fn)
		l.items[i] = d
	}
	return l, nil
}

// toolParameters decodes a schema in key order; nil means no parameters.
func toolParameters(raw json.RawMessage) (value, error) {
	if len(raw) == 0 {
		raw = []byte(`{"type": "object", "properties": {}}`)
	}
	return decodeJSON(raw)
}
