package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"

	"hearth/web/sse"
	"hearth/web/wire"
)

// Bounds of a stream.
const (
	maxFrame  = 16 << 20 // bytes of one event
	maxStream = 1 << 30  // bytes of a whole stream, decompressed
)

// answer is a 2xx answer whose form is known.
type answer struct {
	framing wire.Framing // empty: one whole body
	body    io.Reader    // decompressed
	inner   bool         // each event holds one of another dialect
}

// open finds out what kind of answer came, by its content type, or by its first
// byte where the type says nothing. streamed says what was asked for.
func (a *attempt) open(resp *http.Response, client wire.Client, streamed bool) (*answer, error) {
	body, err := decoded(resp.Header, &reader{a, resp.Body})
	if err != nil {
		return nil, a.malformed("an answer in a content coding that was not asked for", err)
	}
	own := a.u.framing(client)
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case kind == "text/event-stream":
		return a.framed(own, wire.FramingSSE, body)
	case kind == "application/vnd.amazon.eventstream":
		return a.framed(own, wire.FramingEventStream, body)
	case kind == "application/x-ndjson" || kind == "application/ndjson" || kind == "application/jsonl" || kind == "application/json-lines":
		return a.framed(own, wire.FramingNDJSON, body)
	case kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"):
		if streamed && own == wire.FramingNDJSON {
			return a.framed(own, own, body) // lines of JSON under the name of JSON
		}
		return &answer{body: body}, nil
	case kind == "" || kind == "text/plain" || kind == "application/octet-stream" || kind == "binary/octet-stream":
		return a.sniff(own, streamed, body)
	}
	return nil, a.malformed("an answer of another content type than the provider's dialect has", nil)
}

func (a *attempt) framed(own, got wire.Framing, body io.Reader) (*answer, error) {
	if own != got {
		return nil, a.malformed("a stream framed in another way than the provider's dialect has", nil)
	}
	return &answer{framing: got, body: &bounded{body, maxStream}}, nil
}

// sniff judges an answer without a telling content type.
func (a *attempt) sniff(own wire.Framing, streamed bool, body io.Reader) (*answer, error) {
	b := bufio.NewReaderSize(body, 4096)
	head, err := firstByte(b)
	if err != nil {
		return nil, a.cut(err)
	}
	switch {
	case streamed && own == wire.FramingNDJSON && head == '{', own == wire.FramingEventStream && head == 0:
		return a.framed(own, own, b)
	case head == '{' || head == '[':
		return &answer{body: b}, nil
	case own == wire.FramingSSE && (head == 'd' || head == 'e' || head == ':' || head == 'i' || head == 'r'): // data, event, id, retry, a comment
		return a.framed(own, own, b)
	}
	return nil, a.malformed("an answer without a content type, in no form that is known", nil)
}

// firstByte looks at the first byte behind white space and a byte-order mark.
func firstByte(b *bufio.Reader) (byte, error) {
	for i := 1; ; i++ {
		head, err := b.Peek(i)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		switch c := head[i-1]; c {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
			if i < 64 {
				continue
			}
			return c, nil
		default:
			return c, nil
		}
	}
}

// bounded fails past n bytes.
type bounded struct {
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n -= int64(n); b.n < 0 {
		return 0, &frameError{"the stream is longer than is read"}
	}
	return n, err
}

// frameError is a fault of a stream's framing.
type frameError struct{ what string }

func (e *frameError) Error() string { return "cannot read the stream: " + e.what }

// frames reads one event after the other. data is valid until the next call.
// ready says that there will be no wait for the next one.
type frames interface {
	next() (name string, data []byte, err error)
	ready() bool
}

func (a *answer) frames() frames {
	switch a.framing {
	case wire.FramingNDJSON:
		return &lines{r: bufio.NewReaderSize(a.body, 4096)}
	case wire.FramingEventStream:
		es := &eventStream{r: bufio.NewReaderSize(a.body, 4096)}
		if a.inner {
			return &chunks{in: es}
		}
		return es
	}
	return sseFrames{sse.NewReader(a.body, maxFrame)}
}

type sseFrames struct{ r *sse.Reader }

func (s sseFrames) next() (string, []byte, error) {
	ev, err := s.r.Next()
	return ev.Name, ev.Data, err
}

func (s sseFrames) ready() bool { return s.r.Ready() }

// lines reads JSON values, one a line; empty lines are skipped.
type lines struct {
	r   *bufio.Reader
	buf []byte
}

func (l *lines) next() (string, []byte, error) {
	for {
		l.buf = l.buf[:0]
		for {
			piece, err := l.r.ReadSlice('\n')
			if len(l.buf)+len(piece) > maxFrame {
				return "", nil, &frameError{"a line is too long"}
			}
			l.buf = append(l.buf, piece...)
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil && (err != io.EOF || len(bytes.TrimSpace(l.buf)) == 0) {
				return "", nil, err
			}
			break
		}
		if line := bytes.TrimSpace(l.buf); len(line) > 0 {
			return "", line, nil
		}
	}
}

func (l *lines) ready() bool {
	rest, _ := l.r.Peek(l.r.Buffered())
	return bytes.IndexByte(rest, '\n') > 0
}
