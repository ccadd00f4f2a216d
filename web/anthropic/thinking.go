package anthropic

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// thinking reads how much the model may reason before it answers.
func (d *decoder) thinking(v jsonread.Value) error {
	t, err := typeOf(v)
	if err != nil {
		return err
	}
	th := &d.r.Thinking
	switch t {
	case "enabled":
		th.Switch = "on"
	case "disabled":
		th.Switch = "off"
	case "adaptive":
		th.Switch = "adaptive"
	default: // between_tools, and what comes after it
		d.use(infer.FeatureUnknown, "thinking.type")
	}
	if th.Switch != "" {
		d.use(infer.FeatureReasoningSwitch, "thinking.type")
	}
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() || key == "type" {
			return nil
		}
		switch key {
		case "budget_tokens":
			n, err := m.Int(1, maxTokens)
			if th.Budget = int(n); err == nil {
				d.use(infer.FeatureReasoningBudget, m.Path())
			}
			return err
		case "display":
			s, err := m.Str()
			if err != nil {
				return err
			}
			d.use(infer.FeatureReasoningSummary, m.Path())
			switch s {
			case "summarized":
				th.Summary = "auto"
			case "omitted":
				th.Summary, d.o.HideReasoning = "omitted", true
			}
			return nil
		}
		d.unknown(m)
		return nil
	})
}

// outputConfig reads effort and form of the answer.
func (d *decoder) outputConfig(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "effort":
			s, err := m.Str()
			switch s {
			case "low", "medium", "high", "xhigh", "max":
				d.r.Thinking.Effort = s
				d.use(infer.FeatureReasoningEffort, m.Path())
			default: // a level of tomorrow
				d.unknown(m)
			}
			return err
		case "format":
			return d.format(m)
		}
		d.unknown(m)
		return nil
	})
}

// format reads {"type":"json_schema","schema":…}.
func (d *decoder) format(v jsonread.Value) error {
	t, err := typeOf(v)
	if err != nil {
		return err
	}
	if t != "json_schema" {
		d.use(infer.FeatureUnknown, v.Path())
		return nil
	}
	d.formats = append(d.formats, v.Path())
	d.r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "answer", Strict: true}
	d.use(infer.FeatureJSONSchema, v.Path())
	err = v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "type":
		case "schema":
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON Schema, which is an object")
			}
			d.r.Format.Schema = m.Clone()
		case "name":
			if s, err := m.Str(); err == nil && s != "" {
				d.r.Format.Name = s
			}
		default:
			d.unknown(m)
		}
		return nil
	})
	if err == nil && d.r.Format.Schema == nil {
		err = v.Errorf("cannot use %s: got no schema", v.Path())
	}
	return err
}
