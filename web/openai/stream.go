package openai

import (
	"fmt"
	"math/rand/v2"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// stream is what the encoders of both routes share: the head that is the same
// in every chunk, and what waits for the next chunk of each choice.
//
// Tokens that made no text yet (a piece of a character, a text that may begin a
// stop string) come as events without text. A chunk that says nothing would be
// noise, so their log-probabilities and ids wait for the next chunk that speaks.
type stream struct {
	r       *infer.Request
	o       wire.Options
	object  string
	id      string
	head    []byte // up to and including "choices":[
	waiting []pending
	usage   infer.Usage // as far as known, for running usage
	closed  bool        // the usage event has come
}

type pending struct {
	lps      []infer.TokenLogprob
	ids      []int32
	off      offsets
	begun    bool // the role has been sent
	finished bool
	refused  bool // words of refusal have been sent
	texts    []textCall
}

// textCall is a call of a tool that takes free text. Its arguments arrive as JSON
// and are sent as the text in them, when they are whole.
type textCall struct {
	index int
	args  []byte
}

func newStream(r *infer.Request, o wire.Options, prefix, object string) *stream {
	return &stream{r: r, o: o, object: object, id: answerID(prefix, r), waiting: make([]pending, wire.Choices(r))}
}

// start fixes the head. It is called by the first event, which names the model.
func (s *stream) start(m *infer.Served) {
	served := infer.Served{Name: s.r.Model}
	if m != nil {
		served = *m
	}
	s.head = appendHead(append(s.head[:0], "data: "...), s.id, s.object, s.o.Created, served)
	s.head = append(s.head, `,"choices":[`...)
}

// note checks an event against the rules of infer.Event and keeps what it
// carries beside its text.
func (s *stream) note(ev infer.Event) error {
	if ev.Choice < 0 || ev.Choice >= len(s.waiting) {
		return fmt.Errorf("BUG: an event of choice %d where there are %d", ev.Choice, len(s.waiting))
	}
	w := &s.waiting[ev.Choice]
	if s.closed || w.finished && ev.Kind != infer.EventUsage && ev.Kind != infer.EventStart {
		return fmt.Errorf("BUG: an event of kind %d after the end of choice %d", ev.Kind, ev.Choice)
	}
	w.lps = append(w.lps, ev.Logprobs...)
	w.ids = append(w.ids, ev.TokenIDs...)
	s.usage.CompletionTokens += ev.Tokens
	if ev.Kind == infer.EventStart {
		if s.head != nil {
			return fmt.Errorf("BUG: two starts of one stream")
		}
		s.start(ev.Model)
		if ev.Usage != nil {
			s.usage.PromptTokens, s.usage.CachedTokens = ev.Usage.PromptTokens, ev.Usage.CachedTokens
		}
		return nil
	}
	if s.head == nil {
		s.start(nil)
	}
	switch ev.Kind {
	case infer.EventFinish:
		w.finished = true
	case infer.EventUsage:
		if ev.Usage == nil {
			return fmt.Errorf("BUG: a usage event without usage")
		}
		s.usage, s.closed = *ev.Usage, true
	case infer.EventTool:
		if ev.Tool == nil {
			return fmt.Errorf("BUG: a tool event without a tool")
		}
	}
	return nil
}

// takeIDs appends the ids that wait.
func (s *stream) takeIDs(dst []byte, w *pending) []byte {
	if s.r.Sampling.ReturnTokenIDs {
		dst = append(dst, `,"token_ids":`...)
		dst = jsonwrite.Int32s(dst, w.ids)
		w.ids = w.ids[:0]
	}
	return dst
}

// end closes the choices array and the chunk that began at from.
func (s *stream) end(dst []byte, from int) []byte {
	dst = append(dst, ']')
	switch {
	case s.o.ContinuousUsage:
		dst = appendUsage(append(dst, `,"usage":`...), s.usage)
	case s.o.IncludeUsage:
		dst = append(dst, `,"usage":null`...)
	}
	if s.o.Obfuscate {
		dst = obfuscate(dst, from)
	}
	return append(dst, "}\n\n"...)
}

// obfuscate pads the chunk to a multiple of 64 bytes, so that the size of a
// TLS record tells less of the token in it.
func obfuscate(dst []byte, from int) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	dst = append(dst, `,"obfuscation":"`...)
	for n := 64 - (len(dst)-from+4)%64; n > 0; n-- {
		dst = append(dst, alphabet[rand.IntN(len(alphabet))])
	}
	return append(dst, '"')
}

// usageChunk appends the chunk that carries nothing but the totals.
func (s *stream) usageChunk(dst []byte) []byte {
	if !s.o.IncludeUsage {
		return dst
	}
	dst = append(dst, s.head...)
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, s.usage), "}\n\n"...)
}

// Error appends the frame that the SDKs raise from, mid-stream. Nothing ends
// the stream after it: a client that sees no end mark knows it was cut.
func (s *stream) Error(dst []byte, e *infer.Error) []byte {
	dst = append(dst, "data: "...)
	return append(appendError(dst, e), "\n\n"...)
}

// End appends the end mark.
func (s *stream) End(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }

// chatStream encodes /v1/chat/completions.
type chatStream struct{ *stream }

func newChatStream(r *infer.Request, o wire.Options) *chatStream {
	return &chatStream{newStream(r, o, "chatcmpl-", "chat.completion.chunk")}
}

// Event implements wire.StreamEncoder.
func (s *chatStream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if err := s.note(ev); err != nil {
		return dst, err
	}
	switch ev.Kind {
	case infer.EventStart:
		for i := range s.waiting {
			dst = s.role(dst, i)
		}
		return dst, nil
	case infer.EventUsage:
		return s.usageChunk(dst), nil
	case infer.EventFrame:
		return dst, nil
	}
	w := &s.waiting[ev.Choice]
	if !w.begun {
		dst = s.role(dst, ev.Choice)
	}
	from := len(dst)
	switch ev.Kind {
	case infer.EventText:
		if ev.Text == "" {
			return dst, nil
		}
		dst = s.delta(dst, ev.Choice)
		if ev.Refusal {
			w.refused = true
			dst = jsonwrite.String(append(dst, `"refusal":`...), ev.Text)
			break
		}
		dst = jsonwrite.String(append(dst, `"content":`...), ev.Text)
	case infer.EventReasoning:
		if s.o.HideReasoning {
			w.lps, w.ids = w.lps[:0], w.ids[:0]
			return dst, nil
		}
		if ev.Text == "" {
			return dst, nil
		}
		dst = s.delta(dst, ev.Choice)
		dst = jsonwrite.String(append(dst, `"reasoning_content":`...), ev.Text)
	case infer.EventTool:
		if ev.Tool.ID == "" && ev.Tool.Arguments == "" {
			return dst, nil
		}
		if s.text(w, ev.Tool) {
			if ev.Tool.ID == "" {
				return dst, nil
			}
			dst = appendTextHead(s.delta(dst, ev.Choice), ev.Tool)
			break
		}
		dst = s.tool(s.delta(dst, ev.Choice), ev.Tool)
	case infer.EventFinish:
		for _, c := range w.texts {
			at := len(dst)
			dst = jsonwrite.Int(append(s.delta(dst, ev.Choice), `"tool_calls":[{"index":`...), int64(c.index))
			dst = jsonwrite.String(append(dst, `,"custom":{"input":`...), textInput(string(c.args)))
			dst = s.close(append(dst, "}}]"...), at, w, nil)
		}
		from = len(dst)
		dst = s.delta(dst, ev.Choice)
		return s.close(dst, from, w, &ev), nil
	default:
		return dst, fmt.Errorf("BUG: an event of unknown kind %d", ev.Kind)
	}
	return s.close(dst, from, w, nil), nil
}

// role appends the first chunk of a choice.
func (s *chatStream) role(dst []byte, i int) []byte {
	s.waiting[i].begun = true
	from := len(dst)
	dst = s.delta(dst, i)
	dst = append(dst, `"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`...)
	if i > 0 || !s.r.Sampling.ReturnTokenIDs || len(s.o.PromptTokens) == 0 {
		return s.end(dst, from)
	}
	dst = append(dst, `],"prompt_token_ids":`...)
	dst = jsonwrite.Int32s(dst, s.o.PromptTokens[0])
	if s.o.IncludeUsage && !s.o.ContinuousUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// delta opens a chunk, its one choice and its delta.
func (s *chatStream) delta(dst []byte, choice int) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `{"index":`...)
	dst = jsonwrite.Int(dst, int64(choice))
	return append(dst, `,"delta":{`...)
}

func (s *chatStream) tool(dst []byte, t *infer.ToolDelta) []byte {
	if s.o.LegacyFunctions {
		dst = append(dst, `"function_call":{`...)
		if t.ID != "" {
			dst = jsonwrite.String(append(dst, `"name":`...), t.Name)
			dst = append(dst, ',')
		}
		dst = jsonwrite.String(append(dst, `"arguments":`...), t.Arguments)
		return append(dst, '}')
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = jsonwrite.Int(dst, int64(t.Index))
	if t.ID != "" {
		dst = jsonwrite.String(append(dst, `,"id":`...), t.ID)
		dst = append(dst, `,"type":"function","function":`...)
		dst = appendFunction(dst, t.Name, t.Arguments)
		return append(dst, "}]"...)
	}
	dst = jsonwrite.String(append(dst, `,"function":{"arguments":`...), t.Arguments)
	return append(dst, "}}]"...)
}

// text keeps a piece of a call whose tool takes free text; false for any other.
func (s *chatStream) text(w *pending, t *infer.ToolDelta) bool {
	if t.ID != "" {
		if s.o.LegacyFunctions || !takesText(s.r, t.Name) {
			return false
		}
		w.texts = append(w.texts, textCall{t.Index, []byte(t.Arguments)})
		return true
	}
	for i := range w.texts {
		if w.texts[i].index == t.Index {
			w.texts[i].args = append(w.texts[i].args, t.Arguments...)
			return true
		}
	}
	return false
}

func appendTextHead(dst []byte, t *infer.ToolDelta) []byte {
	dst = jsonwrite.Int(append(dst, `"tool_calls":[{"index":`...), int64(t.Index))
	dst = jsonwrite.String(append(dst, `,"id":`...), t.ID)
	dst = jsonwrite.String(append(dst, `,"type":"custom","custom":{"name":`...), t.Name)
	return append(dst, `,"input":""}}]`...)
}

// close ends the delta and the chunk; fin is the finish event, if it is one.
func (s *chatStream) close(dst []byte, from int, w *pending, fin *infer.Event) []byte {
	dst = append(dst, `},"logprobs":`...)
	if s.r.Sampling.Logprobs && len(w.lps) > 0 {
		dst = appendChatLogprobs(dst, w.lps, s.o.TokensAsIDs)
		w.lps = w.lps[:0]
	} else {
		dst = append(dst, "null"...)
	}
	if fin == nil {
		dst = append(dst, `,"finish_reason":null`...)
	} else {
		dst = appendFinish(dst, fin.Finish, fin.Stop, s.o.LegacyFunctions, w.refused)
	}
	return s.end(append(s.takeIDs(dst, w), '}'), from)
}

// completionStream encodes /v1/completions.
type completionStream struct{ *stream }

func newCompletionStream(r *infer.Request, o wire.Options) *completionStream {
	return &completionStream{newStream(r, o, "cmpl-", "text_completion")}
}

// Event implements wire.StreamEncoder.
func (s *completionStream) Event(dst []byte, ev infer.Event) ([]byte, error) {
	if err := s.note(ev); err != nil {
		return dst, err
	}
	w := &s.waiting[ev.Choice]
	from := len(dst)
	switch ev.Kind {
	case infer.EventStart, infer.EventFrame:
		return dst, nil
	case infer.EventReasoning: // this route has no place for it
		return dst, nil
	case infer.EventUsage:
		return s.usageChunk(dst), nil
	case infer.EventText:
		if ev.Text == "" {
			return dst, nil
		}
	case infer.EventFinish:
	default:
		return dst, fmt.Errorf("BUG: an event of kind %d on a completion", ev.Kind)
	}
	dst = append(dst, s.head...)
	dst = append(dst, `{"index":`...)
	dst = jsonwrite.Int(dst, int64(ev.Choice))
	dst = append(dst, `,"text":`...)
	dst = jsonwrite.String(dst, ev.Text)
	dst = append(dst, `,"logprobs":`...)
	if s.r.Sampling.Logprobs && len(w.lps) > 0 {
		dst = appendCompletionLogprobs(dst, w.lps, &w.off, s.r.Sampling.TopLogprobs, s.o.TokensAsIDs)
		w.lps = w.lps[:0]
	} else {
		dst = append(dst, "null"...)
	}
	if ev.Kind == infer.EventFinish {
		dst = appendFinish(dst, ev.Finish, ev.Stop, false, false)
	} else {
		dst = append(dst, `,"finish_reason":null`...)
	}
	dst = s.takeIDs(dst, w)
	if p := ev.Choice / max(1, s.r.Sampling.N); s.r.Sampling.ReturnTokenIDs && !w.begun && p < len(s.o.PromptTokens) {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = jsonwrite.Int32s(dst, s.o.PromptTokens[p])
	}
	w.begun = true
	return s.end(append(dst, '}'), from), nil
}
