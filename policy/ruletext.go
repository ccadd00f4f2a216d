package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"hearth/engine/infer"
)

// textVisitor is called with every text of a request. What it gives back stands
// in its place; where the text cannot be replaced (fixed), that is not looked at.
type textVisitor func(s string, fixed bool) string

// visit calls f with every text of r and returns a copy with what f gave, or r
// itself if that changed nothing.
func visit(r *infer.Request, f textVisitor) *infer.Request {
	v := visitor{f: f}
	own := *r
	own.Messages = each(&v, r.Messages, v.message)
	own.Tools = each(&v, r.Tools, v.tool)
	own.Prompts = each(&v, r.Prompts, func(p infer.Prompt) infer.Prompt {
		p.Text = v.text(p.Text)
		return p
	})
	own.Suffix = v.text(r.Suffix)
	own.Format.Schema = v.json(r.Format.Schema)
	v.fixed(r.Format.Name, r.Format.Pattern, r.Format.Grammar)
	v.fixed(r.Format.Choices...)
	v.fixed(r.Sampling.Stop...)
	own.Hints.User = v.text(r.Hints.User)
	own.Hints.Metadata = v.json(r.Hints.Metadata)
	for _, raw := range r.TemplateArgs {
		v.only(raw)
	}
	if !v.changed {
		return r
	}
	own.Wire = nil
	return &own
}

type visitor struct {
	f       textVisitor
	changed bool
}

// each maps a list; it is the same list if nothing in it was changed.
func each[T any](v *visitor, list []T, f func(T) T) []T {
	before := v.changed
	v.changed = false
	var out []T
	for i, x := range list {
		y := f(x)
		if v.changed && out == nil {
			out = slices.Clone(list)
		}
		if out != nil {
			out[i] = y
		}
	}
	v.changed = v.changed || before
	if out == nil {
		return list
	}
	return out
}

func (v *visitor) text(s string) string {
	if s == "" {
		return s
	}
	out := v.f(s, false)
	v.changed = v.changed || out != s
	return out
}

func (v *visitor) fixed(list ...string) {
	for _, s := range list {
		if s != "" {
			v.f(s, true)
		}
	}
}

func (v *visitor) message(m infer.Message) infer.Message {
	v.fixed(m.Name)
	m.Content = each(v, m.Content, v.part)
	m.Reasoning = v.text(m.Reasoning)
	m.ToolCalls = each(v, m.ToolCalls, func(c infer.ToolCall) infer.ToolCall {
		v.fixed(c.Name)
		c.Arguments = string(v.loose([]byte(c.Arguments)))
		return c
	})
	m.Thoughts = each(v, m.Thoughts, func(t infer.Thought) infer.Thought {
		if text := v.text(t.Text); text != t.Text {
			t.Text, t.Signature = text, "" // the seal was for what it said
		}
		return t
	})
	return m
}

func (v *visitor) part(p infer.Part) infer.Part {
	p.Text = v.text(p.Text)
	v.fixed(p.Name)
	if !strings.HasPrefix(p.URL, "data:") {
		v.fixed(p.URL)
	}
	if strings.HasPrefix(p.MIME, "text/") || p.MIME == "application/json" {
		if text := v.text(string(p.Data)); text != string(p.Data) {
			p.Data = []byte(text)
		}
	}
	return p
}

func (v *visitor) tool(t infer.Tool) infer.Tool {
	v.fixed(t.Name)
	t.Description = v.text(t.Description)
	t.Parameters = v.json(t.Parameters)
	if t.Custom != nil {
		own := *t.Custom
		own.Description, own.Definition = v.text(own.Description), v.text(own.Definition)
		t.Custom = &own
	}
	return t
}

// loose is json for text that may be no JSON.
func (v *visitor) loose(raw []byte) []byte {
	if len(raw) == 0 {
		return raw
	}
	if json.Valid(raw) {
		return v.json(raw)
	}
	return []byte(v.text(string(raw)))
}

// json visits the texts and numbers inside a JSON value. A number that is
// replaced becomes a text. Everything else stays byte for byte.
func (v *visitor) json(raw json.RawMessage) json.RawMessage {
	out, last := []byte(nil), 0
	for i := 0; i < len(raw); {
		end := scalarEnd(raw, i)
		if end == i {
			i++
			continue
		}
		was := string(raw[i:end])
		if raw[i] == '"' {
			was = unquoted(raw[i:end])
		}
		if is := v.text(was); is != was {
			out = append(append(out, raw[last:i]...), jsonText(is)...)
			last = end
		}
		i = end
	}
	if out == nil {
		return raw
	}
	return append(out, raw[last:]...)
}

// unquoted is the text of a JSON string, empty if it is none.
func unquoted(raw []byte) (s string) {
	if bytes.IndexByte(raw, '\\') < 0 && len(raw) > 1 {
		return string(raw[1 : len(raw)-1])
	}
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// scalarEnd is the end of the text or number that begins at i; i: none does.
func scalarEnd(raw []byte, i int) int {
	if c := raw[i]; c == '-' || isDigit(c) {
		end := i + 1
		for end < len(raw) && (isDigit(raw[end]) || bytes.IndexByte([]byte("+-.eE"), raw[end]) >= 0) {
			end++
		}
		return end
	} else if c != '"' {
		return i
	}
	for end := i + 1; end < len(raw); end++ {
		switch raw[end] {
		case '\\':
			end++
		case '"':
			return end + 1
		}
	}
	return len(raw)
}

func jsonText(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// only visits what is not rewritten.
func (v *visitor) only(raw json.RawMessage) {
	own := visitor{f: func(s string, _ bool) string { v.f(s, true); return s }}
	own.json(raw)
}

// inBody counts the matches in the body of a request as it came: in every text,
// number and name of it, whether a decoder knows the field or not, for all of it
// goes to a provider of the same dialect.
func (t *textRule) inBody(w *infer.Wire) (count int) {
	if w == nil {
		return 0
	}
	name := ""
	v := visitor{}
	v.f = func(s string, _ bool) string {
		if mediaMembers[name] && encoded(s) {
			return s // there may be more of them, in a list
		}
		_, n := t.find(s)
		count += n
		name = s // of the value behind it, if s is a name
		return s
	}
	v.json(w.Body)
	return count
}

// mediaMembers are the members in which the dialects have media and seals in
// base64: nothing can be found there but by chance.
var mediaMembers = map[string]bool{
	"data": true, "file_data": true, "fileData": true, "url": true, "image_url": true, "images": true, "bytes": true, "signature": true, "encrypted_content": true,
	"encrypted_index": true, "thoughtSignature": true, "thought_signature": true,
}

// encoded says that s is base64, in either alphabet, with or without the head of
// a data: URL.
func encoded(s string) bool {
	if strings.HasPrefix(s, "data:") {
		_, s, _ = strings.Cut(s, ";base64,")
	}
	return len(s) >= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("+/-_=", r))
	})
}

// find gives the number of matches in s, and s with each replaced.
func (t *textRule) find(s string) (out string, count int) {
	b := []byte(s)
	var changed []byte
	from := 0
	for {
		start, end, _ := t.finder.find(b, from, true)
		if start < 0 {
			break
		}
		count++
		if t.action == actionRedact {
			changed = append(append(changed, b[from:start]...), t.replacement...)
		}
		from = end
	}
	if changed == nil {
		return s, count
	}
	return string(append(changed, b[from:]...)), count
}

// examine looks for the rule's matches in a request.
func (t *textRule) examine(e *examination) error {
	if t.action != actionTag && slices.ContainsFunc(e.r.Prompts, func(p infer.Prompt) bool { return p.Tokens != nil }) {
		return infer.Unsupported("prompt", "a prompt of token ids is not offered by this model, since its requests are looked through (rule %q)", t.name)
	}
	count, stuck := 0, 0
	r := visit(e.r, func(s string, fixed bool) string {
		out, n := t.find(s)
		count += n
		if fixed {
			stuck += n
			return s
		}
		return out
	})
	count = max(count, t.inBody(e.r.Wire))
	switch {
	case count == 0:
		return nil
	case t.action == actionDeny, t.action == actionRedact && stuck > 0:
		e.decide(t.name, actionDeny, count)
		return denied(infer.CodeForbidden, t.name, "", "the request holds what this model may not be sent")
	case t.action == actionRedact:
		// Fields that nobody here knows are left out with the bytes they are in.
		own := *r
		own.Wire = nil
		e.r = &own
	}
	e.decide(t.name, t.action, count)
	return nil
}

// normalizer joins what a route does to text; nil: nothing.
func normalizer(names []string) func(string) string {
	if len(names) == 0 {
		return nil
	}
	return func(s string) string {
		for _, n := range names {
			switch n {
			case normalNewlines:
				s = newlines.Replace(s)
			case normalTrim:
				s = strings.TrimSpace(s)
			case normalNFC:
				s = norm.NFC.String(s)
			}
		}
		return s
	}
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// normalize changes the text of turns and prompts; declarations, arguments and
// labels stay as they are.
func (e *examination) normalize(f func(string) string) {
	v := visitor{f: func(s string, _ bool) string { return f(s) }}
	own := *e.r
	own.Messages = each(&v, e.r.Messages, func(m infer.Message) infer.Message {
		m.Content = each(&v, m.Content, func(p infer.Part) infer.Part {
			p.Text = v.text(p.Text)
			return p
		})
		return m
	})
	own.Prompts = each(&v, e.r.Prompts, func(p infer.Prompt) infer.Prompt {
		p.Text = v.text(p.Text)
		return p
	})
	if v.changed {
		own.Wire = nil
		e.r = &own
	}
}
