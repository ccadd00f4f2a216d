package upstream

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decoded undoes the content codings of a body (RFC 9110, section 8.4). None is
// asked for; gzip and deflate are undone where they come all the same.
func decoded(h http.Header, body io.Reader) (io.Reader, error) {
	codings := h["Content-Encoding"]
	if len(codings) == 0 {
		return body, nil
	}
	list := strings.Split(strings.ToLower(strings.Join(codings, ",")), ",")
	if len(list) > 3 {
		return nil, fmt.Errorf("cannot undo %d content codings", len(list))
	}
	for i := len(list) - 1; i >= 0; i-- {
		switch c := strings.TrimSpace(list[i]); c {
		case "", "identity":
		case "gzip", "x-gzip":
			body = &gunzip{in: bufio.NewReaderSize(body, 4096)}
		case "deflate":
			body = &inflate{in: bufio.NewReaderSize(body, 4096)}
		default:
			return nil, fmt.Errorf("cannot undo content coding %.32q", c)
		}
	}
	return body, nil
}

// gunzip reads one gzip member after the other, and hands on what a flush of the
// sender made readable. The end of a member is told before the next is looked
// for, so that an answer never waits for the connection to close.
type gunzip struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	for {
		if g.z == nil {
			z, err := gzip.NewReader(g.in)
			if err != nil {
				return 0, torn(err)
			}
			g.z = z
			z.Multistream(false)
		}
		n, err := g.z.Read(p)
		if err != io.EOF {
			return n, torn(err)
		}
		if n > 0 {
			return n, nil
		}
		if _, err := g.in.Peek(1); err != nil {
			return 0, err // io.EOF: the last member
		}
		if err := g.z.Reset(g.in); err != nil {
			return 0, torn(err)
		}
		g.z.Multistream(false)
	}
}

// inflate reads the zlib form that "deflate" means, or the bare form that some
// servers send under that name.
type inflate struct {
	in *bufio.Reader
	z  io.Reader
}

func (f *inflate) Read(p []byte) (int, error) {
	if f.z == nil {
		head, err := f.in.Peek(2)
		if err != nil {
			return 0, err
		}
		// RFC 1950, section 2.2: method 8, and a check on both bytes.
		if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			if f.z, err = zlib.NewReader(f.in); err != nil {
				return 0, torn(err)
			}
		} else {
			f.z = flate.NewReader(f.in)
		}
	}
	n, err := f.z.Read(p)
	return n, torn(err)
}

// torn makes corrupt compression a fault of the framing; the ends of the input
// and of the connection stay what they are.
func torn(err error) error {
	switch err {
	case gzip.ErrChecksum, gzip.ErrHeader, zlib.ErrChecksum, zlib.ErrHeader, zlib.ErrDictionary:
		return &frameError{"its compression is broken"}
	}
	if _, ok := err.(flate.CorruptInputError); ok {
		return &frameError{"its compression is broken"}
	}
	return err
}
