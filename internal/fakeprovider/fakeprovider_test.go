package fakeprovider

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, p Prices) *Server {
	t.Helper()
	s, err := New(Options{Prices: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func post(t *testing.T, url, body string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r, b, err
}

var full = Answer{
	Parts: []Part{{Reasoning: "Think a while.", Signature: "c2ln"}, {Text: "Hello, wörld and everyone 🙂."}, {Tool: &Tool{"call_1", "look", `{"city":"Oslo"}`}}},
	Usage: Usage{Fresh: 10, Cached: 4, Output: 20, Reasoning: 5},
}

// Every dialect gives valid JSON whose text can be found again, whole and in
// pieces.
func TestDialects(t *testing.T) {
	s := start(t, Prices{Fresh: 1, Output: 2})
	for _, c := range []struct{ path, body, dialect string }{
		{"/v1/chat/completions", `{"model":"m","stream":%}`, Chat},
		{"/openai/deployments/m/chat/completions?api-version=1", `{"stream":%}`, Chat},
		{"/v1/completions", `{"model":"m","stream":%}`, Completions},
		{"/v1/responses", `{"model":"m","stream":%}`, Responses},
		{"/v1/messages", `{"model":"m","stream":%}`, Anthropic},
		{"/v1/projects/p/locations/l/publishers/anthropic/models/m:VERB", `{}`, Anthropic},
		{"/v1beta/models/m:VERB?alt=sse", `{}`, Gemini},
		{"/api/chat", `{"model":"m","stream":%}`, OllamaChat},
		{"/api/generate", `{"model":"m","stream":%}`, OllamaGenerate},
		{"/model/m/VERB", `{}`, Bedrock},
	} {
		for _, stream := range []string{"false", "true"} {
			s.Play(Script{Answer: &full})
			verb := map[string]string{Gemini + "false": "generateContent", Gemini + "true": "streamGenerateContent", Anthropic + "false": "rawPredict",
				Anthropic + "true": "streamRawPredict", Bedrock + "false": "converse", Bedrock + "true": "converse-stream"}[c.dialect+stream]
			r, b, err := post(t, s.URL()+strings.ReplaceAll(c.path, "VERB", verb), strings.ReplaceAll(c.body, "%", stream))
			if err != nil || r.StatusCode != 200 {
				t.Fatalf("%s: %v %v", c.path, r, err)
			}
			q := s.Requests()[0]
			if q.Dialect != c.dialect || q.Model != "m" || q.Stream != (stream == "true") {
				t.Errorf("%s: seen as %s %q stream %v", c.path, q.Dialect, q.Model, q.Stream)
			}
			if stream == "false" && !(json.Valid(b) && bytes.Contains(b, []byte("wörld"))) {
				t.Errorf("%s: %s", c.path, b)
			}
			if stream == "true" && !bytes.Contains(b, []byte("örld and")) {
				t.Errorf("%s: %s", c.path, b)
			}
			if lines, nano := s.Bill(); nano != 10+40 || !lines[0].Complete {
				t.Errorf("%s %s: bill %+v", c.path, stream, lines)
			}
		}
	}
}

// Framings change the bytes, not what they say.
func TestFraming(t *testing.T) {
	s := start(t, Prices{})
	body := `{"model":"m","stream":true}`
	for _, f := range []Framing{{Newline: "crlf"}, {Newline: "cr"}, {NoSpace: true}, {Comments: true, Fields: true}, {BOM: true}, {MultiLine: true}, {NoFinalNewline: true}, {Packet: 1}, {SplitAt: 40}, {Gzip: true}, {Length: true}, {Length: true, Gzip: true}, {Until: true}} {
		s.Play(Script{Answer: &Answer{Parts: []Part{{Text: "abc"}}}, Frame: f})
		_, b, err := post(t, s.URL()+"/v1/chat/completions", body)
		if err != nil || !bytes.Contains(b, []byte(`"abc"`)) || !bytes.Contains(b, []byte("[DONE]")) {
			t.Errorf("%+v: %v %s", f, err, b)
		}
	}
}

// An answer breaks off where the script says, and the bill has what had left.
func TestDeath(t *testing.T) {
	s := start(t, Prices{Fresh: 100, Output: 1})
	a := Answer{Parts: []Part{{Text: "123456789012345678901234"}}, Usage: Usage{Fresh: 1, Output: 3}}
	for _, c := range []struct {
		die, how string
		event    int
		nano     int64
		fails    bool
	}{
		{"before_headers", "", 0, 0, true}, {"in_headers", "reset", 0, 0, true}, {"after_headers", "", 0, 100, true}, {"event", "", 2, 101, true},
		{"mid_event", "reset", 2, 101, true}, {"before_end", "", 0, 103, true}, {"before_end", "clean", 0, 103, false}, {"", "", 0, 103, false},
	} {
		s.Play(Script{Answer: &a, Die: c.die, How: c.how, Event: c.event})
		_, b, err := post(t, s.URL()+"/v1/chat/completions", `{"model":"m","stream":true}`)
		if (err != nil) != c.fails {
			t.Errorf("%+v: error %v, body %q", c, err, b)
		}
		for range 100 {
			if q := s.Requests(); len(q) > 0 && !q[0].Ended.IsZero() {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if _, nano := s.Bill(); nano != c.nano {
			t.Errorf("%+v: the bill is %d", c, nano)
		}
	}
}

// The time when a peer leaves is seen while nothing is being written.
func TestSeesThePeerLeave(t *testing.T) {
	s := start(t, Prices{})
	s.Play(Script{Answer: &Answer{Parts: []Part{{Text: "abc"}}}, StallAfter: 1, StallMS: 60000})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`))
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_, err = io.ReadAll(resp.Body)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	for range 500 {
		if q := s.Requests(); !q[0].Closed.IsZero() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the peer's leaving was not seen")
}

// Failures have the status and shape of each dialect; scripts are for one
// attempt each.
func TestFailures(t *testing.T) {
	s := start(t, Prices{})
	s.Play(Script{Error: &Error{Kind: "rate_limit", RetryAfter: "seconds:7"}}, Script{Error: &Error{Kind: "html"}}, Script{})
	r, b, _ := post(t, s.URL()+"/v1/messages", `{}`)
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "7" || !bytes.Contains(b, []byte(`"type":"error"`)) {
		t.Errorf("%v %s", r, b)
	}
	r, b, _ = post(t, s.URL()+"/v1/messages", `{}`)
	if r.StatusCode != 502 || !bytes.Contains(b, []byte("<html>")) {
		t.Errorf("%v %s", r, b)
	}
	for range 2 {
		if r, _, _ = post(t, s.URL()+"/v1/messages", `{}`); r.StatusCode != 200 {
			t.Errorf("%v", r)
		}
	}
}

// The frames of an event stream carry lengths and checksums that hold.
func TestEventMessage(t *testing.T) {
	b := EventMessage([][2]string{{":event-type", "x"}}, []byte(`{"a":1}`))
	if int(binary.BigEndian.Uint32(b)) != len(b) || binary.BigEndian.Uint32(b[8:]) != crc32.ChecksumIEEE(b[:8]) ||
		binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.ChecksumIEEE(b[:len(b)-4]) || !bytes.HasSuffix(b[:len(b)-4], []byte(`{"a":1}`)) {
		t.Errorf("% x", b)
	}
}
