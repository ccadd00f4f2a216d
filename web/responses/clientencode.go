package responses

import (
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// sealProvider marks what a provider of this dialect has encrypted, on its way
// through other dialects.
const sealProvider = wire.SealResponses

// requestWriter writes the body of a request from its typed fields.
type requestWriter struct {
	b      []byte
	r      *infer.Request
	custom map[string]bool
	items  int
}

func (w *requestWriter) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *requestWriter) str(name, s string) {
	w.key(name)
	w.b = jsonwrite.String(w.b, s)
}

func (w *requestWriter) raw(name, json string) {
	w.key(name)
	w.b = append(w.b, json...)
}

func (w *requestWriter) int(name string, n int) {
	w.key(name)
	w.b = jsonwrite.Int(w.b, int64(n))
}

// appendRequest writes the body. Of a request that is only counted, what does not
// belong to the prompt is left out.
func appendRequest(dst []byte, r *infer.Request, t wire.Target, count bool) ([]byte, error) {
	w := &requestWriter{b: append(dst, '{'), r: r}
	w.str("model", t.Model)
	rest := r.Messages
	if len(rest) > 0 && rest[0].Role == infer.RoleSystem && onlyText(rest[0].Content) {
		w.str("instructions", rest[0].Text())
		rest = rest[1:]
	}
	for _, tool := range r.Tools {
		if tool.Custom != nil {
			if w.custom == nil {
				w.custom = map[string]bool{}
			}
			w.custom[tool.Name] = true
		}
	}
	w.key("input")
	w.b = append(w.b, '[')
	for i := range rest {
		if err := w.message(&rest[i]); err != nil {
			return nil, err
		}
	}
	w.b = append(w.b, ']')
	w.tools()
	if err := w.text(); err != nil {
		return nil, err
	}
	w.reasoning()
	if !count {
		w.decoding()
		w.hints()
	}
	return append(w.b, '}'), nil
}

func onlyText(parts []infer.Part) bool {
	for i := range parts {
		if parts[i].Type != "text" {
			return false
		}
	}
	return true
}

// item begins an item.
func (w *requestWriter) item(kind string) {
	if w.items++; w.items > 1 {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, `{"type":"`...), kind...), '"')
}

func (w *requestWriter) message(m *infer.Message) error {
	switch m.Role {
	case infer.RoleAssistant:
		w.assistant(m)
		return nil
	case infer.RoleTool:
		return w.result(m)
	}
	w.item("message")
	w.str("role", string(m.Role))
	w.key("content")
	if err := w.parts(m.Content); err != nil {
		return err
	}
	w.b = append(w.b, '}')
	return nil
}

// assistant writes an earlier turn as the items that made it up.
func (w *requestWriter) assistant(m *infer.Message) {
	for _, th := range m.Thoughts {
		sealed, ok := strings.CutPrefix(th.Signature, sealProvider)
		if !ok {
			continue
		}
		w.item("reasoning")
		w.raw("summary", "[")
		if th.Text != "" {
			w.b = jsonwrite.String(append(w.b, `{"type":"summary_text","text":`...), th.Text)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
		w.str("encrypted_content", sealed)
		w.b = append(w.b, '}')
	}
	if text := m.Text(); text != "" {
		w.item("message")
		w.raw("role", `"assistant"`)
		w.str("content", text)
		w.b = append(w.b, '}')
	}
	for _, c := range m.ToolCalls {
		if w.custom[c.Name] {
			w.item("custom_tool_call")
			w.str("call_id", c.ID)
			w.str("name", c.Name)
			w.str("input", freeText([]byte(c.Arguments)))
		} else {
			w.item("function_call")
			w.str("call_id", c.ID)
			w.str("name", c.Name)
			w.str("arguments", c.Arguments)
		}
		w.b = append(w.b, '}')
	}
}

// result writes the output of a call. That it tells of a failure is said in its
// text: the dialect has no mark for it.
func (w *requestWriter) result(m *infer.Message) error {
	kind := "function_call_output"
	if w.calledCustom(m.ToolCallID) {
		kind = "custom_tool_call_output"
	}
	w.item(kind)
	w.str("call_id", m.ToolCallID)
	w.key("output")
	parts := m.Content
	if m.ToolError {
		parts = append([]infer.Part{{Type: "text", Text: "Error: "}}, parts...)
	}
	if onlyText(parts) {
		own := infer.Message{Content: parts}
		w.b = jsonwrite.String(w.b, own.Text())
	} else if err := w.parts(parts); err != nil {
		return err
	}
	w.b = append(w.b, '}')
	return nil
}

func (w *requestWriter) calledCustom(id string) bool {
	if w.custom == nil {
		return false
	}
	for i := range w.r.Messages {
		for _, c := range w.r.Messages[i].ToolCalls {
			if c.ID == id {
				return w.custom[c.Name]
			}
		}
	}
	return false
}

// parts writes content.
func (w *requestWriter) parts(parts []infer.Part) error {
	w.b = append(w.b, '[')
	n := 0
	for i := range parts {
		p := &parts[i]
		if p.Stored {
			continue
		}
		from := len(w.b)
		if n > 0 {
			w.b = append(w.b, ',')
		}
		n++
		switch p.Type {
		case "text", "":
			w.b = append(w.b, `{"type":"input_text"`...)
			w.str("text", p.Text)
		case "image":
			w.b = append(w.b, `{"type":"input_image"`...)
			w.str("image_url", address(p))
			w.str("detail", orAuto(p.Detail))
		case "file":
			w.b = append(w.b, `{"type":"input_file"`...)
			if p.Name != "" {
				w.str("filename", p.Name)
			}
			if p.URL != "" {
				w.str("file_url", p.URL)
			} else {
				w.str("file_data", address(p))
			}
		default: // classed as dropped
			w.b = w.b[:from]
			n--
			continue
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
	return nil
}

func orAuto(detail string) string {
	switch detail {
	case "low", "high", "original":
		return detail
	}
	return "auto"
}

// address is the URL of a part, or its data in one.
func address(p *infer.Part) string {
	if p.URL != "" {
		return p.URL
	}
	mime := p.MIME
	if mime == "" {
		mime = "application/octet-stream"
	}
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// tools writes the tools and the choice among them.
func (w *requestWriter) tools() {
	r := w.r
	if len(r.Tools) == 0 {
		return
	}
	w.raw("tools", "[")
	for i := range r.Tools {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.tool(&r.Tools[i])
	}
	w.b = append(w.b, ']')
	c := &r.ToolChoice
	switch {
	case len(c.Allowed) > 0 && c.Mode != "none":
		w.raw("tool_choice", `{"type":"allowed_tools"`)
		mode := "auto"
		if c.Mode == "required" {
			mode = "required"
		}
		w.str("mode", mode)
		w.raw("tools", "[")
		for i, name := range c.Allowed {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.named(name)
		}
		w.b = append(w.b, "]}"...)
	case c.Mode == "function":
		w.key("tool_choice")
		w.named(c.Name)
	case c.Mode == "none" || c.Mode == "required":
		w.str("tool_choice", c.Mode)
	}
	if !r.ParallelToolCalls {
		w.raw("parallel_tool_calls", "false")
	}
}

func (w *requestWriter) named(name string) {
	kind := "function"
	if w.custom[name] {
		kind = "custom"
	}
	w.b = append(append(append(w.b, `{"type":"`...), kind...), '"')
	w.str("name", name)
	w.b = append(w.b, '}')
}

func (w *requestWriter) tool(t *infer.Tool) {
	if c := t.Custom; c != nil {
		w.b = append(w.b, `{"type":"custom"`...)
		w.str("name", t.Name)
		about := c.Description
		if about == "" {
			about = t.Description
		}
		if about != "" {
			w.str("description", about)
		}
		if c.Syntax != "" {
			w.raw("format", `{"type":"grammar"`)
			w.str("syntax", c.Syntax)
			w.str("definition", c.Definition)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, '}')
		return
	}
	w.b = append(w.b, `{"type":"function"`...)
	w.str("name", t.Name)
	if t.Description != "" {
		w.str("description", t.Description)
	}
	params := string(t.Parameters)
	if params == "" {
		params = `{"type":"object","properties":{}}`
	}
	w.raw("parameters", params)
	// Absent would be taken for true.
	w.key("strict")
	w.b = append(appendBool(w.b, t.Strict), '}')
}

// text writes the constraint of the answer and its length.
func (w *requestWriter) text() error {
	f := &w.r.Format
	format := ""
	switch f.Kind {
	case infer.FormatJSONObject:
		format = `{"type":"json_object"}`
	case infer.FormatJSONSchema:
		name := f.Name
		if name == "" {
			name = "answer" // the dialect demands one
		}
		b := jsonwrite.String([]byte(`{"type":"json_schema","name":`), name)
		b = append(append(b, `,"schema":`...), f.Schema...)
		format = string(append(appendBool(append(b, `,"strict":`...), f.Strict), '}'))
	}
	if format == "" && w.r.Hints.Verbosity == "" {
		return nil
	}
	w.raw("text", "{")
	if format != "" {
		w.raw("format", format)
	}
	if v := w.r.Hints.Verbosity; v != "" {
		w.str("verbosity", v)
	}
	w.b = append(w.b, '}')
	return nil
}

// reasoning writes how much the model may think, and that its sealed thoughts
// are wanted: nothing is kept at the provider.
func (w *requestWriter) reasoning() {
	t := &w.r.Thinking
	effort, summary := t.Effort, t.Summary
	on := t.Switch == "on" || t.Switch == "adaptive" || t.Budget > 0
	switch {
	case effort != "":
	case t.Switch == "off":
		effort = "none"
	case t.Budget > 0:
		effort = effortOf(t.Budget)
	}
	if effort == "max" {
		effort = "xhigh"
	}
	switch summary {
	case "none", "omitted":
		summary = ""
	case "":
		if on {
			summary = "auto" // dialects that switch reasoning on show it
		}
	}
	if effort == "" && summary == "" {
		return
	}
	w.raw("reasoning", "{")
	if effort != "" {
		w.str("effort", effort)
	}
	if summary != "" {
		w.str("summary", summary)
	}
	w.b = append(w.b, '}')
}

// effortOf is the effort that comes near a budget of tokens.
func effortOf(budget int) string {
	switch {
	case budget <= 2048:
		return "low"
	case budget <= 8192:
		return "medium"
	}
	return "high"
}

// decoding writes what differs from the defaults: absent stays absent, also a
// bound of the answer.
func (w *requestWriter) decoding() {
	r, s := w.r, &w.r.Sampling
	if s.MaxTokens > 0 {
		w.int("max_output_tokens", s.MaxTokens)
	}
	if s.Temperature != 1 {
		w.key("temperature")
		w.b = jsonwrite.Float(w.b, s.Temperature)
	}
	if s.TopP != 1 && s.TopP > 0 {
		w.key("top_p")
		w.b = jsonwrite.Float(w.b, s.TopP)
	}
	var include []string
	if s.Logprobs {
		include = append(include, "message.output_text.logprobs")
		if s.TopLogprobs > 0 {
			w.int("top_logprobs", s.TopLogprobs)
		}
	}
	th := &r.Thinking
	if th.Effort != "" && th.Effort != "none" || th.Switch == "on" || th.Switch == "adaptive" || th.Budget > 0 {
		include = append(include, "reasoning.encrypted_content")
	}
	if len(include) > 0 {
		w.raw("include", `["`+strings.Join(include, `","`)+`"]`)
	}
	w.raw("store", "false")
	if r.Stream {
		w.raw("stream", "true")
	}
}

func (w *requestWriter) hints() {
	h := &w.r.Hints
	if len(h.Metadata) > 0 {
		w.raw("metadata", string(h.Metadata))
	}
	if h.User != "" {
		w.str("safety_identifier", wire.Opaque(h.User, 64)) // the API takes 64 bytes
	}
	if h.CacheKey != "" {
		w.str("prompt_cache_key", h.CacheKey)
	}
	if h.CacheRetention != "" {
		w.str("prompt_cache_retention", h.CacheRetention)
	}
	if h.ServiceTier != "" {
		w.str("service_tier", h.ServiceTier)
	}
}
