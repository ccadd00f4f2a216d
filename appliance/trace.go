package appliance

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// The W3C Trace Context header traceparent is
// version-traceid-parentid-flags in lower-case hex (§3.2).

// newSpan continues the trace of an incoming traceparent, or begins one, with a
// span of our own. The sampled flag is passed on; a trace that begins here is
// not sampled, since we export none.
func newSpan(parent string) string {
	trace, flags := traceID(parent), "00"
	if trace == "" {
		trace = randomHex(16)
	} else {
		flags = parent[len(parent)-2:]
		if len(parent) > 55 { // a later version may have more fields
			flags = parent[53:55]
		}
	}
	return "00-" + trace + "-" + randomHex(8) + "-" + flags
}

// traceID is the trace id of a traceparent, empty if it is malformed (§3.2.2.3:
// all zeroes is invalid).
func traceID(parent string) string {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' {
		return ""
	}
	id := parent[3:35]
	if strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}
