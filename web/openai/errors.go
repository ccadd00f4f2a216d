// Package openai speaks OpenAI's wire format as a server and as a client: chat
// completions, completions and embeddings both ways, the model list, and vLLM's
// tokenize and detokenize as a server.
//
// A request is decoded completely; what is malformed by OpenAI's own schema is
// refused. Every field that OpenAI, vLLM and llama.cpp document is either carried
// into infer.Request, or is in the table sideFields with the values that ask for
// what is done anyway; any other field or value is noted as a use, so that
// whatever serves the request takes it or refuses it by name: a mistyped name
// that is passed over answers another question than was asked.
package openai

import (
	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// wireError is how one code looks on this wire.
type wireError struct {
	status int
	kind   string // the type member
}

// errorTable maps every code. The SDKs choose their exception by status; type
// and code are for programs that look closer.
var errorTable = map[infer.Code]wireError{
	infer.CodeInvalid:       {400, "invalid_request_error"},
	infer.CodeUnsupported:   {400, "invalid_request_error"},
	infer.CodeContextLength: {400, "invalid_request_error"},
	infer.CodeUnauthorized:  {401, "authentication_error"},
	infer.CodeForbidden:     {403, "permission_error"},
	infer.CodeNotFound:      {404, "not_found_error"},
	infer.CodeModelNotFound: {404, "not_found_error"},
	infer.CodeMethod:        {405, "invalid_request_error"},
	infer.CodeSlowBody:      {408, "invalid_request_error"},
	infer.CodeConflict:      {409, "invalid_request_error"},
	infer.CodeTooLarge:      {413, "invalid_request_error"},
	infer.CodeMediaType:     {415, "invalid_request_error"},
	infer.CodeHeaders:       {431, "invalid_request_error"},
	infer.CodeRateLimited:   {429, "rate_limit_error"},
	infer.CodeQuota:         {429, "insufficient_quota"},
	infer.CodeInternal:      {500, "server_error"},
	infer.CodeUpstream:      {502, "server_error"},
	infer.CodeUnavailable:   {503, "server_error"},
	infer.CodeOverloaded:    {503, "server_error"},
	infer.CodeTimeout:       {504, "server_error"},
}

// Status is the HTTP status of a code on this wire.
func Status(c infer.Code) int {
	if w, ok := errorTable[c]; ok {
		return w.status
	}
	return 500
}

// EncodeError gives status and body of an error.
func EncodeError(e *infer.Error, requestID string) (status int, body []byte) {
	return Status(e.Code), append(appendError(nil, e), '\n')
}

// appendError appends {"error":{message,type,param,code}}. Param and code are
// strings or null, never numbers: the SDKs declare them so.
func appendError(dst []byte, e *infer.Error) []byte {
	w, ok := errorTable[e.Code]
	if !ok {
		w = wireError{500, "server_error"}
	}
	msg := e.Message
	if msg == "" {
		msg = "the request failed"
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonwrite.String(dst, msg)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, w.kind...)
	dst = append(dst, `","param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwrite.String(dst, e.Param)
	}
	dst = append(dst, `,"code":`...)
	dst = jsonwrite.String(dst, string(e.Code))
	return append(dst, "}}"...)
}
