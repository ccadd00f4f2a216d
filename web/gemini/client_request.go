package gemini

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// encoder writes a request from its typed fields.
type encoder struct {
	r     *infer.Request
	t     wire.Target
	dst   []byte
	names map[string]string // of calls, by id
}

// request writes a GenerateContentRequest.
func (e *encoder) request() ([]byte, error) {
	e.names = map[string]string{}
	e.dst = append(make([]byte, 0, 1024), `{"contents":[`...)
	if err := e.contents(); err != nil {
		return nil, err
	}
	e.dst = append(e.dst, ']')
	e.instruction()
	e.tools()
	e.config()
	return append(e.dst, '}'), nil
}

func (e *encoder) raw(s string)    { e.dst = append(e.dst, s...) }
func (e *encoder) string(s string) { e.dst = jsonwrite.String(e.dst, s) }

// lead is how many messages at the front make up the instruction.
func (e *encoder) lead() int {
	n := 0
	for n < len(e.r.Messages) && isSystem(e.r.Messages[n].Role) {
		n++
	}
	return n
}

func isSystem(r infer.Role) bool { return r == infer.RoleSystem || r == infer.RoleDeveloper }

// instruction writes the system messages at the front. Later ones stay in their
// place, see contents.
func (e *encoder) instruction() {
	n := 0
	for _, m := range e.r.Messages[:e.lead()] {
		for _, p := range m.Content {
			if p.Type != "text" || p.Text == "" {
				continue
			}
			if n++; n == 1 {
				e.raw(`,"systemInstruction":{"parts":[`)
			} else {
				e.raw(",")
			}
			e.raw(`{"text":`)
			e.string(p.Text)
			e.raw("}")
		}
	}
	if n > 0 {
		e.raw("]}")
	}
}

// contents writes the turns. Results of one round of calls stand in one content:
// the API wants as many of them there as there were calls.
func (e *encoder) contents() error {
	ms := e.r.Messages[e.lead():]
	first := true
	for i := 0; i < len(ms); {
		if !first {
			e.raw(",")
		}
		first = false
		m := &ms[i]
		switch {
		case m.Role == infer.RoleTool:
			k := i
			for k < len(ms) && ms[k].Role == infer.RoleTool {
				k++
			}
			e.results(ms[i:k])
			i = k
			continue
		case m.Role == infer.RoleAssistant:
			e.model(m)
		case isSystem(m.Role):
			e.raw(`{"role":"user","parts":[{"text":`)
			e.string("<system>\n" + m.Text() + "\n</system>")
			e.raw("}]}")
		default:
			e.raw(`{"role":"user","parts":[`)
			if e.parts(m.Content, 0) == 0 {
				e.raw(`{"text":""}`)
			}
			e.raw("]}")
		}
		i++
	}
	if first {
		return infer.Invalid("messages", "cannot ask Gemini without a turn beside the instruction")
	}
	return nil
}

// parts writes text and media behind n others, and says how many there are then.
func (e *encoder) parts(ps []infer.Part, n int) int {
	for i := range ps {
		p := &ps[i]
		if p.Type != "text" && p.Data == nil && p.URL == "" || p.Type == "text" && p.Text == "" {
			continue
		}
		if n++; n > 1 {
			e.raw(",")
		}
		e.part(p)
	}
	return n
}

func (e *encoder) part(p *infer.Part) {
	switch {
	case p.Type == "text":
		e.raw(`{"text":`)
		e.string(p.Text)
		e.raw("}")
	case p.Data != nil:
		mime := p.MIME
		if mime == "" {
			mime = "application/octet-stream"
		}
		e.raw(`{"inlineData":{"mimeType":`)
		e.string(mime)
		e.raw(`,"data":"`)
		e.dst = base64.StdEncoding.AppendEncode(e.dst, p.Data)
		e.raw(`"}}`)
	default:
		e.raw(`{"fileData":{`)
		if mime := mimeOf(p); mime != "" {
			e.raw(`"mimeType":`)
			e.string(mime)
			e.raw(",")
		}
		e.raw(`"fileUri":`)
		e.string(p.URL)
		e.raw("}}")
	}
}

// mimeOf is the type of a part by URL: as stated, or by what the URL ends in.
func mimeOf(p *infer.Part) string {
	if p.MIME != "" {
		return p.MIME
	}
	u, _, _ := strings.Cut(p.URL, "?")
	switch ext := strings.ToLower(u[strings.LastIndexByte(u, '.')+1:]); ext {
	case "png", "webp", "gif", "heic", "heif":
		return "image/" + ext
	case "jpg", "jpeg":
		return "image/jpeg"
	case "pdf":
		return "application/pdf"
	}
	if p.Type == "image" {
		return "image/jpeg"
	}
	return ""
}

// model writes a turn of the model: its thoughts, text and calls. Gemini's own
// seals stand on the part that they came with: a call known by its id, else the
// first call, else the text.
func (e *encoder) model(m *infer.Message) {
	seals := map[string]string{}
	loose := ""
	n := 0
	e.raw(`{"role":"model","parts":[`)
	comma := func() {
		if n++; n > 1 {
			e.raw(",")
		}
	}
	thoughts := m.Thoughts
	if m.Reasoning != "" && !slices.ContainsFunc(thoughts, func(t infer.Thought) bool { return t.Text != "" }) {
		thoughts = append([]infer.Thought{{Text: m.Reasoning}}, thoughts...)
	}
	for _, t := range thoughts {
		own, isOwn := strings.CutPrefix(t.Signature, native)
		if isOwn && t.ID != "" {
			seals[t.ID] = own
		} else if isOwn {
			loose = own
		}
		if t.Text != "" {
			comma()
			e.raw(`{"text":`)
			e.string(t.Text)
			e.raw(`,"thought":true}`)
		}
	}
	text := m.Text()
	if text != "" || len(m.ToolCalls) == 0 {
		comma()
		e.raw(`{"text":`)
		e.string(text)
		if loose != "" && len(m.ToolCalls) == 0 {
			e.raw(`,"thoughtSignature":`)
			e.string(loose)
		}
		e.raw("}")
	}
	for i := range m.ToolCalls {
		comma()
		seal := seals[m.ToolCalls[i].ID]
		if i == 0 && seal == "" {
			if seal = loose; seal == "" && demandsSeals(e.t.Model) {
				seal = noSeal
			}
		}
		e.call(&m.ToolCalls[i], seal)
	}
	e.raw("]}")
}

// noSeal is what Google's documentation on thought signatures has for calls
// that another model made: from version 3 the first call of a turn is refused
// without a signature.
const noSeal = "skip_thought_signature_validator"

// demandsSeals tells models that refuse a call without a signature.
func demandsSeals(model string) bool { return generation(model) >= 3 }

// generation is the version of a Gemini model by its name; 0: unknown.
func generation(model string) int {
	_, rest, ok := strings.Cut(bare(model), "gemini-")
	if !ok {
		return 0
	}
	n := 0
	for i := 0; i < len(rest) && i < 4 && '0' <= rest[i] && rest[i] <= '9'; i++ {
		n = n*10 + int(rest[i]-'0')
	}
	return n
}

func (e *encoder) call(c *infer.ToolCall, seal string) {
	e.names[c.ID] = c.Name
	e.raw(`{"functionCall":{`)
	if c.ID != "" {
		e.raw(`"id":`)
		e.string(c.ID)
		e.raw(",")
	}
	e.raw(`"name":`)
	e.string(c.Name)
	e.raw(`,"args":`)
	if c.Arguments == "" {
		e.raw("{}")
	} else if isObject(c.Arguments) {
		e.raw(c.Arguments)
	} else { // what a model once wrote that is no object
		e.raw(`{"arguments":`)
		e.string(c.Arguments)
		e.raw("}")
	}
	e.raw("}")
	if seal != "" {
		e.raw(`,"thoughtSignature":`)
		e.string(seal)
	}
	e.raw("}")
}

// results writes the results of one round of calls, and behind them what media
// they hold.
func (e *encoder) results(ms []infer.Message) {
	e.raw(`{"role":"user","parts":[`)
	for i := range ms {
		m := &ms[i]
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"functionResponse":{`)
		if m.ToolCallID != "" {
			e.raw(`"id":`)
			e.string(m.ToolCallID)
			e.raw(",")
		}
		name := e.names[m.ToolCallID]
		if name == "" {
			name = m.Name
		}
		if name == "" {
			name = m.ToolCallID
		}
		e.raw(`"name":`)
		e.string(name)
		e.raw(`,"response":`)
		e.response(m)
		e.raw("}}")
	}
	n := len(ms)
	for i := range ms {
		media := slices.DeleteFunc(slices.Clone(ms[i].Content), func(p infer.Part) bool { return p.Type == "text" })
		n = e.parts(media, n)
	}
	e.raw("]}")
}

// response is a result as the object that the API wants.
func (e *encoder) response(m *infer.Message) {
	text := m.Text()
	switch {
	case m.ToolError:
		e.raw(`{"error":`)
		e.string(text)
		e.raw("}")
	case text != "" && isObject(text):
		e.raw(text)
	default:
		e.raw(`{"result":`)
		e.string(text)
		e.raw("}")
	}
}

// tools writes the functions and the choice among them.
func (e *encoder) tools() {
	r := e.r
	if len(r.Tools) == 0 {
		return
	}
	e.raw(`,"tools":[{"functionDeclarations":[`)
	strict := false
	for i := range r.Tools {
		t := &r.Tools[i]
		strict = strict || t.Strict
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"name":`)
		e.string(t.Name)
		if t.Description != "" {
			e.raw(`,"description":`)
			e.string(t.Description)
		}
		if t.Parameters != nil {
			e.raw(`,"parametersJsonSchema":`)
			e.raw(string(t.Parameters))
		}
		e.raw("}")
	}
	e.raw("]}]")
	c := r.ToolChoice
	mode, allowed := "", c.Allowed
	switch {
	case c.Mode == "none":
		mode, allowed = "NONE", nil
	case c.Mode == "function":
		mode, allowed = "ANY", []string{c.Name}
	case c.Mode == "required":
		mode = "ANY"
	case strict || len(allowed) > 0: // AUTO knows no list, and holds no call to its schema
		mode = "VALIDATED"
	default:
		return
	}
	e.raw(`,"toolConfig":{"functionCallingConfig":{"mode":"` + mode + `"`)
	for i, name := range allowed {
		if i == 0 {
			e.raw(`,"allowedFunctionNames":[`)
		} else {
			e.raw(",")
		}
		e.string(name)
	}
	if len(allowed) > 0 {
		e.raw("]")
	}
	e.raw("}}")
}

// asked tells whether the request notes a feature: a value that equals our
// default may still be the caller's own word.
func (e *encoder) asked(f infer.Feature) bool {
	return slices.ContainsFunc(e.r.Uses, func(u infer.Use) bool { return u.Feature == f })
}

// config writes generationConfig.
func (e *encoder) config() {
	s := &e.r.Sampling
	var out []byte
	key := func(name string) {
		out = append(append(append(out, `,"`...), name...), `":`...)
	}
	num := func(name string, v float64) { key(name); out = jsonwrite.Float(out, v) }
	if n := s.MaxTokens; n > 0 || e.t.MaxOutput > 0 {
		if n == 0 {
			n = e.t.MaxOutput
		}
		num("maxOutputTokens", float64(n))
	}
	if s.Temperature != 1 || e.asked(infer.FeatureTemperature) {
		num("temperature", s.Temperature)
	}
	if s.TopP != 1 || e.asked(infer.FeatureTopP) {
		num("topP", s.TopP)
	}
	if s.TopK > 0 {
		num("topK", float64(s.TopK))
	}
	if s.PresencePenalty != 0 {
		num("presencePenalty", s.PresencePenalty)
	}
	if s.FrequencyPenalty != 0 {
		num("frequencyPenalty", s.FrequencyPenalty)
	}
	if s.N > 1 {
		num("candidateCount", float64(s.N))
	}
	if s.Seed != nil { // an int32 there
		key("seed")
		out = jsonwrite.Int(out, *s.Seed&math.MaxInt32)
	}
	for i, stop := range s.Stop {
		if i == 0 {
			key("stopSequences")
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = jsonwrite.String(out, stop)
	}
	if len(s.Stop) > 0 {
		out = append(out, ']')
	}
	if s.Logprobs {
		out = append(out, `,"responseLogprobs":true`...)
		if s.TopLogprobs > 0 {
			num("logprobs", float64(s.TopLogprobs))
		}
	}
	out = appendFormat(out, &e.r.Format)
	out = e.thinking(out)
	if len(out) > 0 {
		e.raw(`,"generationConfig":{`)
		e.dst = append(append(e.dst, out[1:]...), '}')
	}
}

func appendFormat(out []byte, f *infer.Format) []byte {
	switch f.Kind {
	case infer.FormatJSONObject:
		return append(out, `,"responseMimeType":"application/json"`...)
	case infer.FormatJSONSchema:
		out = append(out, `,"responseMimeType":"application/json","responseJsonSchema":`...)
		return append(out, f.Schema...)
	case infer.FormatChoice:
		out = append(out, `,"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":[`...)
		for i, c := range f.Choices {
			if i > 0 {
				out = append(out, ',')
			}
			out = jsonwrite.String(out, c)
		}
		return append(out, "]}"...)
	}
	return out
}

// efforts are the budgets that Google's own layer for OpenAI's dialect gives the
// words on models before version 3, which know no levels.
var efforts = map[string]int{"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// thinking appends thinkingConfig, if the caller asks for anything.
func (e *encoder) thinking(out []byte) []byte {
	t := e.r.Thinking
	if t == (infer.Thinking{}) {
		return out
	}
	levels := generation(e.t.Model) >= 3 || generation(e.t.Model) == 0
	out = append(out, `,"thinkingConfig":{`...)
	switch {
	case t.Switch == "off" || t.Effort == "none":
		if generation(e.t.Model) >= 3 { // cannot be switched off
			out = append(append(append(out, `"thinkingLevel":"`...), e.level("minimal")...), `",`...)
		} else {
			out = append(out, `"thinkingBudget":0,`...)
		}
		return append(out, `"includeThoughts":false}`...)
	case t.Budget > 0:
		out = append(jsonwrite.Int(append(out, `"thinkingBudget":`...), int64(t.Budget)), ',')
	case t.Effort != "" && levels:
		out = append(append(append(out, `"thinkingLevel":"`...), e.level(t.Effort)...), `",`...)
	case efforts[t.Effort] > 0:
		out = append(jsonwrite.Int(append(out, `"thinkingBudget":`...), int64(efforts[t.Effort])), ',')
	case t.Switch != "" && !levels:
		out = append(out, `"thinkingBudget":-1,`...) // as much as the model sees fit
	}
	show := t.Summary != "none" && t.Summary != "omitted"
	return append(strconv.AppendBool(append(out, `"includeThoughts":`...), show), '}')
}

// level is the thinkingLevel for an effort. The least is known to the small
// models alone, and nothing lies above high.
func (e *encoder) level(effort string) string {
	switch {
	case effort == "minimal" && !strings.Contains(e.t.Model, "flash"):
		return "low"
	case effort == "xhigh" || effort == "max":
		return "high"
	}
	return effort
}
