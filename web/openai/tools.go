package openai

import (
	"slices"

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
	return v.Items(maxTools, func(_ int, t jsonread.Value) error {
		var fn *jsonread.Value
		kind := ""
		err := t.Members(func(key string, m jsonread.Value) (err error) {
			switch key {
			case "type":
				kind, err = m.Str()
				return err
			case "function":
				fn = &m
				return nil
			case "cache_control": // a hint that other services read
				return nil
			}
			if kind != "" && kind != "function" {
				return nil // the members of a type that is refused below
			}
			return m.Unknown()
		})
		switch {
		case kind == "custom" || kind != "" && kind != "function":
			return t.Unsupported("cannot use %s: got a tool of type %q, wanted function", t.Path(), jsonread.Shorten(kind, 40))
		case err != nil:
			return err
		case fn == nil:
			return t.Errorf("cannot use %s: got no function", t.Path())
		}
		return d.addFunction(*fn)
	})
}

// setFunctions reads the older functions field.
func (d *decoder) setFunctions(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	d.legacyT = true
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
			return setBool(&t.Strict, m)
		}
		return m.Unknown()
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
	if d.r.ToolChoice.Mode != "auto" && d.r.ToolChoice.Mode != "none" && len(d.r.Tools) == 0 {
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
		d.r.ToolChoice.Mode = mode
		return err
	}
	tv, ok := v.Get("type")
	if !ok {
		return v.Wrong(`"none", "auto", "required" or an object with a type`)
	}
	kind, err := tv.Enum("function", "allowed_tools")
	if err != nil {
		return err
	}
	arg, err := only(v, kind)
	if err != nil {
		return err
	}
	if kind == "function" {
		return d.named(arg)
	}
	return d.allowedTools(arg)
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
		d.r.ToolChoice.Mode = mode
		return err
	}
	return d.named(v)
}

// named reads {"name"} and demands that tool.
func (d *decoder) named(v jsonread.Value) error {
	name, err := d.toolName(v)
	d.r.ToolChoice = infer.ToolChoice{Mode: "function", Name: name}
	return err
}

// toolName reads {"name"} of a tool that is there.
func (d *decoder) toolName(v jsonread.Value) (string, error) {
	name := ""
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		if key != "name" {
			return m.Unknown()
		}
		name, err = m.Str()
		return err
	})
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(d.r.Tools, func(t infer.Tool) bool { return t.Name == name }) {
		return "", v.Errorf("cannot use %s: no tool is named %q", v.Path(), jsonread.Shorten(name, 64))
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
				if _, err := tv.Enum("function"); err != nil {
					return err
				}
				fn, err := only(t, "function")
				if err != nil {
					return err
				}
				name, err := d.toolName(fn)
				allowed = append(allowed, name)
				return err
			})
		}
		return m.Unknown()
	})
	if err != nil {
		return err
	}
	if len(allowed) == 0 {
		return v.Errorf("cannot use %s: got no tools", v.Path())
	}
	d.r.ToolChoice.Mode = mode
	d.r.Tools = slices.DeleteFunc(d.r.Tools, func(t infer.Tool) bool { return !slices.Contains(allowed, t.Name) })
	return nil
}

// only returns the member of that name of an object {"type", name}.
func only(v jsonread.Value, name string) (jsonread.Value, error) {
	var arg *jsonread.Value
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type":
		case name:
			arg = &m
		default:
			return m.Unknown()
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
