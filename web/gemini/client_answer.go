package gemini

import (
	"errors"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// answerDecoder reads one answer, streamed or whole. The API has no end mark:
// older models say finishReason in every chunk, and newer ones may send more
// behind it, so that an answer has ended when the connection has. The last chunk
// that says how a candidate ended is therefore held back until then.
type answerDecoder struct {
	r      *infer.Request
	native bool

	c       jsonread.Cursor
	started bool
	done    bool
	choices []candidate
	blocked bool        // the prompt was refused
	usage   infer.Usage // as far as stated
	stated  bool
	counted int // generated tokens that events stand for
	guessed int // the same, estimated
	held    *infer.Frame
	calls   int
	ids     map[string]bool
}

// candidate is one choice under way.
type candidate struct {
	seen   bool
	calls  int
	finish string
}

func newAnswerDecoder(r *infer.Request, native bool) *answerDecoder {
	return &answerDecoder{r: r, native: native, choices: make([]candidate, wire.Choices(r))}
}

// NewDecoder implements wire.Client.
func (Client) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return newAnswerDecoder(r, o.Native)
}

// DecodeAnswer implements wire.Client.
func (Client) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	d := newAnswerDecoder(r, o.Native && !o.Stream)
	dst, _, err := d.chunk(make([]infer.Event, 0, 4), body)
	if err != nil {
		return nil, err
	}
	for i := range d.choices {
		if s := &d.choices[i]; s.seen && s.finish == "" {
			s.finish = "STOP" // nothing can follow a body that is whole
		}
	}
	if dst, err = d.end(dst); err != nil {
		return nil, err
	}
	if d.native {
		dst[len(dst)-1].Frame = &infer.Frame{Data: append([]byte(nil), body...)}
	}
	return dst, nil
}

// Frame implements wire.StreamDecoder.
func (d *answerDecoder) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	if d.done || len(data) == 0 {
		return dst, nil
	}
	if d.held != nil { // it was not the last one
		dst = append(dst, infer.Event{Kind: infer.EventFrame, Frame: d.held})
		d.held = nil
	}
	from := len(dst)
	dst, last, err := d.chunk(dst, data)
	if err != nil {
		return dst[:from], err
	}
	if !d.native {
		return dst, nil
	}
	f := &infer.Frame{Event: name, Data: append([]byte(nil), data...)}
	switch {
	case last:
		d.held = f
	case len(dst) == from:
		dst = append(dst, infer.Event{Kind: infer.EventFrame, Frame: f})
	default:
		dst[from].Frame = f
	}
	return dst, nil
}

// chunk reads one GenerateContentResponse. last tells that it says how a
// candidate ended.
func (d *answerDecoder) chunk(dst []infer.Event, data []byte) (_ []infer.Event, last bool, err error) {
	c := &d.c
	c.Reset(data)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return dst, false, wire.Malformed(errors.New("a chunk that is no JSON object"))
	}
	var served *infer.Served
	if !d.started {
		d.started = true
		served = &infer.Served{Name: d.r.Model, Native: d.native}
		dst = append(dst, infer.Event{Kind: infer.EventStart, Model: served})
	}
	start, mark, before := len(dst)-1, len(dst), d.usage.CompletionTokens
	counted := false
	for c.Object(); c.More(); {
		switch string(c.Key()) {
		case "candidates":
			for ok := c.Array(); ok && c.More(); {
				var end bool
				if dst, end, err = d.candidate(dst, c); err != nil {
					return dst, false, err
				}
				last = last || end
			}
		case "usageMetadata":
			counted = d.count(c) || counted
		case "promptFeedback":
			d.feedback(c)
			last = last || d.blocked
		case "modelVersion":
			if served == nil {
				c.Skip()
			} else if s := c.Str(); s != "" && len(s) <= 512 {
				served.Name = s
			}
		case "error":
			e := readStatus(c)
			return dst, false, e.inBand()
		default:
			c.Skip()
		}
	}
	if !c.End() {
		return dst, false, wire.Malformed(errors.New("a chunk that is no JSON"))
	}
	if served != nil {
		u := infer.Usage{PromptTokens: d.usage.PromptTokens, CachedTokens: d.usage.CachedTokens}
		if !counted && !d.native {
			u.PromptTokens, u.Estimated = wire.EstimatePrompt(d.r), true
		}
		dst[start].Usage = &u
	}
	d.share(dst[mark:], counted, d.usage.CompletionTokens-before)
	return dst, last, nil
}

// share says how many tokens stand behind the events of a chunk: what the
// running count has grown by, or an estimate.
func (d *answerDecoder) share(evs []infer.Event, counted bool, grown int) {
	if counted && grown > 0 && len(evs) > 0 {
		evs[0].Tokens = grown
		d.counted += grown
	}
	for i := range evs {
		n := wire.EstimateTokens(len(evs[i].Text))
		if t := evs[i].Tool; t != nil {
			n = wire.EstimateTokens(len(t.Name) + len(t.Arguments))
		}
		d.guessed += n
		if !d.stated {
			evs[i].Tokens = n
		}
	}
}

// piece is a candidate's part of one chunk.
type piece struct {
	index   int
	finish  string
	content []byte
	lps     []infer.TokenLogprob
}

// candidate reads one candidate of a chunk.
func (d *answerDecoder) candidate(dst []infer.Event, c *jsonread.Cursor) (_ []infer.Event, end bool, err error) {
	var p piece
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "index":
			if n, ok := c.Int(); ok && n >= 0 && n < 1<<20 {
				p.index = int(n)
			}
		case "finishReason":
			p.finish = c.Str()
		case "content":
			p.content = c.Raw()
		case "logprobsResult":
			if d.r.Sampling.Logprobs && !d.native {
				p.lps = readLogprobs(c)
			} else {
				c.Skip()
			}
		default:
			c.Skip()
		}
	}
	if !c.OK() {
		return dst, false, nil // the chunk is refused as a whole
	}
	if p.index >= len(d.choices) {
		if d.native {
			return dst, false, nil // passed on, and paid by the count
		}
		return dst, false, wire.Malformed(errors.New("a candidate beyond those asked for"))
	}
	s := &d.choices[p.index]
	s.seen = true
	mark := len(dst)
	if p.content != nil {
		var inner jsonread.Cursor
		inner.Reset(p.content)
		for ok := inner.Object(); ok && inner.More(); {
			if string(inner.Key()) != "parts" {
				inner.Skip()
				continue
			}
			for ok := inner.Array(); ok && inner.More(); {
				if dst, err = d.part(dst, &inner, p.index); err != nil {
					return dst, false, err
				}
			}
		}
	}
	if len(p.lps) > 0 {
		dst = attach(dst, mark, p.index, p.lps)
	}
	if p.finish != "" && p.finish != "FINISH_REASON_UNSPECIFIED" {
		s.finish = p.finish
		return dst, true, nil
	}
	return dst, false, nil
}

// attach puts log-probabilities on the text that they belong to.
func attach(dst []infer.Event, mark, choice int, lps []infer.TokenLogprob) []infer.Event {
	for i := mark; i < len(dst); i++ {
		if dst[i].Kind == infer.EventText {
			dst[i].Logprobs = lps
			return dst
		}
	}
	return append(dst, infer.Event{Kind: infer.EventText, Choice: choice, Logprobs: lps})
}

// part reads one part of an answer.
func (d *answerDecoder) part(dst []infer.Event, c *jsonread.Cursor, choice int) ([]infer.Event, error) {
	var text, seal string
	var call functionCall
	thought, isCall := false, false
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "text":
			text = c.Str()
		case "thought":
			thought = c.True()
		case "thoughtSignature":
			seal = c.Str()
		case "functionCall":
			call, isCall = readFunctionCall(c), true
		default: // what hosted tools did, and media; only native requests ask for them
			c.Skip()
		}
	}
	if !c.OK() {
		return dst, wire.Malformed(errors.New("a chunk that is no JSON"))
	}
	if thought && (text != "" || seal != "") || isCall && seal != "" {
		ev := infer.Event{Kind: infer.EventReasoning, Choice: choice, Text: text}
		if seal != "" {
			ev.Signature = native + seal
		}
		dst = append(dst, ev)
	} else if text != "" {
		dst = append(dst, infer.Event{Kind: infer.EventText, Choice: choice, Text: text})
	}
	if !isCall || call.name == "" { // a call without a name goes on with an earlier one, natively
		return dst, nil
	}
	s := &d.choices[choice]
	if s.calls == maxTools {
		return dst, wire.Malformed(errors.New("more function calls than an answer may have"))
	}
	t := &infer.ToolDelta{Index: s.calls, ID: d.id(call.id), Name: call.name, Arguments: call.args}
	s.calls++
	return append(dst, infer.Event{Kind: infer.EventTool, Choice: choice, Tool: t}), nil
}

// id is the id of a call: the provider's, or one made for this request where it
// has none or has used it before.
func (d *answerDecoder) id(own string) string {
	d.calls++
	if own == "" || len(own) > maxShort || d.ids[own] {
		own = strings.TrimPrefix(d.r.ID, "req_")
		own = "call_" + own[:min(len(own), 16)] + "_" + strconv.Itoa(d.calls) // OpenAI takes up to 40 bytes
	}
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	d.ids[own] = true
	return own
}

type functionCall struct{ id, name, args string }

func readFunctionCall(c *jsonread.Cursor) functionCall {
	f := functionCall{args: "{}"}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "id":
			f.id = c.Str()
		case "name":
			f.name = c.Str()
		case "args":
			if k, ok := c.Kind(); ok && k == jsonread.Object {
				f.args = string(compact(c.Raw()))
			} else {
				c.Skip()
			}
		default:
			c.Skip()
		}
	}
	return f
}

// feedback notes a prompt that was refused.
func (d *answerDecoder) feedback(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) == "blockReason" {
			s := c.Str()
			d.blocked = d.blocked || s != "" && !strings.HasSuffix(s, "UNSPECIFIED")
		} else {
			c.Skip()
		}
	}
}

// count reads usageMetadata. The prompt's count includes what came from a cache;
// thoughts are counted beside the candidates.
func (d *answerDecoder) count(c *jsonread.Cursor) bool {
	var prompt, cached, candidates, thoughts, tools int
	stated := false
	for ok := c.Object(); ok && c.More(); {
		var dst *int
		switch string(c.Key()) {
		case "promptTokenCount":
			dst = &prompt
		case "cachedContentTokenCount":
			dst = &cached
		case "candidatesTokenCount":
			dst = &candidates
		case "thoughtsTokenCount":
			dst = &thoughts
		case "toolUsePromptTokenCount":
			dst = &tools
		case "totalTokenCount":
			c.Skip()
			stated = true
			continue
		default:
			c.Skip()
			continue
		}
		if n, ok := c.Int(); ok && n >= 0 && n <= wire.MaxCount {
			*dst, stated = int(n), true
		}
	}
	if !stated {
		return false
	}
	// Counts only grow; a later chunk may leave out what an earlier one said.
	u := &d.usage
	u.PromptTokens = max(u.PromptTokens, prompt+tools)
	u.CachedTokens = min(max(u.CachedTokens, cached), u.PromptTokens)
	u.ReasoningTokens = max(u.ReasoningTokens, thoughts)
	u.CompletionTokens = max(u.CompletionTokens, candidates+thoughts)
	d.stated = true
	return true
}

// End implements wire.StreamDecoder.
func (d *answerDecoder) End(dst []infer.Event) ([]infer.Event, error) {
	if d.done {
		return dst, nil
	}
	return d.end(dst)
}

// end tells how every choice ended, and the count.
func (d *answerDecoder) end(dst []infer.Event) ([]infer.Event, error) {
	if !d.started {
		return dst, wire.Lost(nil)
	}
	some := false // a candidate has come to its end
	for i := range d.choices {
		some = some || d.choices[i].finish != ""
	}
	for i := range d.choices {
		s := &d.choices[i]
		f := infer.FinishContentFilter
		switch {
		case s.finish != "":
			var ok bool
			if f, ok = finishOf(s.finish, s.calls > 0); !ok && !d.native {
				return dst, wire.Malformed(errors.New("the model's function call could not be read by the provider"))
			}
		case d.blocked && !s.seen:
		case some && d.native && !s.seen: // fewer than were asked for have been passed on
			f = infer.FinishStop
		default:
			return dst, wire.Lost(errors.New("an end before the end of every candidate"))
		}
		dst = append(dst, infer.Event{Kind: infer.EventFinish, Choice: i, Finish: f})
	}
	d.done = true
	u := d.usage
	if !d.stated {
		u = infer.Usage{PromptTokens: wire.EstimatePrompt(d.r), CompletionTokens: d.guessed, Estimated: true}
	}
	return append(dst, infer.Event{Kind: infer.EventUsage, Usage: &u, Frame: d.held}), nil
}

// finishOf is the reason behind a word; ok is false where the model wrote a call
// that the provider could not read, which is no answer.
func finishOf(word string, called bool) (f infer.FinishReason, ok bool) {
	switch word {
	case "STOP":
		if called {
			return infer.FinishToolCalls, true
		}
		return infer.FinishStop, true
	case "MAX_TOKENS":
		return infer.FinishLength, true
	case "CONTINUATION":
		return infer.FinishPause, true
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE":
		return infer.FinishStop, false
	}
	// SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII, LANGUAGE, OTHER and
	// their like: the provider withheld the rest.
	return infer.FinishContentFilter, true
}
