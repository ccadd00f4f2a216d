package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// tools reads a list of tools. Functions and tools of free text are carried;
// tools that the provider runs itself are noted once it is known whether the
// model must use them, see toolChoice.
func (d *decoder) tools(v jsonread.Value) error {
	return v.Items(maxTools, func(_ int, t jsonread.Value) error { return d.tool(t, "", "") })
}

func (d *decoder) tool(v jsonread.Value, space, remark string) error {
	tv, ok := v.Get("type")
	if !ok {
		return v.Errorf("cannot use %s: wanted a tool with a type", v.Path())
	}
	kind, err := tv.Str()
	if err != nil {
		return err
	}
	switch {
	case kind == "function":
		return d.function(v, space, remark)
	case kind == "custom":
		return d.customTool(v, space, remark)
	case kind == "namespace" && space == "":
		return d.namespace(v)
	}
	d.hosted = append(d.hosted, hostedTool{kind, kindPath(v, kind)})
	return nil
}

// kindPath is where v stands and, where that is a word, what it is: the place in
// a list alone would not tell a caller what gets lost.
func kindPath(v jsonread.Value, kind string) string {
	if len(kind) > maxFlatName || !plain(kind) {
		return v.Path()
	}
	return v.Path() + "." + kind
}

// hostedTool is a tool that the provider runs, as far as we must know it.
type hostedTool struct{ kind, path string }

// namespace flattens a group of tools: the tools of other dialects have one
// list of names.
func (d *decoder) namespace(v jsonread.Value) error {
	var name, about string
	var list *jsonread.Value
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type":
		case "name":
			name, err = label(m)
		case "description":
			if !m.IsNull() {
				about, err = m.Str()
			}
		case "tools":
			list = &m
		default:
			return d.unknown(m)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case name == "":
		return v.Errorf("cannot use %s: got a namespace without name", v.Path())
	case list == nil || list.IsNull():
		return nil
	}
	return list.Items(maxTools, func(_ int, t jsonread.Value) error { return d.tool(t, name, about) })
}

// maxFlatName is what every provider takes as the name of a function.
const maxFlatName = 64

// flat is the name that a tool of a namespace has where there are none.
func (d *decoder) flat(space, name string) string {
	key := namespaced{space, name}
	if s, ok := d.t.names[key]; ok {
		return s
	}
	s := space + "__" + name
	if _, taken := d.t.spaces[s]; taken || len(s) > maxFlatName || !plain(s) {
		sum := sha256.Sum256([]byte(space + "\x00" + name))
		if len(name) > maxFlatName-9 || !plain(name) {
			name = "tool"
		}
		s = name + "_" + hex.EncodeToString(sum[:4])
	}
	if d.t.names == nil {
		d.t.names, d.t.spaces = map[namespaced]string{}, map[string]namespaced{}
	}
	d.t.names[key], d.t.spaces[s] = s, key
	return s
}

// plain tells whether s is a name that every provider takes.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != ""
}

// addTool names a tool and adds it.
func (d *decoder) addTool(v jsonread.Value, t infer.Tool, space, remark string) error {
	if t.Name == "" || len(t.Name) > maxName {
		return v.Errorf("cannot use %s: wanted a name of 1 to %d bytes", v.Path(), maxName)
	}
	if space != "" {
		t.Name = d.flat(space, t.Name)
		if remark != "" {
			t.Description = joinText(remark, t.Description)
		}
	}
	if slices.ContainsFunc(d.r.Tools, func(o infer.Tool) bool { return o.Name == t.Name }) {
		return v.Errorf("cannot use %s: the name comes twice", v.Path())
	}
	if len(d.r.Tools) == maxTools {
		return v.Errorf("cannot use %s: got more than %d tools", v.Path(), maxTools)
	}
	if len(d.r.Tools) == 0 {
		d.use(infer.FeatureTools, "tools")
	}
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

func joinText(a, b string) string {
	switch {
	case b == "":
		return a
	case a == "":
		return b
	}
	return a + "\n\n" + b
}

func (d *decoder) function(v jsonread.Value, space, remark string) error {
	var t infer.Tool
	src := v
	if fn, ok := v.Get("function"); ok && fn.Kind() == jsonread.Object { // as chat writes it
		src = fn
	}
	err := src.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "name":
			t.Name, err = label(m)
		case "description":
			t.Description, err = m.Str()
		case "parameters":
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON schema, which is an object")
			}
			t.Parameters = m.Clone()
		case "strict":
			if t.Strict, err = m.Bool(); t.Strict {
				d.use(infer.FeatureToolStrict, m.Path())
			}
		default:
			return d.toolExtra(key, m)
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.addTool(v, t, space, remark)
}

// toolExtra takes members that a function and a tool of free text share.
func (d *decoder) toolExtra(key string, m jsonread.Value) error {
	switch key {
	case "defer_loading": // the model is told of the tool later: a saving
		if b, err := m.Bool(); err != nil || !b {
			return err
		}
		d.use(infer.FeatureToolAnnotation, m.Path())
		return nil
	case "output_schema":
		d.use(infer.FeatureToolAnnotation, m.Path())
		return nil
	case "allowed_callers":
		if string(m.Raw()) != `["direct"]` {
			d.use(infer.FeatureToolHostedOptional, m.Path())
		}
		return nil
	case "async":
		if b, err := m.Bool(); err != nil || !b {
			return err
		}
		d.use(infer.FeatureToolAnnotation, m.Path())
		return nil
	}
	return d.unknown(m)
}

// customTool reads a tool whose input is free text.
func (d *decoder) customTool(v jsonread.Value, space, remark string) error {
	t := infer.Tool{Custom: &infer.CustomTool{}}
	src := v
	if fn, ok := v.Get("custom"); ok && fn.Kind() == jsonread.Object {
		src = fn
	}
	err := src.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "name":
			t.Name, err = label(m)
		case "description":
			t.Description, err = m.Str()
		case "format":
			return d.customFormat(t.Custom, m)
		default:
			return d.toolExtra(key, m)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.use(infer.FeatureToolCustom, kindPath(v, "custom"))
	t.Custom.Description = t.Description
	if c := t.Custom; c.Syntax != "" {
		t.Description = joinText(t.Description, "The input is text that this "+c.Syntax+" grammar describes:\n"+c.Definition)
	}
	t.Parameters = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)
	if err := d.addTool(v, t, space, remark); err != nil {
		return err
	}
	if d.t.custom == nil {
		d.t.custom = map[string]bool{}
	}
	d.t.custom[d.r.Tools[len(d.r.Tools)-1].Name] = true
	return nil
}

func (d *decoder) customFormat(c *infer.CustomTool, v jsonread.Value) error {
	kind := ""
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type":
			kind, err = m.Enum("text", "grammar")
		case "syntax":
			c.Syntax, err = m.Enum("lark", "regex")
		case "definition":
			c.Definition, err = m.Str()
			if err == nil && len(c.Definition) > maxText {
				err = m.Errorf("cannot use %s: got %d bytes, wanted at most %d", m.Path(), len(c.Definition), maxText)
			}
		default:
			return d.unknown(m)
		}
		return err
	})
	if err == nil && kind == "grammar" && (c.Syntax == "" || c.Definition == "") {
		err = v.Errorf("cannot use %s: wanted syntax and definition", v.Path())
	}
	return err
}

// toolChoice settles tool_choice, which may stand before the tools, and with it
// what the hosted tools mean: one that the model may leave is reported where it
// is lost, one that it is told to use must not be.
func (d *decoder) toolChoice() error {
	forced := false
	if d.choice != nil {
		var err error
		if forced, err = d.choose(*d.choice); err != nil {
			return err
		}
	}
	mode := d.r.ToolChoice.Mode
	for _, h := range d.hosted {
		switch {
		case mode == "none":
			// It cannot be used, so that nothing is lost without it.
		case !forced && (mode == "auto" || len(d.r.Tools) > 0):
			d.use(infer.FeatureToolHostedOptional, h.path)
		default:
			d.use(infer.FeatureToolHosted, h.path)
		}
	}
	if mode != "auto" && mode != "none" && len(d.r.Tools)+len(d.hosted) == 0 {
		return infer.Invalid("tool_choice", "cannot use tool_choice %s: got no tools", mode)
	}
	return nil
}

// choose reads tool_choice; forced says that a hosted tool is demanded.
func (d *decoder) choose(v jsonread.Value) (forced bool, err error) {
	c := &d.r.ToolChoice
	if v.Kind() == jsonread.String {
		c.Mode, err = v.Enum("none", "auto", "required")
		switch c.Mode {
		case "none":
			if len(d.r.Tools) > 0 {
				d.use(infer.FeatureToolNone, "tool_choice")
			}
		case "required":
			d.use(infer.FeatureToolRequired, "tool_choice")
		}
		return false, err
	}
	tv, ok := v.Get("type")
	if !ok {
		return false, v.Wrong(`"none", "auto", "required" or an object with a type`)
	}
	kind, err := tv.Str()
	if err != nil {
		return false, err
	}
	switch kind {
	case "function", "custom":
		name, err := d.chosen(v, kind)
		if err != nil {
			return false, err
		}
		*c = infer.ToolChoice{Mode: "function", Name: name}
		d.use(infer.FeatureToolNamed, "tool_choice")
		return false, nil
	case "allowed_tools":
		return d.allowed(v)
	}
	d.use(infer.FeatureToolHosted, "tool_choice")
	return true, nil
}

// chosen reads the name of a tool that is there.
func (d *decoder) chosen(v jsonread.Value, kind string) (string, error) {
	src := v
	if in, ok := v.Get(kind); ok && in.Kind() == jsonread.Object {
		src = in
	}
	nv, ok := src.Get("name")
	if !ok {
		return "", v.Errorf("cannot use %s: got no name", v.Path())
	}
	name, err := label(nv)
	if err != nil {
		return "", err
	}
	if sv, ok := src.Get("namespace"); ok && !sv.IsNull() {
		space, err := label(sv)
		if err != nil {
			return "", err
		}
		name = d.flat(space, name)
	}
	if !slices.ContainsFunc(d.r.Tools, func(t infer.Tool) bool { return t.Name == name }) {
		return "", v.Errorf("cannot use %s: no tool is named %q", v.Path(), jsonread.Shorten(name, 64))
	}
	return name, nil
}

// allowed reads {"type": "allowed_tools", "mode", "tools"}.
func (d *decoder) allowed(v jsonread.Value) (forced bool, err error) {
	c := &d.r.ToolChoice
	hosted := 0
	err = v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type":
		case "mode":
			c.Mode, err = m.Enum("auto", "required")
		case "tools":
			return m.Items(maxTools, func(_ int, t jsonread.Value) error {
				tv, ok := t.Get("type")
				if !ok {
					return t.Wrong("an object with a type")
				}
				kind, err := tv.Str()
				if err != nil {
					return err
				}
				if kind != "function" && kind != "custom" {
					hosted++
					return nil
				}
				name, err := d.chosen(t, kind)
				c.Allowed = append(c.Allowed, name)
				return err
			})
		default:
			return d.unknown(m)
		}
		return err
	})
	if err == nil && len(c.Allowed) == 0 && hosted == 0 {
		err = v.Errorf("cannot use %s: got no tools", v.Path())
	}
	if c.Mode == "required" {
		d.use(infer.FeatureToolRequired, v.Path())
	}
	if len(c.Allowed) > 0 {
		d.use(infer.FeatureToolAllowed, v.Path())
	}
	return len(c.Allowed) == 0, err
}
