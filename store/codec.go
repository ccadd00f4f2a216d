package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
	"unicode/utf8"
)

// Bounds of what a record may carry. They hold when a record is written and
// when it is read back, so that a damaged length cannot ask for memory.
const (
	maxString    = 1024 // bytes of one text field
	maxRequestID = 128
	maxBudgetID  = 200
	maxWindowID  = 32
	maxPostings  = 32 // budgets of one hold
	maxAttempts  = 64
	maxMarks     = 64  // losses, and decisions, of one row
	maxMark      = 256 // bytes of one of them
	maxUpstream  = 256 // bytes of a provider's request id
	maxStatus    = 999 // HTTP status
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b ...[]byte) uint32 {
	var c uint32
	for _, p := range b {
		c = crc32.Update(c, castagnoli, p)
	}
	return c
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendTime writes Unix nanoseconds; the zero time is 0.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixNano())
}

// decoder reads what the append functions wrote. The first fault sticks; after
// it every read gives the zero value.
type decoder struct {
	b   []byte
	off int
	err error
}

var errShort = errors.New("the data ends too early")

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("at byte %d: %w", d.off, fmt.Errorf(format, args...))
	}
}

func (d *decoder) byte() byte {
	if d.err != nil {
		return 0
	}
	if d.off >= len(d.b) {
		d.fail("%w", errShort)
		return 0
	}
	d.off++
	return d.b[d.off-1]
}

func (d *decoder) bool() bool {
	switch v := d.byte(); v {
	case 0:
		return false
	case 1:
		return true
	default:
		d.fail("got %d for a truth value, want 0 or 1", v)
		return false
	}
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 || n > 1 && d.b[d.off+n-1] == 0 {
		d.fail("malformed number")
		return 0
	}
	d.off += n
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads a number that may not be above limit.
func (d *decoder) count(limit int) int {
	v := d.uvarint()
	if v > uint64(limit) {
		d.fail("got a count of %d, want at most %d", v, limit)
		return 0
	}
	return int(v)
}

func (d *decoder) string() string {
	n := d.count(maxString)
	if d.err != nil {
		return ""
	}
	if n > len(d.b)-d.off {
		d.fail("%w", errShort)
		return ""
	}
	s := string(d.b[d.off : d.off+n])
	d.off += n
	if !utf8.ValidString(s) {
		d.fail("text is not UTF-8")
		return ""
	}
	return s
}

// bytes reads n bytes; the result aliases the input.
func (d *decoder) bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.fail("%w", errShort)
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

// strings reads a list of at most limit texts; an empty one is nil.
func (d *decoder) strings(limit int) []string {
	n := d.count(limit)
	if n == 0 || d.err != nil {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = d.string()
	}
	return out
}

func (d *decoder) time() time.Time {
	n := d.varint()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// end fails if bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.fail("%d bytes left over", len(d.b)-d.off)
	}
	return d.err
}

// clipAll makes a list fit: at most maxMarks of at most maxMark bytes. The
// caller's list is left alone.
func clipAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, min(len(list), maxMarks))
	for i := range out {
		out[i] = clip(list[i], maxMark)
	}
	if len(list) > maxMarks {
		out[maxMarks-1] = fmt.Sprintf("(%d more)", len(list)-maxMarks+1)
	}
	return out
}

// printable makes a text that a provider chose fit: printable ASCII of at most
// n bytes.
func printable(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if b[j] < ' ' || b[j] > '~' {
					b[j] = '?'
				}
			}
			return string(b)
		}
	}
	return s
}

// clip makes s fit a text field: valid UTF-8 of at most n bytes.
func clip(s string, n int) string {
	if len(s) <= n && utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, min(n, len(s)))
	for _, r := range s { // invalid bytes come as U+FFFD
		if len(out)+utf8.RuneLen(r) > n {
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
