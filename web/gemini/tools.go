package gemini

import (
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// tool reads one Tool: function declarations, and tools that Google runs itself.
func (d *decoder) tool(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("a tool, which is an object")
	}
	return members(v, func(key string, m jsonread.Value) error {
		switch key {
		case "functionDeclarations":
			return each(m, maxTools, d.function)
		case "googleSearch", "googleSearchRetrieval", "googleMaps", "codeExecution", "urlContext", "computerUse", "fileSearch",
			"enterpriseWebSearch", "retrieval", "mcpServers", "parallelAiSearch", "exaAiSearch":
			d.hosted = append(d.hosted, m.Path())
			return nil
		}
		return d.unknown(m)
	})
}

// function reads one FunctionDeclaration.
func (d *decoder) function(v jsonread.Value) error {
	var t infer.Tool
	has := ""
	err := members(v, func(key string, m jsonread.Value) (err error) {
		switch key {
		case "name":
			return str(&t.Name, m, maxToolName)
		case "description":
			return str(&t.Description, m, 1<<20)
		case "parameters", "parametersJsonSchema":
			if has != "" {
				return m.Errorf("cannot use %s: got both parameters and parametersJsonSchema", m.Path())
			}
			has = key
			if key == "parameters" {
				t.Parameters, err = jsonSchema(m)
				return err
			}
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON schema, which is an object")
			}
			t.Parameters = m.Clone()
			return nil
		case "response", "responseJsonSchema":
			d.use(infer.FeatureToolAnnotation, m)
			return nil
		case "behavior":
			s, err := word(m)
			if err == nil && s != "UNSPECIFIED" && s != "BLOCKING" {
				d.use(infer.FeatureUnknown, m)
			}
			return err
		}
		return d.unknown(m)
	})
	switch {
	case err != nil:
		return err
	case t.Name == "":
		return v.Errorf("cannot use %s: got no name", v.Path())
	case len(d.r.Tools) == maxTools:
		return v.Errorf("cannot use %s: got more than %d functions", v.Path(), maxTools)
	case slices.ContainsFunc(d.r.Tools, func(o infer.Tool) bool { return o.Name == t.Name }):
		return v.Errorf("cannot use %s: the name %q comes twice", v.Path(), t.Name)
	}
	d.use(infer.FeatureTools, v)
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

// toolConfig takes one member of toolConfig.
func (d *decoder) toolConfig(key string, v jsonread.Value) error {
	switch key {
	case "functionCallingConfig":
		return d.calling(v)
	case "retrievalConfig":
		d.hosted = append(d.hosted, v.Path())
		return nil
	case "includeServerSideToolInvocations":
		on, err := v.Bool()
		if err == nil && on {
			d.hosted = append(d.hosted, v.Path())
		}
		return err
	}
	return d.unknown(v)
}

// calling reads functionCallingConfig. ANY demands a call, VALIDATED holds calls
// to their schema; either may narrow the choice to some functions.
func (d *decoder) calling(v jsonread.Value) error {
	mode, modeAt := "", v
	var allowed []string
	var allowedAt jsonread.Value
	err := members(v, func(key string, m jsonread.Value) (err error) {
		switch key {
		case "mode":
			modeAt = m
			mode, err = word(m)
			return err
		case "allowedFunctionNames":
			allowedAt = m
			allowed, err = m.Strings(maxTools)
			return err
		case "streamFunctionCallArguments": // calls come in pieces or whole
			return d.flag(m, infer.FeatureBeta)
		}
		return d.unknown(m)
	})
	if err != nil {
		return err
	}
	c := &d.r.ToolChoice
	switch mode {
	case "", "AUTO", "MODE_UNSPECIFIED":
		allowed = nil // they count with ANY and VALIDATED alone
	case "NONE":
		c.Mode, allowed = "none", nil
		d.use(infer.FeatureToolNone, modeAt)
	case "ANY":
		if len(allowed) == 1 {
			c.Mode, c.Name = "function", allowed[0]
			d.use(infer.FeatureToolNamed, allowedAt)
			return nil
		}
		c.Mode = "required"
		d.use(infer.FeatureToolRequired, modeAt)
	case "VALIDATED":
		d.validated = true
		d.use(infer.FeatureToolStrict, modeAt)
	default:
		return modeAt.Wrong("one of AUTO, ANY, NONE, VALIDATED")
	}
	if len(allowed) > 0 {
		c.Allowed = allowed
		d.use(infer.FeatureToolAllowed, allowedAt)
	}
	return nil
}

// finishTools settles what toolConfig says of the tools, and whether the hosted
// ones may be left out.
func (d *decoder) finishTools() {
	c := &d.r.ToolChoice
	f := infer.FeatureToolHosted
	if len(d.r.Tools) > 0 && c.Mode == "auto" {
		f = infer.FeatureToolHostedOptional
	}
	for _, path := range d.hosted {
		d.useAt(f, path)
	}
	if d.validated {
		for i := range d.r.Tools {
			d.r.Tools[i].Strict = true
		}
	}
}
