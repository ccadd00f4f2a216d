package upstream

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// eventStream reads messages of application/vnd.amazon.eventstream: total
// length, length of the headers, CRC-32 of those eight bytes; headers; payload;
// CRC-32 of all before it. Numbers are big-endian (AWS, "Event stream encoding").
type eventStream struct {
	r   *bufio.Reader
	buf []byte
}

const (
	esPrelude  = 12
	esTrailer  = 4
	esHeaders  = 128 << 10 // the format's own bound on headers
	esMessage  = maxFrame
	esMaxCount = 64
)

// next returns the event's type, or for an exception the exception's, and the
// payload. The name of an error message, which has no payload, is "error".
func (s *eventStream) next() (string, []byte, error) {
	var head [esPrelude]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return "", nil, err // io.EOF between messages, else unexpected
	}
	total, headers := binary.BigEndian.Uint32(head[0:]), binary.BigEndian.Uint32(head[4:])
	if crc32.ChecksumIEEE(head[:8]) != binary.BigEndian.Uint32(head[8:]) {
		return "", nil, &frameError{"the checksum of a message's prelude is wrong"}
	}
	if total > esMessage || headers > esHeaders || total < esPrelude+esTrailer || headers > total-esPrelude-esTrailer {
		return "", nil, &frameError{fmt.Sprintf("a message has %d bytes with headers of %d", total, headers)}
	}
	rest := int(total) - esPrelude
	if cap(s.buf) < rest {
		// Grown as the bytes come: a length alone makes no memory.
		s.buf = make([]byte, 0, min(rest, 64<<10))
	}
	b := s.buf[:0]
	for len(b) < rest {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(rest, 2*cap(b))), b...)
		}
		n, err := s.r.Read(b[len(b):min(cap(b), rest)])
		b = b[:len(b)+n]
		if err != nil && len(b) < rest {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", nil, err
		}
	}
	s.buf = b
	sum := crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, b[:rest-esTrailer])
	if sum != binary.BigEndian.Uint32(b[rest-esTrailer:]) {
		return "", nil, &frameError{"the checksum of a message is wrong"}
	}
	name, err := esName(b[:headers])
	return name, b[headers : rest-esTrailer], err
}

func (s *eventStream) ready() bool {
	n := s.r.Buffered()
	if n < esPrelude {
		return false
	}
	head, _ := s.r.Peek(4)
	return uint64(n) >= uint64(binary.BigEndian.Uint32(head))
}

// esName reads the headers: what the message is called.
func esName(b []byte) (string, error) {
	bad := &frameError{"the headers of a message cannot be read"}
	var kind, event, exception string
	for n := 0; len(b) > 0; n++ {
		nameLen := int(b[0])
		if n == esMaxCount || nameLen == 0 || len(b) < 2+nameLen {
			return "", bad
		}
		name, typ := string(b[1:1+nameLen]), b[1+nameLen]
		b = b[2+nameLen:]
		size := 0
		switch typ {
		case 0, 1: // true, false
		case 2:
			size = 1
		case 3:
			size = 2
		case 4:
			size = 4
		case 5, 8: // long, time
			size = 8
		case 6, 7: // bytes, string
			if len(b) < 2 {
				return "", bad
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		case 9: // UUID
			size = 16
		default:
			return "", bad
		}
		if len(b) < size {
			return "", bad
		}
		if typ == 7 {
			switch value := string(b[:size]); name {
			case ":message-type":
				kind = value
			case ":event-type":
				event = value
			case ":exception-type":
				exception = value
			}
		}
		b = b[size:]
	}
	switch kind {
	case "exception":
		return exception, nil
	case "error":
		return "error", nil
	}
	return event, nil
}
