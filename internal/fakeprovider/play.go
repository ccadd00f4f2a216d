package fakeprovider

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// frame is one event as it goes out, before framing options that concern the
// whole stream.
type frame struct {
	bytes  []byte
	tokens int  // output tokens that it carries
	end    bool // belongs to what follows the content: finish, usage, end mark
}

// answer is a script made ready for one request.
type answer struct {
	status int
	header http.Header
	frames []frame // of a stream; one of a whole body
	stream bool
	usage  *Usage // what is charged; nil: nothing
}

// player plays one answer on a connection.
type player struct {
	s    *Server
	c    net.Conn
	r    *Request
	left <-chan struct{} // closed when the peer has gone
	gone time.Time

	sent     int
	tokens   int
	complete bool
	usage    *Usage
}

var errGone = errors.New("the peer has gone")

// play answers and says whether the connection can serve another request.
func (p *player) play(sc *Script) bool {
	if !p.sleep(ms(sc.DelayMS)) {
		return false
	}
	if sc.Die == "before_headers" {
		p.die(sc)
		return false
	}
	a := prepare(sc, p.r)
	if sc.Free {
		a.usage = nil
	}
	if sc.Die == "in_headers" {
		p.c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Ty"))
		p.die(sc)
		return false
	}
	p.usage = a.usage
	if err := p.send(sc, a); err != nil {
		return false
	}
	return !sc.Frame.Until
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// sleep waits and says whether the peer is still there.
func (p *player) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.left:
		p.gone = time.Now()
	case <-p.s.stop:
	}
	return false
}

// die ends the connection as the script says.
func (p *player) die(sc *Script) {
	switch sc.How {
	case "reset":
		reset(p.c)
	case "hang":
		p.sleep(time.Hour)
	}
	p.c.Close()
}

// send writes head and frames; an error where it broke off.
func (p *player) send(sc *Script, a *answer) error {
	chunked := !sc.Frame.Length && !sc.Frame.Until
	w := &writer{p: p, f: &sc.Frame, chunked: chunked}
	if sc.Frame.Gzip {
		a.header.Set("Content-Encoding", "gzip")
		w.zip = gzip.NewWriter(&w.zbuf)
	}
	switch {
	case chunked:
		a.header.Set("Transfer-Encoding", "chunked")
	case sc.Frame.Length:
		n := 0
		for i := range a.frames {
			n += len(a.frames[i].bytes)
		}
		if sc.Frame.Gzip || a.stream {
			a.frames = []frame{p.whole(sc, a)}
			n = len(a.frames[0].bytes)
			w.zip = nil
		}
		a.header.Set("Content-Length", strconv.Itoa(n))
	default:
		a.header.Set("Connection", "close")
	}
	if sc.Die == "before_end" && sc.How == "clean" {
		a.header.Set("Connection", "close") // or the peer may ask again on what is about to close
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n", a.status, http.StatusText(a.status), headerLines(a.header))
	if err := p.raw([]byte(head)); err != nil {
		return err
	}
	if sc.Die == "after_headers" {
		p.die(sc)
		return errGone
	}
	if err := p.frames(sc, a, w); err != nil {
		return err
	}
	p.complete = true
	p.charge()
	return w.end()
}

// whole joins the frames into one body, compressed if asked.
func (p *player) whole(sc *Script, a *answer) frame {
	var b bytes.Buffer
	out := frame{}
	for i := range a.frames {
		b.Write(frameBytes(&sc.Frame, a.frames[i].bytes, a.stream, i, i == len(a.frames)-1))
		out.tokens += a.frames[i].tokens
	}
	if sc.Frame.Gzip {
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		g.Write(b.Bytes())
		g.Close()
		b = z
	}
	out.bytes = b.Bytes()
	a.stream = false
	return out
}

// frames writes the body's frames up to the place where the script breaks off.
func (p *player) frames(sc *Script, a *answer, w *writer) error {
	for i := range a.frames {
		f := &a.frames[i]
		b := frameBytes(&sc.Frame, f.bytes, a.stream, i, i == len(a.frames)-1)
		if i > 0 && !p.sleep(ms(sc.GapMS)) {
			return errGone
		}
		if sc.StallMS > 0 && i == sc.StallAfter && !p.sleep(ms(sc.StallMS)) {
			return errGone
		}
		broke := sc.Die == "event" && i == sc.Event || sc.Die == "before_end" && f.end
		if sc.Die == "mid_event" && i == sc.Event {
			w.write(b[:len(b)/2])
			broke = true
		}
		if broke {
			if sc.How == "clean" {
				w.end()
				p.c.Close()
				return errGone
			}
			p.die(sc)
			return errGone
		}
		p.sent++
		p.tokens += f.tokens
		if i == len(a.frames)-1 {
			// On the bill before the peer can know that all has come.
			p.complete = true
			p.charge()
		}
		if err := w.write(b); err != nil {
			p.sent--
			p.tokens -= f.tokens
			p.complete = false
			return err
		}
	}
	return nil
}

// raw writes b, or fails if the peer has gone.
func (p *player) raw(b []byte) error {
	select {
	case <-p.left:
		p.gone = time.Now()
		return errGone
	default:
	}
	p.c.SetWriteDeadline(time.Now().Add(30 * time.Second))
	_, err := p.c.Write(b)
	if err != nil {
		p.gone = time.Now()
	}
	return err
}

// writer puts pieces of a body on the connection: compressed, in chunks, in
// packets.
type writer struct {
	p       *player
	f       *Framing
	chunked bool
	zip     *gzip.Writer
	zbuf    bytes.Buffer
	at      int // bytes of the body so far
}

func (w *writer) write(b []byte) error {
	if w.zip != nil {
		w.zip.Write(b)
		w.zip.Flush()
		b = bytes.Clone(w.zbuf.Bytes())
		w.zbuf.Reset()
	}
	for len(b) > 0 {
		n := len(b)
		if w.f.Packet > 0 {
			n = min(n, w.f.Packet)
		}
		if s := w.f.SplitAt - w.at; s > 0 && s < n {
			n = s
		}
		if err := w.packet(b[:n]); err != nil {
			return err
		}
		w.at += n
		b = b[n:]
		if len(b) > 0 && w.f.SplitAt > 0 && !w.p.sleep(time.Millisecond) {
			return errGone
		}
	}
	return nil
}

func (w *writer) packet(b []byte) error {
	if w.chunked {
		b = fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b)
	}
	return w.p.raw(b)
}

func (w *writer) end() error {
	if w.zip != nil {
		w.zip.Close()
		if err := w.packet(w.zbuf.Bytes()); err != nil {
			return err
		}
	}
	if w.chunked {
		return w.p.raw([]byte("0\r\n\r\n"))
	}
	return nil
}
