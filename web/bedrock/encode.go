package bedrock

import (
	"slices"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// encode writes a request of another dialect.
func encode(r *infer.Request, t wire.Target) ([]byte, error) {
	switch {
	case r.Kind != infer.Chat:
		return nil, infer.Unsupported("prompt", "cannot complete a plain prompt at a provider of conversations")
	case r.Sampling.Temperature > 1:
		return nil, infer.Unsupported("temperature", "cannot use a temperature above 1 at this provider")
	}
	fam := familyOf(t.Model)
	c := conversation{}
	if err := c.read(r); err != nil {
		return nil, err
	}
	tools := c.tools(r)
	dst := append(make([]byte, 0, 4<<10), `{"messages":[`...)
	dst = c.appendTurns(dst)
	dst = append(dst, ']')
	if len(c.system) > 0 {
		dst = append(append(append(dst, `,"system":[`...), c.system...), ']')
	}
	dst = append(dst, tools...)
	limit := max(r.Sampling.MaxTokens, 0) // 0 leaves it to the model
	dst = appendInference(dst, r, limit, fam)
	dst = appendFields(dst, r, t, limit, fam)
	if r.Format.Kind == infer.FormatJSONSchema && len(r.Format.Schema) > 0 {
		dst = append(dst, `,"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":`...)
		dst = jsonwrite.String(dst, string(r.Format.Schema)) // a string, not an object
		if r.Format.Name != "" {
			dst = jsonwrite.String(append(dst, `,"name":`...), r.Format.Name)
		}
		dst = append(dst, "}}}}"...)
	}
	switch tier := r.Hints.ServiceTier; tier {
	case "priority", "flex", "default", "reserved":
		dst = append(append(append(dst, `,"serviceTier":{"type":"`...), tier...), `"}`...)
	case "standard", "standard_only":
		dst = append(dst, `,"serviceTier":{"type":"default"}`...)
	}
	return append(dst, '}'), nil
}

// appendInference appends inferenceConfig: what every model has.
func appendInference(dst []byte, r *infer.Request, limit int, fam family) []byte {
	s := &r.Sampling
	start := len(dst)
	if limit > 0 {
		dst = jsonwrite.Int(append(dst, `,"maxTokens":`...), int64(limit))
	}
	if s.Temperature != 1 {
		dst = jsonwrite.Float(append(dst, `,"temperature":`...), s.Temperature)
	}
	if s.TopP != 1 {
		dst = jsonwrite.Float(append(dst, `,"topP":`...), s.TopP)
	}
	n := 0
	for _, stop := range s.Stop {
		if strings.TrimSpace(stop) == "" && fam == claude {
			continue // it refuses a sequence of white space
		}
		if n++; n == 1 {
			dst = append(dst, `,"stopSequences":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(dst, stop)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	if len(dst) == start {
		return dst
	}
	body := slices.Clone(dst[start+1:])
	dst = append(append(dst[:start], `,"inferenceConfig":{`...), body...)
	return append(dst, '}')
}

// family is whose parameters a model has.
type family uint8

const (
	claude family = iota // also where the name of a profile does not tell
	nova
	nova2
	gptOSS
	cohere
	otherFamily
)

// familyOf tells by the model's name: ids are maker.model, with a region's prefix
// in cross-region profiles; a profile of one's own (an ARN that ends in a code)
// tells nothing.
func familyOf(model string) family {
	m := strings.ToLower(model)
	has := func(s string) bool { return strings.Contains(m, s) }
	switch {
	case has("claude"), has("anthropic."):
		return claude
	case has("nova-2"):
		return nova2
	case has("amazon.nova"):
		return nova
	case has("gpt-oss"), has("openai."):
		return gptOSS
	case has("cohere."):
		return cohere
	case has("application-inference-profile"), !has("."):
		return claude
	}
	return otherFamily
}

// appendFields appends additionalModelRequestFields: what the maker of the model
// calls otherwise.
func appendFields(dst []byte, r *infer.Request, t wire.Target, limit int, fam family) []byte {
	start := len(dst)
	if k := r.Sampling.TopK; k > 0 {
		switch fam {
		case nova, nova2:
			dst = append(jsonwrite.Int(append(dst, `,"inferenceConfig":{"topK":`...), int64(k)), '}')
		case cohere:
			dst = jsonwrite.Int(append(dst, `,"k":`...), int64(k))
		default:
			dst = jsonwrite.Int(append(dst, `,"top_k":`...), int64(k))
		}
	}
	switch fam {
	case claude:
		th := r.Thinking
		if budgeted(t.Model) {
			inTokens(&th)
		}
		dst = appendThinking(dst, &th, limit)
	case nova2:
		dst = appendNovaReasoning(dst, &r.Thinking)
	default:
		if e := effort(&r.Thinking); e != "" {
			dst = append(append(append(dst, `,"reasoning_effort":"`...), e...), '"')
		}
	}
	if len(dst) == start {
		return dst
	}
	body := slices.Clone(dst[start+1:])
	dst = append(append(dst[:start], `,"additionalModelRequestFields":{`...), body...)
	return append(dst, '}')
}

// budgeted tells a model of Claude's from before adaptive thinking, which came
// with 4.6, by its name ("eu.anthropic.claude-3-7-sonnet-20250219-v1:0").
func budgeted(model string) bool {
	_, rest, ok := strings.Cut(strings.ToLower(model), "claude-")
	if !ok {
		return false
	}
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '-' || r == '@' || r == '.' || r == ':' })
	var version []int
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil && len(version) == 0 {
			continue // the family
		}
		if err != nil || n >= 100 || len(version) == 2 {
			break // a date, or what follows
		}
		version = append(version, n)
	}
	switch len(version) {
	case 0:
		return strings.HasPrefix(rest, "instant")
	case 1:
		return version[0] <= 4
	}
	return version[0] < 4 || version[0] == 4 && version[1] < 6
}

// budgets is what an effort is worth in tokens.
var budgets = map[string]int{"minimal": minBudget, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32000}

// inTokens says as a budget what is said as an effort or a switch.
func inTokens(th *infer.Thinking) {
	if th.Switch == "off" || th.Effort == "none" {
		return
	}
	if th.Budget == 0 {
		th.Budget = budgets[th.Effort]
	}
	if th.Budget == 0 && th.Switch != "" {
		th.Budget = budgets["medium"]
	}
	th.Effort = ""
}

// minBudget is the least budget that Claude takes.
const minBudget = 1024

// fit moves a budget between the least one and the bound of the answer, which 0
// leaves to the model; 0: there is no room for any.
func fit(budget, limit int) int {
	switch budget = max(budget, minBudget); {
	case limit == 0:
		return budget
	case limit <= minBudget:
		return 0
	}
	return min(budget, limit-1)
}

// ValueLosses notes a budget of reasoning that is moved to what Claude takes, or
// left out where the bound of the answer leaves no room for it.
func (Client) ValueLosses(r *infer.Request, t wire.Target) []infer.Loss {
	th := r.Thinking
	if familyOf(t.Model) != claude || th.Switch == "off" || th.Effort == "none" {
		return nil
	}
	if budgeted(t.Model) {
		inTokens(&th)
	}
	if th.Budget <= 0 {
		return nil
	}
	return wire.BudgetLoss(r, th.Budget, fit(th.Budget, max(r.Sampling.MaxTokens, 0)))
}

// appendThinking is Claude's way: a budget below the bound of the answer, or an
// effort with thinking that adapts.
func appendThinking(dst []byte, th *infer.Thinking, limit int) []byte {
	e := th.Effort
	switch e {
	case "minimal":
		e = "low"
	case "none":
		e = ""
	}
	switch {
	case th.Switch == "off" || th.Effort == "none":
		return append(dst, `,"thinking":{"type":"disabled"}`...)
	case th.Budget > 0:
		budget := fit(th.Budget, limit)
		if budget == 0 {
			return dst // no room for any
		}
		dst = append(jsonwrite.Int(append(dst, `,"thinking":{"type":"enabled","budget_tokens":`...), int64(budget)), '}')
	case th.Switch != "" || e != "":
		dst = append(dst, `,"thinking":{"type":"adaptive"}`...)
	}
	if e != "" {
		dst = append(append(append(dst, `,"output_config":{"effort":"`...), e...), `"}`...)
	}
	return dst
}

func appendNovaReasoning(dst []byte, th *infer.Thinking) []byte {
	switch e := effort(th); {
	case th.Switch == "off" || th.Effort == "none":
		return append(dst, `,"reasoningConfig":{"type":"disabled"}`...)
	case e != "":
		return append(append(append(dst, `,"reasoningConfig":{"type":"enabled","maxReasoningEffort":"`...), e...), `"}`...)
	}
	return dst
}

// effort is low, medium or high; empty where nothing was asked for.
func effort(th *infer.Thinking) string {
	switch {
	case th.Effort == "minimal" || th.Effort == "none" || th.Switch == "off":
		return "low"
	case th.Effort == "xhigh" || th.Effort == "max":
		return "high"
	case th.Effort != "":
		return th.Effort
	case th.Budget > 16384:
		return "high"
	case th.Budget > 2048 || th.Budget == 0 && th.Switch != "":
		return "medium"
	case th.Budget > 0:
		return "low"
	}
	return ""
}
