package openai

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// messages writes the conversation. What a tool gave beside text has no place in
// a tool's turn here; it goes into a user's turn behind the run of results, which
// must stand together.
func (w *requestWriter) messages() error {
	w.key("messages")
	w.b = append(w.b, '[')
	n := 0
	var media []infer.Part
	flush := func() error {
		if len(media) == 0 {
			return nil
		}
		m := infer.Message{Role: infer.RoleUser, Content: media}
		media = nil
		err := w.message(n, &m)
		n++
		return err
	}
	for i := range w.r.Messages {
		m := &w.r.Messages[i]
		if m.Role != infer.RoleTool {
			if err := flush(); err != nil {
				return err
			}
		} else if w.p.has(infer.FeatureToolResultMedia) {
			for _, p := range m.Content {
				if p.Type != "text" && w.kept(&p) {
					media = append(media, p)
				}
			}
		}
		if err := w.message(n, m); err != nil {
			return err
		}
		n++
	}
	if err := flush(); err != nil {
		return err
	}
	w.b = append(w.b, ']')
	last := len(w.r.Messages) - 1
	if name, ok := w.extra(infer.FeaturePrefill); ok && w.r.ContinueFinalMessage && last >= 0 && w.r.Messages[last].Role == infer.RoleAssistant {
		w.raw(name, "true")
		w.raw("add_generation_prompt", "false")
	} else if name, ok := w.extra(infer.FeatureTurnUnopened); ok && !w.r.AddGenerationPrompt && !w.r.ContinueFinalMessage {
		w.raw(name, "false")
	}
	return nil
}

// message writes one turn.
func (w *requestWriter) message(n int, m *infer.Message) error {
	role := string(m.Role)
	if m.Role == infer.RoleDeveloper {
		role = w.p.developer
	}
	w.b = append(comma(w.b, n), `{"role":`...)
	w.b = jsonwrite.String(w.b, role)
	w.b = append(w.b, `,"content":`...)
	if err := w.content(m); err != nil {
		return err
	}
	if m.Name != "" && m.Role != infer.RoleTool && w.p.has(infer.FeatureMessageName) {
		w.b = jsonwrite.String(append(w.b, `,"name":`...), m.Name)
	}
	if m.Role == infer.RoleTool {
		w.b = jsonwrite.String(append(w.b, `,"tool_call_id":`...), m.ToolCallID)
	}
	if m.Role == infer.RoleAssistant && w.p.reasoning != "" {
		if text := thoughtText(m); text != "" {
			w.b = append(append(append(w.b, `,"`...), w.p.reasoning...), `":`...)
			w.b = jsonwrite.String(w.b, text)
		}
	}
	if len(m.ToolCalls) > 0 {
		w.b = append(w.b, `,"tool_calls":[`...)
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			args := c.Arguments
			if args == "" {
				args = "{}"
			}
			w.b = jsonwrite.String(append(comma(w.b, i), `{"id":`...), c.ID)
			w.b = append(w.b, `,"type":"function","function":`...)
			w.b = append(appendFunction(w.b, c.Name, args), '}')
		}
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, '}')
	return nil
}

// thoughtText is the readable reasoning of an earlier turn.
func thoughtText(m *infer.Message) string {
	if m.Reasoning != "" {
		return m.Reasoning
	}
	var b strings.Builder
	for i := range m.Thoughts {
		b.WriteString(m.Thoughts[i].Text)
	}
	return b.String()
}

// kept tells whether a part is sent at all.
func (w *requestWriter) kept(p *infer.Part) bool {
	if p.Stored {
		return false
	}
	switch p.Type {
	case "image":
		if p.URL != "" {
			return w.p.has(infer.FeatureImageURL)
		}
		return w.p.has(infer.FeatureImageData)
	case "audio":
		return len(p.Data) > 0 && w.p.has(infer.FeatureAudio)
	case "file":
		if p.URL != "" {
			return w.p.has(infer.FeatureFileURL)
		}
		return w.p.has(infer.FeatureFile)
	case "video":
		return w.p.has(infer.FeatureVideo)
	}
	return true
}

// content writes a string where the turn is text without marks, else parts.
func (w *requestWriter) content(m *infer.Message) error {
	marks := w.p.has(infer.FeatureCacheBreakpoint)
	plain := true
	for i := range m.Content {
		p := &m.Content[i]
		if p.Type != "text" && m.Role != infer.RoleTool && w.kept(p) || marks && p.Cache != "" {
			plain = false
		}
	}
	switch {
	case plain && len(m.Content) <= 1 || m.Role == infer.RoleTool && !marks:
		return w.plainContent(m)
	case plain && (m.Role == infer.RoleAssistant || m.Role == infer.RoleSystem || m.Role == infer.RoleDeveloper):
		// Not every server takes parts in these turns.
		return w.plainContent(m)
	}
	w.b = append(w.b, '[')
	n := 0
	for i := range m.Content {
		p := &m.Content[i]
		if m.Role == infer.RoleTool && p.Type != "text" || !w.kept(p) {
			continue
		}
		w.b = comma(w.b, n)
		n++
		if err := w.part(p); err != nil {
			return err
		}
		if marks && p.Cache != "" {
			w.b = append(w.b, `,"cache_control":{"type":"ephemeral"`...)
			if p.Cache != "5m" {
				w.b = jsonwrite.String(append(w.b, `,"ttl":`...), p.Cache)
			}
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
	return nil
}

// plainContent writes the text parts as one string.
func (w *requestWriter) plainContent(m *infer.Message) error {
	switch {
	case len(m.Content) == 0 && m.Role == infer.RoleAssistant && len(m.ToolCalls) > 0:
		w.b = append(w.b, "null"...)
		return nil
	case len(m.Content) == 1 && m.Content[0].Type == "text":
		w.b = jsonwrite.String(w.b, m.Content[0].Text)
		return nil
	}
	var texts []string
	for i := range m.Content {
		if p := &m.Content[i]; p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	sep := ""
	if m.Role == infer.RoleTool || m.Role == infer.RoleSystem || m.Role == infer.RoleDeveloper {
		sep = "\n" // separate results and instructions; parts of an answer were one text
	}
	text := strings.Join(texts, sep)
	if m.Role == infer.RoleTool && text == "" && m.ToolError {
		text = "error"
	}
	w.b = jsonwrite.String(w.b, text)
	return nil
}

// part writes one part and leaves its object open.
func (w *requestWriter) part(p *infer.Part) error {
	switch p.Type {
	case "text", "":
		w.b = jsonwrite.String(append(w.b, `{"type":"text","text":`...), p.Text)
		return nil
	case "image":
		w.b = append(w.b, `{"type":"image_url","image_url":{"url":`...)
		w.b = appendData(w.b, p)
		if p.Detail != "" && p.Detail != "auto" && w.p.has(infer.FeatureImageDetail) {
			w.b = jsonwrite.String(append(w.b, `,"detail":`...), p.Detail)
		}
		w.b = append(w.b, '}')
		return nil
	case "audio":
		format := strings.TrimPrefix(p.MIME, "audio/")
		switch format {
		case "x-wav", "wave", "vnd.wave":
			format = "wav"
		case "mpeg":
			format = "mp3"
		}
		w.b = append(w.b, `{"type":"input_audio","input_audio":{"data":"`...)
		w.b = base64.StdEncoding.AppendEncode(w.b, p.Data)
		w.b = jsonwrite.String(append(w.b, `","format":`...), format)
		w.b = append(w.b, '}')
		return nil
	case "file":
		if p.URL != "" {
			return infer.Unsupported("messages", "cannot pass a file by its address to the provider: wanted its data")
		}
		if strings.HasPrefix(p.MIME, "text/") && utf8.Valid(p.Data) {
			w.b = jsonwrite.String(append(w.b, `{"type":"text","text":`...), documentText(p))
			return nil
		}
		name := p.Name
		if name == "" {
			name = "file" + extension(p.MIME)
		}
		w.b = jsonwrite.String(append(w.b, `{"type":"file","file":{"filename":`...), name)
		w.b = appendData(append(w.b, `,"file_data":`...), p)
		w.b = append(w.b, '}')
		return nil
	}
	return infer.Unsupported("messages", "cannot pass content of type %.32q to the provider", p.Type)
}

// documentText is a document of text as text, under its title: a file part may
// hold only what the server can convert, with OpenAI's API PDF.
func documentText(p *infer.Part) string {
	if p.Name == "" {
		return string(p.Data)
	}
	return p.Name + "\n\n" + string(p.Data)
}

// extension is the usual end of a file's name, by which OpenAI tells its kind.
func extension(mime string) string {
	switch mime {
	case "application/pdf":
		return ".pdf"
	case "application/json":
		return ".json"
	}
	return ""
}

// appendData appends the address of a part, or its data as a data: URL.
func appendData(dst []byte, p *infer.Part) []byte {
	if p.URL != "" {
		return jsonwrite.String(dst, p.URL)
	}
	mime := p.MIME
	if mime == "" {
		mime = "application/octet-stream"
	}
	dst = jsonwrite.String(dst, "data:"+mime+";base64,")
	dst = base64.StdEncoding.AppendEncode(dst[:len(dst)-1], p.Data)
	return append(dst, '"')
}

// tools writes the tools and the choice among them.
func (w *requestWriter) tools() {
	tools, choice := w.r.Tools, w.r.ToolChoice
	if choice.Mode == "none" && w.p.class(infer.FeatureToolNone) == infer.Transformed {
		return // a tool that is not declared is not called
	}
	if len(choice.Allowed) > 0 {
		tools = allowedOf(tools, choice.Allowed)
	}
	if len(tools) == 0 {
		return
	}
	w.key("tools")
	w.b = append(w.b, '[')
	for i := range tools {
		w.b = comma(w.b, i)
		w.tool(&tools[i])
	}
	w.b = append(w.b, ']')
	switch choice.Mode {
	case "none":
		w.raw("tool_choice", `"none"`)
	case "required":
		if w.p.has(infer.FeatureToolRequired) {
			w.raw("tool_choice", `"required"`)
		}
	case "function":
		if w.p.has(infer.FeatureToolNamed) {
			w.key("tool_choice")
			w.b = jsonwrite.String(append(w.b, `{"type":"function","function":{"name":`...), choice.Name)
			w.b = append(w.b, "}}"...)
		}
	}
	if !w.r.ParallelToolCalls && w.p.has(infer.FeatureToolSerial) {
		w.raw("parallel_tool_calls", "false")
	}
}

func (w *requestWriter) tool(t *infer.Tool) {
	w.b = jsonwrite.String(append(w.b, `{"type":"function","function":{"name":`...), t.Name)
	if t.Description != "" {
		w.b = jsonwrite.String(append(w.b, `,"description":`...), t.Description)
	}
	if len(t.Parameters) > 0 {
		w.b = append(append(w.b, `,"parameters":`...), t.Parameters...)
	}
	if t.Strict && w.p.has(infer.FeatureToolStrict) {
		w.b = append(w.b, `,"strict":true`...)
	}
	w.b = append(w.b, '}')
	if t.Cache != "" && w.p.has(infer.FeatureCacheBreakpoint) {
		w.b = append(w.b, `,"cache_control":{"type":"ephemeral"}`...)
	}
	w.b = append(w.b, '}')
}

func allowedOf(tools []infer.Tool, names []string) []infer.Tool {
	var out []infer.Tool
	for i := range tools {
		for _, n := range names {
			if tools[i].Name == n {
				out = append(out, tools[i])
				break
			}
		}
	}
	return out
}
