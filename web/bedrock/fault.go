package bedrock

import (
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// statusOf is the HTTP status that goes with an exception (API Reference,
// Converse, "Errors", and "Common errors"); names as they stand in headers, with
// a capital letter.
var statusOf = map[string]int{
	"ValidationException": 400, "AccessDeniedException": 403, "ResourceNotFoundException": 404, "ThrottlingException": 429,
	"ModelNotReadyException": 429, "ModelTimeoutException": 408, "ModelErrorException": 424, "ModelStreamErrorException": 424,
	"InternalServerException": 500, "ServiceUnavailableException": 503, "ServiceQuotaExceededException": 402,
	// Of signatures, told with 400 or 403.
	"ExpiredTokenException": 403, "UnrecognizedClientException": 403, "InvalidSignatureException": 403, "IncompleteSignatureException": 403,
	"MissingAuthenticationTokenException": 403, "InvalidClientTokenId": 403, "NotAuthorized": 403, "OptInRequired": 403, "RequestExpired": 403,
}

// fault is the error of an exception; status is used where its name is not known.
func fault(name, message string, status int, h http.Header) *infer.Error {
	if s, ok := statusOf[name]; ok {
		status = s
	}
	e := wire.StatusFault(status, h)
	switch name {
	case "ModelTimeoutException":
		e.Code, e.Message = infer.CodeTimeout, "the model did not answer in time"
		e.Upstream.Class, e.Upstream.Unsent = infer.FailTimeout, false
	case "ModelErrorException", "ModelStreamErrorException":
		e.Code, e.Message, e.NoRetry = infer.CodeUpstream, "the model failed at the request", false
		e.Upstream.Class, e.Upstream.Unsent = infer.FailServer, false
	case "ModelNotReadyException":
		e.Code, e.Message = infer.CodeOverloaded, "the model is not ready at the provider"
		e.Upstream.Class = infer.FailOverload
	}
	if e.Upstream.Class != infer.FailRequest || e.Code == infer.CodeUpstream {
		return e
	}
	if low := strings.ToLower(message); strings.Contains(low, "input is too long") || strings.Contains(low, "prompt is too long") ||
		strings.Contains(low, "exceed context limit") || strings.Contains(low, "maximum context length") || strings.Contains(low, "too many input tokens") {
		e.Code = infer.CodeContextLength
	}
	if q := wire.Quote(message); q != "" {
		e.Message = "the provider refused the request: " + q
	}
	return e
}

// DecodeError implements wire.Client. The name of the exception stands in a
// header, with an address behind it, or in the body as __type.
func (Client) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	var message, name string
	var c jsonread.Cursor
	c.Reset(body)
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "message", "Message":
			message = c.Str()
		case "__type", "code":
			name = c.Str()
		default:
			c.Skip()
		}
	}
	if t := h.Get("X-Amzn-Errortype"); t != "" {
		name = t
	}
	name, _, _ = strings.Cut(name, ":")
	name = name[strings.LastIndexByte(name, '#')+1:]
	e := fault(name, message, status, h)
	e.Upstream.Status = status
	return e
}

// inBand is the error of an exception inside a stream, whose name begins with a
// small letter: the provider had begun.
func inBand(name string, body []byte) *infer.Error {
	var message string
	var c jsonread.Cursor
	c.Reset(body)
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "message", "Message":
			message = c.Str()
		default:
			c.Skip()
		}
	}
	e := fault(strings.ToUpper(name[:1])+name[1:], message, http.StatusInternalServerError, nil)
	e.Upstream.Status, e.Upstream.Unsent = http.StatusOK, false
	return e
}
