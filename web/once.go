package web

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

// A request with an Idempotency-Key is answered once: whoever repeats it gets
// the bytes of the first answer and is charged nothing. What is sent is
// recorded on its way, and the end of it waits until the record is durable.

const maxIdempotencyKey = 255 // bytes

// idempotencyKey reads the header that makes repetition safe (the name and its
// meaning are those of draft-ietf-httpapi-idempotency-key-header).
func idempotencyKey(h http.Header) (string, *infer.Error) {
	v := h.Values("Idempotency-Key")
	if len(v) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(v[0])
	bad := len(v) > 1 || key == "" || len(key) > maxIdempotencyKey
	for i := 0; i < len(key); i++ {
		bad = bad || key[i] < ' ' || key[i] > '~'
	}
	if bad {
		return "", infer.Errorf(infer.CodeInvalid, "cannot use the header idempotency-key: wanted one value of 1 to %d printable ASCII characters", maxIdempotencyKey)
	}
	return key, nil
}

// errAnswered says that a claim has answered the exchange with a replay.
var errAnswered = errors.New("the request was answered with an earlier answer")

// claim takes the caller's Idempotency-Key, if it sent one, for a request that
// is well-formed and about to be served. errAnswered means that the first answer
// was sent again.
func (x *exchange) claim(body []byte) error {
	key := x.grant.Idempotency
	if key == "" || x.w.once != nil {
		return nil
	}
	rec, replay, err := x.s.opt.Service.Claim(x.r.Context(), x.grant, key, x.route.pattern, x.bodyHash(body))
	switch {
	case err != nil:
		return err
	case replay != nil:
		x.replay(replay)
		return errAnswered
	}
	x.w.once = &onceTee{rec: rec, limit: rec.Limit()}
	return nil
}

// bodyHash is what a repeat must agree in: method, path, query without the
// credential, and body.
func (x *exchange) bodyHash(body []byte) [32]byte {
	h := sha256.New()
	query := x.r.URL.Query()
	query.Del("key")
	for _, s := range []string{x.r.Method, clean(x.r.URL.Path), query.Encode()} {
		h.Write([]byte(strconv.Itoa(len(s)) + ":" + s))
	}
	h.Write(body)
	return [32]byte(h.Sum(nil))
}

// replay sends an answer again as it was sent first.
func (x *exchange) replay(a *Replay) {
	h := x.w.Header()
	for k, v := range a.Header {
		h.Set(k, v)
	}
	h.Set("X-Hearth-Replayed", a.RequestID)
	h.Set("Content-Type", a.ContentType)
	if !a.Cut {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	x.w.WriteHeader(a.Status)
	_, _ = x.w.Write(a.Body)
	if a.Cut { // as the first one ended
		_ = x.w.FlushError()
		panic(http.ErrAbortHandler)
	}
}

// onceTee records what is sent. Bytes are passed on when they are flushed;
// after last none are until the record is durable.
type onceTee struct {
	rec   Recording
	limit int
	body  []byte // all of the answer so far; if it is too large, what is not yet sent
	sent  int    // bytes of body that have been passed on
	over  bool
	last  bool // the rest waits for the record
	whole bool // nothing is missing
}

func (t *onceTee) add(b []byte) {
	t.body = append(t.body, b...)
	t.over = t.over || len(t.body) > t.limit
}

// pass gives what is to be sent now.
func (t *onceTee) pass() []byte {
	b := t.body[t.sent:]
	if t.sent = len(t.body); t.over {
		t.body, t.sent = nil, 0
	}
	return b
}

// ending says that what is sent from now on may be the end of a whole answer.
func (w *response) ending() {
	if w.once != nil {
		w.once.last = true
	}
}

// ended says that a stream has its end.
func (w *response) ended() {
	if w.once != nil {
		w.once.whole = true
	}
}

// keepOnce ends the recording, if there is one, and then sends what waited.
// broken: the handler gave up. A stream that has neither its end nor an error
// was left by its reader.
func (x *exchange) keepOnce(broken bool) {
	t := x.w.once
	if t == nil {
		return
	}
	broken = broken || x.stream && !t.whole && x.code == ""
	a := Replay{RequestID: x.id, Status: x.w.status, ContentType: x.w.Header().Get("Content-Type"), Header: map[string]string{}, Cut: broken, TooLarge: t.over}
	for k, v := range x.w.Header() {
		if strings.HasPrefix(k, "X-Hearth-") && len(v) == 1 {
			a.Header[k] = v[0]
		}
	}
	if !t.over {
		a.Body = t.body
	}
	if err := t.rec.Keep(a); err != nil {
		x.s.log.Error("cannot keep an answer for repeats", "request", x.id, "error", err.Error())
	}
	x.w.once = nil
	if rest := t.pass(); len(rest) > 0 && !x.gone() {
		_, _ = x.w.Write(rest)
	}
	if x.stream && t.last && !x.gone() {
		_ = x.w.FlushError()
	}
}
