package gemini

import (
	"io"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// EncodeResponse implements wire.Dialect.
func (Generate) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	dst := []byte(`{"candidates":[`)
	for i := range a.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCandidate(dst, i, r, o, &a.Choices[i])
	}
	dst = append(dst, `],"usageMetadata":`...)
	dst = appendUsage(dst, a.Usage)
	dst = appendTail(dst, r, a.Model)
	_, err := w.Write(append(dst, "}\n"...))
	return err
}

// appendTail appends what names the answer.
func appendTail(dst []byte, r *infer.Request, m infer.Served) []byte {
	dst = jsonwrite.String(append(dst, `,"modelVersion":`...), m.Name)
	dst = append(dst, `,"responseId":`...)
	return jsonwrite.String(dst, strings.TrimPrefix(r.ID, "req_"))
}

func appendCandidate(dst []byte, i int, r *infer.Request, o wire.Options, c *wire.Choice) []byte {
	dst = append(dst, `{"content":{"parts":[`...)
	dst, broken := appendParts(dst, o, c)
	dst = append(dst, `],"role":"model"}`...)
	dst = appendFinish(dst, c.Finish, broken)
	dst = jsonwrite.Int(append(dst, `,"index":`...), int64(i))
	if r.Sampling.Logprobs {
		dst = appendLogprobs(dst, c.Logprobs)
	}
	return append(dst, '}')
}

// appendParts appends thoughts, text and calls. broken tells that a call's
// arguments are no JSON object, which this wire cannot say.
func appendParts(dst []byte, o wire.Options, c *wire.Choice) (_ []byte, broken bool) {
	n := 0
	comma := func() {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
	}
	pending := "" // a seal of Gemini's own, which belongs on the next part
	for _, t := range c.Thoughts {
		if o.HideReasoning {
			if strings.HasPrefix(t.Signature, native) {
				pending = t.Signature
			}
			continue
		}
		comma()
		dst = appendThought(dst, t.Text, t.Signature, t.Redacted)
	}
	if text := c.Text + c.Refusal; text != "" || len(c.ToolCalls) == 0 {
		comma()
		dst = jsonwrite.String(append(dst, `{"text":`...), text)
		dst = append(appendSeal(dst, &pending), '}')
	}
	for i := range c.ToolCalls {
		t := &c.ToolCalls[i]
		if !isObject(t.Arguments) {
			broken = true
			continue
		}
		comma()
		dst = appendCall(dst, t.ID, t.Name, t.Arguments, &pending)
	}
	return dst, broken
}

// appendThought appends a part of reasoning.
func appendThought(dst []byte, text, signature, redacted string) []byte {
	dst = jsonwrite.String(append(dst, `{"text":`...), text)
	dst = append(dst, `,"thought":true`...)
	switch {
	case redacted != "":
		dst = jsonwrite.String(append(dst, `,"thoughtSignature":`...), outSealed(redacted))
	case signature != "":
		dst = jsonwrite.String(append(dst, `,"thoughtSignature":`...), outSignature(signature))
	}
	return append(dst, '}')
}

// appendSeal appends the seal that waits, once.
func appendSeal(dst []byte, pending *string) []byte {
	if *pending == "" {
		return dst
	}
	dst = jsonwrite.String(append(dst, `,"thoughtSignature":`...), outSignature(*pending))
	*pending = ""
	return dst
}

// appendCall appends a functionCall whose arguments are known to be an object.
func appendCall(dst []byte, id, name, args string, pending *string) []byte {
	dst = append(dst, `{"functionCall":{`...)
	if id != "" {
		dst = append(jsonwrite.String(append(dst, `"id":`...), id), ',')
	}
	dst = jsonwrite.String(append(dst, `"name":`...), name)
	dst = append(dst, `,"args":`...)
	if args == "" {
		args = "{}"
	}
	dst = append(append(dst, compact([]byte(args))...), '}')
	return append(appendSeal(dst, pending), '}')
}

// isObject tells whether arguments can stand as args: none at all can.
func isObject(args string) bool {
	if args == "" {
		return true
	}
	var c jsonread.Cursor
	c.Reset([]byte(args))
	k, ok := c.Kind()
	if !ok || k != jsonread.Object {
		return false
	}
	c.Skip()
	return c.End()
}

// finishReason is the word for f on this wire, and a remark where there is no
// exact one.
func finishReason(f infer.FinishReason, broken bool) (word, remark string) {
	if broken && f != infer.FinishLength && f != infer.FinishContext { // a call that was cut off is no malformed one
		return "MALFORMED_FUNCTION_CALL", "the arguments of a function call are no JSON object"
	}
	switch f {
	case infer.FinishStop, infer.FinishToolCalls:
		return "STOP", ""
	case infer.FinishLength, infer.FinishContext:
		return "MAX_TOKENS", ""
	case infer.FinishContentFilter:
		return "SAFETY", ""
	case infer.FinishRefusal:
		return "PROHIBITED_CONTENT", "the model declined to answer"
	case infer.FinishPause:
		return "OTHER", "the provider paused the turn; send it again to go on"
	}
	return "OTHER", ""
}

func appendFinish(dst []byte, f infer.FinishReason, broken bool) []byte {
	word, remark := finishReason(f, broken)
	dst = append(append(append(dst, `,"finishReason":"`...), word...), '"')
	if remark != "" {
		dst = jsonwrite.String(append(dst, `,"finishMessage":`...), remark)
	}
	return dst
}

// appendUsage appends usageMetadata. Cached tokens are part of the prompt's,
// thoughts are not part of the candidates'.
func appendUsage(dst []byte, u infer.Usage) []byte {
	dst = jsonwrite.Int(append(dst, `{"promptTokenCount":`...), int64(u.PromptTokens))
	dst = jsonwrite.Int(append(dst, `,"candidatesTokenCount":`...), int64(max(0, u.CompletionTokens-u.ReasoningTokens)))
	dst = jsonwrite.Int(append(dst, `,"totalTokenCount":`...), int64(u.PromptTokens+u.CompletionTokens))
	if u.CachedTokens > 0 {
		dst = jsonwrite.Int(append(dst, `,"cachedContentTokenCount":`...), int64(u.CachedTokens))
	}
	if u.ReasoningTokens > 0 {
		dst = jsonwrite.Int(append(dst, `,"thoughtsTokenCount":`...), int64(u.ReasoningTokens))
	}
	return append(dst, '}')
}

// appendLogprobs appends logprobsResult.
func appendLogprobs(dst []byte, lps []infer.TokenLogprob) []byte {
	dst = append(dst, `,"logprobsResult":{"topCandidates":[`...)
	for i := range lps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"candidates":[`...)
		for k, t := range lps[i].Top {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendLogprob(dst, t.ID, t.Bytes, t.Logprob)
		}
		dst = append(dst, "]}"...)
	}
	dst = append(dst, `],"chosenCandidates":[`...)
	sum := 0.0
	for i := range lps {
		if i > 0 {
			dst = append(dst, ',')
		}
		sum += lps[i].Logprob
		dst = appendLogprob(dst, lps[i].ID, lps[i].Bytes, lps[i].Logprob)
	}
	dst = jsonwrite.Float(append(dst, `],"logProbabilitySum":`...), sum)
	return append(dst, '}')
}

func appendLogprob(dst []byte, id int32, token []byte, lp float64) []byte {
	dst = jsonwrite.String(append(dst, `{"token":`...), string(token))
	dst = jsonwrite.Int(append(dst, `,"tokenId":`...), int64(id))
	dst = jsonwrite.Float(append(dst, `,"logProbability":`...), lp)
	return append(dst, '}')
}
