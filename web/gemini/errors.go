package gemini

import (
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// wireError is how one code looks on this wire: the HTTP status, and the name of
// the google.rpc.Code that clients choose by.
type wireError struct {
	status int
	name   string
}

// errorTable maps every code.
var errorTable = map[infer.Code]wireError{
	infer.CodeInvalid:       {400, "INVALID_ARGUMENT"},
	infer.CodeUnsupported:   {400, "INVALID_ARGUMENT"},
	infer.CodeContextLength: {400, "INVALID_ARGUMENT"},
	infer.CodeUnauthorized:  {401, "UNAUTHENTICATED"},
	infer.CodeForbidden:     {403, "PERMISSION_DENIED"},
	infer.CodeNotFound:      {404, "NOT_FOUND"},
	infer.CodeModelNotFound: {404, "NOT_FOUND"},
	infer.CodeMethod:        {405, "UNIMPLEMENTED"},
	infer.CodeSlowBody:      {408, "DEADLINE_EXCEEDED"},
	infer.CodeConflict:      {409, "ABORTED"},
	infer.CodeTooLarge:      {413, "INVALID_ARGUMENT"},
	infer.CodeMediaType:     {415, "INVALID_ARGUMENT"},
	infer.CodeHeaders:       {431, "INVALID_ARGUMENT"},
	infer.CodeRateLimited:   {429, "RESOURCE_EXHAUSTED"},
	infer.CodeQuota:         {429, "RESOURCE_EXHAUSTED"},
	infer.CodeInternal:      {500, "INTERNAL"},
	infer.CodeUpstream:      {502, "UNAVAILABLE"},
	infer.CodeUnavailable:   {503, "UNAVAILABLE"},
	infer.CodeOverloaded:    {503, "UNAVAILABLE"},
	infer.CodeTimeout:       {504, "DEADLINE_EXCEEDED"},
}

// EncodeError gives status and body of an error.
func EncodeError(e *infer.Error, requestID string) (status int, body []byte) {
	w, ok := errorTable[e.Code]
	if !ok {
		w = errorTable[infer.CodeInternal]
	}
	return w.status, append(appendError(nil, e, requestID), '\n')
}

// EncodeError implements wire.Dialect.
func (Generate) EncodeError(e *infer.Error, requestID string) (int, []byte) {
	return EncodeError(e, requestID)
}

// appendError appends a google.rpc.Status: code, message, status and details,
// which say the field at fault, our own code, and when to come again
// (google/rpc/error_details.proto).
func appendError(dst []byte, e *infer.Error, requestID string) []byte {
	w, ok := errorTable[e.Code]
	if !ok {
		w = errorTable[infer.CodeInternal]
	}
	msg := e.Message
	if msg == "" {
		msg = "the request failed"
	}
	dst = jsonwrite.Int(append(dst, `{"error":{"code":`...), int64(w.status))
	dst = jsonwrite.String(append(dst, `,"message":`...), msg)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, w.name...)
	dst = append(dst, `","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
	dst = jsonwrite.String(dst, strings.ToUpper(string(e.Code)))
	dst = append(dst, `,"domain":"hearth"}`...)
	if e.Param != "" {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":`...)
		dst = jsonwrite.String(dst, e.Param)
		dst = jsonwrite.String(append(dst, `,"description":`...), msg)
		dst = append(dst, "}]}"...)
	}
	if e.RetryAfter > 0 && !e.NoRetry {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		dst = strconv.AppendFloat(dst, e.RetryAfter.Seconds(), 'f', -1, 64)
		dst = append(dst, `s"}`...)
	}
	if requestID != "" {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":`...)
		dst = append(jsonwrite.String(dst, requestID), '}')
	}
	return append(dst, "]}}"...)
}
