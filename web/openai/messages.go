package openai

import (
	"encoding/base64"
	"fmt"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
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
		return infer.Message{}, err
	}
	t := turn{role: role, v: v, d: d}
	t.m.Role = infer.Role(role)
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
}

func (t *turn) member(key string, v jsonread.Value) error {
	assistant := t.role == "assistant"
	switch key {
	case "role":
		return nil
	case "content":
		return t.setContent(v)
	case "name":
		return setString(&t.m.Name, v, maxToolName)
	case "cache_control": // a hint that other services read
		return nil
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
		return setString(&t.refusal, v, maxGrammar*64)
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
		return setString(&t.m.Reasoning, v, 20<<20)
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
	return v.Unknown()
}

func (t *turn) setToolCalls(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	return v.Items(maxToolCalls, func(_ int, c jsonread.Value) error {
		var call infer.ToolCall
		var fn *jsonread.Value
		err := c.Members(func(key string, m jsonread.Value) (err error) {
			switch key {
			case "id":
				return setString(&call.ID, m, maxSalt)
			case "type":
				if !m.IsNull() {
					_, err = m.Enum("function")
				}
				return err
			case "function":
				fn = &m
				return nil
			case "index": // left over from the pieces of a stream
				return nil
			}
			return m.Unknown()
		})
		switch {
		case err != nil:
			return err
		case fn == nil:
			return c.Errorf("cannot use %s: got no function", c.Path())
		case call.ID == "":
			return c.Errorf("cannot use %s: got no id", c.Path())
		}
		if err := readCall(*fn, &call); err != nil {
			return err
		}
		t.m.ToolCalls = append(t.m.ToolCalls, call)
		return nil
	})
}

// readCall reads {"name", "arguments"}.
func readCall(v jsonread.Value, call *infer.ToolCall) error {
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
		return m.Unknown()
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
	return readCall(v, t.call)
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
			if err == nil {
				t.m.Content = append(t.m.Content, part)
			}
			return err
		})
	}
	return v.Wrong("a string or an array of parts")
}

func (t *turn) part(v jsonread.Value) (infer.Part, error) {
	tv, ok := v.Get("type")
	if !ok {
		if v.Kind() != jsonread.Object {
			return infer.Part{}, v.Wrong("a part, which is an object")
		}
		return infer.Part{}, v.Errorf("cannot use %s: got no type", v.Path())
	}
	var kinds []string
	switch t.role {
	case "user":
		kinds = []string{"text", "image_url", "input_audio", "file"}
	case "assistant":
		kinds = []string{"text", "refusal"}
	default:
		kinds = []string{"text"}
	}
	kind, err := tv.Enum(kinds...)
	if err != nil {
		return infer.Part{}, err
	}
	var arg *jsonread.Value
	err = v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type", "cache_control":
		case kind:
			arg = &m
		case "annotations", "prompt_cache_breakpoint":
			if !m.IsNull() && (m.Kind() != jsonread.Array || !m.Empty()) {
				return m.Unknown()
			}
		default:
			return m.Unknown()
		}
		return nil
	})
	if err == nil && arg == nil {
		err = v.Errorf("cannot use %s: got no %s", v.Path(), kind)
	}
	if err != nil {
		return infer.Part{}, err
	}
	switch kind {
	case "image_url":
		return imagePart(*arg)
	case "input_audio":
		return audioPart(*arg)
	case "file":
		return filePart(*arg)
	}
	s, err := arg.Str()
	return infer.Part{Type: "text", Text: s}, err
}

func imagePart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "image"}
	var url *jsonread.Value
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "url":
			url = &m
			return nil
		case "detail":
			if m.IsNull() {
				return nil
			}
			d, err := m.Enum("auto", "low", "high", "original")
			if err == nil && d != "auto" {
				return m.Unsupported("cannot use %s: only auto is offered", m.Path())
			}
			return err
		}
		return m.Unknown()
	})
	if err == nil && url == nil {
		err = v.Errorf("cannot use %s: got no url", v.Path())
	}
	if err != nil {
		return p, err
	}
	s, err := url.Str()
	if err != nil {
		return p, err
	}
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		p.URL = s
		return p, nil
	}
	p.MIME, p.Data, err = dataURL(*url, s)
	return p, err
}

func audioPart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "audio"}
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "data":
			var s string
			if s, err = m.Str(); err == nil {
				p.Data, err = decodeBase64(m, s)
			}
			return err
		case "format":
			var f string
			f, err = m.Enum("wav", "mp3")
			p.MIME = "audio/" + f
			return err
		}
		return m.Unknown()
	})
	if err == nil && (p.Data == nil || p.MIME == "") {
		err = v.Errorf("cannot use %s: wanted data and format", v.Path())
	}
	return p, err
}

func filePart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "file"}
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "file_data":
			s, err := m.Str()
			if err == nil {
				p.MIME, p.Data, err = dataURL(m, s)
			}
			return err
		case "filename":
			return setString(&p.Text, m, maxSalt)
		case "file_id":
			if m.IsNull() {
				return nil
			}
			return m.Unsupported("cannot use %s: no files are stored here, wanted file_data", m.Path())
		}
		return m.Unknown()
	})
	if err == nil && p.Data == nil {
		err = v.Errorf("cannot use %s: got no file_data", v.Path())
	}
	return p, err
}

// dataURL reads data:MIME;base64,DATA (RFC 2397).
func dataURL(v jsonread.Value, s string) (mime string, data []byte, err error) {
	head, body, ok := strings.Cut(s, ",")
	mime, isData := strings.CutPrefix(head, "data:")
	mime, isBase64 := strings.CutSuffix(mime, ";base64")
	if !ok || !isData || !isBase64 || mime == "" || len(mime) > 128 {
		return "", nil, v.Wrong("an https: URL or a data: URL in base64")
	}
	data, err = decodeBase64(v, body)
	return mime, data, err
}

func decodeBase64(v jsonread.Value, s string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(data) == 0 {
		return nil, v.Errorf("cannot use %s: its base64 is broken or empty", v.Path())
	}
	return data, nil
}
