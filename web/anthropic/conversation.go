package anthropic

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// conversation arranges the messages of another dialect by the API's rules:
// roles alternate, so that neighbours of one role are one turn; results of tools
// stand first in the user's turn; the system prompt is apart.
type conversation struct {
	// signed says that thoughts may carry this provider's own signatures.
	signed bool
	system []byte // blocks
	turns  []outTurn
}

// outTurn is one turn: blocks as JSON, separated by commas.
type outTurn struct {
	role    string
	results []byte // tool_result blocks
	blocks  []byte
}

// jsonWords ask for a JSON object where no schema can.
const jsonWords = "Answer with one JSON object and nothing else: no text before or after it, and no code fence around it."

func (c *conversation) read(r *infer.Request) error {
	for i := range r.Messages {
		if err := c.message(&r.Messages[i]); err != nil {
			return err
		}
	}
	if r.ContinueFinalMessage {
		c.trimEnd(r)
	}
	if r.Format.Kind == infer.FormatJSONObject {
		c.system = appendBlock(c.system, appendText(nil, jsonWords))
	}
	if len(c.turns) == 0 {
		// A system prompt alone is a question in other dialects; here a
		// conversation begins with the user.
		if len(c.system) == 0 {
			return infer.Invalid("messages", "cannot answer an empty conversation: got no messages with content")
		}
		c.turns, c.system = []outTurn{{role: "user", blocks: c.system}}, nil
	}
	return nil
}

// appendBlock appends a block to others.
func appendBlock(dst, block []byte) []byte {
	if len(block) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, block...)
}

// turn is the turn that content of a role goes to.
func (c *conversation) turn(role string) *outTurn {
	if n := len(c.turns); n == 0 || c.turns[n-1].role != role {
		c.turns = append(c.turns, outTurn{role: role})
	}
	return &c.turns[len(c.turns)-1]
}

func (c *conversation) message(m *infer.Message) error {
	switch m.Role {
	case infer.RoleSystem, infer.RoleDeveloper:
		return c.systemMessage(m)
	case infer.RoleTool:
		return c.toolMessage(m)
	case infer.RoleAssistant:
		return c.assistantMessage(m)
	}
	blocks, err := appendParts(nil, m.Content)
	if err != nil || len(blocks) == 0 {
		return err
	}
	t := c.turn("user")
	t.blocks = appendBlock(t.blocks, blocks)
	return nil
}

// systemMessage hoists a system message at the head. Later ones keep their place,
// as a marked turn of the user: to hoist them would change what they refer to,
// and what the provider has cached.
func (c *conversation) systemMessage(m *infer.Message) error {
	if len(c.turns) == 0 {
		blocks, err := appendParts(nil, m.Content)
		c.system = appendBlock(c.system, blocks)
		return err
	}
	text := strings.TrimSpace(m.Text())
	if text == "" {
		return nil
	}
	p := infer.Part{Type: "text", Text: "<system>\n" + text + "\n</system>"}
	if n := len(m.Content); n > 0 {
		p.Cache = m.Content[n-1].Cache
	}
	block, err := appendPart(nil, &p)
	t := c.turn("user")
	t.blocks = appendBlock(t.blocks, block)
	return err
}

func (c *conversation) toolMessage(m *infer.Message) error {
	content, err := appendParts(nil, m.Content)
	if err != nil {
		return err
	}
	b := append([]byte(nil), `{"type":"tool_result","tool_use_id":`...)
	b = jsonwrite.String(b, callID(m.ToolCallID))
	if len(content) > 0 {
		b = append(append(append(b, `,"content":[`...), content...), ']')
	}
	if m.ToolError {
		b = append(b, `,"is_error":true`...)
	}
	t := c.turn("user")
	t.results = appendBlock(t.results, append(b, '}'))
	return nil
}

func (c *conversation) assistantMessage(m *infer.Message) error {
	var blocks []byte
	if c.signed {
		for _, th := range m.Thoughts {
			switch {
			case th.Redacted != "" && th.ID == "":
				blocks = appendBlock(blocks, appendRedacted(nil, th.Redacted))
			case th.Signature != "" && th.ID == "" && !wire.Marked(th.Signature):
				blocks = appendBlock(blocks, appendThinking(nil, th.Text, th.Signature))
			}
		}
	}
	content, err := appendParts(nil, m.Content)
	if err != nil {
		return err
	}
	blocks = appendBlock(blocks, content)
	for _, call := range m.ToolCalls {
		call.ID = callID(call.ID)
		blocks = appendBlock(blocks, appendToolUse(nil, call))
	}
	if len(blocks) == 0 {
		return nil
	}
	t := c.turn("assistant")
	t.blocks = appendBlock(t.blocks, blocks)
	return nil
}

// trimEnd takes white space off the end of an answer that is to be continued,
// which the API refuses.
func (c *conversation) trimEnd(r *infer.Request) {
	m := r.Messages[len(r.Messages)-1]
	n := len(m.Content)
	if m.Role != infer.RoleAssistant || n == 0 || len(c.turns) == 0 || c.turns[len(c.turns)-1].role != "assistant" {
		return
	}
	text := m.Content[n-1].Text
	short := strings.TrimRight(text, " \t\r\n")
	if short == text || m.Content[n-1].Type != "text" {
		return
	}
	t := &c.turns[len(c.turns)-1]
	old := appendText(nil, text)
	cut, ok := strings.CutSuffix(string(t.blocks), string(old))
	if !ok {
		return
	}
	t.blocks = []byte(strings.TrimSuffix(cut, ","))
	if short != "" {
		t.blocks = appendBlock(t.blocks, appendText(nil, short))
	}
	if len(t.blocks) == 0 {
		c.turns = c.turns[:len(c.turns)-1]
	}
}

func appendParts(dst []byte, parts []infer.Part) ([]byte, error) {
	for i := range parts {
		b, err := appendPart(nil, &parts[i])
		if err != nil {
			return dst, err
		}
		dst = appendBlock(dst, b)
	}
	return dst, nil
}

// callID makes an id fit the API's pattern, ^[a-zA-Z0-9_-]+$, the same way for a
// call and its result.
func callID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// append appends the members system and messages.
func (c *conversation) append(dst []byte) []byte {
	if len(c.system) > 0 {
		dst = append(append(append(dst, `,"system":[`...), c.system...), ']')
	}
	dst = append(dst, `,"messages":[`...)
	for i := range c.turns {
		t := &c.turns[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":"`...), t.role...), `","content":[`...)
		dst = appendTurn(dst, t.results, t.blocks)
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// appendTurn appends the results and then the other blocks of a turn.
func appendTurn(dst, results, blocks []byte) []byte {
	dst = append(dst, results...)
	if len(results) > 0 && len(blocks) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, blocks...)
}
