package upstream

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"hearth/engine/infer"
	"hearth/policy"
)

// The vectors are those of AWS's own decoder: messages with their checksums.
func TestEventStreamVectors(t *testing.T) {
	for name, c := range map[string]struct{ in, payload, err string }{
		"empty":      {"00000010 00000000 05c248eb 7d98c8ff", "", ""},
		"no headers": {"0000001d 00000000 fd528c5a 7b27666f6f273a27626172277d c3653936", "{'foo':'bar'}", ""},
		"one header": {"0000003d 00000020 07fd8396 0c636f6e74656e742d74797065 070010 6170706c69636174696f6e2f6a736f6e 7b27666f6f273a27626172277d 8d9c08b1", "{'foo':'bar'}", ""},
		"int32":      {"0000001e 0000000e 5d4adb8d 086576656e742d6964 04 00000020 2a4fb0ea", "", ""},
		"bool":       {"0000001a 0000000a afa7b954 086576656e742d6964 00 6a4414ad", "", ""},

		"prelude checksum":   {"00000010 00000000 05c248ec 7d98c8ff", "", "prelude"},
		"message checksum":   {"0000001d 00000000 fd528c5a 7b27666f6f273a27626172277e c3653936", "", "checksum of a message is"},
		"cut in the prelude": {"0000001d 00000000", "", "unexpected EOF"},
		"cut in the payload": {"0000001d 00000000 fd528c5a 7b27", "", "unexpected EOF"},
	} {
		raw, err := hex.DecodeString(strings.ReplaceAll(c.in, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []io.Reader{bytes.NewReader(raw), iotest.OneByteReader(bytes.NewReader(raw)), iotest.DataErrReader(bytes.NewReader(raw))} {
			s := &eventStream{r: bufio.NewReader(r)}
			_, payload, err := s.next()
			switch {
			case c.err == "" && (err != nil || string(payload) != c.payload):
				t.Errorf("%s: got %q, %v", name, payload, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s: got %v", name, err)
			}
			if c.err == "" {
				if _, _, err := s.next(); err != io.EOF {
					t.Errorf("%s: at the end %v", name, err)
				}
			}
		}
	}
}

// message makes a message of an event stream.
func message(kind, name, payload string) []byte {
	var h []byte
	add := func(k, v string) {
		h = append(append(append(h, byte(len(k))), k...), 7)
		h = append(binary.BigEndian.AppendUint16(h, uint16(len(v))), v...)
	}
	add(":"+map[string]string{"event": "event-type", "exception": "exception-type", "error": "error-code"}[kind], name)
	add(":content-type", "application/json")
	add(":message-type", kind)
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func TestEventStreamBounds(t *testing.T) {
	prelude := func(total, headers uint32) []byte {
		b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, total), headers)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	for _, in := range [][]byte{prelude(1<<31, 0), prelude(15, 0), prelude(20, 5), prelude(1<<20, 1<<19), message("event", "x", "")[:20]} {
		if _, _, err := (&eventStream{r: bufio.NewReader(bytes.NewReader(in))}).next(); err == nil || err == io.EOF {
			t.Errorf("% x: got %v", in, err)
		}
	}
	// A length alone makes no memory.
	s := &eventStream{r: bufio.NewReader(bytes.NewReader(prelude(maxFrame, 0)))}
	if _, _, err := s.next(); err != io.ErrUnexpectedEOF || cap(s.buf) > 128<<10 {
		t.Errorf("got %v with %d bytes", err, cap(s.buf))
	}
	for _, h := range []string{"\x00", "\x05ab", "\x01a\x07", "\x01a\x07\xff\xff", "\x01a\x09", "\x01a\x20", strings.Repeat("\x01a\x00", 65)} {
		if _, err := esName([]byte(h)); err == nil {
			t.Errorf("headers %q were taken", h)
		}
	}
}

func FuzzEventStream(f *testing.F) {
	f.Add(message("event", "chunk", `{"bytes":"e30="}`))
	f.Add(message("exception", "throttlingException", `{}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &chunks{in: &eventStream{r: bufio.NewReader(bytes.NewReader(in))}}
		for range 100 {
			if _, _, err := s.next(); err != nil {
				return
			}
		}
	})
}

// converse is a provider of Converse that sends its stream in pieces.
func converse(t *testing.T, size int, dialect string, parts ...[]byte) *Upstream {
	t.Helper()
	base := script(t, func(c net.Conn, in *bufio.Reader) {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\nX-Amzn-Requestid: r5\r\nConnection: close\r\n\r\n")
		for b := bytes.Join(parts, nil); len(b) > 0; b = b[min(size, len(b)):] {
			c.Write(b[:min(size, len(b))])
		}
	})
	u, err := New(&policy.UpstreamConfig{Name: "b", Kind: "bedrock", Region: "eu-west-1", BaseURL: base, Dialect: dialect, Credential: "env:K"}, Options{Getenv: func(string) string { return "A:B" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func chat(stream bool) *infer.Request {
	r := infer.NewRequest()
	r.ID, r.Stream = "req", stream
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "Hi"}}}}
	return r
}

func TestConverseStream(t *testing.T) {
	parts := [][]byte{
		message("event", "messageStart", `{"role":"assistant"}`),
		message("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hi 🫠"}}`),
		message("event", "contentBlockStop", `{"contentBlockIndex":0}`),
		message("event", "messageStop", `{"stopReason":"end_turn"}`),
		message("event", "metadata", `{"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}`),
	}
	for _, size := range []int{1, 7, 4096} {
		if text, err := askFor(t.Context(), converse(t, size, "", parts...), chat(true)); err != nil || !strings.HasSuffix(text, "r5>Hi 🫠[2]") {
			t.Errorf("by %d: got %q, %v", size, text, err)
		}
	}
	for i := range parts[:4] {
		_, err := askFor(t.Context(), converse(t, 4096, "", parts[:i]...), chat(true))
		if err == nil || err.Upstream.Class != infer.FailLost {
			t.Errorf("cut after %d: got %v", i, err)
		}
	}
	for part, class := range map[string]infer.FailureClass{
		string(message("exception", "throttlingException", `{"message":"x"}`)): infer.FailRateLimit, string(message("error", "500", "")): infer.FailServer,
		string(parts[1][:len(parts[1])-1]) + "!": infer.FailMalformed, string(parts[1][:30]): infer.FailLost,
	} {
		_, err := askFor(t.Context(), converse(t, 4096, "", parts[0], parts[1], []byte(part)), chat(true))
		if err == nil || err.Upstream.Class != class || err.Upstream.Unsent {
			t.Errorf("%q: got %+v", part, err)
		}
	}
	// Throttled before anything: nothing was done.
	_, err := askFor(t.Context(), converse(t, 4096, "", message("exception", "throttlingException", `{}`)), chat(true))
	if err == nil || !err.Upstream.Unsent {
		t.Errorf("throttled at once: got %+v", err)
	}
}

func TestAnthropicOnBedrock(t *testing.T) {
	chunk := func(s string) []byte {
		return message("event", "chunk", fmt.Sprintf(`{"bytes":%q,"p":"abc"}`, base64.StdEncoding.EncodeToString([]byte(s))))
	}
	parts := [][]byte{
		chunk(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`),
		chunk(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi 🫠"}}`),
		chunk(`{"type":"content_block_stop","index":0}`),
		chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`),
		chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}`),
	}
	for _, size := range []int{1, 4096} {
		if text, err := askFor(t.Context(), converse(t, size, dialectAnthropic, parts...), chat(true)); err != nil || !strings.HasSuffix(text, "r5>Hi 🫠[2]") {
			t.Errorf("by %d: got %q, %v", size, text, err)
		}
	}
	_, err := askFor(t.Context(), converse(t, 4096, dialectAnthropic, parts[0], parts[1], message("exception", "throttlingException", `{"message":"x"}`)), chat(true))
	if err == nil || err.Upstream.Class != infer.FailRateLimit || err.Upstream.Unsent {
		t.Errorf("got %+v", err)
	}
	var bad *frameError
	s := &chunks{in: &eventStream{r: bufio.NewReader(bytes.NewReader(message("event", "chunk", `{"bytes":"!"}`)))}}
	if _, _, err := s.next(); !errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
}
