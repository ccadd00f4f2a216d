package anthropic

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// tools reads what the model may call: functions of the caller, and tools whose
// kind the API defines (web_search_20250305, bash_20250124, mcp_toolset), which
// only a provider of the API can offer.
func (d *decoder) tools(v jsonread.Value) error {
	d.toolsAt = len(d.r.Uses)
	return v.Items(maxTools, func(i int, t jsonread.Value) error {
		if t.Kind() != jsonread.Object {
			return t.Wrong("a tool, which is an object")
		}
		kind := "custom"
		if k, ok := t.Get("type"); ok && !k.IsNull() {
			var err error
			if kind, err = k.Str(); err != nil {
				return err
			}
		}
		if kind != "custom" {
			return d.hostedTool(t, kind)
		}
		if len(d.r.Tools) == 0 {
			d.use(infer.FeatureTools, "tools")
		}
		return d.tool(t)
	})
}

// hostedTool notes a tool of the API's own. Its path ends in its kind, which
// says more than its place.
func (d *decoder) hostedTool(t jsonread.Value, kind string) error {
	h := hostedTool{use: len(d.r.Uses)}
	if n, ok := t.Get("name"); ok && !n.IsNull() {
		var err error
		if h.name, err = n.Str(); err != nil {
			return err
		}
		d.names[h.name] = true
	}
	d.use(infer.FeatureToolHosted, t.Path()+"."+jsonread.Shorten(kind, 64))
	if _, ok := t.Get("cache_control"); ok {
		d.use(infer.FeatureCacheBreakpoint, t.Path()+".cache_control")
	}
	d.hosted = append(d.hosted, h)
	return nil
}

// tool reads a function of the caller.
func (d *decoder) tool(t jsonread.Value) error {
	var out infer.Tool
	err := t.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "name":
			if out.Name, err = m.Str(); err == nil && (out.Name == "" || len(out.Name) > maxName) {
				err = m.Errorf("cannot use %s: got %d bytes, wanted a name of 1 to %d", m.Path(), len(out.Name), maxName)
			}
		case "description":
			out.Description, err = m.Str()
		case "input_schema":
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON Schema, which is an object")
			}
			out.Parameters = m.Clone()
		case "strict":
			if out.Strict, err = m.Bool(); out.Strict {
				d.use(infer.FeatureToolStrict, m.Path())
			}
		case "cache_control":
			if out.Cache, err = cacheTTL(m); out.Cache != "" {
				d.use(infer.FeatureCacheBreakpoint, m.Path())
			}
		case "input_examples", "eager_input_streaming", "defer_loading":
			if r := string(m.Raw()); r != "false" && r != "[]" {
				d.use(infer.FeatureToolAnnotation, m.Path())
			}
		case "allowed_callers":
			return d.allowedCallers(m)
		default:
			d.unknown(m)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case out.Name == "":
		return t.Errorf("cannot use %s: got no name", t.Path())
	case out.Parameters == nil:
		return t.Errorf("cannot use %s: got no input_schema", t.Path())
	case d.names[out.Name]:
		return t.Errorf("cannot use %s: the name %q comes twice", t.Path(), jsonread.Shorten(out.Name, 64))
	}
	d.names[out.Name] = true
	d.r.Tools = append(d.r.Tools, out)
	return nil
}

// allowedCallers notes callers other than the model itself.
func (d *decoder) allowedCallers(v jsonread.Value) error {
	list, err := v.Strings(16)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c != "direct" {
			d.use(infer.FeatureToolHosted, v.Path())
			break
		}
	}
	return nil
}

// toolChoice reads which tool must be called, and whether one at a time.
func (d *decoder) toolChoice(v jsonread.Value) error {
	t, err := typeOf(v)
	if err != nil {
		return err
	}
	c := &d.r.ToolChoice
	switch t {
	case "auto":
		c.Mode = "auto"
	case "any":
		c.Mode = "required"
		d.use(infer.FeatureToolRequired, "tool_choice")
	case "none":
		c.Mode = "none"
		d.use(infer.FeatureToolNone, "tool_choice")
	case "tool":
		c.Mode = "function"
		d.use(infer.FeatureToolNamed, "tool_choice")
	default:
		d.use(infer.FeatureUnknown, "tool_choice")
	}
	return v.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() || key == "type" {
			return nil
		}
		switch {
		case key == "name" && t == "tool":
			c.Name, err = m.Str()
			return err
		case key == "disable_parallel_tool_use":
			serial, err := m.Bool()
			if d.r.ParallelToolCalls = !serial; serial {
				d.use(infer.FeatureToolSerial, m.Path())
			}
			return err
		}
		d.unknown(m)
		return nil
	})
}

// finishTools holds the choice against the tools there are, and tells tools of
// the API that may be left from those that the request is about.
func (d *decoder) finishTools() error {
	c := &d.r.ToolChoice
	switch {
	case c.Mode == "function" && c.Name == "":
		return infer.Invalid("tool_choice", "cannot use tool_choice: got no name of a tool")
	case c.Mode == "function" && !d.names[c.Name]:
		return infer.Invalid("tool_choice", "cannot use tool_choice: there is no tool %q", jsonread.Shorten(c.Name, 64))
	case c.Mode == "required" && len(d.r.Tools)+len(d.hosted) == 0:
		return infer.Invalid("tool_choice", "cannot use tool_choice: a call is asked for, and there are no tools")
	}
	for _, h := range d.hosted {
		named := c.Mode == "function" && c.Name == h.name
		if len(d.r.Tools) > 0 && !named && h.use < len(d.r.Uses) && d.r.Uses[h.use].Feature == infer.FeatureToolHosted {
			d.r.Uses[h.use].Feature = infer.FeatureToolHostedOptional
		}
	}
	return nil
}

// hostedResult tells a block that comes from a tool of the API's own, by its
// type: web_search_tool_result, mcp_tool_use and their like.
func hostedResult(kind string) bool {
	switch kind {
	case "server_tool_use", "mcp_tool_use", "mcp_tool_result", "container_upload", "mcp_tool_listing":
		return true
	}
	return strings.HasSuffix(kind, "_tool_result") && kind != "tool_result"
}
