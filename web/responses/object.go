package responses

import (
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// Queued is the status of a run that has not begun, Running of one that has.
const (
	Queued  = "queued"
	Running = statusInProgress
)

// Statuses of a response.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// object is a response at one moment.
type object struct {
	id      string
	created time.Time
	done    time.Time // zero: not completed
	model   string
	status  string
	why     string // of incomplete
	err     *infer.Error
	output  []byte // items, joined by commas
	usage   *infer.Usage
	store   bool
	turn    *Turn
	r       *infer.Request
}

// echoed lists the members that an object repeats from its request, with what
// they are where the request is silent.
var echoed = []struct{ name, silent string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"metadata", "{}"},
	{"prompt_cache_key", ""},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", ""},
	{"service_tier", `"default"`},
	{"temperature", "1.0"},
	{"text", `{"format":{"type":"text"},"verbosity":"medium"}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "1.0"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

// append appends the object as JSON.
func (o *object) append(dst []byte) []byte {
	dst = jsonwrite.String(append(dst, `{"id":`...), o.id)
	dst = append(dst, `,"object":"response","created_at":`...)
	dst = jsonwrite.Int(dst, o.created.Unix())
	dst = append(append(append(dst, `,"status":"`...), o.status...), `","background":`...)
	dst = appendBool(dst, o.turn.Background)
	if !o.done.IsZero() {
		dst = jsonwrite.Int(append(dst, `,"completed_at":`...), o.done.Unix())
	}
	dst = appendFailure(append(dst, `,"error":`...), o.err)
	if o.why == "" {
		dst = append(dst, `,"incomplete_details":null`...)
	} else {
		dst = jsonwrite.String(append(dst, `,"incomplete_details":{"reason":`...), o.why)
		dst = append(dst, '}')
	}
	dst = jsonwrite.String(append(dst, `,"model":`...), o.model)
	dst = append(append(append(dst, `,"output":[`...), o.output...), `],"parallel_tool_calls":`...)
	dst = appendBool(dst, o.r == nil || o.r.ParallelToolCalls)
	dst = append(dst, `,"previous_response_id":`...)
	if o.turn.Previous == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwrite.String(dst, o.turn.Previous)
	}
	dst = appendBool(append(dst, `,"store":`...), o.store)
	for _, f := range echoed {
		v, ok := o.turn.fields[f.name]
		if !ok && f.silent == "" {
			continue
		}
		dst = append(append(append(dst, `,"`...), f.name...), `":`...)
		if ok {
			dst = append(dst, v.Raw()...)
		} else {
			dst = append(dst, f.silent...)
		}
	}
	dst = append(dst, `,"usage":`...)
	return append(appendUsage(dst, o.usage), '}')
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// appendUsage appends the counts; input_tokens includes what came from a cache
// and what was written to one. Unknown counts are null, never zero.
func appendUsage(dst []byte, u *infer.Usage) []byte {
	if u == nil {
		return append(dst, "null"...)
	}
	dst = jsonwrite.Int(append(dst, `{"input_tokens":`...), int64(u.PromptTokens))
	dst = jsonwrite.Int(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(u.CachedTokens))
	dst = jsonwrite.Int(append(dst, `,"cache_write_tokens":`...), int64(u.CacheWriteTokens))
	dst = jsonwrite.Int(append(dst, `},"output_tokens":`...), int64(u.CompletionTokens))
	dst = jsonwrite.Int(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(u.ReasoningTokens))
	dst = jsonwrite.Int(append(dst, `},"total_tokens":`...), int64(u.PromptTokens+u.CompletionTokens))
	return append(dst, '}')
}

// appendFailure appends the error of a failed response.
func appendFailure(dst []byte, e *infer.Error) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	msg := e.Message
	if msg == "" {
		msg = "the request failed"
	}
	dst = jsonwrite.String(append(dst, `{"code":`...), failureCode(e.Code))
	dst = jsonwrite.String(append(dst, `,"message":`...), msg)
	return append(dst, '}')
}

// failureCode is the code of an error inside a response. The words are those
// that clients act on: whether to try again, to shorten the input, to stop.
func failureCode(c infer.Code) string {
	switch c {
	case infer.CodeRateLimited:
		return "rate_limit_exceeded"
	case infer.CodeQuota:
		return "insufficient_quota"
	case infer.CodeContextLength:
		return "context_length_exceeded"
	case infer.CodeOverloaded:
		return "server_is_overloaded"
	case infer.CodeInvalid, infer.CodeUnsupported:
		return "invalid_prompt"
	}
	return "server_error"
}
