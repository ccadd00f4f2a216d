package upstream

import (
	"errors"
	"io"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// exchange is one request for generation and the events of its answer.
type exchange struct {
	*attempt
	client  wire.Client
	request *infer.Request
	out     *wire.Outgoing
	model   string
	emit    func(infer.Event) bool

	emitted bool // an event has been passed on
	usage   bool // the last event has been

	hidden [][]byte // the secrets that the request carries
}

func (x *exchange) run() error {
	resp, err := x.send(x.client, x.out, x.request.Wire, x.model)
	if err != nil {
		return err
	}
	secrets(x.head, func(s string) bool {
		x.hidden = append(x.hidden, []byte(s))
		return true
	})
	defer func() {
		if !x.handed {
			resp.Body.Close()
		}
	}()
	if resp.StatusCode/100 != 2 {
		return x.refusal(x.client, resp)
	}
	ans, err := x.open(resp, x.client, x.out.Stream)
	if err != nil {
		return err
	}
	if ans.framing == "" {
		return x.whole(ans, resp.ContentLength)
	}
	return x.stream(ans, resp.Body)
}

// whole passes on an answer in one piece. Where a stream was asked for, the
// caller cannot be given the provider's bytes: the events are all there is.
func (x *exchange) whole(ans *answer, size int64) error {
	body, err := x.readAll(ans.body, size)
	if err != nil {
		return err
	}
	out := x.out
	if out.Stream {
		other := *out
		other.Stream, other.Native = false, false
		out = &other
	}
	events, err := x.client.DecodeAnswer(x.request, out, body)
	if err != nil {
		return x.told(err)
	}
	if go_, err := x.pass(events, out.Native, false); err != nil || !go_ {
		return err
	}
	if !x.usage {
		return x.malformed("an answer without its end", nil)
	}
	return nil
}

// pass hands events on and says whether to go on. more says that another frame
// has come already.
func (x *exchange) pass(events []infer.Event, native, more bool) (bool, error) {
	for i := range events {
		ev := &events[i]
		ev.More = more || i < len(events)-1
		switch ev.Kind {
		case infer.EventStart:
			served := infer.Served{Name: x.model}
			if ev.Model != nil {
				served = *ev.Model
			}
			served.RequestID, served.Native = x.requestID, native
			ev.Model = &served
		case infer.EventUsage:
			x.usage = true
		}
		x.hide(ev)
		x.emitted = true
		if !x.emit(*ev) {
			return false, nil
		}
	}
	return true, nil
}

// stream passes on the events of a stream as they come.
func (x *exchange) stream(ans *answer, body io.ReadCloser) error {
	out := x.out
	if !out.Stream {
		other := *out
		other.Stream, other.Native = true, false
		out = &other
	}
	dec := x.client.NewDecoder(x.request, out)
	ans.inner = x.client.Dialect() == dialectAnthropic
	frames := ans.frames()
	var events []infer.Event
	for {
		name, data, err := frames.next()
		switch {
		case err == io.EOF:
			events, err = dec.End(events[:0])
			if err != nil {
				return x.told(err)
			}
			if go_, err := x.pass(events, out.Native, false); err != nil || !go_ {
				return err
			}
			if !x.usage {
				return x.cut(io.ErrUnexpectedEOF)
			}
			return nil
		case err != nil:
			return x.torn(err)
		}
		if events, err = dec.Frame(events[:0], name, data); err != nil {
			// What came in the same frame before the error is passed on.
			if go_, err := x.pass(events, out.Native, false); err != nil || !go_ {
				return err
			}
			return x.told(err)
		}
		if n := len(events); n > 0 && events[n-1].Kind == infer.EventUsage {
			x.tail(body)
		}
		if go_, err := x.pass(events, out.Native, frames.ready()); err != nil || !go_ || x.usage {
			return err
		}
	}
}

// torn is the error for a stream that cannot be read on.
func (x *exchange) torn(err error) error {
	var bad *frameError
	if x.ctx.Err() == nil && (errors.Is(err, sse.ErrTooLarge) || errors.As(err, &bad)) {
		return x.malformed("a stream that cannot be read", err)
	}
	return x.cut(err)
}

// refusal is the error for a status other than 2xx.
func (a *attempt) refusal(client wire.Client, resp *http.Response) error {
	if resp.StatusCode/100 == 3 {
		return a.malformed("a redirect, which is not followed", nil)
	}
	var body []byte
	if r, err := decoded(resp.Header, &reader{a, resp.Body}); err == nil {
		body, _ = io.ReadAll(io.LimitReader(r, maxErrorBody))
	}
	e := client.DecodeError(resp.StatusCode, resp.Header, body)
	return a.refused(e, resp)
}

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10
