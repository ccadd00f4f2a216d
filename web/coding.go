package web

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"hearth/engine/infer"
)

const (
	// maxRatio is how many bytes one byte of a compressed body may become. JSON
	// of conversations shrinks to a fifth; gzip's own bound is about 1000.
	maxRatio = 100
	// freeRatio is how many bytes any body may become, however small it is.
	freeRatio = 1 << 20
	// zstdWindow is the largest window of the coding zstd (RFC 9659).
	zstdWindow = 8 << 20
)

// coding is the content coding of the request body: empty for none.
func (x *exchange) coding() (string, *infer.Error) {
	if x.r.Header["Content-Encoding"] == nil {
		return "", nil
	}
	v := strings.ToLower(strings.TrimSpace(strings.Join(x.r.Header.Values("Content-Encoding"), ",")))
	switch v {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	case "deflate", "zstd":
		return v, nil
	}
	return "", infer.Errorf(infer.CodeMediaType, "cannot read the body: got content-encoding %.40q, wanted gzip, deflate, zstd or none", v)
}

// bodySource is the body as it arrives, before a coding is undone.
type bodySource struct {
	x   *exchange
	n   int64
	err error
}

func (s *bodySource) Read(p []byte) (int, error) {
	n, err := s.x.r.Body.Read(p)
	s.n += int64(n)
	s.x.bodyIn += int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

// unpacked undoes a coding within bounds. What the body becomes is bounded by
// the caller; this bounds the work per byte that a client has to send.
type unpacked struct {
	coding string
	src    *bodySource
	in     *bufio.Reader
	r      io.Reader
	close  func()
	n      int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.r == nil {
		if err := u.open(); err != nil {
			return 0, u.fault(err)
		}
	}
	n, err := u.r.Read(p)
	if u.n += int64(n); u.n > freeRatio+maxRatio*u.src.n {
		return 0, infer.Errorf(infer.CodeTooLarge, "cannot take the request: its body is compressed more than %d to one", maxRatio)
	}
	if err == io.EOF {
		if _, rest := u.in.ReadByte(); rest != io.EOF {
			return n, u.fault(fmt.Errorf("data behind the end"))
		}
		return n, io.EOF
	}
	if err != nil {
		err = u.fault(err)
	}
	return n, err
}

func (u *unpacked) open() (err error) {
	u.in = bufio.NewReaderSize(u.src, 4<<10)
	switch u.coding {
	case "gzip":
		u.r, err = gzip.NewReader(u.in)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(u.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		if err == nil {
			u.r, u.close = z, z.Close
		}
	default: // deflate is zlib's format; several clients send it without its frame
		head, peek := u.in.Peek(2)
		switch {
		case peek != nil:
			err = io.ErrUnexpectedEOF
		case head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0:
			u.r, err = zlib.NewReader(u.in)
		default:
			u.r = flate.NewReader(u.in)
		}
	}
	return err
}

// fault is the error of the connection, if that is why the coding could not be
// undone, or one about the body.
func (u *unpacked) fault(err error) error {
	if u.src.err != nil && u.src.err != io.EOF {
		return u.src.err
	}
	e := infer.Errorf(infer.CodeInvalid, "cannot read the body: it is not what content-encoding %s says", u.coding)
	e.Cause = err
	return e
}

func (u *unpacked) done() {
	if u.close != nil {
		u.close()
	}
}
