package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a header of 24 bytes, little-endian, and a payload:
//
//	0  magic "HWP1"
//	4  type
//	5  three zero bytes
//	8  stream
//	16 length of the payload
//	20 CRC-32C of bytes 0 to 19 and the payload
const (
	frameMagic  = 0x31505748
	frameHeader = 24
)

type frameType uint8

const (
	frameHello  frameType = 1 + iota // hello, both ways, first
	framePing                        // ping
	frameCall                        // op and arguments
	frameCancel                      // empty: the stream's result is not wanted
	frameCredit                      // uvarint: bytes of events read
	frameBeat                        // beat
	frameBatch                       // items of any streams
	frameResult                      // result of a call that is no generate
	frameFailed                      // wireError: the backend cannot be opened
	frameTypes
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// ErrProtocol is wrapped by errors about bytes that break the protocol.
var ErrProtocol = errors.New("the other end breaks the protocol")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// beginFrame appends room for a header; endFrame fills it.
func beginFrame(dst []byte) (out []byte, start int) {
	return append(dst, make([]byte, frameHeader)...), len(dst)
}

func endFrame(b []byte, start int, typ frameType, stream uint64) {
	f := b[start:]
	binary.LittleEndian.PutUint32(f, frameMagic)
	f[4] = byte(typ)
	binary.LittleEndian.PutUint64(f[8:], stream)
	binary.LittleEndian.PutUint32(f[16:], uint32(len(f)-frameHeader))
	crc := crc32.Update(crc32.Checksum(f[:20], crcTable), crcTable, f[frameHeader:])
	binary.LittleEndian.PutUint32(f[20:], crc)
}

// appendFrame appends a whole frame.
func appendFrame(dst []byte, typ frameType, stream uint64, payload []byte) []byte {
	dst, start := beginFrame(dst)
	dst = append(dst, payload...)
	endFrame(dst, start, typ, stream)
	return dst
}

// frameReader reads frames, checking each before it is handed out.
type frameReader struct {
	r   io.Reader
	buf []byte
}

// readStep is how much is made room for at a time: a length is believed only
// as far as bytes have come.
const readStep = 1 << 20

// next reads a frame. The payload is valid until the following call. io.EOF is
// returned only between frames.
func (f *frameReader) next() (typ frameType, stream uint64, payload []byte, err error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = protocolError("the connection ended inside a header")
		}
		return 0, 0, nil, err
	}
	if m := binary.LittleEndian.Uint32(h[:]); m != frameMagic {
		return 0, 0, nil, protocolError("got magic %08x", m)
	}
	typ = frameType(h[4])
	if typ == 0 || typ >= frameTypes || h[5]|h[6]|h[7] != 0 {
		return 0, 0, nil, protocolError("got frame type %d", h[4])
	}
	stream = binary.LittleEndian.Uint64(h[8:])
	n := binary.LittleEndian.Uint32(h[16:])
	if n > maxPayload {
		return 0, 0, nil, protocolError("got a frame of %d bytes, want at most %d", n, maxPayload)
	}
	if err := f.read(int(n)); err != nil {
		return 0, 0, nil, err
	}
	crc := crc32.Update(crc32.Checksum(h[:20], crcTable), crcTable, f.buf)
	if want := binary.LittleEndian.Uint32(h[20:]); crc != want {
		return 0, 0, nil, protocolError("got checksum %08x, want %08x", crc, want)
	}
	return typ, stream, f.buf, nil
}

// read fills buf with n bytes.
func (f *frameReader) read(n int) error {
	if cap(f.buf) > readStep && n < readStep {
		f.buf = nil // one large frame should not hold its memory for ever
	}
	f.buf = f.buf[:0]
	for len(f.buf) < n {
		from := len(f.buf)
		step := min(n-from, readStep)
		if cap(f.buf) < from+step {
			grown := make([]byte, from, min(n, 2*from+step))
			copy(grown, f.buf)
			f.buf = grown
		}
		f.buf = f.buf[:from+step]
		if _, err := io.ReadFull(f.r, f.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = protocolError("the connection ended inside a frame")
			}
			return err
		}
	}
	return nil
}
