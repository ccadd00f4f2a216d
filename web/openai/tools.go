package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// setTools reads the tools field. Only functions can be served; any other type
// is refused by name.
func (d *decoder) setTools(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	d.tools = true
	if !v.Empty() {
		d.use(infer.FeatureTools, v)
	}
	return v.Items(maxTools, func(_ int, t jsonread.Value) error {
		var fn, custom, mark *jsonread.Value
		kind := ""
		var others []jsonread.Value
		err := t.Members(func(key string, m jsonread.Value) (err error) {
			switch key {
			case "type":
				kind, err = m.Str()
				return err
			case "function":
				fn = &m
				return nil
			case "custom":
				custom = &m
				return nil
			case "cache_control":
				mark = &m
				return nil
			}
			others = append(others, m)
			return nil
		})
		switch {
		case err != nil:
			return err
		case kind == "custom" && custom != nil:
			err = d.addCustom(*custom)
		case kind != "" && kind != "function" && kind != "custom":
			d.passed = true // its members are for whoever knows the type
			return d.lost(hostedTool(kind), t, t.Unsupported("cannot use %s: got a tool of type %q, wanted function", t.Path(), jsonread.Shorten(kind, 40)))
		case fn == nil:
			return t.Errorf("cannot use %s: got no function", t.Path())
		default:
			err = d.addFunction(*fn)
		}
		for _, m := range others {
			if err == nil {
				err = d.unknown(m)
			}
		}
		if err == nil && mark != nil {
			d.r.Tools[len(d.r.Tools)-1].Cache, err = d.cacheMark(*mark)
		}
		return err
	})
}

// hostedTool is the feature of a tool that is no function: one of those that
// providers are known to run themselves, or what only the provider can know.
func hostedTool(kind string) infer.Feature {
	for _, name := range []string{"web_search", "file_search", "code_interpreter", "computer", "image_generation", "mcp", "local_shell", "shell", "apply_patch"} {
		if kind == name || strings.HasPrefix(kind, name+"_") {
			return infer.FeatureToolHosted
		}
	}
	return infer.FeatureUnknown
}

// addCustom reads a tool that takes free text: {"name", "description", "format"}.
// For targets that have functions only it asks for one string.
func (d *decoder) addCustom(v jsonread.Value) error {
	t := infer.Tool{Custom: &infer.CustomTool{}, Parameters: json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)}
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "name":
			return setString(&t.Name, m, maxToolName)
		case "description":
			return setString(&t.Description, m, maxGrammar)
		case "format":
			return d.customFormat(t.Custom, m)
		}
		return d.unknown(m)
	})
	switch {
	case err != nil:
		return err
	case !validName(t.Name):
		return v.Errorf("cannot use %s: got no name, or one with other characters than letters, digits, '_', '-' and '.'", v.Path())
	case slices.ContainsFunc(d.r.Tools, func(o infer.Tool) bool { return o.Name == t.Name }):
		return v.Errorf("cannot use %s: the name %q comes twice", v.Path(), t.Name)
	}
	d.r.Tools = append(d.r.Tools, t)
	d.use(infer.FeatureToolCustom, v)
	return nil
}

// customFormat reads {"type": "text"} or {"type": "grammar", "grammar": {"syntax",
// "definition"}}.
func (d *decoder) customFormat(c *infer.CustomTool, v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	return v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type":
			_, err := m.Enum("text", "grammar")
			return err
		case "grammar":
			return m.Members(func(key string, m jsonread.Value) (err error) {
				switch key {
				case "syntax":
					c.Syntax, err = m.Enum("lark", "regex")
					return err
				case "definition":
					return setString(&c.Definition, m, maxGrammar)
				}
				return d.unknown(m)
			})
		}
		return d.unknown(m)
	})
}

// cacheMark reads {"type": "ephemeral", "ttl"}, which several services take after
// Anthropic.
func (d *decoder) cacheMark(v jsonread.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	ttl := "5m"
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type":
			if s, err := m.Str(); err != nil || s == "ephemeral" {
				return err
			}
			return d.unknown(m)
		case "ttl":
			if m.IsNull() {
				return nil
			}
			s, err := m.Str()
			if s == "1h" {
				ttl = s
			}
			return err
		}
		return d.unknown(m)
	})
	if err == nil {
		d.use(infer.FeatureCacheBreakpoint, v)
	}
	return ttl, err
}

// setFunctions reads the older functions field.
func (d *decoder) setFunctions(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	d.legacyT = true
	if !v.Empty() {
		d.use(infer.FeatureTools, v)
	}
	return v.Items(maxTools, func(_ int, f jsonread.Value) error { return d.addFunction(f) })
}

func (d *decoder) addFunction(v jsonread.Value) error {
	var t infer.Tool
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "name":
			s, err := m.Str()
			if err == nil && (!validName(s) || len(s) > maxToolName) {
				return m.Wrong("a name of 1 to 128 letters, digits, '_', '-' and '.'")
			}
			t.Name = s
			return err
		case "description":
			return setString(&t.Description, m, maxGrammar)
		case "parameters":
			if m.IsNull() {
				return nil
			}
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON schema, which is an object")
			}
			t.Parameters = m.Clone()
			return nil
		case "strict":
			return d.flag(infer.FeatureToolStrict, &t.Strict, m)
		}
		return d.unknown(m)
	})
	if err != nil {
		return err
	}
	if t.Name == "" {
		return v.Errorf("cannot use %s: got no name", v.Path())
	}
	if slices.ContainsFunc(d.r.Tools, func(o infer.Tool) bool { return o.Name == t.Name }) {
		return v.Errorf("cannot use %s: the name %q comes twice", v.Path(), t.Name)
	}
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

// finishTools settles tool_choice and function_call, which may stand before the
// tools they speak of.
func (d *decoder) finishTools() error {
	if d.tools && d.legacyT {
		return infer.Invalid("functions", "cannot use functions beside tools: they are two forms of one list")
	}
	d.o.LegacyFunctions = d.legacyT
	if d.choice != nil {
		if err := d.toolChoice(*d.choice); err != nil {
			return err
		}
	}
	if d.legacy != nil {
		if err := d.functionCall(*d.legacy); err != nil {
			return err
		}
	}
	if d.legacyT {
		d.r.ParallelToolCalls = false // the older form has room for one call
	}
	if d.r.ToolChoice.Mode != "auto" && d.r.ToolChoice.Mode != "none" && len(d.r.Tools) == 0 && !d.passed {
		return infer.Invalid("tool_choice", "cannot use tool_choice %s: got no tools", d.r.ToolChoice.Mode)
	}
	return nil
}

func (d *decoder) toolChoice(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	if v.Kind() == jsonread.String {
		mode, err := v.Enum("none", "auto", "required")
		if err != nil {
			return d.beyond(v, err)
		}
		d.setMode(v, mode)
		return nil
	}
	tv, ok := v.Get("type")
	if !ok {
		return v.Wrong(`"none", "auto", "required" or an object with a type`)
	}
	kind, err := tv.Enum("function", "custom", "allowed_tools")
	if err != nil {
		return d.beyond(tv, err)
	}
	arg, err := d.only(v, kind)
	if err != nil {
		return err
	}
	if kind != "allowed_tools" {
		return d.named(arg)
	}
	return d.allowedTools(arg)
}

// setMode sets one of the words none, auto and required.
func (d *decoder) setMode(v jsonread.Value, mode string) {
	d.r.ToolChoice.Mode = mode
	switch {
	case mode == "none" && (len(d.r.Tools) > 0 || d.passed):
		d.use(infer.FeatureToolNone, v)
	case mode == "required":
		d.use(infer.FeatureToolRequired, v)
	}
}

// functionCall reads the older form: "none", "auto" or {"name"}.
func (d *decoder) functionCall(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	if d.choice != nil && !d.choice.IsNull() {
		return v.Errorf("cannot use function_call beside tool_choice")
	}
	if v.Kind() == jsonread.String {
		mode, err := v.Enum("none", "auto")
		if err == nil {
			d.setMode(v, mode)
		}
		return err
	}
	return d.named(v)
}

// named reads {"name"} and demands that tool.
func (d *decoder) named(v jsonread.Value) error {
	name, err := d.toolName(v)
	if err != nil || name == "" {
		return err
	}
	d.r.ToolChoice = infer.ToolChoice{Mode: "function", Name: name}
	d.use(infer.FeatureToolNamed, v)
	return nil
}

// toolName reads {"name"} of a tool that is there. It is empty, and noted, for
// one that may be among the tools that have no form here.
func (d *decoder) toolName(v jsonread.Value) (string, error) {
	name := ""
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		if key != "name" {
			return d.unknown(m)
		}
		name, err = m.Str()
		return err
	})
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(d.r.Tools, func(t infer.Tool) bool { return t.Name == name }) {
		err := v.Errorf("cannot use %s: no tool is named %q", v.Path(), jsonread.Shorten(name, 64))
		if d.passed {
			return "", d.lost(infer.FeatureUnknown, v, err)
		}
		return "", err
	}
	return name, nil
}

// allowedTools narrows the tools to those named: a tool that the model is not
// told of cannot be called.
func (d *decoder) allowedTools(v jsonread.Value) error {
	mode := "auto"
	var allowed []string
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "mode":
			mode, err = m.Enum("auto", "required")
			return err
		case "tools":
			return m.Items(maxTools, func(_ int, t jsonread.Value) error {
				tv, ok := t.Get("type")
				if !ok {
					return t.Wrong("an object with a type")
				}
				kind, err := tv.Enum("function", "custom")
				if err != nil {
					return d.beyond(tv, err)
				}
				fn, err := d.only(t, kind)
				if err != nil {
					return err
				}
				name, err := d.toolName(fn)
				if name != "" {
					allowed = append(allowed, name)
				}
				return err
			})
		}
		return d.unknown(m)
	})
	if err != nil {
		return err
	}
	d.use(infer.FeatureToolAllowed, v)
	if len(allowed) == 0 {
		if d.passed {
			return nil // those that are allowed have no form here
		}
		return v.Errorf("cannot use %s: got no tools", v.Path())
	}
	d.setMode(v, mode)
	d.r.Tools = slices.DeleteFunc(d.r.Tools, func(t infer.Tool) bool { return !slices.Contains(allowed, t.Name) })
	return nil
}

// only returns the member of that name of an object {"type", name}.
func (d *decoder) only(v jsonread.Value, name string) (jsonread.Value, error) {
	var arg *jsonread.Value
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type":
		case name:
			arg = &m
		default:
			return d.unknown(m)
		}
		return nil
	})
	if err == nil && arg == nil {
		err = v.Errorf("cannot use %s: got no %s", v.Path(), name)
	}
	if err != nil {
		return jsonread.Value{}, err
	}
	return *arg, nil
}
