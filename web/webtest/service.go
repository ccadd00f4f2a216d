// Package webtest has a web.Service that plays a scripted model, for tests of
// the wire alone: no engine, no storage, no clock of its own.
package webtest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/web"
)

// Key is the API key that the service knows, Key2 that of another tenant.
const (
	Key  = "hk-test-0123456789abcdef"
	Key2 = "hk-test-fedcba9876543210"
)

// Service plays a model named "parrot". What it does is told by the last user
// message (or prompt), see script. The zero value is ready.
type Service struct {
	// Hook, if set, replaces the script for one call.
	Hook func(ctx context.Context, g *web.Grant, r *infer.Request, yield func(infer.Event, error) bool)
	// Down makes Ready and Admit refuse with this reason.
	Down atomic.Value // string

	Admitted, Released, Calls, Ended atomic.Int64
	// Last is the last request that reached Call.
	Last atomic.Pointer[infer.Request]
	// Caller is the last caller that reached Admit.
	Caller atomic.Pointer[web.Caller]

	// NoState makes the service keep no responses.
	NoState bool

	responses responses

	onces onces
}

var _ web.Service = (*Service)(nil)

// Admit knows one key; "Bearer limited" and "Bearer broke" are refused as their
// names say.
func (s *Service) Admit(_ context.Context, c web.Caller) (*web.Grant, error) {
	s.Caller.Store(&c)
	if why, _ := s.Down.Load().(string); why != "" {
		return nil, &infer.Error{Code: infer.CodeUnavailable, Message: "the server is " + why, RetryAfter: 5 * time.Second}
	}
	limits := []web.LimitState{{Kind: "requests", Limit: 60, Remaining: 59, Reset: time.Second}, {Kind: "tokens", Limit: 10000, Remaining: 9000, Reset: 6 * time.Minute}}
	switch {
	case c.Credential == "limited":
		limits[0].Remaining = 0
		return &web.Grant{Limits: limits}, &infer.Error{Code: infer.CodeRateLimited, Message: "60 requests a minute are allowed", RetryAfter: 1500 * time.Millisecond}
	case c.Credential == "broke":
		return nil, &infer.Error{Code: infer.CodeQuota, Message: "the budget is spent", NoRetry: true}
	case c.Credential == "forbidden":
		return nil, infer.Errorf(infer.CodeForbidden, "this key may not do that")
	case c.Credential == Key, c.Credential == Key2:
	case c.Principal != nil:
	default:
		return nil, infer.Errorf(infer.CodeUnauthorized, "the API key is missing or wrong")
	}
	s.Admitted.Add(1)
	return &web.Grant{
		RequestID: c.RequestID, Tenant: tenantOf(c.Credential), KeyID: "k1", Limits: limits, Trace: c.TraceParent, Idempotency: c.Idempotency,
		Release: sync.OnceFunc(func() { s.Released.Add(1) }),
	}, nil
}

func tenantOf(key string) string {
	if key == Key2 {
		return "other"
	}
	return "acme"
}

// Call plays the script.
func (s *Service) Call(ctx context.Context, g *web.Grant, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		s.Calls.Add(1)
		defer s.Ended.Add(1)
		s.Last.Store(r)
		if err := refused(r); err != nil {
			yield(infer.Event{}, err)
			return
		}
		g.Contract = "sha256:0123456789abcdef"
		if s.Hook != nil {
			s.Hook(ctx, g, r, yield)
			return
		}
		s.script(ctx, r, yield)
	}
}

// Asked is what the script goes by.
func Asked(r *infer.Request) string {
	if r.Kind == infer.Completion {
		return r.Prompts[0].Text
	}
	return r.Messages[len(r.Messages)-1].Text()
}

// words cuts text into tokens: a word with the space before it, or a byte of
// anything beyond ASCII.
func words(s string) []string {
	var out []string
	for i := 0; i < len(s); {
		j := i + 1
		if s[i] < 0x80 {
			for j < len(s) && s[j] != ' ' && s[j] < 0x80 {
				j++
			}
		}
		out = append(out, s[i:j])
		i = j
	}
	return out
}

func (s *Service) script(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool) {
	if r.Model != "parrot" {
		e := infer.Errorf(infer.CodeModelNotFound, "the model %q does not exist", r.Model)
		e.Param = "model"
		yield(infer.Event{}, e)
		return
	}
	asked := Asked(r)
	if code, ok := strings.CutPrefix(asked, "error "); ok {
		yield(infer.Event{}, &infer.Error{Code: infer.Code(code), Message: "as you asked"})
		return
	}
	if asked == "panic" {
		panic("the words of a prompt")
	}
	u := infer.Usage{PromptTokens: len(words(asked)) + 3, CachedTokens: 2}
	if !yield(infer.Event{Kind: infer.EventStart, Usage: &u, Model: &infer.Served{Name: r.Model, Fingerprint: "fp_test"}}, nil) {
		return
	}
	n := max(1, r.Sampling.N)
	count := n * max(1, len(r.Prompts))
	for c := range count {
		p := &player{ctx: ctx, r: r, u: &u, choice: c, yield: yield}
		if r.Kind == infer.Completion {
			asked = r.Prompts[c/n].Text
			if r.Prompts[c/n].Tokens != nil {
				asked = fmt.Sprint(r.Prompts[c/n].Tokens)
			}
		}
		if !p.play(asked) {
			return
		}
	}
	yield(infer.Event{Kind: infer.EventUsage, Usage: &u}, nil)
}

// player plays one choice.
type player struct {
	ctx    context.Context
	r      *infer.Request
	u      *infer.Usage
	choice int
	yield  func(infer.Event, error) bool
	made   int
}

func (p *player) emit(ev infer.Event) bool {
	ev.Choice = p.choice
	p.u.CompletionTokens += ev.Tokens
	return p.ctx.Err() == nil && p.yield(ev, nil)
}

func (p *player) play(asked string) bool {
	fin := infer.FinishStop
	switch {
	case len(p.r.Tools) > 0 && p.r.ToolChoice.Mode != "none" && p.r.Messages[len(p.r.Messages)-1].Role != infer.RoleTool:
		if !p.call() {
			return false
		}
		fin = infer.FinishToolCalls
	case asked == "die":
		p.emit(infer.Event{Kind: infer.EventText, Text: "so far", Tokens: 2})
		p.yield(infer.Event{}, &infer.Error{Code: infer.CodeUnavailable, Message: "the worker was lost", NoRetry: true})
		return false
	case asked == "crash":
		p.emit(infer.Event{Kind: infer.EventText, Text: "so far", Tokens: 2})
		panic("the words of a prompt")
	case strings.HasPrefix(asked, "endless"):
		for p.emit(infer.Event{Kind: infer.EventText, Text: " word", Tokens: 1}) {
		}
		return false
	case strings.HasPrefix(asked, "wait "):
		d, _ := time.ParseDuration(asked[5:])
		select {
		case <-time.After(d):
		case <-p.ctx.Done():
			return false
		}
		if !p.say("waited") {
			return false
		}
	default:
		if p.r.SplitReasoning && strings.HasPrefix(asked, "think ") {
			if !p.emit(infer.Event{Kind: infer.EventReasoning, Text: "let me see", Tokens: 3}) {
				return false
			}
			p.u.ReasoningTokens += 3
		}
		answer := "You said: " + asked
		if f := p.r.Format; f.Kind == infer.FormatJSONSchema || f.Kind == infer.FormatJSONObject {
			answer = `{"said": true, "n": 7}`
		}
		if !p.say(answer) {
			return false
		}
		if m := p.r.Sampling.MaxTokens; m > 0 && p.made >= m {
			fin = infer.FinishLength
		}
	}
	return p.emit(infer.Event{Kind: infer.EventFinish, Finish: fin})
}

// say streams text token by token; pieces of characters come without text, as
// the engine holds them back.
func (p *player) say(answer string) bool {
	held := ""
	for _, w := range words(answer) {
		if m := p.r.Sampling.MaxTokens; m > 0 && p.made >= m {
			break
		}
		p.made++
		ev := infer.Event{Kind: infer.EventText, Tokens: 1}
		if held += w; strings.ToValidUTF8(held, "") == held {
			ev.Text, held = held, ""
		}
		if p.r.Sampling.Logprobs {
			lp := infer.TokenLogprob{ID: int32(len(w)), Bytes: []byte(w), Logprob: -0.25}
			for k := range p.r.Sampling.TopLogprobs {
				lp.Top = append(lp.Top, infer.TopLogprob{ID: int32(k), Bytes: []byte{byte('a' + k)}, Logprob: -0.5 - float64(k)})
			}
			ev.Logprobs = []infer.TokenLogprob{lp}
		}
		if p.r.Sampling.ReturnTokenIDs {
			ev.TokenIDs = []int32{int32(len(w))}
		}
		if !p.emit(ev) {
			return false
		}
	}
	return true
}

// call calls the tool that was asked for, or every tool once.
func (p *player) call() bool {
	for i, t := range p.r.Tools {
		if p.r.ToolChoice.Mode == "function" && t.Name != p.r.ToolChoice.Name {
			continue
		}
		if p.r.ToolChoice.Mode == "function" || !p.r.ParallelToolCalls {
			i = 0
		}
		for k, piece := range []string{"", `{"city":`, ` "Oslo"}`} {
			d := infer.ToolDelta{Index: i, Arguments: piece}
			if k == 0 {
				d.ID, d.Name = fmt.Sprintf("call_%d_%d", p.choice, i), t.Name
			}
			if !p.emit(infer.Event{Kind: infer.EventTool, Tool: &d, Tokens: 1}) {
				return false
			}
		}
		if !p.r.ParallelToolCalls || p.r.ToolChoice.Mode == "function" {
			break
		}
	}
	return true
}
