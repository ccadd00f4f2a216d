package tokenizer

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestNormLong compares with x/text wherever that does not break up marks.
func TestNormLong(t *testing.T) {
	texts := []string{
		"", "abc", "e\u0301", "\u1100\u1161\u11a8 \uac00\u11a8", "a\u0323\u0302", "a\u0302\u0323", "\u1e69 \u1e9b\u0323 q\u0307\u0323",
		"\u212b\u037e\u2126", "\u0344x\u0958", "\u09c7\u09be\u0b47\u0300\u0b3e", "\u0301\u0301e\u0301", "ﬁ①Å",
	}
	for _, f := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		for _, s := range texts {
			if got, want := normLong(f, s), f.String(s); got != want {
				t.Errorf("form %d of %+q: got %+q, want %+q", f, s, got, want)
			}
		}
	}
	got := normForm(norm.NFC)("e"+strings.Repeat("\u0301", 100), false)
	if want := "\u00e9" + strings.Repeat("\u0301", 99); got != want {
		t.Errorf("long run: got %+q, want %+q", got, want)
	}
}
