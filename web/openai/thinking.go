package openai

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// thinking takes the fields that say how much a model may reason: OpenAI's
// reasoning_effort, enable_thinking and thinking_budget of the open models'
// servers, the object thinking that LiteLLM, DeepSeek and others take after
// Anthropic, and OpenRouter's object reasoning.
func (d *decoder) thinking(key string, v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	switch key {
	case "reasoning_effort":
		return d.setEffort(v)
	case "enable_thinking":
		on, err := v.Bool()
		if err == nil {
			d.setSwitch(v, on)
		}
		return err
	case "thinking_budget":
		return d.int(infer.FeatureReasoningBudget, &d.r.Thinking.Budget, v, 0, maxTokens)
	case "thinking":
		return d.thinkingObject(v)
	}
	return d.reasoningObject(v)
}

// setEffort takes the words of OpenAI's schema; one not yet invented may be known
// to a provider of this dialect.
func (d *decoder) setEffort(v jsonread.Value) error {
	if v.Kind() != jsonread.String {
		return v.Wrong("a string")
	}
	e, err := v.Enum("none", "minimal", "low", "medium", "high", "xhigh", "max")
	if err != nil {
		return d.beyond(v, err)
	}
	d.r.Thinking.Effort = e
	d.use(infer.FeatureReasoningEffort, v)
	return nil
}

func (d *decoder) setSwitch(v jsonread.Value, on bool) {
	d.r.Thinking.Switch = "off"
	if on {
		d.r.Thinking.Switch = "on"
	}
	d.switched = v.Path()
	d.use(infer.FeatureReasoningSwitch, v)
}

// thinkingObject reads {"type", "budget_tokens"}.
func (d *decoder) thinkingObject(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
			word, err := m.Enum("enabled", "disabled", "adaptive", "auto")
			if err != nil {
				return d.beyond(m, err)
			}
			switch word {
			case "adaptive", "auto":
				d.r.Thinking.Switch = "adaptive"
				d.use(infer.FeatureReasoningSwitch, m)
			default:
				d.setSwitch(m, word == "enabled")
			}
			return nil
		case "budget_tokens":
			return d.int(infer.FeatureReasoningBudget, &d.r.Thinking.Budget, m, 0, maxTokens)
		}
		return d.unknown(m)
	})
}

// reasoningObject reads {"effort", "max_tokens", "enabled", "exclude"}.
func (d *decoder) reasoningObject(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "effort":
			return d.setEffort(m)
		case "max_tokens":
			return d.int(infer.FeatureReasoningBudget, &d.r.Thinking.Budget, m, 0, maxTokens)
		case "enabled":
			on, err := m.Bool()
			if err == nil {
				d.setSwitch(m, on)
			}
			return err
		case "exclude":
			return setBool(&d.o.HideReasoning, m)
		}
		return d.unknown(m)
	})
}
