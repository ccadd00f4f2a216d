package ollama

import (
	"io"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// form is what differs between chat and generate in an answer.
type form struct{ generate bool }

// appendHead appends the members that every line of an answer has.
func appendHead(dst []byte, model string, now time.Time) []byte {
	dst = jsonwrite.String(append(dst, `{"model":`...), model)
	dst = append(dst, `,"created_at":"`...)
	dst = now.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

// open appends the start of what the model says, close its end. calls are whole.
func (f form) open(dst []byte, text, thinking string) []byte {
	if f.generate {
		dst = jsonwrite.String(append(dst, `,"response":`...), text)
	} else {
		dst = jsonwrite.String(append(dst, `,"message":{"role":"assistant","content":`...), text)
	}
	if thinking != "" {
		dst = jsonwrite.String(append(dst, `,"thinking":`...), thinking)
	}
	return dst
}

func (f form) close(dst []byte) []byte {
	if f.generate {
		return dst
	}
	return append(dst, '}')
}

// appendCalls appends the calls of one answer, which must be objects here.
func appendCalls(dst []byte, calls []infer.ToolCall) ([]byte, error) {
	if len(calls) == 0 {
		return dst, nil
	}
	dst = append(dst, `,"tool_calls":[`...)
	for i := range calls {
		c := &calls[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		if !isObject(c.Arguments) {
			return dst, infer.Errorf(infer.CodeUpstream, "the model called a tool with arguments that are no JSON object")
		}
		dst = jsonwrite.String(append(dst, `{"id":`...), c.ID)
		dst = jsonwrite.Int(append(dst, `,"function":{"index":`...), int64(i))
		dst = jsonwrite.String(append(dst, `,"name":`...), c.Name)
		dst = append(append(dst, `,"arguments":`...), oneLine(c.Arguments)...)
		dst = append(dst, "}}"...)
	}
	return append(dst, ']'), nil
}

// oneLine is arguments, which are an object or nothing, without line breaks
// between their tokens: a line of a stream must not have any.
func oneLine(args string) []byte {
	if args == "" {
		return []byte("{}")
	}
	return []byte(lineBreaks.Replace(args))
}

// lineBreaks stand between tokens only: inside a string they are escaped.
var lineBreaks = strings.NewReplacer("\n", " ", "\r", " ")

// isObject tells whether arguments can stand as an object: none at all can.
func isObject(args string) bool {
	if args == "" {
		return true
	}
	var c jsonread.Cursor
	c.Reset([]byte(args))
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return false
	}
	c.Skip()
	return c.End()
}

// times are when the parts of an answer came: the request, the first piece, the
// end.
type times struct{ created, first, last time.Time }

// appendEnd appends the members of the last line: why it ended, the counts, and
// how long each part took in nanoseconds. Models are loaded already; what passes
// before the first piece is the prompt's, waiting included.
func appendEnd(dst []byte, reason string, u infer.Usage, t times) []byte {
	dst = jsonwrite.String(append(dst, `,"done":true,"done_reason":`...), reason)
	dst = appendSpan(dst, "total_duration", t.created, t.last)
	dst = append(dst, `,"load_duration":0`...)
	dst = jsonwrite.Int(append(dst, `,"prompt_eval_count":`...), int64(u.PromptTokens))
	dst = appendSpan(dst, "prompt_eval_duration", t.created, t.first)
	dst = jsonwrite.Int(append(dst, `,"eval_count":`...), int64(u.CompletionTokens))
	return appendSpan(dst, "eval_duration", t.first, t.last)
}

// appendSpan appends a duration, if both its ends are known.
func appendSpan(dst []byte, name string, from, to time.Time) []byte {
	if from.IsZero() || to.IsZero() {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return jsonwrite.Int(dst, max(0, to.Sub(from).Nanoseconds()))
}

// doneReason is the word for f on this wire, which has two of its own.
func doneReason(f infer.FinishReason) string {
	switch f {
	case infer.FinishToolCalls, infer.FinishStop:
		return "stop"
	case infer.FinishLength, infer.FinishContext:
		return "length"
	}
	return string(f)
}

// appendLogprobs appends the log-probabilities of an answer or a piece of it.
func appendLogprobs(dst []byte, lps []infer.TokenLogprob) []byte {
	dst = append(dst, `,"logprobs":[`...)
	for i := range lps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLogprob(dst, lps[i].Bytes, lps[i].Logprob)
		if len(lps[i].Top) > 0 {
			dst = append(dst, `,"top_logprobs":[`...)
			for k, t := range lps[i].Top {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = append(appendLogprob(dst, t.Bytes, t.Logprob), '}')
			}
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendLogprob(dst, token []byte, lp float64) []byte {
	dst = jsonwrite.String(append(dst, `{"token":`...), string(token))
	dst = jsonwrite.Float(append(dst, `,"logprob":`...), lp)
	return jsonwrite.Bytes(append(dst, `,"bytes":`...), token)
}

// EncodeResponse implements wire.Dialect.
func (Chat) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	return form{}.whole(w, r, o, a)
}

// EncodeResponse implements wire.Dialect.
func (Generate) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	return form{generate: true}.whole(w, r, o, a)
}

func (f form) whole(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	c, now := &a.Choices[0], time.Now()
	model := a.Model.Name
	if model == "" {
		model = r.Model
	}
	thinking := c.Reasoning
	if o.HideReasoning {
		thinking = ""
	}
	dst := f.open(appendHead(nil, model, now), c.Text+c.Refusal, thinking)
	var err error
	if dst, err = appendCalls(dst, c.ToolCalls); err != nil {
		return err
	}
	dst = f.close(dst)
	if r.Sampling.Logprobs {
		dst = appendLogprobs(dst, c.Logprobs)
	}
	dst = appendEnd(dst, doneReason(c.Finish), a.Usage, times{created: o.Created, first: a.First, last: now})
	_, err = w.Write(append(dst, "}\n"...))
	return err
}

// EncodeLoad is the answer to a request that asks for the model alone.
func EncodeLoad(d wire.Dialect, model, reason string, now time.Time) []byte {
	_, generate := d.(Generate)
	f := form{generate: generate}
	dst := f.close(f.open(appendHead(nil, model, now), "", ""))
	dst = jsonwrite.String(append(dst, `,"done":true,"done_reason":`...), reason)
	return append(dst, "}\n"...)
}
