// Package sse frames server-sent events (WHATWG HTML, section 9.2): a Writer
// that sends each event at once and gives up on peers that do not read, and a
// Reader that takes every legal framing.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Event is one event of a stream.
type Event struct {
	Name string // the event field; empty means "message"
	Data []byte // lines joined by \n; valid until the next call of Next
	ID   string // the last id seen, which carries over
}

// ErrTooLarge is returned for a line or an event past the Reader's limit.
var ErrTooLarge = errors.New("event is larger than the limit")

// Reader parses a stream as it arrives. It accepts LF, CRLF and CR line ends in
// any mixture, a missing space after the colon, comments, data over several
// lines, fields it does not know, a byte-order mark at the start, and reads that
// split anywhere.
//
// The standard drops an event that no blank line ends. Providers do leave the
// last blank line out, so Next returns such an event before io.EOF; whether the
// stream was complete is for the dialect's own end mark to say. A stream that
// ends inside a line that is no whole field is io.ErrUnexpectedEOF.
type Reader struct {
	src   io.Reader
	max   int
	buf   []byte // unread input
	start int    // of the unread part of buf
	eof   bool
	skip  bool // a CR ended the last line: swallow one LF
	begun bool // the byte-order mark has been looked for
	data  []byte
	name  string
	id    string
	some  bool // a data field has been seen in this event
}

// NewReader reads events of at most max bytes each from src; 0 means 16 MiB.
func NewReader(src io.Reader, max int) *Reader {
	if max <= 0 {
		max = 16 << 20
	}
	return &Reader{src: src, max: max}
}

// Next returns the next event. After an error it returns the same error.
func (r *Reader) Next() (Event, error) {
	r.data, r.name, r.some = r.data[:0], "", false
	for {
		line, err := r.line()
		if err == io.EOF && r.some {
			return Event{r.name, r.data, r.id}, nil
		}
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if r.some {
				return Event{r.name, r.data, r.id}, nil
			}
			r.name = ""
			continue
		}
		if err := r.field(line); err != nil {
			return Event{}, err
		}
	}
}

// Ready tells whether a whole event is among what has been read from the source
// already, so that Next need not wait. It looks for a blank line.
func (r *Reader) Ready() bool {
	rest := r.buf[r.start:]
	if r.skip && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return bytes.Contains(rest, blankLF) || bytes.Contains(rest, blankCRLF)
}

// How a blank line behind another line looks; with CR alone it is not found, and
// need not be: nobody sends that today.
var blankLF, blankCRLF = []byte("\n\n"), []byte("\n\r\n")

func (r *Reader) field(line []byte) error {
	key, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(key) {
	case "data":
		if r.some {
			r.data = append(r.data, '\n')
		}
		if len(r.data)+len(value) > r.max {
			return fmt.Errorf("cannot read event: %w of %d bytes", ErrTooLarge, r.max)
		}
		r.data, r.some = append(r.data, value...), true
	case "event":
		r.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.id = string(value)
		}
	}
	return nil // comments (empty key), retry, and what nobody knows
}

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	scanned := 0
	for {
		in := r.buf[r.start:]
		if r.skip && len(in) > 0 {
			r.skip = false
			if in[0] == '\n' {
				r.start++
				in = in[1:]
			}
		}
		if !r.begun && (len(in) >= 3 || r.eof) {
			r.begun = true
			if bytes.HasPrefix(in, []byte("\xef\xbb\xbf")) {
				r.start += 3
				in = in[3:]
			}
		}
		// A lone CR can be judged at once: an LF that follows is skipped later.
		if r.begun || len(in) > 0 && in[0] != 0xef {
			r.begun = true
			if at := bytes.IndexAny(in[min(scanned, len(in)):], "\r\n"); at >= 0 {
				at += min(scanned, len(in))
				r.skip = in[at] == '\r'
				r.start += at + 1
				return in[:at], nil
			}
			scanned = len(in)
		}
		if r.eof {
			if len(in) == 0 {
				return nil, io.EOF
			}
			r.start = len(r.buf)
			if bytes.IndexByte(in, ':') < 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return in, nil
		}
		if len(in) > r.max+64 {
			return nil, fmt.Errorf("cannot read line: %w of %d bytes", ErrTooLarge, r.max)
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more input behind what is unread.
func (r *Reader) fill() error {
	if r.start > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	}
	if cap(r.buf)-len(r.buf) < 1024 {
		r.buf = append(make([]byte, 0, max(4096, 2*cap(r.buf))), r.buf...)
	}
	for range 100 {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err == io.EOF {
			r.eof = true
			return nil
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
