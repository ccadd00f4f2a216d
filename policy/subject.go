package policy

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// maxSubject bounds what of a subject stands in an id as it is.
const maxSubject = 100

var subjectEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Subject makes one segment of an id of whatever names a caller: itself where it
// is short and plain, else "~" and a digest of 160 bits, which nothing plain
// begins with. Two subjects have two segments.
func Subject(s string) string {
	if s != "" && len(s) <= maxSubject && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@:|+=", r))
	}) {
		return s
	}
	return digest(s)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "~" + subjectEncoding.EncodeToString(sum[:20])
}
