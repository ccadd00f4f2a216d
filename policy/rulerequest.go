package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

// sizeRule bounds a request.
type sizeRule struct{ c RuleConfig }

func (s *sizeRule) examine(e *examination) error {
	for _, m := range []struct {
		param       string
		size, bound int
		code        infer.Code
		unit        string
	}{
		{"", sizeOf(e.r), s.c.MaxBytes, infer.CodeTooLarge, "bytes"},
		{"messages", len(e.r.Messages), s.c.MaxMessages, infer.CodeInvalid, "messages"},
		{"tools", len(declaredTools(e.r)), s.c.MaxTools, infer.CodeInvalid, "tools"},
	} {
		if m.bound == 0 || m.size <= m.bound {
			continue
		}
		e.decide(s.c.Name, s.c.Action, 1)
		if s.c.Action == actionDeny {
			return denied(m.code, s.c.Name, m.param, "got %d %s, at most %d are taken for this model", m.size, m.unit, m.bound)
		}
	}
	return nil
}

// sizeOf is the size of a request in bytes: of its body, or of its content where
// it has none.
func sizeOf(r *infer.Request) int {
	if r.Wire != nil {
		return len(r.Wire.Body)
	}
	n := 0
	visit(r, func(s string, _ bool) string { n += len(s); return s })
	for i := range r.Messages {
		for _, p := range r.Messages[i].Content {
			n += len(p.Data)
		}
	}
	for _, p := range r.Prompts {
		n += 4 * len(p.Tokens)
	}
	return n
}

// modalityRule lists the media that a request may hold.
type modalityRule struct{ c RuleConfig }

// mediaOf gives the medium that a feature brings into a request.
var mediaOf = map[infer.Feature]string{
	infer.FeatureImageData: "image", infer.FeatureImageURL: "image", infer.FeatureToolResultMedia: "image",
	infer.FeatureAudio: "audio", infer.FeatureVideo: "video", infer.FeatureFile: "file", infer.FeatureFileURL: "file", infer.FeatureFileStored: "file",
}

func (m *modalityRule) examine(e *examination) error {
	count, first, what := 0, "", ""
	note := func(medium, path string) {
		if medium == "" || slices.Contains(m.c.Allow, medium) {
			return
		}
		if count++; count == 1 {
			first, what = path, medium
		}
	}
	typed := false
	for i := range e.r.Messages {
		for j, p := range e.r.Messages[i].Content {
			typed = typed || p.Type != "text" && p.Type != ""
			note(p.Type, fmt.Sprintf("messages[%d].content[%d]", i, j))
		}
	}
	if !typed { // what the decoder has only noted
		for _, u := range e.r.Uses {
			note(mediaOf[u.Feature], u.Path)
		}
	}
	if count == 0 {
		return nil
	}
	e.decide(m.c.Name, m.c.Action, count)
	if m.c.Action == actionDeny {
		return denied(infer.CodeForbidden, m.c.Name, first, "content of type %s may not be sent to this model", what)
	}
	return nil
}

// toolsRule lists the tools that a request may declare.
type toolsRule struct{ c RuleConfig }

func (t *toolsRule) examine(e *examination) error {
	count, first := 0, ""
	for _, tool := range declaredTools(e.r) {
		if allows(t.c.Allow, tool.name) && (len(t.c.Deny) == 0 || !allows(t.c.Deny, tool.name)) {
			continue
		}
		if count++; count == 1 {
			first = tool.path
		}
	}
	if count == 0 {
		return nil
	}
	e.decide(t.c.Name, t.c.Action, count)
	if t.c.Action == actionDeny {
		return denied(infer.CodeForbidden, t.c.Name, first, "this tool may not be declared for this model")
	}
	return nil
}

// maxTokensRule bounds what a caller may ask for. A request that names no maximum
// asks for the bound.
type maxTokensRule struct {
	name  string
	most  int
	clamp bool
}

func (m *maxTokensRule) examine(e *examination) error {
	switch n := e.r.Sampling.MaxTokens; {
	case n == 0: // as many as there are
	case n <= m.most:
		return nil
	case !m.clamp:
		e.decide(m.name, actionDeny, 1)
		return denied(infer.CodeInvalid, m.name, maxTokensParam(e.r), "got %d, at most %d tokens may be asked for from this model", n, m.most)
	default:
		e.decide(m.name, actionClamp, 1)
	}
	own := *e.r
	own.Sampling.MaxTokens = m.most
	if own.Wire != nil {
		own.Wire = clampWire(own.Wire, m.most)
	}
	e.r = &own
	return nil
}

// bounds tells where each dialect has its maximum: the top-level member, and the
// key inside it. The first is written where none stands.
var bounds = map[string][][2]string{
	dialectChat:           {{"max_completion_tokens"}, {"max_tokens"}, {memberPredict}},
	dialectCompletions:    {{"max_tokens"}, {memberPredict}},
	dialectResponses:      {{"max_output_tokens"}},
	dialectAnthropic:      {{"max_tokens"}},
	dialectGemini:         {{"generationConfig", "maxOutputTokens"}, {"generationConfig", "max_output_tokens"}, {"generation_config", "max_output_tokens"}, {"generation_config", "maxOutputTokens"}},
	dialectOllama:         {{"options", "num_predict"}},
	dialectOllamaGenerate: {{"options", "num_predict"}},
	dialectConverse:       {{"inferenceConfig", "maxTokens"}},
}

// memberPredict is llama.cpp's own name, which wins over the others there and is
// not known elsewhere: it bounds nothing by itself.
const memberPredict = "n_predict"

func maxTokensParam(r *infer.Request) string {
	for _, u := range r.Uses {
		if u.Feature == infer.FeatureMaxTokens {
			return u.Path
		}
	}
	return "max_tokens"
}

// clampWire sets the maximum in the bytes of a request, wherever one stands. A
// body that cannot be clamped is not sent as it is: nil.
func clampWire(w *infer.Wire, most int) *infer.Wire {
	places := bounds[w.Dialect]
	var body map[string]json.RawMessage
	if len(places) == 0 || json.Unmarshal(w.Body, &body) != nil {
		return nil
	}
	own := *w
	if own.Set = maps.Clone(w.Set); own.Set == nil {
		own.Set = map[string]json.RawMessage{}
	}
	maps.Copy(body, own.Set)
	found := false
	for _, p := range places {
		raw, there := body[p[0]]
		var inner map[string]json.RawMessage
		if p[1] != "" && there && json.Unmarshal(raw, &inner) == nil {
			_, there = inner[p[1]]
		}
		if there {
			found = found || p[0] != memberPredict
			setBound(own.Set, body, p, most)
		}
	}
	if !found {
		setBound(own.Set, body, places[0], most)
	}
	return &own
}

// setBound puts the maximum into a member, beside what else stands in it.
func setBound(set, body map[string]json.RawMessage, place [2]string, most int) {
	value := json.RawMessage(strconv.Itoa(most))
	if place[1] != "" {
		inner := map[string]json.RawMessage{}
		_ = json.Unmarshal(body[place[0]], &inner)
		if inner == nil {
			inner = map[string]json.RawMessage{}
		}
		inner[place[1]] = value
		value, _ = json.Marshal(inner)
	}
	set[place[0]], body[place[0]] = value, value
}

// schemaRule refuses schemas that could not be checked against.
type schemaRule struct {
	name    string
	schemas *schemaCache
	tools   bool
}

func (s *schemaRule) examine(e *examination) error {
	if !s.tools {
		if e.r.Format.Kind != infer.FormatJSONSchema {
			return nil
		}
		if _, err := s.schemas.get(e.r.Format.Schema); err != nil {
			return denied(infer.CodeInvalid, s.name, "response_format", "the schema of the answer cannot be used: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return nil
	}
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; len(t.Parameters) > 0 {
			if _, err := s.schemas.get(t.Parameters); err != nil {
				return denied(infer.CodeInvalid, s.name, fmt.Sprintf("tools[%d]", i), "the schema of the tool's arguments cannot be used: %s", strings.ReplaceAll(err.Error(), "\n", " "))
			}
		}
	}
	return nil
}
