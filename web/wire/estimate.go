package wire

import "hearth/engine/infer"

// EstimateTokens is how many tokens stand behind n bytes of a provider's text
// when it does not say: a quarter of them, at least one for any text at all.
func EstimateTokens(n int) int {
	if n <= 0 {
		return 0
	}
	return (n + 3) / 4
}

// Parts that are not text cost what a provider of middle size charges for an
// image of low detail; their bytes say nothing.
const (
	partTokens = 256
	turnTokens = 4 // role and separators of a turn
)

// EstimatePrompt is how many tokens a request's prompt has, when a provider does
// not say. At least one.
func EstimatePrompt(r *infer.Request) int {
	n, other := 0, 0
	for i := range r.Messages {
		m := &r.Messages[i]
		other += turnTokens
		n += len(m.Reasoning) + len(m.Name)
		for k := range m.Content {
			if p := &m.Content[k]; p.Type == "text" || p.Type == "" {
				n += len(p.Text)
			} else {
				other += partTokens
			}
		}
		for k := range m.ToolCalls {
			n += len(m.ToolCalls[k].Name) + len(m.ToolCalls[k].Arguments)
		}
	}
	for i := range r.Tools {
		n += len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Parameters)
	}
	for i := range r.Prompts {
		n += len(r.Prompts[i].Text)
		other += len(r.Prompts[i].Tokens)
	}
	n += len(r.Suffix) + len(r.Format.Schema)
	return max(1, EstimateTokens(n)+other)
}
