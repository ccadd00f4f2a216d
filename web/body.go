package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"hearth/engine/infer"
)

// body reads the request body under its bounds of size, time and memory. The
// caller gives the memory back by calling done, which is never nil.
func (x *exchange) body() (b []byte, done func(), err error) {
	done = func() {}
	if err := x.mediaType(); err != nil {
		return nil, done, err
	}
	coding, bad := x.coding()
	if bad != nil {
		return nil, done, bad
	}
	lim := x.s.limits()
	if x.r.ContentLength > lim.BodyBytes {
		return nil, done, tooLarge(lim.BodyBytes)
	}
	if x.bodyDone {
		return nil, done, infer.Invalid("", "cannot read an empty body: wanted a JSON object")
	}
	var held int64
	hold := func(n int64) error {
		held += n
		if x.s.bodies.Add(n) > lim.BodiesBytes {
			return infer.Errorf(infer.CodeOverloaded, "the server holds as many request bodies as it may, try again")
		}
		return nil
	}
	done = func() { x.s.bodies.Add(-held); held = 0 }
	size := x.r.ContentLength + 1 // one more, so that the end is seen without growing
	if size <= 0 {
		size = 4 << 10
	}
	// A length that is only claimed buys no memory.
	size = min(size, 64<<10)
	if err := hold(size); err != nil {
		return nil, done, err
	}
	b = make([]byte, 0, size)
	src := &bodySource{x: x}
	var in io.Reader = src
	if coding != "" {
		u := &unpacked{coding: coding, src: src}
		defer u.done()
		in = u
	}
	end := time.Now().Add(lim.BodyTime)
	for {
		if len(b) == cap(b) {
			grow := int64(cap(b))
			if err := hold(grow); err != nil {
				return nil, done, err
			}
			b = append(make([]byte, 0, int64(cap(b))+grow), b...)
		}
		stall := time.Now().Add(lim.BodyStall)
		if stall.After(end) {
			stall = end
		}
		if x.readBy.After(end) || stall.Sub(x.readBy) > lim.BodyStall/16 { // else one that is fresh enough stands
			x.readBy = stall
			_ = x.w.rc.SetReadDeadline(stall)
		}
		n, err := in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > lim.BodyBytes {
			return nil, done, tooLarge(lim.BodyBytes)
		}
		switch {
		case err == io.EOF:
			x.bodyDone = true
			// The library watches the connection for the client's leaving
			// from here on, and must be free to wait.
			_ = x.w.rc.SetReadDeadline(time.Time{})
			return b, done, nil
		case err != nil:
			return nil, done, bodyError(err)
		}
	}
}

func tooLarge(limit int64) *infer.Error {
	return infer.Errorf(infer.CodeTooLarge, "cannot take the request: its body is larger than %d bytes", limit)
}

// bodyError puts what the connection did into words.
func bodyError(err error) error {
	var known *infer.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return infer.Errorf(infer.CodeSlowBody, "cannot read the body: it did not arrive in time")
	}
	e := infer.Errorf(infer.CodeInvalid, "cannot read the body: it broke off or is not framed as it should be")
	e.Cause = err
	return e
}

// mediaType takes JSON, or no statement at all, which several clients make.
func (x *exchange) mediaType() error {
	h := x.r.Header
	ct := h.Get("Content-Type")
	if ct == "" || ct == "application/json" || x.route.anyType {
		return nil
	}
	mt, params, err := mime.ParseMediaType(ct)
	if err != nil || mt != "application/json" && mt != "text/json" && !strings.HasSuffix(mt, "+json") {
		return infer.Errorf(infer.CodeMediaType, "cannot read the body: got content-type %.60q, wanted application/json", ct)
	}
	if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") && !strings.EqualFold(cs, "utf8") {
		return infer.Errorf(infer.CodeMediaType, "cannot read the body: got charset %.40q, wanted utf-8", cs)
	}
	return nil
}

// refuse sends a whole answer to a request whose body may be still under way.
// Were the connection closed with input unread, the kernel would reset it, and
// a client busy sending would lose the answer; so some of the rest is read and
// dropped, within bounds. A client that waits for 100 Continue gets its answer
// without having sent anything.
func (x *exchange) refuse(status int, body []byte) {
	// A short body the library reads away by itself, and keeps the connection.
	short := x.r.ContentLength >= 0 && x.r.ContentLength <= 256<<10
	left := !x.bodyDone && !short && x.r.ProtoMajor == 1
	linger := left && !strings.EqualFold(x.r.Header.Get("Expect"), "100-continue")
	if linger {
		if x.s.lingering.Add(1) > int64(x.s.limits().Lingerers) {
			linger = false
		}
		defer x.s.lingering.Add(-1)
	}
	if left {
		x.w.Header().Set("Connection", "close")
	}
	if linger && x.w.rc.EnableFullDuplex() != nil {
		linger = false
	}
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
	if !linger {
		return
	}
	_ = x.w.FlushError()
	_ = x.w.rc.SetReadDeadline(time.Now().Add(x.s.limits().LingerTime))
	n, _ := io.Copy(io.Discard, io.LimitReader(x.r.Body, x.s.limits().LingerBytes))
	x.bodyIn += n
}
