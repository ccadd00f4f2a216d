package conform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Seen is what a caller made of an answer.
type Seen struct {
	Status   int
	Header   http.Header
	Streamed bool
	Text     string
	Thought  string
	Calls    []Call
	// Finish in common words: "stop", "length", "tool_calls", "content_filter",
	// "refusal", "stop_sequence", "pause", "context"; empty if none was told.
	Finish string
	Usage  *Tally
	Error  *Failure
	// End of a stream: "done" with the dialect's end mark, "error" with an
	// error, "cut" without either.
	End string
	// Faults are breaches of the dialect's own rules.
	Faults []string
	Events int
	First  time.Duration // until the first event
	Total  time.Duration
	Raw    []byte
}

// Tally is usage as a caller is told it. -1: not told.
type Tally struct {
	Prompt, Cached, Output, Reasoning int
}

// Failure is an error as a caller is told it.
type Failure struct {
	Type, Code, Message, Param string
	Retry                      string // x-should-retry
	RetryAfter                 string
}

func (s *Seen) fault(format string, args ...any) {
	if len(s.Faults) < 20 {
		s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
	}
}

// call finds or makes call i.
func (s *Seen) call(i int) *Call {
	if i < 0 || i > 999 {
		s.fault("a call with index %d", i)
		i = 0
	}
	for len(s.Calls) <= i {
		s.Calls = append(s.Calls, Call{})
	}
	return &s.Calls[i]
}

// reader takes a stream apart, event by event.
type reader interface {
	event(name string, data []byte)
	end() // the transport ended well
}

// decode reads data into v, or notes a fault.
func (s *Seen) decode(data []byte, v any) bool {
	if err := json.Unmarshal(data, v); err != nil {
		s.fault("cannot read %.80q: %v", data, err)
		return false
	}
	return true
}

// failure reads a body or event that tells an error, in any dialect's shape;
// false if it is none.
func (s *Seen) failure(dialect string, data []byte) bool {
	var e struct {
		Type      string          `json:"type"`
		Error     json.RawMessage `json:"error"`
		RequestID string          `json:"request_id"`
		Code      any             `json:"code"`
		Message   string          `json:"message"`
	}
	if json.Unmarshal(data, &e) != nil {
		return false
	}
	if dialect == Responses && e.Type == "error" && e.Message != "" {
		s.Error = &Failure{Type: "error", Code: fmt.Sprint(e.Code), Message: e.Message}
		return true
	}
	if len(e.Error) == 0 || string(e.Error) == "null" {
		return false
	}
	if dialect == Ollama {
		var msg string
		if json.Unmarshal(e.Error, &msg) != nil {
			s.fault("an error that is no text: %.80s", e.Error)
			return true
		}
		s.Error = &Failure{Message: msg}
		return true
	}
	var in struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    any    `json:"code"`
		Param   any    `json:"param"`
		Status  string `json:"status"`
	}
	if !s.decode(e.Error, &in) {
		return true
	}
	f := &Failure{Type: in.Type, Message: in.Message}
	if in.Code != nil {
		f.Code = fmt.Sprint(in.Code)
	}
	if in.Param != nil {
		f.Param = fmt.Sprint(in.Param)
	}
	switch dialect {
	case Messages:
		if e.Type != "error" || in.Type == "" {
			s.fault("an error without its types: %.120s", data)
		}
	case Gemini:
		if _, ok := in.Code.(float64); !ok || in.Status == "" {
			s.fault("an error without code and status: %.120s", data)
		}
		f.Type = in.Status
	default:
		if _, bad := in.Code.(float64); bad || in.Type == "" {
			s.fault("an error with a code that is no text, or without type: %.120s", data)
		}
	}
	if f.Message == "" {
		s.fault("an error without a message")
	}
	s.Error = f
	return true
}

// failHead fills in what the head of an error says.
func (s *Seen) failHead() {
	if s.Error == nil {
		s.Error = &Failure{}
		s.fault("status %d without an error of the dialect: %.120s", s.Status, s.Raw)
	}
	s.Error.Retry, s.Error.RetryAfter = s.Header.Get("X-Should-Retry"), s.Header.Get("Retry-After")
	if s.Error.Retry != "true" && s.Error.Retry != "false" {
		s.fault("an error without x-should-retry")
	}
	if s.Status == 429 && s.Error.Retry == "true" && s.Error.RetryAfter == "" {
		s.fault("429 without retry-after")
	}
	if s.Header.Get("X-Request-Id") == "" && s.Header.Get("Request-Id") == "" {
		s.fault("an error without a request id")
	}
	if strings.Contains(string(s.Raw), "<html") || strings.Contains(string(s.Raw), "<h1") {
		s.fault("an error that shows a provider's page")
	}
}

// readWhole reads an answer that is not streamed.
func readWhole(s *Seen, dialect string, body []byte) {
	if s.Status >= 400 {
		s.failure(dialect, body)
		s.failHead()
		return
	}
	if !strings.HasPrefix(s.Header.Get("Content-Type"), "application/json") {
		s.fault("an answer of type %q", s.Header.Get("Content-Type"))
	}
	switch dialect {
	case Chat:
		wholeChat(s, body)
	case Responses:
		wholeResponses(s, body)
	case Messages:
		wholeMessages(s, body)
	case Gemini:
		wholeGemini(s, body)
	case Ollama:
		wholeOllama(s, body)
	}
	s.End = "done"
}

// newReader reads the stream of a dialect.
func newReader(s *Seen, dialect string) reader {
	switch dialect {
	case Chat:
		return &chatReader{s: s, open: map[int]bool{}}
	case Responses:
		return &responsesReader{s: s, open: map[int]string{}, text: map[int]string{}, args: map[int]string{}, calls: map[int]int{}}
	case Messages:
		return &messagesReader{s: s, open: -1}
	case Gemini:
		return &geminiReader{s: s}
	default:
		return &ollamaReader{s: s}
	}
}
