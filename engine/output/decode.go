package output

import "unicode/utf8"

// Decoder turns token pieces, which may end in the middle of a character, into
// valid UTF-8. Each maximal part of a broken sequence becomes one U+FFFD (Unicode
// 16, §3.9, "U+FFFD Substitution of Maximal Subparts"): ED A0 80 gives three,
// E2 80 41 gives one and an A. The zero value is ready.
type Decoder struct {
	tail [utf8.UTFMax]byte
	n    int
}

const replacement = "\ufffd"

// Append decodes piece behind what was held and appends to dst all that is
// certain; up to three bytes of an unfinished character stay held.
func (d *Decoder) Append(dst, piece []byte) []byte {
	for d.n > 0 && len(piece) > 0 {
		d.tail[d.n] = piece[0]
		d.n++
		piece = piece[1:]
		dst = d.settle(dst)
	}
	for len(piece) > 0 {
		if piece[0] < utf8.RuneSelf {
			dst = append(dst, piece[0])
			piece = piece[1:]
			continue
		}
		r, w := utf8.DecodeRune(piece)
		switch {
		case r != utf8.RuneError || w > 1:
			dst = append(dst, piece[:w]...)
		case !utf8.FullRune(piece):
			d.n = copy(d.tail[:], piece)
			return dst
		default:
			w = subpart(piece)
			dst = append(dst, replacement...)
		}
		piece = piece[w:]
	}
	return dst
}

// settle resolves as much of the tail as one more byte allows.
func (d *Decoder) settle(dst []byte) []byte {
	for d.n > 0 {
		t := d.tail[:d.n]
		if !utf8.FullRune(t) {
			return dst
		}
		r, w := utf8.DecodeRune(t)
		if r == utf8.RuneError && w == 1 {
			w = subpart(t)
			dst = append(dst, replacement...)
		} else {
			dst = append(dst, t[:w]...)
		}
		d.n = copy(d.tail[:], t[w:])
	}
	return dst
}

// subpart is the length of the longest start of p that begins some valid
// character; p is none, and full.
func subpart(p []byte) int {
	for k := min(len(p)-1, utf8.UTFMax-1); k > 1; k-- {
		if !utf8.FullRune(p[:k]) {
			return k
		}
	}
	return 1
}

// Flush ends the text: an unfinished character becomes one U+FFFD.
func (d *Decoder) Flush(dst []byte) []byte {
	if d.n > 0 {
		dst = append(dst, replacement...)
		d.n = 0
	}
	return dst
}

// Held is the number of bytes held.
func (d *Decoder) Held() int { return d.n }
