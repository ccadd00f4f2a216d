package policy

import (
	"errors"
	"fmt"
	"slices"

	"hearth/engine/infer"
)

// Rules are what a route asks of requests and answers, compiled. The nil Rules
// ask nothing and cost nothing. Safe for concurrent use.
//
// Content is what a decoder has understood: the text of turns, prompts and tool
// results, earlier reasoning, arguments, declarations and schemas, labels, and
// the fields that it did not know. Images, sound and files other than text are
// not looked into; a modality rule keeps them out.
type Rules struct {
	normalize func(string) string // nil: nothing is normalized
	requests  []requestRule
	answers   []*textRule // in their order
	arguments *checkRule  // of the model's tool calls
	json      *checkRule
	schemas   *schemaCache
}

// Decision says what a rule did to a request or an answer, never to what text.
type Decision struct {
	Rule   string
	Action string // "deny", "redact", "tag", "clamp"
	On     string // "request", "answer"
	Count  int    // how often
}

// String is the form that the ledger has: "rule=action", with the number of times
// if that is more than one.
func (d Decision) String() string {
	if d.Count > 1 {
		return fmt.Sprintf("%s=%s*%d", d.Rule, d.Action, d.Count)
	}
	return d.Rule + "=" + d.Action
}

// ErrDenied is the cause of every error by which a rule refuses a request or ends
// an answer.
var ErrDenied = errors.New("denied by a rule")

// denied is the error of a rule that refuses.
func denied(code infer.Code, rule, param, format string, args ...any) *infer.Error {
	return &infer.Error{Code: code, Param: param, NoRetry: true, Cause: ErrDenied,
		Message: fmt.Sprintf(format, args...) + fmt.Sprintf(" (rule %q)", rule)}
}

// requestRule looks at a request, and may change the examination's copy.
type requestRule interface {
	examine(e *examination) error
}

// textRule looks for something in text.
type textRule struct {
	name, action string
	finder       finder
	replacement  string
}

// checkRule asks that the model keeps to a schema.
type checkRule struct{ name, action string }

// maxOutputRule is the name under which a route's own bound refuses and clamps.
const maxOutputRule = "max_output_tokens"

// compile makes the rules of a route; nil if there are none.
func (c *Config) compile(r *RouteConfig) (*Rules, error) {
	rs := &Rules{normalize: normalizer(r.Normalize), schemas: newSchemaCache()}
	if r.MaxOutputTokens > 0 {
		rs.requests = append(rs.requests, &maxTokensRule{maxOutputRule, r.MaxOutputTokens, r.OverMax == actionClamp})
	}
	for _, cfg := range c.rulesOf(r) {
		if err := rs.add(&cfg); err != nil {
			return nil, fmt.Errorf("cannot compile rule %q: %w", cfg.Name, err)
		}
	}
	if rs.normalize == nil && len(rs.requests) == 0 && len(rs.answers) == 0 && rs.arguments == nil && rs.json == nil {
		return nil, nil
	}
	return rs, nil
}

func (rs *Rules) add(c *RuleConfig) error {
	switch c.Kind {
	case ruleSize:
		rs.requests = append(rs.requests, &sizeRule{*c})
	case ruleModality:
		rs.requests = append(rs.requests, &modalityRule{*c})
	case ruleMaxTokens:
		rs.requests = append(rs.requests, &maxTokensRule{c.Name, c.MaxTokens, c.Action == actionClamp})
	case ruleTools:
		rs.requests = append(rs.requests, &toolsRule{*c})
	case ruleToolArguments:
		rs.arguments = &checkRule{c.Name, c.Action}
		rs.requests = append(rs.requests, &schemaRule{c.Name, rs.schemas, true})
	case ruleJSON:
		rs.json = &checkRule{c.Name, c.Action}
		rs.requests = append(rs.requests, &schemaRule{c.Name, rs.schemas, false})
	default:
		f, err := c.finder()
		if err != nil {
			return err
		}
		t := &textRule{c.Name, c.Action, f, c.Replacement}
		if slices.Contains(c.On, onRequest) {
			rs.requests = append(rs.requests, t)
		}
		if slices.Contains(c.On, onAnswer) {
			rs.answers = append(rs.answers, t)
		}
	}
	return nil
}

// finder compiles what a text rule looks for.
func (c *RuleConfig) finder() (finder, error) {
	switch c.Kind {
	case rulePII:
		return newPersonal(c.Detect), nil
	case ruleKeyword:
		words := make([]string, len(c.Words))
		for i, w := range c.Words {
			words[i] = wordPattern(w)
		}
		return newPattern(anyOf(words))
	}
	return newPattern(anyOf(c.Patterns))
}

// examination is one request on its way through the rules.
type examination struct {
	r         *infer.Request // changed copies replace it; the caller's stays as it is
	decisions []Decision
}

func (e *examination) decide(rule, action string, count int) {
	e.decisions = append(e.decisions, Decision{rule, action, onRequest, count})
}

// Before applies the rules to a request: it gives the request to be served, which
// is r itself if nothing was changed, and what was decided. A request whose text
// was changed has no Wire any more: what only its bytes carried is lost, and is
// to be reported or refused as any loss is. A clamp sets a member of Wire.Set.
func (rs *Rules) Before(r *infer.Request) (*infer.Request, []Decision, error) {
	if rs == nil {
		return r, nil, nil
	}
	e := examination{r: r}
	if rs.normalize != nil {
		e.normalize(rs.normalize)
	}
	for _, rule := range rs.requests {
		if err := rule.examine(&e); err != nil {
			return r, e.decisions, err
		}
	}
	if t := rs.holder(); t != nil && (r.Sampling.Logprobs || r.Sampling.PromptLogprobs || r.Sampling.ReturnTokenIDs || r.Echo) {
		return r, e.decisions, infer.Unsupported("", "log-probabilities, token ids and echo are not offered by this model, since its answers are looked through (rule %q)", t.name)
	}
	return e.r, e.decisions, nil
}

// holder is the first rule for which text of an answer is held back; nil: none.
func (rs *Rules) holder() *textRule {
	for _, t := range rs.answers {
		if t.action != actionTag {
			return t
		}
	}
	return nil
}

// BeforeEmbed is Before for a request for embeddings.
func (rs *Rules) BeforeEmbed(r *infer.EmbedRequest) (*infer.EmbedRequest, []Decision, error) {
	if rs == nil {
		return r, nil, nil
	}
	as := infer.Request{ID: r.ID, Model: r.Model, Tenant: r.Tenant, Kind: infer.Completion, Prompts: r.Inputs, Hints: r.Hints, Uses: r.Uses, Wire: r.Wire}
	out, decisions, err := rs.Before(&as)
	if err != nil || out == &as {
		return r, decisions, err
	}
	own := *r
	own.Inputs, own.Hints = out.Prompts, out.Hints
	if out.Wire == nil {
		own.Wire = nil
	}
	return &own, decisions, nil
}
