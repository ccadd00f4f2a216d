package anthropic

import (
	"bytes"
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// encode writes a request of another dialect.
func encode(r *infer.Request, t wire.Target) ([]byte, error) {
	if r.Kind != infer.Chat {
		return nil, infer.Unsupported("prompt", "cannot complete a plain prompt at a provider of conversations")
	}
	if r.Sampling.Temperature > 1 {
		return nil, infer.Unsupported("temperature", "cannot use a temperature above 1 at this provider")
	}
	var c conversation
	// The responses dialect gives back only signatures that it got through here.
	c.signed = r.Wire == nil || r.Wire.Dialect == "openai-responses"
	if err := c.read(r); err != nil {
		return nil, err
	}
	dst := append(make([]byte, 0, 4<<10), `{"model":`...)
	dst = jsonwrite.String(dst, t.Model)
	limit := maxOutput(r, t)
	dst = append(dst, `,"max_tokens":`...)
	dst = jsonwrite.Int(dst, int64(limit))
	dst = c.append(dst)
	dst = appendTools(dst, r)
	dst = appendReasoning(dst, r, t, limit)
	dst = appendSampling(dst, r)
	if r.Hints.User != "" {
		dst = append(dst, `,"metadata":{"user_id":`...)
		dst = append(jsonwrite.String(dst, userID(r.Hints.User)), '}')
	}
	switch r.Hints.ServiceTier {
	case "auto":
		dst = append(dst, `,"service_tier":"auto"`...)
	case "default", "standard", "standard_only":
		dst = append(dst, `,"service_tier":"standard_only"`...)
	}
	if r.Stream {
		dst = append(dst, `,"stream":true`...)
	}
	return append(dst, '}'), nil
}

// userID is an id as the API takes it: at most 256 bytes, and no address.
func userID(id string) string {
	if strings.Contains(id, "@") {
		return wire.Opaque(id, 0)
	}
	return wire.Opaque(id, 256)
}

func maxOutput(r *infer.Request, t wire.Target) int {
	switch {
	case r.Sampling.MaxTokens > 0:
		return r.Sampling.MaxTokens
	case t.MaxOutput > 0:
		return t.MaxOutput
	}
	return defaultMaxTokens
}

func appendSampling(dst []byte, r *infer.Request) []byte {
	s := &r.Sampling
	if s.Temperature != 1 {
		dst = append(dst, `,"temperature":`...)
		dst = jsonwrite.Float(dst, s.Temperature)
	}
	if s.TopP != 1 {
		dst = append(dst, `,"top_p":`...)
		dst = jsonwrite.Float(dst, s.TopP)
	}
	if s.TopK > 0 {
		dst = append(dst, `,"top_k":`...)
		dst = jsonwrite.Int(dst, int64(s.TopK))
	}
	n := 0
	for _, stop := range s.Stop {
		if strings.TrimSpace(stop) == "" {
			continue // the API refuses a sequence of white space
		}
		if n++; n == 1 {
			dst = append(dst, `,"stop_sequences":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(dst, stop)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// budgets is what an effort is worth in tokens, for models that know budgets
// only.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32000}

// budgetOnly tells a model from before adaptive thinking, which came with the
// generation 4.6 (model cards; names as of the API, Vertex AI and Bedrock).
func budgetOnly(model string) bool {
	for _, old := range []string{"claude-2", "claude-3", "opus-4-2", "opus-4@", "opus-4-0", "opus-4-1", "opus-4-5", "sonnet-4-2", "sonnet-4@", "sonnet-4-0", "sonnet-4-5", "haiku-4-5"} {
		if strings.Contains(model, old) {
			return true
		}
	}
	return false
}

// minBudget is the API's least budget.
const minBudget = 1024

// tokensOf is the budget that is sent: the caller's, or what an effort or a switch
// is worth to a model that knows budgets only; 0: none.
func tokensOf(th *infer.Thinking, model string) int {
	budget := th.Budget
	if budgetOnly(model) {
		if budget == 0 && th.Effort != "none" {
			budget = budgets[th.Effort]
		}
		if budget == 0 && (th.Switch == "on" || th.Switch == "adaptive") {
			budget = budgets["medium"]
		}
	}
	return budget
}

// fit moves a budget between the least one and the bound of the answer; 0: there
// is no room for any.
func fit(budget, limit int) int {
	if limit <= minBudget {
		return 0
	}
	return min(max(budget, minBudget), limit-1)
}

// ValueLosses notes a budget of reasoning that is moved to what the API takes, or
// left out where the bound of the answer leaves no room for it.
func (Client) ValueLosses(r *infer.Request, t wire.Target) []infer.Loss {
	asked := tokensOf(&r.Thinking, t.Model)
	if asked <= 0 || r.Thinking.Switch == "off" || r.Thinking.Effort == "none" {
		return nil
	}
	return wire.BudgetLoss(r, asked, fit(asked, maxOutput(r, t)))
}

// appendReasoning appends thinking and output_config. An effort switches
// adaptive thinking on; a budget is a budget, below max_tokens as the API wants.
func appendReasoning(dst []byte, r *infer.Request, t wire.Target, limit int) []byte {
	th := r.Thinking
	effort := th.Effort
	if effort == "minimal" {
		effort = "low"
	}
	budget := tokensOf(&th, t.Model)
	if budgetOnly(t.Model) {
		effort = ""
	}
	display := ""
	switch th.Summary {
	case "auto", "concise", "detailed":
		display = `,"display":"summarized"`
	case "omitted", "none":
		display = `,"display":"omitted"`
	}
	switch {
	case th.Switch == "off" || th.Effort == "none":
		dst = append(dst, `,"thinking":{"type":"disabled"}`...)
		if effort == "none" {
			effort = ""
		}
	case budget > 0:
		if budget = fit(budget, limit); budget > 0 {
			dst = append(dst, `,"thinking":{"type":"enabled","budget_tokens":`...)
			dst = jsonwrite.Int(dst, int64(budget))
			dst = append(append(dst, display...), '}')
		}
	case th.Switch != "" || effort != "":
		dst = append(dst, `,"thinking":{"type":"adaptive"`...)
		dst = append(append(dst, display...), '}')
	}
	schema := r.Format.Kind == infer.FormatJSONSchema && len(r.Format.Schema) > 0
	if effort == "" && !schema {
		return dst
	}
	dst = append(dst, `,"output_config":{`...)
	if effort != "" {
		dst = append(dst, `"effort":`...)
		dst = jsonwrite.String(dst, effort)
	}
	if schema {
		if effort != "" {
			dst = append(dst, ',')
		}
		dst = append(dst, `"format":{"type":"json_schema","schema":`...)
		dst = append(append(dst, r.Format.Schema...), '}')
	}
	return append(dst, '}')
}

func appendTools(dst []byte, r *infer.Request) []byte {
	n := 0
	for i := range r.Tools {
		tool := &r.Tools[i]
		if !allowed(r.ToolChoice.Allowed, tool.Name) {
			continue
		}
		if n++; n == 1 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendTool(dst, tool)
	}
	if n == 0 {
		return dst
	}
	dst = append(dst, ']')
	kind := map[string]string{"required": "any", "function": "tool", "none": "none"}[r.ToolChoice.Mode]
	if kind == "" {
		if r.ParallelToolCalls {
			return dst
		}
		kind = "auto"
	}
	dst = append(dst, `,"tool_choice":{"type":"`...)
	dst = append(append(dst, kind...), '"')
	if kind == "tool" {
		dst = append(dst, `,"name":`...)
		dst = jsonwrite.String(dst, r.ToolChoice.Name)
	}
	if !r.ParallelToolCalls && kind != "none" {
		dst = append(dst, `,"disable_parallel_tool_use":true`...)
	}
	return append(dst, '}')
}

func allowed(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}

func appendTool(dst []byte, tool *infer.Tool) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonwrite.String(dst, tool.Name)
	if tool.Description != "" {
		dst = append(dst, `,"description":`...)
		dst = jsonwrite.String(dst, tool.Description)
	}
	dst = append(dst, `,"input_schema":`...)
	dst = appendSchema(dst, tool.Parameters)
	if tool.Strict {
		dst = append(dst, `,"strict":true`...)
	}
	return append(appendCache(dst, tool.Cache), '}')
}

// appendSchema appends the schema of a tool's input, which must say that it is
// an object.
func appendSchema(dst []byte, schema []byte) []byte {
	schema = bytes.TrimSpace(schema)
	if len(schema) == 0 || schema[0] != '{' || emptyObject(schema) {
		return append(dst, `{"type":"object","properties":{}}`...)
	}
	var c jsonread.Cursor
	c.Reset(schema)
	typed := false
	for ok := c.Object(); ok && c.More(); c.Skip() {
		typed = string(c.Key()) == "type" || typed
	}
	if typed {
		return append(dst, schema...)
	}
	dst = append(dst, `{"type":"object",`...)
	return append(dst, schema[1:]...)
}

func appendCache(dst []byte, ttl string) []byte {
	switch ttl {
	case "":
		return dst
	case "1h":
		return append(dst, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`...)
	}
	return append(dst, `,"cache_control":{"type":"ephemeral"}`...)
}

// appendPart appends a content block; nothing for one that the API does not
// have.
func appendPart(dst []byte, p *infer.Part) ([]byte, error) {
	if p.Stored {
		return dst, nil
	}
	switch p.Type {
	case "text", "":
		if p.Text == "" {
			return dst, nil // the API refuses empty text
		}
		dst = append(dst, `{"type":"text","text":`...)
		dst = jsonwrite.String(dst, p.Text)
	case "image":
		dst = append(dst, `{"type":"image","source":`...)
		dst = appendSource(dst, p)
	case "file":
		if p.URL == "" && p.MIME != "application/pdf" && !strings.HasPrefix(p.MIME, "text/") {
			return dst, infer.Unsupported("", "cannot send a file of type %.64q to this provider: it takes PDF and text", p.MIME)
		}
		dst = append(dst, `{"type":"document","source":`...)
		dst = appendSource(dst, p)
		if p.Name != "" {
			dst = append(dst, `,"title":`...)
			dst = jsonwrite.String(dst, p.Name)
		}
	default:
		return dst, nil
	}
	return append(appendCache(dst, p.Cache), '}'), nil
}

func appendSource(dst []byte, p *infer.Part) []byte {
	switch {
	case p.URL != "":
		dst = append(dst, `{"type":"url","url":`...)
		dst = jsonwrite.String(dst, p.URL)
	case strings.HasPrefix(p.MIME, "text/"):
		dst = append(dst, `{"type":"text","media_type":"text/plain","data":`...)
		dst = jsonwrite.String(dst, string(p.Data))
	default:
		dst = append(dst, `{"type":"base64","media_type":`...)
		dst = jsonwrite.String(dst, p.MIME)
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, p.Data)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}
