package upstream

import (
	"context"
	"math"
	"strings"

	"hearth/engine/infer"
)

// What is held for the parts of a prompt that have no text. Each is an upper
// bound of what the providers document, not an estimate.
const (
	// tokensPerMessage covers the template around a turn; measured templates
	// take 3 to 12.
	tokensPerMessage = 16
	// tokensPerTool covers the template around a tool.
	tokensPerTool = 32
	// tokensForTools covers the system prompt that providers add for tools;
	// Anthropic documents 159 to 804 (with hosted tools more).
	tokensForTools = 1024
	// tokensPerImage: Anthropic documents at most 4 784 for the largest image it
	// takes, OpenAI's 512-pixel tiles come to at most 1 445, Gemini's tiles to
	// less.
	tokensPerImage = 5000
	// tokensPerMiniImage: OpenAI charges images to its 4o-mini models at 2 833
	// tokens and 5 667 for each of up to 8 tiles.
	tokensPerMiniImage = 48_200
	// audioBytesPerToken: providers count 10 to 32 tokens a second, and speech
	// has at least 1 000 bytes a second in any coding that they take.
	audioBytesPerToken = 30
	// tokensPerReference is held for a file or recording that is given by
	// reference: its size is not known here.
	tokensPerReference = 100_000
)

// Count gives the tokens to be held for r: an upper bound, from bytes. No byte
// is more than a token in the tokenizers in use, so bytes_per_token of 1 is
// safe; a larger one holds less.
func (b *backend) Count(_ context.Context, r *infer.Request) (infer.Count, error) {
	c := counter{mini: strings.Contains(b.target.Model, "4o-mini")}
	for i := range r.Messages {
		c.message(&r.Messages[i])
	}
	if len(r.Tools) > 0 {
		c.tokens += tokensForTools
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		c.tokens += tokensPerTool
		c.bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for i := range r.Prompts {
		c.bytes += len(r.Prompts[i].Text)
		c.tokens += len(r.Prompts[i].Tokens)
	}
	c.bytes += len(r.Suffix) + len(r.Format.Schema) + len(r.Format.Pattern) + len(r.Format.Grammar)
	for _, s := range r.Format.Choices {
		c.bytes += len(s)
	}
	for _, v := range r.TemplateArgs {
		c.bytes += len(v)
	}
	c.unseen(r)
	per := b.u.c.BytesPerToken
	if per <= 0 || math.IsNaN(per) {
		per = 1
	}
	n := infer.Count{PromptTokens: c.tokens + int(math.Ceil(float64(c.bytes)/per))}
	n.MaxOutputTokens = b.maxOutput(r)
	return n, nil
}

// maxOutput is the most that can be generated, over all choices.
func (b *backend) maxOutput(r *infer.Request) int {
	each := r.Sampling.MaxTokens
	if each <= 0 {
		each = b.target.MaxOutput
	}
	if each <= 0 {
		each = defaultMaxOutput
	}
	choices := max(1, r.Sampling.N, r.Sampling.BestOf) * max(1, len(r.Prompts))
	if each > math.MaxInt32/choices {
		return math.MaxInt32
	}
	return each * choices
}

// defaultMaxOutput is held where nobody named a maximum.
const defaultMaxOutput = 4096

type counter struct {
	bytes  int
	tokens int
	mini   bool
	typed  int // bytes of media that the body of the wire holds as base64
}

func (c *counter) message(m *infer.Message) {
	c.tokens += tokensPerMessage
	c.bytes += len(m.Name) + len(m.Reasoning) + len(m.ToolCallID)
	for i := range m.Content {
		c.part(&m.Content[i])
	}
	for i := range m.ToolCalls {
		t := &m.ToolCalls[i]
		c.tokens += tokensPerMessage
		c.bytes += len(t.ID) + len(t.Name) + len(t.Arguments)
	}
	for i := range m.Thoughts {
		t := &m.Thoughts[i]
		c.bytes += len(t.Signature) + len(t.Redacted)
		if m.Reasoning == "" {
			c.bytes += len(t.Text)
		}
	}
}

func (c *counter) part(p *infer.Part) {
	c.bytes += len(p.Text) + len(p.Name)
	size := len(p.Data)
	if strings.HasPrefix(p.URL, "data:") {
		size += len(p.URL)
	}
	c.typed += size + len(p.Data)/3 + 4
	switch {
	case p.Type == "" || p.Type == "text":
		c.bytes += size
	case p.Type == "image" && c.mini:
		c.tokens += tokensPerMiniImage
	case p.Type == "image":
		c.tokens += tokensPerImage
	case size == 0:
		c.tokens += tokensPerReference
	case p.Type == "audio":
		c.tokens += size/audioBytesPerToken + 1
	default:
		c.bytes += size
	}
}

// unseen adds what a request sent on as it came may hold beyond its typed
// fields: where some field is unknown, the whole body counts, without the media
// that have been counted.
func (c *counter) unseen(r *infer.Request) {
	if r.Wire == nil {
		return
	}
	for i := range r.Uses {
		switch r.Uses[i].Feature {
		case infer.FeatureUnknown, infer.FeatureToolHosted, infer.FeatureToolCallHosted, infer.FeatureCitations, infer.FeatureToolResultMedia, infer.FeatureToolCustom:
			c.bytes = max(c.bytes, len(r.Wire.Body)-c.typed)
			return
		case infer.FeatureState, infer.FeatureCachedContent:
			c.tokens += tokensPerReference
		}
	}
}
