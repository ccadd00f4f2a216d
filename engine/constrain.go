package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"hearth/engine/grammar"
	"hearth/engine/infer"
	"hearth/engine/output"
)

// compile sets the grammar of a request: its format, or the tool calls that it
// asks for. Reasoning, where the model does it, stays free in front.
func (e *Engine) compile(ctx context.Context, r *infer.Request, p *prepared) error {
	expr, constrained, err := grammar.FromFormat(r.Format)
	if err != nil {
		return err
	}
	if p.tools != nil {
		calls, ok, err := e.callExpr(r, p)
		if err != nil {
			return err
		}
		if ok && constrained {
			return infer.Unsupported("response_format", "a response format together with strict tools is not offered: use one of them")
		}
		if ok {
			expr, constrained = calls, true
		}
	}
	if !constrained {
		return nil
	}
	if r.Kind == infer.Chat && e.reasons && r.SplitReasoning {
		expr = e.afterReasoning(expr, p.openThink)
	}
	p.grammar, err = e.grams().Compile(ctx, expr)
	return err
}

// afterReasoning lets a reasoning block come before expr: the rest of one that
// the prompt opened, or one that the model opens itself.
func (e *Engine) afterReasoning(expr grammar.Expr, open bool) grammar.Expr {
	space := grammar.FromRegex(`[ \n]{0,4}`)
	if open {
		return grammar.Sequence(grammar.Until(e.reasoning.Close), space, expr)
	}
	block := grammar.Sequence(e.literal(e.reasoning.Open), grammar.Until(e.reasoning.Close), space)
	return grammar.Sequence(grammar.Optional(block), expr)
}

// maxForcedCalls bounds the calls of one constrained answer.
const maxForcedCalls = 16

// callExpr is the language of the tool calls that a request demands. ok is
// false where calls are free: nothing is demanded and no tool is strict.
func (e *Engine) callExpr(r *infer.Request, p *prepared) (expr grammar.Expr, ok bool, err error) {
	env := p.tools.Call
	mode := r.ToolChoice.Mode
	forced := mode == "required" || mode == "function"
	tools := r.Tools
	if mode == "function" {
		for i := range tools {
			if tools[i].Name == r.ToolChoice.Name {
				tools = tools[i : i+1]
				break
			}
		}
	}
	strict := false
	for i := range tools {
		strict = strict || tools[i].Strict
	}
	if !forced && !strict {
		return expr, false, nil
	}
	var alts []grammar.Expr
	for i := range tools {
		alts = append(alts, grammar.Sequence(e.literal(env.CallOpen), e.callAfterOpen(env, i, &tools[i])))
	}
	most := maxForcedCalls
	if !r.ParallelToolCalls || mode == "function" {
		most = 1
	}
	call := grammar.Alternatives(alts...)
	calls := grammar.Sequence(call, grammar.Repeat(grammar.Sequence(e.literal(env.Separator), call), 0, most-1))
	whole := grammar.Sequence(e.literal(env.Begin), calls, e.literal(env.End))
	if forced {
		p.forced = true
		return whole, true, nil
	}
	// Free text, but a call that is begun must be a call of a tool.
	opening := env.Begin + env.CallOpen
	if strings.TrimSpace(opening) == "" || strings.HasPrefix(opening, "{") {
		return expr, false, infer.Unsupported("tools", "strict tools need a tool_choice on this model, whose calls have no marker")
	}
	rest := make([]grammar.Expr, len(tools))
	for i := range tools {
		rest[i] = e.callAfterOpen(env, i, &tools[i])
	}
	then := grammar.Sequence(grammar.Alternatives(rest...),
		grammar.Repeat(grammar.Sequence(e.literal(env.Separator), call), 0, most-1), e.literal(env.End))
	return grammar.Triggered(0, most, e.trigger(opening, then)), true, nil
}

// trigger switches from free text to then where opening is written; an opening
// that begins with a control token is that token.
func (e *Engine) trigger(opening string, then grammar.Expr) grammar.Trigger {
	if at, name, id := e.firstControl(opening); name != "" && at == 0 {
		return grammar.TokenTrigger(id, grammar.Sequence(e.literal(opening[len(name):]), then))
	}
	return grammar.Trigger{Text: opening, Then: then}
}

func (e *Engine) callAfterOpen(env output.Envelope, i int, t *infer.Tool) grammar.Expr {
	name, _ := json.Marshal(t.Name)
	return grammar.Sequence(
		grammar.Literal(string(name[1:len(name)-1])),
		e.literal(env.ArgsOpen),
		toolSchema(i, t),
		e.literal(env.CallClose))
}

// toolSchema is the language of a tool's arguments.
func toolSchema(i int, t *infer.Tool) grammar.Expr {
	schema := t.Parameters
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	return grammar.FromSchema(schema, grammar.SchemaOptions{
		Param:      fmt.Sprintf("tools[%d].function.parameters", i),
		Subject:    fmt.Sprintf("tool %q", t.Name),
		NeedObject: true,
		// Without strict a tool's schema guides the model; what a mask cannot
		// express must not fail the turn.
		BestEffort: !t.Strict,
	})
}

// literal spells s, with control tokens of the vocabulary as tokens: they occur
// nowhere else in a constrained text.
func (e *Engine) literal(s string) grammar.Expr {
	var parts []grammar.Expr
	for s != "" {
		at, name, id := e.firstControl(s)
		if name == "" {
			parts = append(parts, grammar.Literal(s))
			break
		}
		if at > 0 {
			parts = append(parts, grammar.Literal(s[:at]))
		}
		parts = append(parts, grammar.Token(id))
		s = s[at+len(name):]
	}
	return grammar.Sequence(parts...)
}

// firstControl finds the first control token written in s.
func (e *Engine) firstControl(s string) (at int, name string, id int32) {
	for _, m := range e.markers {
		if i := strings.Index(s, m.name); i >= 0 && (name == "" || i < at) {
			at, name, id = i, m.name, m.id
		}
	}
	return at, name, id
}
