package fakeprovider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// obj is a JSON object. Its members are written in the order of their names, so
// that "type" rarely comes first: readers must not count on it.
type obj = map[string]any

type list = []any

func enc(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// prepare turns a script into what is sent for r.
func prepare(sc *Script, r *Request) *answer {
	a := &answer{status: 200, header: http.Header{}}
	a.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	a.header.Set("X-Request-Id", r.ID)
	a.header.Set("Request-Id", r.ID)
	a.header.Set("X-Amzn-Requestid", r.ID)
	a.header.Set("Content-Type", "application/json")
	switch {
	case sc.Error != nil:
		failure(a, sc.Error, r.errors())
	case sc.JSON != nil:
		a.frames = []frame{{bytes: sc.JSON}}
	case sc.Text != "":
		a.frames = []frame{{bytes: []byte(strings.Repeat(sc.Text, max(1, sc.Repeat)))}}
	case sc.Events != nil:
		events(a, sc, r.Dialect)
	default:
		ans := sc.Answer
		if ans == nil {
			ans = &Answer{}
		}
		a.usage = &ans.Usage
		ans = ans.repeated()
		render(a, sc, ans, r)
	}
	if sc.Status != 0 {
		a.status = sc.Status
	}
	for k, v := range sc.Header {
		if v == "" {
			a.header.Del(k)
		} else {
			a.header.Set(k, v)
		}
	}
	return a
}

// events are a stream written out by the script.
func events(a *answer, sc *Script, dialect string) {
	a.stream = true
	a.header.Set("Content-Type", "text/event-stream")
	u := Usage{}
	for _, e := range sc.Events {
		data := []byte(e.Data)
		if e.Data == nil {
			data = []byte(e.Text)
		}
		u.Output += e.Tokens
		switch dialect {
		case OllamaChat, OllamaGenerate:
			a.header.Set("Content-Type", "application/x-ndjson")
			a.frames = append(a.frames, frame{bytes: append(data, '\n'), tokens: e.Tokens})
		case Bedrock:
			a.header.Set("Content-Type", eventStreamType)
			a.frames = append(a.frames, frame{bytes: EventMessage([][2]string{{":message-type", "event"}, {":event-type", e.Name}, {":content-type", "application/json"}}, data), tokens: e.Tokens})
		default:
			a.frames = append(a.frames, frame{bytes: sse(e.Name, data), tokens: e.Tokens})
		}
	}
	if u.Output > 0 {
		a.usage = &u
	}
}

// render writes an Answer in the dialect of the request.
func render(a *answer, sc *Script, ans *Answer, r *Request) {
	stream := r.Stream && !sc.Whole
	w := &render1{a: a, ans: ans, r: r, id: ans.ID, fail: sc.InStream}
	if w.id == "" {
		w.id = "fake-" + strconv.Itoa(r.N)
	}
	switch r.Dialect {
	case Chat:
		w.chat(stream)
	case Completions:
		w.completions(stream)
	case Responses:
		w.responses(stream)
	case Embeddings:
		w.embeddings()
	case Anthropic:
		w.anthropic(stream)
		if stream && r.invoked() {
			w.chunks()
		}
	case Gemini:
		w.gemini(stream)
	case OllamaChat, OllamaGenerate:
		w.ollama(stream)
	case OllamaEmbed:
		w.ollamaEmbed()
	case GeminiEmbed:
		w.geminiEmbed()
	case Bedrock:
		w.bedrock(stream)
	case AnthropicCount:
		w.whole(obj{"input_tokens": ans.Usage.prompt()})
		a.usage = nil
	case ResponsesCount:
		w.whole(obj{"object": "response.input_tokens", "input_tokens": ans.Usage.prompt()})
		a.usage = nil
	case GeminiCount:
		w.whole(obj{"totalTokens": ans.Usage.prompt()})
		a.usage = nil
	default:
		failure(a, &Error{Kind: "not_found"}, r.Dialect)
		a.usage = nil
	}
}

// render1 is the state of one rendering.
type render1 struct {
	a    *answer
	ans  *Answer
	r    *Request
	id   string
	fail *Error // comes in place of the stream's end
	cut  bool   // fail has been written
}

func (w *render1) whole(v any) {
	w.a.frames = append(w.a.frames, frame{bytes: enc(v), tokens: w.ans.Usage.Output})
}

// event adds a frame of an SSE stream.
func (w *render1) event(name string, v any, tokens int) {
	w.frame(sse(name, enc(v)), tokens, false)
}

// closing adds a frame of the end of a stream: none where an error comes in its
// place.
func (w *render1) closing(name string, v any) {
	w.close(sse(name, enc(v)))
}

func (w *render1) close(b []byte) {
	if w.fail == nil {
		w.frame(b, 0, true)
	} else if !w.cut {
		w.cut = true
		w.frame(inStream(w.fail, w.r.Dialect), 0, true)
	}
}

func (w *render1) frame(b []byte, tokens int, end bool) {
	w.a.frames = append(w.a.frames, frame{bytes: b, tokens: tokens, end: end})
}

func (w *render1) streaming(ctype string) {
	w.a.stream = true
	w.a.header.Set("Content-Type", ctype)
}

const sseType = "text/event-stream; charset=utf-8"

// share is how many output tokens a delta stands for: one each.
func share(s string) int {
	if s == "" {
		return 0
	}
	return 1
}

// padding is a frame of 1 MiB whose extra member nobody knows.
func (w *render1) padding() string {
	if w.ans.quirk("padding") {
		return strings.Repeat("p", 1<<20)
	}
	return ""
}

func (w *render1) itemID(kind string, n int) string { return fmt.Sprintf("%s_%s_%d", kind, w.id, n) }

// invoked says that Bedrock's InvokeModel carries another dialect.
func (r *Request) invoked() bool { return strings.Contains(r.Path, "/invoke") }

// errors is the dialect in which failures before the answer are told.
func (r *Request) errors() string {
	if r.invoked() {
		return Bedrock
	}
	return r.Dialect
}

// chunks wraps the events of a stream as InvokeModelWithResponseStream does:
// messages of the event stream encoding whose payload holds the event's data in
// base64.
func (w *render1) chunks() {
	w.streaming(eventStreamType)
	for i := range w.a.frames {
		f := &w.a.frames[i]
		if !bytes.HasPrefix(f.bytes, []byte("event: ")) {
			continue
		}
		_, data, _ := bytes.Cut(f.bytes, []byte("\ndata: "))
		f.bytes = bedrockEvent("chunk", obj{"bytes": base64.StdEncoding.EncodeToString(bytes.TrimRight(data, "\n")), "p": "abcdef"})
	}
}
