package anthropic

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// wireError is how one code looks on this wire.
type wireError struct {
	status int
	kind   string // error.type
}

// errorTable maps every code (API reference, "Errors"). The SDKs choose their
// exception by status and look at the type.
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
	infer.CodeConflict:      {409, "conflict_error"},
	infer.CodeTooLarge:      {413, "request_too_large"},
	infer.CodeMediaType:     {415, "invalid_request_error"},
	infer.CodeHeaders:       {431, "invalid_request_error"},
	infer.CodeRateLimited:   {429, "rate_limit_error"},
	infer.CodeQuota:         {429, "billing_error"},
	infer.CodeInternal:      {500, "api_error"},
	infer.CodeUpstream:      {502, "api_error"},
	infer.CodeUnavailable:   {503, "api_error"},
	infer.CodeOverloaded:    {529, "overloaded_error"},
	infer.CodeTimeout:       {504, "timeout_error"},
}

func errorOf(c infer.Code) wireError {
	if w, ok := errorTable[c]; ok {
		return w
	}
	return wireError{500, "api_error"}
}

// Status is the HTTP status of a code on this wire.
func Status(c infer.Code) int { return errorOf(c).status }

// EncodeError gives status and body of an error.
func EncodeError(e *infer.Error, requestID string) (status int, body []byte) {
	return Status(e.Code), append(appendError(nil, e, requestID), '\n')
}

// appendError appends {"type":"error","error":{type,message},"request_id"}. The
// field at fault has no member of its own on this wire, so the message names it.
func appendError(dst []byte, e *infer.Error, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, errorOf(e.Code).kind...)
	dst = append(dst, `","message":`...)
	dst = jsonwrite.String(dst, message(e))
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonwrite.String(dst, requestID)
	}
	return append(dst, '}')
}

// message is the text of an error, with the field at fault where it does not
// name it itself.
func message(e *infer.Error) string {
	switch {
	case e.Message == "":
		return "the request failed"
	case e.Param != "" && !strings.Contains(e.Message, e.Param):
		return e.Param + ": " + e.Message
	}
	return e.Message
}
