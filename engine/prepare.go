package engine

import (
	"context"
	"fmt"
	"sync"

	"hearth/engine/chattmpl"
	"hearth/engine/grammar"
	"hearth/engine/infer"
	"hearth/engine/output"
	"hearth/engine/tokenizer"
)

// prepared is a request after all the work that needs no step loop.
type prepared struct {
	prompts   []prompt
	grammar   *grammar.Compiled // nil: unconstrained
	stops     *output.StopSet
	tools     *output.ToolFormat // nil: no calls are read
	forced    bool               // decoding is constrained to calls
	openThink bool               // the prompt leaves a reasoning block open
}

type prompt struct {
	ids  []int32
	max  int    // most tokens to generate
	echo string // text in front of the answer
}

// prepare validates a request against the model and does its serving work:
// template, tokens, format. The errors are the caller's faults.
func (e *Engine) prepare(ctx context.Context, r *infer.Request) (*prepared, error) {
	if p := e.prepared.take(r.ID); p != nil {
		return p, nil
	}
	if err := e.validate(r); err != nil {
		return nil, err
	}
	p := &prepared{stops: output.NewStopSet(r.Sampling.Stop)}
	var err error
	if r.Kind == infer.Chat {
		err = e.prepareChat(r, p)
	} else {
		err = e.prepareCompletion(r, p)
	}
	if err != nil {
		return nil, err
	}
	for i := range p.prompts {
		if err := e.size(r, &p.prompts[i]); err != nil {
			return nil, err
		}
	}
	if err := e.compile(ctx, r, p); err != nil {
		return nil, err
	}
	return p, nil
}

// maxChoices bounds the sequences of one request.
const maxChoices = 256

// validate checks what depends on this model and needs no tokens.
func (e *Engine) validate(r *infer.Request) error {
	s := &r.Sampling
	if s.N < 1 {
		return infer.Invalid("n", "must be at least 1, got %d", s.N)
	}
	if n := s.N * max(len(r.Prompts), 1); n > maxChoices {
		return infer.Invalid("n", "%d choices in one request, at most %d are served", n, maxChoices)
	}
	for id := range s.LogitBias {
		if id < 0 || int(id) >= e.cfg.Vocab {
			return infer.Invalid("logit_bias", "token %d is not in the vocabulary of %d tokens", id, e.cfg.Vocab)
		}
	}
	for _, id := range s.StopTokenIDs {
		if id < 0 || int(id) >= e.cfg.Vocab {
			return infer.Invalid("stop_token_ids", "token %d is not in the vocabulary of %d tokens", id, e.cfg.Vocab)
		}
	}
	if s.PromptLogprobs && !r.Echo {
		return infer.Unsupported("prompt_logprobs", "prompt log-probabilities are given with echo on completions only")
	}
	for i := range r.Messages {
		for _, part := range r.Messages[i].Content {
			if part.Type != "text" {
				return infer.Unsupported(fmt.Sprintf("messages[%d].content", i), "model %s takes text, got a part of type %s", e.info.Name, part.Type)
			}
		}
	}
	return nil
}

func (e *Engine) prepareChat(r *infer.Request, p *prepared) error {
	tools := r.Tools
	if r.ToolChoice.Mode == "none" {
		tools = nil
	}
	if err := e.checkToolChoice(r); err != nil {
		return err
	}
	rendered, err := e.tmpl.Prompt(e.templateInput(r, tools))
	if err != nil {
		return err
	}
	size := 0
	for _, seg := range rendered.Segments {
		size += len(seg.Text)
	}
	if err := e.hopeless("messages", size); err != nil {
		return err
	}
	p.prompts = []prompt{{ids: e.encode(rendered.Segments)}}
	p.openThink = rendered.OpenThink != ""
	if len(tools) > 0 {
		p.tools = e.tools
		if rendered.GenericTools {
			p.tools = output.Generic
		}
	}
	return nil
}

func (e *Engine) templateInput(r *infer.Request, tools []infer.Tool) chattmpl.Input {
	return chattmpl.Input{
		Messages: r.Messages, Tools: tools, Args: r.TemplateArgs,
		BOS:                  e.tok.TokenString(e.tok.BOS()),
		EOS:                  e.tok.TokenString(e.tok.EOS()),
		AddGenerationPrompt:  r.AddGenerationPrompt,
		ContinueFinalMessage: r.ContinueFinalMessage,
		Now:                  e.opts.Now(),
	}
}

func (e *Engine) checkToolChoice(r *infer.Request) error {
	switch r.ToolChoice.Mode {
	case "required", "function":
		if len(r.Tools) == 0 {
			return infer.Invalid("tool_choice", "a tool call is required, and there are no tools")
		}
		if r.Format.Kind != infer.FormatText {
			return infer.Invalid("tool_choice", "a tool call is required, which excludes response_format %s", r.Format.Kind)
		}
	}
	if r.ToolChoice.Mode == "function" {
		for i := range r.Tools {
			if r.Tools[i].Name == r.ToolChoice.Name {
				return nil
			}
		}
		return infer.Invalid("tool_choice", "tool %q is not among the tools of the request", r.ToolChoice.Name)
	}
	return nil
}

// encode turns a rendered prompt into ids that begin with what the model wants
// in front, once.
func (e *Engine) encode(segs []chattmpl.Segment) []int32 {
	in := make([]tokenizer.Segment, len(segs))
	for i, s := range segs {
		in[i] = tokenizer.Segment{Text: s.Text, Trusted: s.Trusted}
	}
	return e.withPrefix(e.tok.EncodeSegments(in))
}

func (e *Engine) withPrefix(ids []int32) []int32 {
	prefix := e.tok.Prefix()
	if len(ids) >= len(prefix) {
		same := true
		for i, id := range prefix {
			same = same && ids[i] == id
		}
		if same {
			return ids
		}
	}
	return append(append(make([]int32, 0, len(prefix)+len(ids)), prefix...), ids...)
}

func (e *Engine) prepareCompletion(r *infer.Request, p *prepared) error {
	if len(r.Prompts) == 0 {
		return infer.Invalid("prompt", "there is no prompt")
	}
	for i := range r.Prompts {
		ids, err := e.promptIDs("prompt", &r.Prompts[i])
		if err != nil {
			return err
		}
		if r.Suffix != "" {
			if ids, err = e.infill(&r.Prompts[i], r.Suffix); err != nil {
				return err
			}
		}
		pr := prompt{ids: ids}
		if r.Echo {
			pr.echo = r.Prompts[i].Text
			if r.Prompts[i].Tokens != nil {
				pr.echo = string(e.tok.Decode(ids))
			}
		}
		p.prompts = append(p.prompts, pr)
	}
	return nil
}

// promptIDs gives the ids of a raw prompt. Control tokens written in the text
// are recognized: a raw prompt is the template itself. param names the field.
func (e *Engine) promptIDs(param string, in *infer.Prompt) ([]int32, error) {
	if err := e.hopeless(param, len(in.Text)); err != nil {
		return nil, err
	}
	ids := in.Tokens
	if ids == nil {
		ids = e.withPrefix(e.tok.Encode(nil, in.Text, true))
	}
	if len(ids) == 0 {
		return nil, infer.Invalid(param, "the prompt is empty")
	}
	for _, id := range ids {
		if id < 0 || int(id) >= e.cfg.Vocab {
			return nil, infer.Invalid(param, "token %d is not in the vocabulary of %d tokens", id, e.cfg.Vocab)
		}
	}
	return ids, nil
}

// infillMarkers are the fill-in-the-middle tokens of the families that have
// them: before the prefix, before the suffix, before the middle.
var infillMarkers = [][3]string{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, // Qwen2.5-Coder
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       // StarCoder, SmolLM2
	{"<PRE>", "<SUF>", "<MID>"},                            // Code Llama
	{"<|fim▁begin|>", "<|fim▁hole|>", "<|fim▁end|>"},       // DeepSeek-Coder
}

// infill builds the prompt of a request with a suffix, with the model's own
// tokens for it if it has some.
func (e *Engine) infill(in *infer.Prompt, suffix string) ([]int32, error) {
	if in.Tokens != nil {
		return nil, infer.Unsupported("suffix", "a suffix goes with a prompt of text, not of token ids")
	}
	for _, m := range infillMarkers {
		var ids [3]int32
		ok := true
		for i, name := range m {
			id, has := e.tok.ID(name)
			ids[i], ok = id, ok && has
		}
		if !ok {
			continue
		}
		out := e.withPrefix([]int32{ids[0]})
		out = e.tok.Encode(out, in.Text, false)
		out = e.tok.Encode(append(out, ids[1]), suffix, false)
		return append(out, ids[2]), nil
	}
	return e.infillByWords(in.Text, suffix)
}

// infillByWords asks a model without such tokens in words, where it can follow
// an instruction; a base model sees the suffix in front of the prompt, the
// order that arXiv 2207.14255 §3 calls SPM.
func (e *Engine) infillByWords(prefix, suffix string) ([]int32, error) {
	if _, instructed := e.file.Template(""); !instructed {
		return e.withPrefix(e.tok.Encode(nil, suffix+"\n"+prefix, false)), nil
	}
	const ask = "Write the text that belongs between BEFORE and AFTER. Answer with the missing text only.\n\nBEFORE:\n%s\n\nAFTER:\n%s"
	rendered, err := e.tmpl.Prompt(e.templateInput(&infer.Request{
		Kind:                infer.Chat,
		AddGenerationPrompt: true,
		Messages: []infer.Message{{Role: infer.RoleUser,
			Content: []infer.Part{{Type: "text", Text: fmt.Sprintf(ask, prefix, suffix)}}}},
	}, nil))
	if err != nil {
		return nil, err
	}
	return e.encode(rendered.Segments), nil
}

// shrink is how many bytes of text a normalizer may make one byte of: three
// bytes of U+2581 are a space to some.
const shrink = 3

// hopeless refuses a text that cannot fit however it is cut, before the work of
// cutting it: no token stands for more bytes than the longest.
func (e *Engine) hopeless(param string, size int) error {
	least := size / (shrink * max(e.longest, 1))
	if least <= e.cfg.ContextLength {
		return nil
	}
	return &infer.Error{Code: infer.CodeContextLength, Param: param, Message: fmt.Sprintf(
		"this model's maximum context length is %d tokens, but the prompt has at least %d tokens: shorten it", e.cfg.ContextLength, least)}
}

// size sets how much may be generated after a prompt, or refuses it with the
// numbers.
func (e *Engine) size(r *infer.Request, p *prompt) error {
	param := "messages"
	if r.Kind == infer.Completion {
		param = "prompt"
	}
	n, limit := len(p.ids), e.cfg.ContextLength
	want := r.Sampling.MaxTokens
	if want < 0 {
		want = 0 // nothing but the prompt
	} else if want == 0 {
		want = limit
	}
	if n > limit || (n == limit && want > 0) {
		return &infer.Error{Code: infer.CodeContextLength, Param: param, Message: fmt.Sprintf(
			"this model's maximum context length is %d tokens, but the prompt has %d tokens: shorten it", limit, n)}
	}
	p.max = min(want, limit-n)
	capacity, ok := e.core.Fits(n + p.max)
	if ok {
		return nil
	}
	if n+1 > capacity || r.Sampling.MaxTokens > 0 {
		return &infer.Error{Code: infer.CodeContextLength, Param: param, Message: fmt.Sprintf(
			"the cache of this model holds %d tokens, but prompt and answer need %d: shorten the prompt or lower max_tokens", capacity, n+p.max)}
	}
	p.max = capacity - n
	return nil
}

// preparedCache keeps the work of Count for the Generate that follows.
type preparedCache struct {
	mu    sync.Mutex
	byID  map[string]*prepared
	order []string
}

const maxPrepared = 256

func (c *preparedCache) put(id string, p *prepared) {
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*prepared{}
	}
	if len(c.order) >= maxPrepared {
		delete(c.byID, c.order[0])
		c.order = c.order[1:]
	}
	c.byID[id] = p
	c.order = append(c.order, id)
}

func (c *preparedCache) take(id string) *prepared {
	if id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byID[id]
	delete(c.byID, id)
	return p
}
