package fakeprovider

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// said is what a failure is called in each dialect.
type said struct {
	status                    int // of anthropic, if it differs: anthropicStatus
	openAI, code              string
	anthropic                 string
	google, bedrock, fallback string
}

var failures = map[string]said{
	"rate_limit": {429, "requests", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException", "too many requests"},
	"quota":      {429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", "ServiceQuotaExceededException", "you exceeded your current quota"},
	"overloaded": {503, "server_error", "overloaded", "overloaded_error", "UNAVAILABLE", "ServiceUnavailableException", "the model is overloaded"},
	"server":     {500, "server_error", "internal", "api_error", "INTERNAL", "InternalServerException", "something went wrong at the provider"},
	"auth":       {401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "UnrecognizedClientException", "incorrect API key provided"},
	"forbidden":  {403, "permission_error", "forbidden", "permission_error", "PERMISSION_DENIED", "AccessDeniedException", "no access to this model"},
	"not_found":  {404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND", "ResourceNotFoundException", "the model does not exist"},
	"invalid":    {400, "invalid_request_error", "invalid_value", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException", "a field has a value that is not allowed"},
	"context":    {400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException", ""},
	"too_large":  {413, "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT", "RequestEntityTooLargeException", "request exceeds the maximum size"},
	"timeout":    {504, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException", "the request took too long"},
	"html":       {502, "", "", "", "", "", "<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1><p>edge-17.internal.example</p></body></html>"},
}

// contextMessage is how each provider words it.
func contextMessage(dialect string) string {
	switch {
	case dialect == Anthropic || dialect == AnthropicCount:
		return "prompt is too long: 210000 tokens > 200000 maximum"
	case dialect == Gemini || dialect == GeminiCount:
		return "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."
	case dialect == Bedrock:
		return "Input is too long for requested model."
	}
	return "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages."
}

// failure makes the answer to an error.
func failure(a *answer, e *Error, dialect string) {
	f, ok := failures[e.Kind]
	if !ok {
		f = failures["server"]
	}
	a.status = f.status
	if dialect == Anthropic && e.Kind == "overloaded" {
		a.status = 529
	}
	if dialect == Anthropic && e.Kind == "quota" || dialect == Bedrock && e.Kind == "quota" {
		a.status = 402
		if dialect == Bedrock {
			a.status = 400
		}
	}
	if e.Status != 0 {
		a.status = e.Status
	}
	retryAfter(a.header, e.RetryAfter)
	if e.Kind == "html" {
		a.header.Set("Content-Type", "text/html; charset=utf-8")
		a.frames = []frame{{bytes: []byte(f.fallback)}}
		return
	}
	if dialect == Bedrock {
		a.header.Set("X-Amzn-Errortype", f.bedrock+":http://internal.example/")
	}
	a.frames = []frame{{bytes: enc(errorBody(e, dialect, a.status))}}
}

func errorBody(e *Error, dialect string, status int) obj {
	f, ok := failures[e.Kind]
	if !ok {
		f = failures["server"]
	}
	msg := e.Message
	if msg == "" {
		msg = f.fallback
	}
	if e.Kind == "context" && e.Message == "" {
		msg = contextMessage(dialect)
	}
	switch dialect {
	case Anthropic, AnthropicCount:
		return obj{"type": "error", "error": obj{"type": f.anthropic, "message": msg}, "request_id": "req_fake"}
	case Gemini, GeminiCount, GeminiEmbed:
		return obj{"error": obj{"code": status, "message": msg, "status": f.google}}
	case OllamaChat, OllamaGenerate, OllamaEmbed:
		return obj{"error": msg}
	case Bedrock:
		return obj{"message": msg}
	}
	return obj{"error": obj{"message": msg, "type": f.openAI, "param": nil, "code": f.code}}
}

// inStream is an error inside a stream, as the dialect has it.
func inStream(e *Error, dialect string) []byte {
	f := failures[e.Kind]
	b := errorBody(e, dialect, f.status)
	switch dialect {
	case Anthropic:
		return sse("error", enc(b))
	case Responses:
		in := b["error"].(obj)
		return sse("error", enc(obj{"type": "error", "code": in["code"], "message": in["message"], "param": nil, "sequence_number": 99}))
	case OllamaChat, OllamaGenerate:
		return append(enc(b), '\n')
	case Bedrock:
		kind := f.bedrock
		if e.Kind == "server" || e.Kind == "overloaded" {
			kind = "modelStreamErrorException"
		}
		return bedrockException(strings.ToLower(kind[:1])+kind[1:], b)
	}
	return sse("", enc(b))
}

// retryAfter sets the header in the form that was asked for.
func retryAfter(h http.Header, form string) {
	kind, n, _ := strings.Cut(form, ":")
	seconds, _ := strconv.Atoi(n)
	switch kind {
	case "seconds":
		h.Set("Retry-After", n)
	case "date":
		h.Set("Retry-After", time.Now().Add(time.Duration(seconds)*time.Second).UTC().Format(http.TimeFormat))
	case "ms":
		h.Set("Retry-After-Ms", n)
	case "past":
		h.Set("Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	case "junk":
		h.Set("Retry-After", "soon")
	}
}
