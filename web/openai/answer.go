package openai

import (
	"strings"
	"time"

	"hearth/engine/infer"
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

// finishReason is the word for f on this wire.
func finishReason(f infer.FinishReason, legacy bool) string {
	if legacy && f == infer.FinishToolCalls {
		return "function_call"
	}
	return string(f)
}

// appendFinish appends the end of a choice: its reason, and the stop string
// that matched, under vLLM's name.
func appendFinish(dst []byte, f infer.FinishReason, stop string, legacy bool) []byte {
	dst = append(dst, `,"finish_reason":`...)
	dst = jsonwrite.String(dst, finishReason(f, legacy))
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
	if c.Text == "" && len(c.ToolCalls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwrite.String(dst, c.Text)
	}
	dst = append(dst, `,"refusal":null`...)
	if c.Reasoning != "" && !o.HideReasoning {
		dst = append(dst, `,"reasoning_content":`...)
		dst = jsonwrite.String(dst, c.Reasoning)
	}
	dst = appendCalls(dst, o, c.ToolCalls)
	dst = append(dst, `},"logprobs":`...)
	if r.Sampling.Logprobs {
		dst = appendChatLogprobs(dst, c.Logprobs, o.TokensAsIDs)
	} else {
		dst = append(dst, "null"...)
	}
	dst = appendFinish(dst, c.Finish, c.Stop, o.LegacyFunctions)
	if r.Sampling.ReturnTokenIDs {
		dst = append(dst, `,"token_ids":`...)
		dst = jsonwrite.Int32s(dst, c.TokenIDs)
	}
	return append(dst, '}')
}

func appendCalls(dst []byte, o wire.Options, calls []infer.ToolCall) []byte {
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
		dst = append(dst, `,"type":"function","function":`...)
		dst = append(appendFunction(dst, c.Name, c.Arguments), '}')
	}
	return append(dst, ']')
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
		dst = appendFinish(dst, c.Finish, c.Stop, false)
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
