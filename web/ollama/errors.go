package ollama

import (
	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// statuses maps every code to its HTTP status. There is nothing else to tell
// errors apart by on this wire.
var statuses = map[infer.Code]int{
	infer.CodeInvalid: 400, infer.CodeUnsupported: 400, infer.CodeContextLength: 400, infer.CodeUnauthorized: 401, infer.CodeForbidden: 403,
	infer.CodeNotFound: 404, infer.CodeModelNotFound: 404, infer.CodeMethod: 405, infer.CodeSlowBody: 408, infer.CodeConflict: 409,
	infer.CodeTooLarge: 413, infer.CodeMediaType: 415, infer.CodeHeaders: 431, infer.CodeRateLimited: 429, infer.CodeQuota: 429,
	infer.CodeInternal: 500, infer.CodeUpstream: 502, infer.CodeUnavailable: 503, infer.CodeOverloaded: 503, infer.CodeTimeout: 504,
}

// EncodeError gives status and body of an error.
func EncodeError(e *infer.Error, _ string) (status int, body []byte) {
	status, ok := statuses[e.Code]
	if !ok {
		status = 500
	}
	return status, append(appendError(nil, e), '\n')
}

// appendError appends {"error"}, which clients read, and beside it the code and
// the field, for programs that look closer.
func appendError(dst []byte, e *infer.Error) []byte {
	msg := e.Message
	if msg == "" {
		msg = "the request failed"
	}
	dst = jsonwrite.String(append(dst, `{"error":`...), msg)
	dst = jsonwrite.String(append(dst, `,"code":`...), string(e.Code))
	if e.Param != "" {
		dst = jsonwrite.String(append(dst, `,"param":`...), e.Param)
	}
	return append(dst, '}')
}

// EncodeError implements wire.Dialect.
func (Chat) EncodeError(e *infer.Error, id string) (int, []byte) { return EncodeError(e, id) }

// EncodeError implements wire.Dialect.
func (Generate) EncodeError(e *infer.Error, id string) (int, []byte) { return EncodeError(e, id) }
