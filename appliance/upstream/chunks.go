package upstream

import (
	"encoding/base64"
	"strings"

	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// chunks reads the events of Anthropic's dialect out of Bedrock's: each "chunk"
// holds one in base64 (API Reference, InvokeModelWithResponseStream,
// PayloadPart). An exception becomes the dialect's own error event.
type chunks struct {
	in  *eventStream
	buf []byte
}

// exceptionKinds are Anthropic's types for the exceptions of a stream.
var exceptionKinds = map[string]string{
	"throttlingException": "rate_limit_error", "serviceUnavailableException": "overloaded_error", "modelTimeoutException": "timeout_error",
	"validationException": "invalid_request_error",
}

func (s *chunks) next() (string, []byte, error) {
	for {
		name, data, err := s.in.next()
		if err != nil {
			return "", nil, err
		}
		if name == "error" || strings.HasSuffix(name, "Exception") {
			kind := exceptionKinds[name]
			if kind == "" {
				kind = "api_error"
			}
			s.buf = append(s.buf[:0], `{"type":"error","error":{"type":"`...)
			s.buf = append(append(s.buf, kind...), `","message":`...)
			s.buf = append(jsonwrite.String(s.buf, text(data, "message")), "}}"...)
			return "error", s.buf, nil
		}
		if name != "chunk" {
			continue
		}
		if s.buf, err = base64.StdEncoding.AppendDecode(s.buf[:0], []byte(text(data, "bytes"))); err != nil {
			return "", nil, &frameError{"a chunk is not base64"}
		}
		if len(s.buf) > 0 {
			return "", s.buf, nil
		}
	}
}

func (s *chunks) ready() bool { return s.in.ready() }

// text is a string member of an object, or empty.
func text(data []byte, name string) (found string) {
	var c jsonread.Cursor
	c.Reset(data)
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) == name {
			found = c.Str()
		} else {
			c.Skip()
		}
	}
	return found
}
