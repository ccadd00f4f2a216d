package chattmpl

import (
	"bytes"
	"encoding/json"
	"strings"

	"hearth/engine/infer"
)

// The generic tool syntax, for models whose template knows no tools. The
// definitions stand in the system message; a call is
//
//	<tool_call>{"name": "FUNCTION", "arguments": {…}}</tool_call>
//
// on a line of its own, and its result comes back in a user turn as
//
//	<tool_response>…</tool_response>
//
// All of it is plain text to the tokenizer.
const (
	genericHead = "You can call functions. These are the functions, one a line, as JSON with the JSON Schema of their arguments:\n"
	genericTail = "\nTo call a function, write this on a line of its own, once for each call, and nothing after the last:\n" +
		`<tool_call>{"name": "FUNCTION", "arguments": {"ARGUMENT": VALUE}}</tool_call>` + "\n" +
		"The result comes back inside <tool_response></tool_response>. If no function is needed, answer in plain text."
)

// foldTools rewrites tools, calls and results as text in other turns.
func foldTools(in *Input) error {
	if err := textOnly(in.Messages); err != nil {
		return err
	}
	var out []infer.Message
	folded := false // the last of out is a user turn made of results
	for _, m := range in.Messages {
		switch {
		case m.Role == infer.RoleTool:
			s := "<tool_response>" + m.Text() + "</tool_response>"
			if folded {
				setText(&out[len(out)-1], out[len(out)-1].Text()+"\n"+s)
				continue
			}
			m = infer.Message{Role: infer.RoleUser}
			setText(&m, s)
			folded = true
			out = append(out, m)
			continue
		case m.Role == infer.RoleUser && folded:
			setText(&out[len(out)-1], out[len(out)-1].Text()+"\n\n"+m.Text())
			folded = false
			continue
		case len(m.ToolCalls) > 0:
			setText(&m, callsAsText(&m))
			m.ToolCalls = nil
		}
		folded = false
		out = append(out, m)
	}
	if len(in.Tools) > 0 {
		defs, err := toolsAsText(in.Tools)
		if err != nil {
			return err
		}
		if len(out) > 0 && isSystem(&out[0]) {
			setText(&out[0], out[0].Text()+"\n\n"+defs)
		} else {
			m := infer.Message{Role: infer.RoleSystem}
			setText(&m, defs)
			out = append([]infer.Message{m}, out...)
		}
	}
	in.Messages, in.Tools = out, nil
	return nil
}

func callsAsText(m *infer.Message) string {
	var b strings.Builder
	b.WriteString(m.Text())
	for _, c := range m.ToolCalls {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		arguments := strings.TrimSpace(c.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		b.WriteString(`<tool_call>{"name": ` + jsonString(c.Name) + `, "arguments": ` + arguments + `}</tool_call>`)
	}
	return b.String()
}

func toolsAsText(tools []infer.Tool) (string, error) {
	var b strings.Builder
	b.WriteString(genericHead)
	for i := range tools {
		params := tools[i].Parameters
		if len(params) == 0 {
			params = []byte(`{"type": "object", "properties": {}}`)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, params); err != nil {
			return "", infer.Invalid("tools", "parameters of tool %d: cannot decode JSON: syntax error", i)
		}
		b.WriteString(`{"name": ` + jsonString(tools[i].Name))
		if tools[i].Description != "" {
			b.WriteString(`, "description": ` + jsonString(tools[i].Description))
		}
		b.WriteString(`, "parameters": ` + compact.String() + "}\n")
	}
	b.WriteString(genericTail)
	return b.String(), nil
}

// jsonString quotes s without escaping for HTML.
func jsonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // cannot fail: a string into a buffer
	return strings.TrimSuffix(b.String(), "\n")
}
