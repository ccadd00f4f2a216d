package ollama

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// answerDecoder reads one answer of chat or generate, line by line or whole. The
// line with done ends it and has the counts.
type answerDecoder struct {
	r      *infer.Request
	native bool

	c       jsonread.Cursor
	started bool
	done    bool
	calls   int
	ids     map[string]bool
	guessed int // generated tokens, estimated
}

// line is one line of a stream, or a whole answer. JSON members come in any
// order, so it is read whole before anything is made of it.
type line struct {
	model, text, thinking, reason string
	done                          bool
	calls                         []infer.ToolCall
	lps                           []infer.TokenLogprob
	tokens                        int // members of logprobs
	prompt, eval                  int // -1: not stated
	fault                         string
	faulty                        bool
}

// Frame implements wire.StreamDecoder.
func (d *answerDecoder) Frame(dst []infer.Event, _ string, data []byte) ([]infer.Event, error) {
	data = bytes.TrimSpace(data)
	if d.done || len(data) == 0 {
		return dst, nil
	}
	mark := len(dst)
	dst, err := d.take(dst, data)
	if err != nil {
		return dst[:mark], err
	}
	if !d.native {
		return dst, nil
	}
	f := &infer.Frame{Data: bytes.Clone(data)}
	switch {
	case len(dst) == mark:
		dst = append(dst, infer.Event{Kind: infer.EventFrame, Frame: f})
	case d.done: // the end goes out behind the count
		dst[len(dst)-1].Frame = f
	default:
		dst[mark].Frame = f
	}
	return dst, nil
}

// End implements wire.StreamDecoder.
func (d *answerDecoder) End(dst []infer.Event) ([]infer.Event, error) {
	if d.done {
		return dst, nil
	}
	return dst, wire.Lost(nil)
}

// decodeWhole reads an answer that is not streamed.
func decodeWhole(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	d := &answerDecoder{r: r, native: o.Native && !o.Stream}
	dst, err := d.take(make([]infer.Event, 0, 5), bytes.TrimSpace(body))
	if err != nil {
		return nil, err
	}
	if !d.done {
		return nil, wire.Malformed(errors.New("an answer that is not done"))
	}
	if d.native {
		dst[len(dst)-1].Frame = &infer.Frame{Data: bytes.Clone(body)}
	}
	return dst, nil
}

// take makes events of one line.
func (d *answerDecoder) take(dst []infer.Event, data []byte) ([]infer.Event, error) {
	d.c.Reset(data)
	l := line{prompt: -1, eval: -1}
	if k, ok := d.c.Kind(); !ok || k != jsonread.Object {
		return dst, wire.Malformed(errors.New("a line that is no JSON object"))
	}
	d.read(&l)
	if !d.c.End() {
		return dst, wire.Malformed(errors.New("a line that is no JSON"))
	}
	if l.faulty {
		return dst, inBand(l.fault)
	}
	if !d.started {
		d.started = true
		served := &infer.Served{Name: d.r.Model, Native: d.native}
		if l.model != "" && len(l.model) <= 512 {
			served.Name = l.model
		}
		u := infer.Usage{PromptTokens: wire.EstimatePrompt(d.r), Estimated: true}
		if l.prompt >= 0 {
			u = infer.Usage{PromptTokens: l.prompt}
		}
		dst = append(dst, infer.Event{Kind: infer.EventStart, Model: served, Usage: &u})
	}
	mark := len(dst)
	if l.thinking != "" {
		dst = append(dst, infer.Event{Kind: infer.EventReasoning, Text: l.thinking, Tokens: wire.EstimateTokens(len(l.thinking))})
	}
	if l.text != "" || len(l.lps) > 0 {
		dst = append(dst, infer.Event{Kind: infer.EventText, Text: l.text, Logprobs: l.lps, Tokens: wire.EstimateTokens(len(l.text))})
	}
	for i := range l.calls {
		c := &l.calls[i]
		if c.Name == "" || d.calls == maxToolCalls {
			return dst, wire.Malformed(errors.New("a tool call without a name, or too many of them"))
		}
		t := &infer.ToolDelta{Index: d.calls, ID: d.id(c.ID), Name: c.Name, Arguments: c.Arguments}
		d.calls++
		dst = append(dst, infer.Event{Kind: infer.EventTool, Tool: t, Tokens: wire.EstimateTokens(len(c.Name) + len(c.Arguments))})
	}
	if l.tokens > 0 && len(dst) == mark+1 {
		dst[mark].Tokens = l.tokens
	}
	for _, ev := range dst[mark:] {
		d.guessed += ev.Tokens
	}
	if l.done {
		dst = d.end(dst, &l)
	}
	return dst, nil
}

// end tells why the answer ended, and the counts. The prompt's is left out by
// older servers where it was found in their cache; a count that is not there is
// no zero.
func (d *answerDecoder) end(dst []infer.Event, l *line) []infer.Event {
	d.done = true
	f := infer.FinishStop
	switch {
	case l.reason == "length":
		f = infer.FinishLength
	case d.calls > 0:
		f = infer.FinishToolCalls
	case l.reason == "content_filter" || l.reason == "refusal": // a server that translates
		f = infer.FinishReason(l.reason)
	}
	u := infer.Usage{PromptTokens: l.prompt, CompletionTokens: l.eval}
	if l.prompt < 0 {
		u.PromptTokens, u.Estimated = wire.EstimatePrompt(d.r), true
	}
	if l.eval < 0 {
		u.CompletionTokens, u.Estimated = d.guessed, true
	}
	return append(dst, infer.Event{Kind: infer.EventFinish, Finish: f}, infer.Event{Kind: infer.EventUsage, Usage: &u})
}

// id is the id of a call: the server's, or one made for this request where it has
// none or has used it before.
func (d *answerDecoder) id(own string) string {
	if own == "" || len(own) > maxShort || d.ids[own] {
		own = strings.TrimPrefix(d.r.ID, "req_")
		own = "call_" + own[:min(len(own), 16)] + "_" + strconv.Itoa(d.calls+1) // OpenAI takes up to 40 bytes
	}
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	d.ids[own] = true
	return own
}

// read reads the members of one line.
func (d *answerDecoder) read(l *line) {
	c := &d.c
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "model":
			l.model = c.Str()
		case "message":
			readMessage(c, l)
		case "response":
			l.text = c.Str()
		case "thinking":
			l.thinking = c.Str()
		case "done":
			l.done = c.True()
		case "done_reason":
			l.reason = c.Str()
		case "prompt_eval_count":
			count(c, &l.prompt)
		case "eval_count":
			count(c, &l.eval)
		case "logprobs":
			l.lps, l.tokens = readLogprobs(c, d.r.Sampling.Logprobs && !d.native)
		case "error":
			if k, ok := c.Kind(); ok && k == jsonread.String {
				l.fault = c.Str()
				l.faulty = l.fault != ""
			} else {
				c.Skip()
			}
		default:
			c.Skip()
		}
	}
}

func count(c *jsonread.Cursor, dst *int) {
	if n, ok := c.Int(); ok && n >= 0 && n <= wire.MaxCount {
		*dst = int(n)
	}
}

func readMessage(c *jsonread.Cursor, l *line) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "content":
			l.text = c.Str()
		case "thinking":
			l.thinking = c.Str()
		case "tool_calls":
			for ok := c.Array(); ok && c.More(); {
				l.calls = append(l.calls, readCall(c))
			}
		default:
			c.Skip()
		}
	}
}

func readCall(c *jsonread.Cursor) infer.ToolCall {
	call := infer.ToolCall{Arguments: "{}"}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "id":
			call.ID = c.Str()
		case "function":
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "name":
					call.Name = c.Str()
				case "arguments":
					switch k, _ := c.Kind(); k {
					case jsonread.Object:
						call.Arguments = string(c.Raw())
					case jsonread.String:
						call.Arguments = c.Str()
					default:
						c.Skip()
					}
				default:
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	return call
}

// readLogprobs reads log-probabilities if they are wanted, and counts them always.
func readLogprobs(c *jsonread.Cursor, want bool) (lps []infer.TokenLogprob, n int) {
	for ok := c.Array(); ok && c.More(); {
		n++
		if !want {
			c.Skip()
			continue
		}
		var t infer.TokenLogprob
		var own infer.TopLogprob
		for ok := c.Object(); ok && c.More(); {
			if key := string(c.Key()); key == "top_logprobs" {
				for ok := c.Array(); ok && c.More(); {
					var top infer.TopLogprob
					for ok := c.Object(); ok && c.More(); {
						logprobMember(c, string(c.Key()), &top)
					}
					t.Top = append(t.Top, top)
				}
			} else {
				logprobMember(c, key, &own)
			}
		}
		t.Bytes, t.Logprob = own.Bytes, own.Logprob
		lps = append(lps, t)
	}
	return lps, n
}

// logprobMember reads one member of a token. Bytes are exact where the text of
// the token is not.
func logprobMember(c *jsonread.Cursor, key string, t *infer.TopLogprob) {
	switch key {
	case "token":
		if s := c.Str(); t.Bytes == nil {
			t.Bytes = []byte(s)
		}
	case "logprob":
		t.Logprob, _ = c.Float()
	case "bytes":
		var b []byte
		for ok := c.Array(); ok && c.More(); {
			n, _ := c.Int()
			b = append(b, byte(n))
		}
		if len(b) > 0 {
			t.Bytes = b
		}
	default:
		c.Skip()
	}
}

// decodeError reads an answer that is not 2xx.
func decodeError(status int, h http.Header, body []byte) *infer.Error {
	var c jsonread.Cursor
	c.Reset(body)
	msg := ""
	for ok := c.Object(); ok && c.More(); {
		if k := string(c.Key()); k != "error" {
			c.Skip()
			continue
		}
		if k, ok := c.Kind(); ok && k == jsonread.Object { // a server that speaks OpenAI's form
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "message" {
					msg = c.Str()
				} else {
					c.Skip()
				}
			}
			continue
		}
		msg = c.Str()
	}
	if !c.OK() {
		msg = ""
	}
	return fault(status, h, msg)
}

// fault judges by status and message, which is all there is.
func fault(status int, h http.Header, msg string) *infer.Error {
	e := wire.StatusFault(status, h)
	low := strings.ToLower(msg)
	switch {
	case tooLong(low) && (status == 400 || status == 500):
		e = wire.StatusFault(400, h)
		e.Upstream.Status = status
		e.Code, e.Message = infer.CodeContextLength, "the prompt is longer than the model's context at the provider"
	case status == 400:
		if q := wire.Quote(msg); q != "" {
			e.Message = "the provider refused the request: " + q
		}
	case status == 500 && (strings.Contains(low, "busy") || strings.Contains(low, "maximum pending requests")):
		e = wire.StatusFault(503, h)
		e.Upstream.Status = status
	}
	return e
}

func tooLong(low string) bool {
	return strings.Contains(low, "context length") || strings.Contains(low, "context window") || strings.Contains(low, "maximum context")
}

// inBand is the error for one that came as a line of a stream.
func inBand(msg string) *infer.Error {
	e := fault(500, nil, msg)
	e.Upstream.Unsent = false
	return e
}
