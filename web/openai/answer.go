package openai

import (
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// answerID is the id of an answer, made from the id of its request so that one
// can be found by the other.
func answerID(prefix string, r *infer.Request) string {
	return prefix + strings.TrimPrefix(r.ID, "req_")
}

// appendHead appends the members that every object of one answer shares, and
// leaves the object open.
func appendHead(dst []byte, id, object string, created time.Time, m infer.Served) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwrite.String(dst, id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = jsonwrite.Int(dst, created.Unix())
	dst = append(dst, `,"model":`...)
	dst = jsonwrite.String(dst, m.Name)
	if m.Fingerprint != "" {
		dst = append(dst, `,"system_fingerprint":`...)
		dst = jsonwrite.String(dst, m.Fingerprint)
	}
	return dst
}

// finishReason is the word for f on this wire, which has five. A refusal is told
// as OpenAI tells it, by its text in refusal and "stop", or as content_filter
// where the provider gave no such text. A turn that its provider interrupted is
// not whole, and so is one that filled the context: length.
func finishReason(f infer.FinishReason, legacy, refused bool) string {
	switch f {
	case infer.FinishToolCalls:
		if legacy {
			return "function_call"
		}
	case infer.FinishRefusal:
		if refused {
			return string(infer.FinishStop)
		}
		return string(infer.FinishContentFilter)
	case infer.FinishContext, infer.FinishPause:
		return string(infer.FinishLength)
	}
	return string(f)
}

// appendFinish appends the end of a choice: its reason, and the stop string
// that matched, under vLLM's name.
func appendFinish(dst []byte, f infer.FinishReason, stop string, legacy, refused bool) []byte {
	dst = append(dst, `,"finish_reason":`...)
	dst = jsonwrite.String(dst, finishReason(f, legacy, refused))
	if stop != "" {
		dst = append(dst, `,"stop_reason":`...)
		dst = jsonwrite.String(dst, stop)
	}
	return dst
}

// appendChat appends a whole chat completion.
func appendChat(dst []byte, r *infer.Request, o wire.Options, a *wire.Answer) []byte {
	dst = appendHead(dst, answerID("chatcmpl-", r), "chat.completion", o.Created, a.Model)
	dst = append(dst, `,"choices":[`...)
	for i := range a.Choices {
		dst = appendMessage(comma(dst, i), i, r, o, &a.Choices[i])
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, a.Usage)
	dst = appendPromptTokens(dst, r, o)
	return append(dst, "}\n"...)
}

func appendMessage(dst []byte, i int, r *infer.Request, o wire.Options, c *wire.Choice) []byte {
	dst = append(dst, `{"index":`...)
	dst = jsonwrite.Int(dst, int64(i))
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if c.Text == "" && (len(c.ToolCalls) > 0 || c.Refusal != "") {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwrite.String(dst, c.Text)
	}
	dst = append(dst, `,"refusal":`...)
	if c.Refusal == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwrite.String(dst, c.Refusal)
	}
	if c.Reasoning != "" && !o.HideReasoning {
		dst = append(dst, `,"reasoning_content":`...)
		dst = jsonwrite.String(dst, c.Reasoning)
	}
	dst = appendCalls(dst, r, o, c.ToolCalls)
	dst = append(dst, `},"logprobs":`...)
	if r.Sampling.Logprobs {
		dst = appendChatLogprobs(dst, c.Logprobs, o.TokensAsIDs)
	} else {
		dst = append(dst, "null"...)
	}
	dst = appendFinish(dst, c.Finish, c.Stop, o.LegacyFunctions, c.Refusal != "")
	if r.Sampling.ReturnTokenIDs {
		dst = append(dst, `,"token_ids":`...)
		dst = jsonwrite.Int32s(dst, c.TokenIDs)
	}
	return append(dst, '}')
}

func appendCalls(dst []byte, r *infer.Request, o wire.Options, calls []infer.ToolCall) []byte {
	if len(calls) == 0 {
		return dst
	}
	if o.LegacyFunctions {
		dst = append(dst, `,"function_call":`...)
		return appendFunction(dst, calls[0].Name, calls[0].Arguments)
	}
	dst = append(dst, `,"tool_calls":[`...)
	for i, c := range calls {
		dst = append(comma(dst, i), `{"id":`...)
		dst = jsonwrite.String(dst, c.ID)
		if takesText(r, c.Name) {
			dst = jsonwrite.String(append(dst, `,"type":"custom","custom":{"name":`...), c.Name)
			dst = jsonwrite.String(append(dst, `,"input":`...), textInput(c.Arguments))
			dst = append(dst, "}}"...)
			continue
		}
		dst = append(dst, `,"type":"function","function":`...)
		dst = append(appendFunction(dst, c.Name, c.Arguments), '}')
	}
	return append(dst, ']')
}

// takesText tells whether the caller declared the tool as one that takes free
// text.
func takesText(r *infer.Request, name string) bool {
	for i := range r.Tools {
		if r.Tools[i].Name == name {
			return r.Tools[i].Custom != nil
		}
	}
	return false
}

// textInput is the free text out of the arguments of such a tool's call; what is
// not of their form is the text itself.
func textInput(args string) string {
	var c jsonread.Cursor
	c.Reset([]byte(args))
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return args
	}
	input, found := "", false
	for c.Object(); c.More(); {
		if string(c.Key()) == "input" {
			input, found = c.Str(), true
		} else {
			c.Skip()
		}
	}
	if !c.End() || !found {
		return args
	}
	return input
}

// appendFunction appends {"name","arguments"}.
func appendFunction(dst []byte, name, args string) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonwrite.String(dst, name)
	dst = append(dst, `,"arguments":`...)
	return append(jsonwrite.String(dst, args), '}')
}

// appendPromptTokens appends the ids of a chat's prompt, under vLLM's name.
func appendPromptTokens(dst []byte, r *infer.Request, o wire.Options) []byte {
	if r.Sampling.ReturnTokenIDs && len(o.PromptTokens) > 0 {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = jsonwrite.Int32s(dst, o.PromptTokens[0])
	}
	return dst
}

// appendCompletion appends a whole text completion.
func appendCompletion(dst []byte, r *infer.Request, o wire.Options, a *wire.Answer) []byte {
	dst = appendHead(dst, answerID("cmpl-", r), "text_completion", o.Created, a.Model)
	dst = append(dst, `,"choices":[`...)
	for i := range a.Choices {
		c := &a.Choices[i]
		dst = append(comma(dst, i), `{"index":`...)
		dst = jsonwrite.Int(dst, int64(i))
		dst = append(dst, `,"text":`...)
		dst = jsonwrite.String(dst, c.Text)
		dst = append(dst, `,"logprobs":`...)
		if r.Sampling.Logprobs {
			dst = appendCompletionLogprobs(dst, c.Logprobs, &offsets{}, r.Sampling.TopLogprobs, o.TokensAsIDs)
		} else {
			dst = append(dst, "null"...)
		}
		dst = appendFinish(dst, c.Finish, c.Stop, false, false)
		if r.Sampling.ReturnTokenIDs {
			dst = append(dst, `,"token_ids":`...)
			dst = jsonwrite.Int32s(dst, c.TokenIDs)
			if p := i / max(1, r.Sampling.N); p < len(o.PromptTokens) {
				dst = append(dst, `,"prompt_token_ids":`...)
				dst = jsonwrite.Int32s(dst, o.PromptTokens[p])
			}
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, a.Usage), "}\n"...)
}
