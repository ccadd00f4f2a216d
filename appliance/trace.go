package appliance

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// The W3C Trace Context header traceparent is
// version-traceid-parentid-flags in lower-case hex (§3.2).

// newSpan continues the trace of an incoming traceparent, or begins one, with a
// span of our own. The sampled flag is passed on; of the traces that begin here
// ratio of them is sampled.
func newSpan(parent string, ratio float64) string {
	trace, flags := traceID(parent), "00"
	if trace == "" {
		if trace = randomHex(16); ratioSamples(trace, ratio) {
			flags = "01"
		}
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

// sampled reads the flag of a traceparent (§3.2.2.5.1).
func sampled(trace string) bool {
	return len(trace) >= 55 && strings.IndexByte("13579bdf", trace[54]) >= 0
}

// spanIDOf is the span of a traceparent; zero if it is malformed.
func spanIDOf(parent string) (id [8]byte) {
	if traceID(parent) != "" {
		if n, err := hex.Decode(id[:], []byte(parent[36:52])); n != 8 || err != nil {
			return [8]byte{}
		}
	}
	return id
}

// ratioSamples decides by the last seven bytes of a trace id, which are random,
// so that all who use one ratio decide alike (W3C Trace Context Level 2 §5.1,
// TraceIdRatioBased of OpenTelemetry).
func ratioSamples(trace string, ratio float64) bool {
	if ratio <= 0 {
		return false
	}
	var b [7]byte
	if n, err := hex.Decode(b[:], []byte(trace[18:])); n != 7 || err != nil {
		return false
	}
	v := uint64(0)
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return float64(v) < ratio*(1<<56)
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}
