package bedrock

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// conversation arranges the messages of another dialect by Converse's rules:
// roles alternate, beginning with the user; results of tools come first in the
// user's turn; the system prompt is apart; no text is blank.
type conversation struct {
	system []byte // blocks
	turns  []turn
	called []string // names of tools that earlier turns called
	files  map[string]int
}

// turn is one turn: blocks as JSON, separated by commas.
type turn struct {
	role    string
	results []byte // toolResult blocks
	blocks  []byte
	file    bool // there is a document
	text    bool
}

// Words that stand for what Converse cannot be told otherwise.
const (
	jsonWords   = "Answer with one JSON object and nothing else: no text before or after it, and no code fence around it."
	noneWords   = "Do not call any tool in this answer."
	serialWords = "Call at most one tool in this answer."
)

func (c *conversation) read(r *infer.Request) error {
	for i := range r.Messages {
		if err := c.message(&r.Messages[i], i); err != nil {
			return err
		}
	}
	if r.Format.Kind == infer.FormatJSONObject {
		c.system = block(c.system, text(nil, jsonWords))
	}
	if len(c.turns) == 0 {
		if len(c.system) == 0 {
			return infer.Invalid("messages", "cannot answer an empty conversation: got no messages with content")
		}
		c.turns, c.system = []turn{{role: "user", blocks: c.system, text: true}}, nil
	}
	if c.turns[0].role != "user" {
		// A conversation begins with the user; an opening turn of the assistant
		// is given a beginning that says nothing.
		c.turns = append([]turn{{role: "user", blocks: text(nil, "(The conversation begins.)"), text: true}}, c.turns...)
	}
	if r.ContinueFinalMessage {
		c.trimEnd()
	}
	return nil
}

// block appends a block to others.
func block(dst, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, b...)
}

// text appends a text block; blank text makes none.
func text(dst []byte, s string) []byte {
	if strings.TrimSpace(s) == "" {
		return dst
	}
	return append(jsonwrite.String(append(dst, `{"text":`...), s), '}')
}

// turn is the turn that content of a role goes to.
func (c *conversation) turn(role string) *turn {
	if n := len(c.turns); n == 0 || c.turns[n-1].role != role {
		c.turns = append(c.turns, turn{role: role})
	}
	return &c.turns[len(c.turns)-1]
}

func (c *conversation) message(m *infer.Message, i int) error {
	switch m.Role {
	case infer.RoleSystem, infer.RoleDeveloper:
		c.systemMessage(m)
		return nil
	case infer.RoleTool:
		return c.result(m, i)
	case infer.RoleAssistant:
		return c.assistant(m, i)
	}
	blocks, has, err := c.parts(m.Content, i)
	if err != nil || len(blocks) == 0 {
		return err
	}
	t := c.turn("user")
	t.blocks = block(t.blocks, blocks)
	t.file, t.text = t.file || has.file, t.text || has.text
	return nil
}

// systemMessage hoists a system message at the head. Later ones keep their place
// as a marked turn of the user: to hoist them would change what they refer to,
// and what has been cached.
func (c *conversation) systemMessage(m *infer.Message) {
	if len(c.turns) == 0 {
		for i := range m.Content {
			p := &m.Content[i]
			b := text(nil, p.Text)
			c.system = block(c.system, b)
			if len(b) > 0 {
				c.system = block(c.system, cachePoint(nil, p.Cache))
			}
		}
		return
	}
	if words := strings.TrimSpace(m.Text()); words != "" {
		t := c.turn("user")
		t.blocks = block(t.blocks, text(nil, "<system>\n"+words+"\n</system>"))
		t.text = true
		if n := len(m.Content); n > 0 {
			t.blocks = block(t.blocks, cachePoint(nil, m.Content[n-1].Cache))
		}
	}
}

func cachePoint(dst []byte, ttl string) []byte {
	switch ttl {
	case "":
		return dst
	case "1h":
		return append(dst, `{"cachePoint":{"type":"default","ttl":"1h"}}`...)
	}
	return append(dst, `{"cachePoint":{"type":"default"}}`...)
}

// result makes a toolResult block. A cache mark inside goes behind it.
func (c *conversation) result(m *infer.Message, i int) error {
	var parts []infer.Part
	mark := ""
	for _, p := range m.Content {
		if p.Cache != "" {
			mark, p.Cache = p.Cache, ""
		}
		parts = append(parts, p)
	}
	content, _, err := c.parts(parts, i)
	if err != nil {
		return err
	}
	b := append([]byte(nil), `{"toolResult":{"toolUseId":`...)
	b = jsonwrite.String(b, toolID(m.ToolCallID))
	b = append(append(append(b, `,"content":[`...), content...), ']')
	if m.ToolError {
		b = append(b, `,"status":"error"`...)
	}
	b = append(b, "}}"...)
	t := c.turn("user")
	t.results = block(block(t.results, b), cachePoint(nil, mark))
	return nil
}

func (c *conversation) assistant(m *infer.Message, i int) error {
	var blocks []byte
	for _, th := range m.Thoughts {
		switch {
		case th.ID != "": // of another maker's items
		case th.Redacted != "":
			b := jsonwrite.String([]byte(`{"reasoningContent":{"redactedContent":`), th.Redacted)
			blocks = block(blocks, append(b, "}}"...))
		case th.Signature != "" && !wire.Marked(th.Signature):
			b := jsonwrite.String([]byte(`{"reasoningContent":{"reasoningText":{"text":`), th.Text)
			b = jsonwrite.String(append(b, `,"signature":`...), th.Signature)
			blocks = block(blocks, append(b, "}}}"...))
		}
	}
	content, has, err := c.parts(m.Content, i)
	if err != nil {
		return err
	}
	blocks = block(blocks, content)
	for k := range m.ToolCalls {
		call := &m.ToolCalls[k]
		c.called = append(c.called, call.Name)
		b := jsonwrite.String([]byte(`{"toolUse":{"toolUseId":`), toolID(call.ID))
		b = jsonwrite.String(append(b, `,"name":`...), call.Name)
		b = append(append(b, `,"input":`...), input(call.Arguments)...)
		blocks = block(blocks, append(b, "}}"...))
	}
	if len(blocks) == 0 {
		return nil
	}
	t := c.turn("assistant")
	t.blocks = block(t.blocks, blocks)
	t.text = t.text || has.text
	return nil
}

// input is the arguments of an earlier call as the object that Converse wants.
func input(arguments string) []byte {
	if strings.TrimSpace(arguments) == "" {
		return []byte("{}")
	}
	if v, err := jsonread.Parse([]byte(arguments), jsonread.Limits{}); err == nil && v.Kind() == jsonread.Object {
		return v.Raw()
	}
	return append(jsonwrite.String([]byte(`{"input":`), arguments), '}')
}

// toolID makes an id fit the pattern [a-zA-Z0-9_-]{1,64}, the same way for a call
// and its result. Ids that would collide when cut stay apart.
func toolID(id string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
	if len(out) > 64 || out == "" || out != id {
		h := fnv.New64a()
		h.Write([]byte(id))
		out = out[:min(len(out), 44)] + "_" + strconv.FormatUint(h.Sum64(), 16)
	}
	return out
}

// kinds is what parts hold.
type kinds struct{ file, text bool }

func (c *conversation) parts(parts []infer.Part, message int) (dst []byte, has kinds, err error) {
	for i := range parts {
		p := &parts[i]
		var b []byte
		switch {
		case p.Type == "" || p.Type == "text":
			b = text(nil, p.Text)
			has.text = has.text || len(b) > 0
		case p.Type == "image" && len(p.Data) > 0:
			if b, err = image(p, message, i); err != nil {
				return nil, has, err
			}
		case p.Type == "file" && len(p.Data) > 0:
			if b, err = c.document(p, message, i); err != nil {
				return nil, has, err
			}
			has.file = true
		}
		dst = block(dst, b)
		if len(b) > 0 {
			dst = block(dst, cachePoint(nil, p.Cache))
		}
	}
	return dst, has, nil
}

func path(message, part int, field string) string {
	return fmt.Sprintf("messages[%d].content[%d].%s", message, part, field)
}

func image(p *infer.Part, m, i int) ([]byte, error) {
	format, ok := strings.CutPrefix(p.MIME, "image/")
	switch format {
	case "jpg":
		format = "jpeg"
	case "png", "jpeg", "gif", "webp":
	default:
		ok = false
	}
	if !ok {
		return nil, infer.Unsupported(path(m, i, "image"), "cannot send an image of type %.40q to this provider: want PNG, JPEG, GIF or WebP", p.MIME)
	}
	b := append([]byte(`{"image":{"format":"`), format...)
	b = append(b, `","source":{"bytes":"`...)
	b = base64.StdEncoding.AppendEncode(b, p.Data)
	return append(b, `"}}}`...), nil
}

// documentFormats are Converse's words for types of documents.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "application/msword": "doc", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

// document makes a document block. Names must be unique in a request and made of
// letters, digits, single spaces, hyphens, parentheses and brackets.
func (c *conversation) document(p *infer.Part, m, i int) ([]byte, error) {
	kind, _, _ := strings.Cut(p.MIME, ";")
	format := documentFormats[strings.TrimSpace(kind)]
	if dot := strings.LastIndexByte(p.Name, '.'); format == "" && dot >= 0 {
		ext := strings.ToLower(p.Name[dot+1:])
		for _, f := range documentFormats {
			if f == ext {
				format = ext
			}
		}
	}
	if format == "" {
		return nil, infer.Unsupported(path(m, i, "file"), "cannot send a file of type %.60q to this provider: want PDF, text, HTML, Markdown, CSV, Word or Excel", p.MIME)
	}
	name := documentName(p.Name)
	if c.files == nil {
		c.files = map[string]int{}
	}
	c.files[name]++
	if n := c.files[name]; n > 1 {
		name += " (" + strconv.Itoa(n) + ")"
	}
	b := append([]byte(`{"document":{"format":"`), format...)
	b = jsonwrite.String(append(b, `","name":`...), name)
	b = append(b, `,"source":{"bytes":"`...)
	b = base64.StdEncoding.AppendEncode(b, p.Data)
	return append(b, `"}}}`...), nil
}

func documentName(s string) string {
	if dot := strings.LastIndexByte(s, '.'); dot > 0 {
		s = s[:dot]
	}
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" -()[]", r) {
			return r
		}
		return '-'
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if s = s[:min(len(s), 150)]; s == "" {
		return "document"
	}
	return s
}

// trimEnd takes white space off the end of an answer that is to be continued,
// which Claude refuses.
func (c *conversation) trimEnd() {
	t := &c.turns[len(c.turns)-1]
	const end = `"}`
	if t.role != "assistant" || !strings.HasSuffix(string(t.blocks), end) {
		return
	}
	b := string(t.blocks[:len(t.blocks)-len(end)])
	for {
		short := strings.TrimRight(b, " ")
		for _, esc := range []string{`\n`, `\t`, `\r`} {
			// The backslash must not itself be escaped.
			if cut, ok := strings.CutSuffix(short, esc); ok && (len(cut)-len(strings.TrimRight(cut, `\`)))%2 == 0 {
				short = cut
			}
		}
		if short == b {
			break
		}
		b = short
	}
	t.blocks = append([]byte(b), end...)
}

// appendTurns appends the turns. A turn with a document needs a text beside it.
func (c *conversation) appendTurns(dst []byte) []byte {
	for i := range c.turns {
		t := &c.turns[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":"`...), t.role...), `","content":[`...)
		all := block(append([]byte(nil), t.results...), t.blocks)
		if t.file && !t.text {
			all = block(all, text(nil, "(See the document.)"))
		}
		dst = append(append(dst, all...), "]}"...)
	}
	return dst
}
