package anthropic

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// messages reads the conversation. A turn of the API may become several here:
// each tool_result is a message of its own, before the rest of its turn.
func (d *decoder) messages(v jsonread.Value) error {
	if v.Kind() != jsonread.Array {
		return v.Wrong("an array of messages")
	}
	if v.Empty() {
		return v.Errorf("cannot answer an empty conversation: got no messages, wanted at least one")
	}
	var last turn
	err := v.Items(maxMessages, func(i int, m jsonread.Value) error {
		last = turn{d: d, v: m}
		if err := last.read(); err != nil {
			return err
		}
		d.turns = append(d.turns, last.results...)
		if last.m.Role != infer.RoleUser || len(last.results) == 0 || len(last.m.Content) > 0 {
			d.turns = append(d.turns, last.m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if last.m.Role == infer.RoleAssistant && len(last.m.ToolCalls) == 0 {
		d.r.ContinueFinalMessage, d.r.AddGenerationPrompt = true, false
		d.use(infer.FeaturePrefill, last.v.Path())
	}
	return nil
}

// setSystem reads the system prompt: a string or text blocks.
func (d *decoder) setSystem(v jsonread.Value) error {
	t := turn{d: d, v: v}
	t.m.Role = infer.RoleSystem
	err := t.content(v)
	if err == nil {
		err = t.roles()
	}
	d.system = t.m.Content
	if len(d.system) == 1 && d.system[0].Text == "" {
		d.system = nil
	}
	return err
}

// turn is one message that is being read.
type turn struct {
	d       *decoder
	v       jsonread.Value
	m       infer.Message
	results []infer.Message // one for each tool_result
}

func (t *turn) read() error {
	if t.v.Kind() != jsonread.Object {
		return t.v.Wrong("a message, which is an object")
	}
	rv, ok := t.v.Get("role")
	if !ok {
		return t.v.Errorf("cannot use %s: got no role", t.v.Path())
	}
	role, err := rv.Enum("user", "assistant", "system")
	if err != nil {
		return err
	}
	t.m.Role = infer.Role(role)
	if t.m.Role == infer.RoleSystem && len(t.d.turns) > 0 && t.d.turns[len(t.d.turns)-1].Role != infer.RoleSystem {
		t.d.use(infer.FeatureSystemMidway, t.v.Path())
	}
	found := false
	err = t.v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "role":
			return nil
		case "content":
			found = true
			return t.content(m)
		}
		t.d.unknown(m)
		return nil
	})
	if err == nil && !found {
		err = t.v.Errorf("cannot use %s: got no content", t.v.Path())
	}
	if err == nil {
		err = t.roles()
	}
	return err
}

// roles holds calls and results to be in the turns of those who make them: other
// dialects have no place for them elsewhere.
func (t *turn) roles() error {
	m := &t.m
	switch {
	case m.Role != infer.RoleUser && len(t.results) > 0:
		return t.v.Errorf("cannot use %s: got a tool_result in a turn of the role %s, wanted it in one of the user", t.v.Path(), m.Role)
	case m.Role != infer.RoleAssistant && len(m.ToolCalls)+len(m.Thoughts) > 0:
		return t.v.Errorf("cannot use %s: got tool_use or thinking in a turn of the role %s, wanted it in one of the assistant", t.v.Path(), m.Role)
	}
	return nil
}

// content reads a string or an array of blocks.
func (t *turn) content(v jsonread.Value) error {
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Str()
		t.m.Content = []infer.Part{{Type: "text", Text: s}}
		return err
	case jsonread.Array:
		err := v.Items(maxBlocks, func(_ int, b jsonread.Value) error { return t.block(b) })
		t.m.Content = dropEmpty(t.m.Content)
		return err
	}
	return v.Wrong("a string or an array of content blocks")
}

// dropEmpty takes out empty text blocks, which some clients send to carry a
// cache mark; the mark moves to the block before. One part stays in any case.
func dropEmpty(parts []infer.Part) []infer.Part {
	out := parts[:0]
	for _, p := range parts {
		if p.Type == "text" && p.Text == "" && len(out) > 0 {
			if p.Cache != "" {
				out[len(out)-1].Cache = p.Cache
			}
			continue
		}
		out = append(out, p)
	}
	if len(out) > 1 && out[0].Type == "text" && out[0].Text == "" {
		out = out[1:]
	}
	return out
}

// block reads one content block. Which kinds may stand in which role is for the
// provider to say.
func (t *turn) block(b jsonread.Value) error {
	kind, err := typeOf(b)
	if err != nil {
		return err
	}
	switch kind {
	case "thinking":
		return t.thinking(b)
	case "redacted_thinking":
		data, err := member(b, "data")
		t.m.Thoughts = append(t.m.Thoughts, infer.Thought{Redacted: data})
		t.d.use(infer.FeatureThoughtSignature, b.Path()+".redacted_thinking")
		return err
	case "tool_use":
		return t.toolUse(b)
	case "tool_result":
		return t.toolResult(b)
	}
	if hostedResult(kind) {
		t.d.use(infer.FeatureToolCallHosted, b.Path()+"."+jsonread.Shorten(kind, 64))
		return t.noteCache(b)
	}
	p, known, err := t.d.part(b, kind)
	if err != nil {
		return err
	}
	if !known {
		t.d.use(infer.FeatureUnknown, b.Path()+"."+jsonread.Shorten(kind, 64))
		return nil
	}
	t.m.Content = append(t.m.Content, p)
	return nil
}

// member is a string member of an object, which must be there.
func member(v jsonread.Value, key string) (string, error) {
	m, ok := v.Get(key)
	if !ok {
		return "", v.Errorf("cannot use %s: got no %s", v.Path(), key)
	}
	return m.Str()
}

// noteCache notes a cache mark that no typed part can hold.
func (t *turn) noteCache(b jsonread.Value) error {
	c, ok := b.Get("cache_control")
	if !ok {
		return nil
	}
	ttl, err := cacheTTL(c)
	if ttl != "" {
		t.d.use(infer.FeatureCacheBreakpoint, c.Path())
	}
	return err
}

func (t *turn) thinking(b jsonread.Value) error {
	text, err := member(b, "thinking")
	if err != nil {
		return err
	}
	th := infer.Thought{Text: text}
	if s, ok := b.Get("signature"); ok && !s.IsNull() {
		if th.Signature, err = s.Str(); err != nil {
			return err
		}
	}
	if text != "" {
		t.d.use(infer.FeatureThought, b.Path()+".thinking")
	}
	if th.Signature != "" {
		t.d.use(infer.FeatureThoughtSignature, b.Path()+".thinking.signature")
	}
	t.m.Thoughts = append(t.m.Thoughts, th)
	t.m.Reasoning += text
	return nil
}

func (t *turn) toolUse(b jsonread.Value) error {
	var c infer.ToolCall
	err := b.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "id":
			c.ID, err = m.Str()
		case "name":
			c.Name, err = m.Str()
		case "input":
			if m.Kind() != jsonread.Object {
				return m.Wrong("an object")
			}
			c.Arguments = string(m.Raw())
		case "cache_control":
			return t.noteCache(b)
		case "caller":
			if kind, err := typeOf(m); err != nil {
				return err
			} else if kind != "direct" {
				t.d.use(infer.FeatureToolCallHosted, m.Path())
			}
		default:
			t.d.unknown(m)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.ID == "" || len(c.ID) > maxName:
		return b.Errorf("cannot use %s: got an id of %d bytes, wanted 1 to %d", b.Path(), len(c.ID), maxName)
	case c.Name == "" || len(c.Name) > maxName:
		return b.Errorf("cannot use %s: got a name of %d bytes, wanted 1 to %d", b.Path(), len(c.Name), maxName)
	}
	if c.Arguments == "" {
		c.Arguments = "{}"
	}
	t.m.ToolCalls = append(t.m.ToolCalls, c)
	return nil
}

func (t *turn) toolResult(b jsonread.Value) error {
	r := infer.Message{Role: infer.RoleTool}
	cache := ""
	err := b.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "tool_use_id":
			r.ToolCallID, err = m.Str()
		case "content":
			r.Content, err = t.resultContent(m)
		case "is_error":
			if r.ToolError, err = m.Bool(); r.ToolError {
				t.d.use(infer.FeatureToolResultError, m.Path())
			}
		case "cache_control":
			if cache, err = cacheTTL(m); cache != "" {
				t.d.use(infer.FeatureCacheBreakpoint, m.Path())
			}
		default:
			t.d.unknown(m)
		}
		return err
	})
	if err != nil {
		return err
	}
	if r.ToolCallID == "" || len(r.ToolCallID) > maxName {
		return b.Errorf("cannot use %s: got a tool_use_id of %d bytes, wanted 1 to %d", b.Path(), len(r.ToolCallID), maxName)
	}
	if len(r.Content) == 0 {
		r.Content = []infer.Part{{Type: "text"}}
	}
	if cache != "" {
		r.Content[len(r.Content)-1].Cache = cache
	}
	t.results = append(t.results, r)
	return nil
}

// resultContent reads what a tool gave back: a string, or blocks of which only
// text is text to every target.
func (t *turn) resultContent(v jsonread.Value) ([]infer.Part, error) {
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Str()
		return []infer.Part{{Type: "text", Text: s}}, err
	case jsonread.Array:
	default:
		return nil, v.Wrong("a string or an array of content blocks")
	}
	var parts []infer.Part
	err := v.Items(maxBlocks, func(_ int, b jsonread.Value) error {
		kind, err := typeOf(b)
		if err != nil {
			return err
		}
		p, known, err := t.d.part(b, kind)
		if err != nil {
			return err
		}
		if !known {
			t.d.use(infer.FeatureUnknown, b.Path()+"."+jsonread.Shorten(kind, 64))
			return nil
		}
		if p.Type != "text" {
			t.d.use(infer.FeatureToolResultMedia, b.Path()+"."+kind)
		}
		parts = append(parts, p)
		return nil
	})
	return dropEmpty(parts), err
}
