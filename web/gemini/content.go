package gemini

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// foreign marks a signature of another provider on its way through a caller that
// speaks this dialect; native marks one of Gemini's on its way through callers
// of other dialects. Signatures are opaque, so the mark is all there is to tell
// whose they are.
const (
	foreign = "hearth:"
	sealed  = "hearth-sealed:" // a redacted block
	native  = wire.SealGemini
)

// content reads one turn. Results of functions become turns of their own, since
// a user's content may hold both.
func (d *decoder) content(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("a content, which is an object")
	}
	role, parts, has := "", jsonread.Value{}, false
	err := members(v, func(key string, m jsonread.Value) (err error) {
		switch key {
		case "role":
			role, err = m.Str()
			return err
		case "parts":
			parts, has = m, true
			return nil
		}
		return d.unknown(m)
	})
	if err != nil {
		return err
	}
	t := turn{d: d}
	switch role {
	case "", "user", "function", "tool":
		t.m.Role = infer.RoleUser
	case "model":
		t.m.Role = infer.RoleAssistant
	default:
		return v.Errorf("cannot use %s.role: got %q, wanted user or model", v.Path(), jsonread.Shorten(role, 40))
	}
	if !has {
		return v.Errorf("cannot use %s: got no parts", v.Path())
	}
	if err := each(parts, maxParts, t.part); err != nil {
		return err
	}
	t.flush()
	return nil
}

// system reads the instruction, a content whose role does not count.
func (d *decoder) system(v jsonread.Value) error {
	m := infer.Message{Role: infer.RoleSystem}
	if v.Kind() == jsonread.String {
		s, err := v.Str()
		m.Content = []infer.Part{{Type: "text", Text: s}}
		d.r.Messages = append([]infer.Message{m}, d.r.Messages...)
		return err
	}
	t := turn{d: d, m: m}
	err := members(v, func(key string, p jsonread.Value) error {
		switch key {
		case "role":
			return nil
		case "parts":
			return each(p, maxParts, t.part)
		}
		return d.unknown(p)
	})
	if err == nil && len(t.m.Content) > 0 {
		d.r.Messages = append([]infer.Message{t.m}, d.r.Messages...)
	}
	return err
}

// turn is a content that is being read.
type turn struct {
	d *decoder
	m infer.Message
}

// flush ends the message that is being built.
func (t *turn) flush() {
	m := &t.m
	if len(m.Content) > 0 || len(m.ToolCalls) > 0 || len(m.Thoughts) > 0 || m.Role == infer.RoleAssistant {
		t.d.r.Messages = append(t.d.r.Messages, *m)
	}
	t.m = infer.Message{Role: m.Role}
}

// part is one Part. It has one kind of data and remarks beside it.
type part struct {
	kind      string
	v         jsonread.Value
	thought   bool
	signature string
	sigAt     jsonread.Value
	detail    *jsonread.Value // mediaResolution
}

// part reads one part.
func (t *turn) part(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("a part, which is an object")
	}
	var p part
	err := members(v, func(key string, m jsonread.Value) (err error) {
		switch key {
		case "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			if p.kind != "" {
				return v.Errorf("cannot use %s: got both %s and %s, wanted one kind of data", v.Path(), p.kind, key)
			}
			p.kind, p.v = key, m
			return nil
		case "thought":
			p.thought, err = m.Bool()
			return err
		case "thoughtSignature":
			p.sigAt = m
			return str(&p.signature, m, maxText)
		case "mediaResolution":
			p.detail = &m
			return nil
		case "partMetadata":
			t.d.use(infer.FeatureBeta, m)
			return nil
		}
		return t.d.unknown(m)
	})
	if err != nil {
		return err
	}
	return t.data(v, &p)
}

// data takes what a part holds.
func (t *turn) data(v jsonread.Value, p *part) error {
	callID := ""
	switch p.kind {
	case "text":
		s, err := p.v.Str()
		if err != nil {
			return err
		}
		if p.thought {
			t.thought(p, s)
			return nil
		}
		if s != "" || p.signature == "" {
			t.m.Content = append(t.m.Content, infer.Part{Type: "text", Text: s})
		}
	case "inlineData", "fileData":
		part, err := t.d.media(p.v)
		if err != nil {
			return err
		}
		if p.detail != nil {
			if part.Detail, err = t.d.resolution(*p.detail); err != nil {
				return err
			}
		}
		t.m.Content = append(t.m.Content, part)
	case "functionCall":
		id, err := t.call(p.v)
		if err != nil {
			return err
		}
		callID = id
	case "functionResponse":
		return t.result(p.v)
	case "":
		if p.signature == "" {
			return nil // an empty part says nothing
		}
	default: // what the provider's own tools did
		t.d.use(infer.FeatureToolCallHosted, p.v)
		return nil
	}
	if p.signature != "" {
		t.d.use(infer.FeatureThoughtSignature, p.sigAt)
		sig, red := inSignature(p.signature)
		t.m.Thoughts = append(t.m.Thoughts, infer.Thought{Signature: sig, Redacted: red, ID: callID})
	}
	return nil
}

// thought takes readable reasoning of an earlier turn.
func (t *turn) thought(p *part, text string) {
	if text != "" {
		t.d.use(infer.FeatureThought, p.v)
	}
	t.m.Reasoning += text
	var th infer.Thought
	if p.signature != "" {
		t.d.use(infer.FeatureThoughtSignature, p.sigAt)
		th.Signature, th.Redacted = inSignature(p.signature)
	}
	// Pieces of a stream come back as pieces; the seal is on the last.
	if n := len(t.m.Thoughts); n > 0 && th.Redacted == "" {
		if last := &t.m.Thoughts[n-1]; last.Signature == "" && last.Redacted == "" {
			last.Text += text
			last.Signature = th.Signature
			return
		}
	}
	th.Text = text
	t.m.Thoughts = append(t.m.Thoughts, th)
}

// inSignature is the signature that a caller sends, with the mark of its maker,
// or the sealed block that it stands for.
func inSignature(s string) (signature, redacted string) {
	if b, ok := unbase64(s); ok {
		if theirs, ok := bytes.CutPrefix(b, []byte(foreign)); ok {
			return string(theirs), ""
		}
		if theirs, ok := bytes.CutPrefix(b, []byte(sealed)); ok {
			return "", string(theirs)
		}
	}
	return native + s, ""
}

// outSignature is the reverse: what a caller of this dialect is given.
func outSignature(s string) string {
	if own, ok := strings.CutPrefix(s, native); ok {
		return own
	}
	return base64.StdEncoding.EncodeToString([]byte(foreign + s))
}

// outSealed is a sealed block as a signature.
func outSealed(s string) string {
	return base64.StdEncoding.EncodeToString([]byte(sealed + s))
}

// call reads a functionCall. Ids are optional on this wire; one that is missing
// is made from its place, so that its result can name it.
func (t *turn) call(v jsonread.Value) (string, error) {
	if t.m.Role != infer.RoleAssistant {
		return "", v.Errorf("cannot use %s: only a turn of the model may call a function", v.Path())
	}
	c := infer.ToolCall{Arguments: "{}"}
	err := members(v, func(key string, m jsonread.Value) error {
		switch key {
		case "id":
			return str(&c.ID, m, maxShort)
		case "name":
			return str(&c.Name, m, maxToolName)
		case "args":
			if m.Kind() != jsonread.Object {
				return m.Wrong("an object")
			}
			c.Arguments = string(m.Raw())
			return nil
		}
		return t.d.unknown(m)
	})
	if err != nil {
		return "", err
	}
	if c.Name == "" {
		return "", v.Errorf("cannot use %s: got no name", v.Path())
	}
	if len(t.m.ToolCalls) == maxTools {
		return "", v.Errorf("cannot use %s: got more than %d calls in one turn", v.Path(), maxTools)
	}
	t.d.calls++
	if c.ID == "" {
		c.ID = "call_" + strconv.Itoa(t.d.calls)
	}
	t.m.ToolCalls = append(t.m.ToolCalls, c)
	if len(t.d.open) == maxOpen {
		t.d.open = t.d.open[1:]
	}
	t.d.open = append(t.d.open, openCall{c.ID, c.Name})
	return c.ID, nil
}

// result reads a functionResponse as a turn of its own. Without an id it answers
// the first open call of that name.
func (t *turn) result(v jsonread.Value) error {
	if t.m.Role != infer.RoleUser {
		return v.Errorf("cannot use %s: a turn of the model cannot answer a function call", v.Path())
	}
	m := infer.Message{Role: infer.RoleTool}
	err := members(v, func(key string, f jsonread.Value) error {
		switch key {
		case "id":
			return str(&m.ToolCallID, f, maxShort)
		case "name":
			return str(&m.Name, f, maxToolName)
		case "response":
			text, failed, err := resultText(f)
			if failed {
				t.d.use(infer.FeatureToolResultError, f)
			}
			m.Content = append([]infer.Part{{Type: "text", Text: text}}, m.Content...)
			m.ToolError = failed
			return err
		case "parts":
			t.d.use(infer.FeatureToolResultMedia, f)
			return each(f, maxParts, func(p jsonread.Value) error {
				return members(p, func(kind string, b jsonread.Value) error {
					if kind != "inlineData" && kind != "fileData" {
						return t.d.unknown(b)
					}
					part, err := t.d.media(b)
					m.Content = append(m.Content, part)
					return err
				})
			})
		}
		return t.d.unknown(f)
	})
	if err != nil {
		return err
	}
	if m.Name == "" && m.ToolCallID == "" {
		return v.Errorf("cannot use %s: got no name", v.Path())
	}
	t.d.answer(&m)
	t.flush()
	t.d.r.Messages = append(t.d.r.Messages, m)
	return nil
}

// answer finds the call that a result belongs to.
func (d *decoder) answer(m *infer.Message) {
	for i, c := range d.open {
		if m.ToolCallID == c.id || m.ToolCallID == "" && c.name == m.Name {
			m.ToolCallID, m.Name = c.id, c.name
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
	if m.ToolCallID == "" {
		d.calls++
		m.ToolCallID = "call_" + strconv.Itoa(d.calls)
	}
}

// resultText is a result as text. The API asks for an object with the key output
// (the clients write result) or error; one that holds a string and nothing else
// is that string.
func resultText(v jsonread.Value) (text string, failed bool, err error) {
	if v.Kind() != jsonread.Object {
		return "", false, v.Wrong("an object")
	}
	n, only := 0, ""
	err = v.Members(func(key string, m jsonread.Value) (err error) {
		n++
		failed = key == "error" && !m.IsNull()
		if m.Kind() == jsonread.String && (key == "output" || key == "result" || key == "error") {
			only, err = m.Str()
		} else {
			n += 2
		}
		return err
	})
	if n == 1 {
		return only, failed, err
	}
	return string(v.Raw()), failed && n <= 3, err
}

// media reads a Blob or a FileData.
func (d *decoder) media(v jsonread.Value) (infer.Part, error) {
	var p infer.Part
	err := members(v, func(key string, m jsonread.Value) (err error) {
		switch key {
		case "mimeType":
			return str(&p.MIME, m, 256)
		case "data":
			p.Data, err = bytesOf(m)
			return err
		case "fileUri":
			return str(&p.URL, m, 1<<16)
		case "displayName":
			return str(&p.Name, m, maxShort)
		}
		return d.unknown(m)
	})
	if err != nil {
		return p, err
	}
	if len(p.Data) == 0 && p.URL == "" {
		return p, v.Errorf("cannot use %s: got no data", v.Path())
	}
	if p.Data != nil && p.MIME == "" {
		return p, v.Errorf("cannot use %s: got no mimeType", v.Path())
	}
	kind, _, _ := strings.Cut(p.MIME, "/")
	switch {
	case p.URL != "" && (stored(p.URL) || kind == "audio" || kind == "video"):
		// What is kept at Google nobody else can open, and nobody else takes sound
		// or film by its address.
		if p.Type, p.Stored = "file", true; kind == "image" || kind == "audio" || kind == "video" {
			p.Type = kind
		}
		d.use(infer.FeatureFileStored, v)
	case p.URL != "" && kind != "image":
		p.Type = "file"
		d.use(infer.FeatureFileURL, v)
	case kind == "image" && p.URL != "":
		p.Type = "image"
		d.use(infer.FeatureImageURL, v)
	case kind == "image":
		p.Type = "image"
		d.use(infer.FeatureImageData, v)
	case kind == "audio":
		p.Type = "audio"
		d.use(infer.FeatureAudio, v)
	case kind == "video":
		p.Type = "video"
		d.use(infer.FeatureVideo, v)
	default:
		p.Type = "file"
		d.use(infer.FeatureFile, v)
	}
	return p, nil
}

// resolution reads a media resolution: a word, or an object with one, as image
// detail is told elsewhere.
func (d *decoder) resolution(v jsonread.Value) (detail string, err error) {
	w := v
	if v.Kind() == jsonread.Object {
		level, ok := v.Get("level")
		if !ok {
			return "", d.unknown(v)
		}
		w = level
	}
	s, err := word(w)
	if err != nil {
		return "", err
	}
	switch {
	case strings.HasSuffix(s, "_LOW"):
		detail = "low"
	case strings.HasSuffix(s, "_HIGH"): // ULTRA_HIGH too
		detail = "high"
	case strings.HasSuffix(s, "UNSPECIFIED"):
		return "", nil
	}
	d.use(infer.FeatureImageDetail, v)
	return detail, nil
}

// stored tells whether a URI names a file kept at Google, which nobody else can
// open.
func stored(uri string) bool {
	return uri != "" && (!strings.HasPrefix(uri, "https://") && !strings.HasPrefix(uri, "http://") ||
		strings.HasPrefix(uri, "https://generativelanguage.googleapis.com/"))
}
