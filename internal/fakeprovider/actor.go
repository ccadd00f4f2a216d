package fakeprovider

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"sync"
)

// words that direct the Actor; the last one in a request counts.
var directed = regexp.MustCompile(`(?:please call the tool|please fail with|please die)(?: ([A-Za-z0-9_.:-]+))?(?: with (\{.*?\}) please)?`)

// Actor gives a handler that does what the request's own words say: "please call
// the tool NAME with {JSON} please" (once; after its result it answers in text),
// "please fail with KIND", "please die". It works on the bytes of the body, so
// that every dialect is understood. Requests are appended to the file log, if it
// is named.
func Actor(log string) func(*Request) *Script {
	var mu sync.Mutex
	return func(r *Request) *Script {
		if log != "" {
			mu.Lock()
			defer mu.Unlock()
			if f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				f.Write(append(enc(obj{"path": r.Path, "dialect": r.Dialect, "model": r.Model, "stream": r.Stream, "header": r.Header, "body": raw(string(r.Body))}), '\n'))
				f.Close()
			}
		}
		usage := Usage{Fresh: 11, Output: 9}
		text := func(s string) *Script {
			return &Script{Answer: &Answer{Parts: []Part{{Text: s}}, Usage: usage}}
		}
		if r.Dialect == Embeddings || r.Dialect == OllamaEmbed || r.Dialect == GeminiEmbed {
			return &Script{Answer: &Answer{Usage: Usage{Fresh: 3}, Vectors: 8}}
		}
		body := strings.ReplaceAll(string(r.Body), `\"`, `"`)
		all := directed.FindAllStringSubmatch(body, -1)
		if len(all) == 0 {
			return text("Hello from the fake provider.")
		}
		last := all[len(all)-1]
		switch {
		case strings.HasPrefix(last[0], "please fail"):
			return &Script{Error: &Error{Kind: last[1]}}
		case strings.HasPrefix(last[0], "please die"):
			return &Script{Answer: &Answer{Parts: []Part{{Text: "This answer breaks off somewhere."}}, Usage: usage}, Die: "event", Event: 3}
		}
		if hasResult(r.Body) {
			return text("The tool has answered; all is done.")
		}
		args := last[2]
		if !json.Valid([]byte(args)) {
			args = "{}"
		}
		return &Script{Answer: &Answer{Parts: []Part{{Text: "Let me see."}, {Tool: &Tool{ID: "call_fake_1", Name: last[1], Args: args}}}, Usage: usage}}
	}
}

// hasResult says whether a request has the result of a call in it, in any dialect.
func hasResult(body []byte) bool {
	for _, s := range []string{`"tool_result"`, `"function_call_output"`, `"role":"tool"`, `"functionResponse"`, `"toolResult"`, `"custom_tool_call_output"`} {
		if bytes.Contains(body, []byte(s)) || bytes.Contains(body, []byte(strings.Replace(s, ":", ": ", 1))) {
			return true
		}
	}
	return false
}
