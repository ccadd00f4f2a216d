package gemini

import (
	"encoding/base64"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// encoder writes a request from its typed fields.
type encoder struct {
	r     *infer.Request
	t     wire.Target
	dst   []byte
	names map[string]string // of calls, by id
}

// request writes a GenerateContentRequest.
func (e *encoder) request() ([]byte, error) {
	e.names = map[string]string{}
	e.dst = append(make([]byte, 0, 1024), `{"contents":[`...)
	if err := e.contents(); err != nil {
		return nil, err
	}
	e.dst = append(e.dst, ']')
	e.instruction()
	e.tools()
	e.config()
	return append(e.dst, '}'), nil
}

func (e *encoder) raw(s string)    { e.dst = append(e.dst, s...) }
func (e *encoder) string(s string) { e.dst = jsonwrite.String(e.dst, s) }

// lead is how many messages at the front make up the instruction. Where there
// are no others the last of them is the turn that is answered.
func (e *encoder) lead() int {
	n := 0
	for n < len(e.r.Messages) && isSystem(e.r.Messages[n].Role) {
		n++
	}
	if n > 0 && n == len(e.r.Messages) {
		n--
	}
	return n
}

func isSystem(r infer.Role) bool { return r == infer.RoleSystem || r == infer.RoleDeveloper }

// instruction writes the system messages at the front. Later ones stay in their
// place, see contents.
func (e *encoder) instruction() {
	n := 0
	for _, m := range e.r.Messages[:e.lead()] {
		for _, p := range m.Content {
			if p.Type != "text" || p.Text == "" {
				continue
			}
			if n++; n == 1 {
				e.raw(`,"systemInstruction":{"parts":[`)
			} else {
				e.raw(",")
			}
			e.raw(`{"text":`)
			e.string(p.Text)
			e.raw("}")
		}
	}
	if n > 0 {
		e.raw("]}")
	}
}

// contents writes the turns. Results of one round of calls stand in one content:
// the API wants as many of them there as there were calls.
func (e *encoder) contents() error {
	ms := e.r.Messages[e.lead():]
	first := true
	for i := 0; i < len(ms); {
		if !first {
			e.raw(",")
		}
		first = false
		m := &ms[i]
		switch {
		case m.Role == infer.RoleTool:
			k := i
			for k < len(ms) && ms[k].Role == infer.RoleTool {
				k++
			}
			e.results(ms[i:k])
			i = k
			continue
		case m.Role == infer.RoleAssistant:
			e.model(m)
		case isSystem(m.Role):
			e.raw(`{"role":"user","parts":[{"text":`)
			e.string("<system>\n" + m.Text() + "\n</system>")
			e.raw("}]}")
		default:
			e.raw(`{"role":"user","parts":[`)
			if e.parts(m.Content, 0) == 0 {
				e.raw(`{"text":""}`)
			}
			e.raw("]}")
		}
		i++
	}
	if first {
		return infer.Invalid("messages", "cannot ask Gemini without a turn: got no messages")
	}
	return nil
}

// parts writes text and media behind n others, and says how many there are then.
func (e *encoder) parts(ps []infer.Part, n int) int {
	for i := range ps {
		p := &ps[i]
		if p.Type != "text" && p.Data == nil && p.URL == "" || p.Type == "text" && p.Text == "" {
			continue
		}
		if n++; n > 1 {
			e.raw(",")
		}
		e.part(p)
	}
	return n
}

func (e *encoder) part(p *infer.Part) {
	switch {
	case p.Type == "text":
		e.raw(`{"text":`)
		e.string(p.Text)
		e.raw("}")
	case p.Data != nil:
		mime := p.MIME
		if mime == "" {
			mime = "application/octet-stream"
		}
		e.raw(`{"inlineData":{"mimeType":`)
		e.string(mime)
		e.raw(`,"data":"`)
		e.dst = base64.StdEncoding.AppendEncode(e.dst, p.Data)
		e.raw(`"}}`)
	default:
		e.raw(`{"fileData":{`)
		if mime := mimeOf(p); mime != "" {
			e.raw(`"mimeType":`)
			e.string(mime)
			e.raw(",")
		}
		e.raw(`"fileUri":`)
		e.string(p.URL)
		e.raw("}}")
	}
}

// mimeOf is the type of a part by URL: as stated, or by what the URL ends in.
func mimeOf(p *infer.Part) string {
	if p.MIME != "" {
		return p.MIME
	}
	u, _, _ := strings.Cut(p.URL, "?")
	switch ext := strings.ToLower(u[strings.LastIndexByte(u, '.')+1:]); ext {
	case "png", "webp", "gif", "heic", "heif":
		return "image/" + ext
	case "jpg", "jpeg":
		return "image/jpeg"
	case "pdf":
		return "application/pdf"
	}
	if p.Type == "image" {
		return "image/jpeg"
	}
	return ""
}

// model writes a turn of the model: its thoughts, text and calls. Gemini's own
// seals stand on the part that they came with: a call known by its id, else the
// first call, else the text.
func (e *encoder) model(m *infer.Message) {
	seals := map[string]string{}
	loose := ""
	n := 0
	e.raw(`{"role":"model","parts":[`)
	comma := func() {
		if n++; n > 1 {
			e.raw(",")
		}
	}
	thoughts := m.Thoughts
	if m.Reasoning != "" && !slices.ContainsFunc(thoughts, func(t infer.Thought) bool { return t.Text != "" }) {
		thoughts = append([]infer.Thought{{Text: m.Reasoning}}, thoughts...)
	}
	for _, t := range thoughts {
		own, isOwn := strings.CutPrefix(t.Signature, native)
		if isOwn && t.ID != "" {
			seals[t.ID] = own
		} else if isOwn {
			loose = own
		}
		if t.Text != "" {
			comma()
			e.raw(`{"text":`)
			e.string(t.Text)
			e.raw(`,"thought":true}`)
		}
	}
	text := m.Text()
	if text != "" || len(m.ToolCalls) == 0 {
		comma()
		e.raw(`{"text":`)
		e.string(text)
		if loose != "" && len(m.ToolCalls) == 0 {
			e.raw(`,"thoughtSignature":`)
			e.string(loose)
		}
		e.raw("}")
	}
	for i := range m.ToolCalls {
		comma()
		seal := seals[m.ToolCalls[i].ID]
		if i == 0 && seal == "" {
			if seal = loose; seal == "" && demandsSeals(e.t.Model) {
				seal = noSeal
			}
		}
		e.call(&m.ToolCalls[i], seal)
	}
	e.raw("]}")
}

// noSeal is what Google's documentation on thought signatures has for calls
// that another model made: from version 3 the first call of a turn is refused
// without a signature.
const noSeal = "skip_thought_signature_validator"

// demandsSeals tells models that refuse a call without a signature.
func demandsSeals(model string) bool { return generation(model) >= 3 }

// generation is the version of a Gemini model by its name; 0: unknown.
func generation(model string) int {
	_, rest, ok := strings.Cut(bare(model), "gemini-")
	if !ok {
		return 0
	}
	n := 0
	for i := 0; i < len(rest) && i < 4 && '0' <= rest[i] && rest[i] <= '9'; i++ {
		n = n*10 + int(rest[i]-'0')
	}
	return n
}

func (e *encoder) call(c *infer.ToolCall, seal string) {
	e.names[c.ID] = c.Name
	e.raw(`{"functionCall":{`)
	if c.ID != "" {
		e.raw(`"id":`)
		e.string(c.ID)
		e.raw(",")
	}
	e.raw(`"name":`)
	e.string(c.Name)
	e.raw(`,"args":`)
	if c.Arguments == "" {
		e.raw("{}")
	} else if isObject(c.Arguments) {
		e.raw(c.Arguments)
	} else { // what a model once wrote that is no object
		e.raw(`{"arguments":`)
		e.string(c.Arguments)
		e.raw("}")
	}
	e.raw("}")
	if seal != "" {
		e.raw(`,"thoughtSignature":`)
		e.string(seal)
	}
	e.raw("}")
}

// results writes the results of one round of calls, and behind them what media
// they hold.
func (e *encoder) results(ms []infer.Message) {
	e.raw(`{"role":"user","parts":[`)
	for i := range ms {
		m := &ms[i]
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"functionResponse":{`)
		if m.ToolCallID != "" {
			e.raw(`"id":`)
			e.string(m.ToolCallID)
			e.raw(",")
		}
		name := e.names[m.ToolCallID]
		if name == "" {
			name = m.Name
		}
		if name == "" {
			name = m.ToolCallID
		}
		e.raw(`"name":`)
		e.string(name)
		e.raw(`,"response":`)
		e.response(m)
		e.raw("}}")
	}
	n := len(ms)
	for i := range ms {
		media := slices.DeleteFunc(slices.Clone(ms[i].Content), func(p infer.Part) bool { return p.Type == "text" })
		n = e.parts(media, n)
	}
	e.raw("]}")
}

// response is a result as the object that the API wants.
func (e *encoder) response(m *infer.Message) {
	text := m.Text()
	switch {
	case m.ToolError:
		e.raw(`{"error":`)
		e.string(text)
		e.raw("}")
	case text != "" && isObject(text):
		e.raw(text)
	default:
		e.raw(`{"result":`)
		e.string(text)
		e.raw("}")
	}
}
