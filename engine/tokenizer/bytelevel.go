package tokenizer

// GPT-2's byte-level vocabularies write each byte as one printable character:
// those of !..~, ¡..¬ and ®..ÿ as themselves, the others as U+0100 onwards.

// byteRune is the character that stands for each byte, runeByte its inverse.
var byteRune, runeByte = func() (out [256]rune, in map[rune]byte) {
	in = make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if r < '!' || r > '~' && r < 0xa1 || r == 0xad {
			r = next
			next++
		}
		out[b] = r
		in[r] = byte(b)
	}
	return out, in
}()

// runeByteSmall is runeByte as an array: -1 for no byte. All are below U+0144.
var runeByteSmall = func() (t [0x144]int16) {
	for i := range t {
		t[i] = -1
	}
	for r, b := range runeByte {
		t[r] = int16(b)
	}
	return t
}()

// appendBytes appends the bytes that a byte-level token stands for; ok is
// false if it has another character, and then it stands for itself.
func appendBytes(dst []byte, token string) (out []byte, ok bool) {
	n := len(dst)
	for _, r := range token {
		if uint32(r) >= uint32(len(runeByteSmall)) || runeByteSmall[r] < 0 {
			return append(dst[:n], token...), false
		}
		dst = append(dst, byte(runeByteSmall[r]))
	}
	return dst, true
}

// byteName is the token that stands for one byte.
func byteName(b byte) string { return string(byteRune[b]) }

// appendByteName appends the byte-level writing of s.
func appendByteName(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		dst = append(dst, string(byteRune[s[i]])...)
	}
	return dst
}
