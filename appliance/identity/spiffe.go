package identity

import "strings"

// maxSPIFFE is the longest SPIFFE ID, of the SPIFFE ID specification, section 2.3.
const maxSPIFFE = 2048

// spiffePath takes a SPIFFE ID of a trust domain apart. The path is empty for the
// domain itself, which no workload has for an id.
func spiffePath(id, domain string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(id, "spiffe://"+domain)
	if !ok || len(id) > maxSPIFFE || !strings.HasPrefix(rest, "/") {
		return "", false
	}
	for segment := range strings.SplitSeq(rest[1:], "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
		}) {
			return "", false
		}
	}
	return rest, true
}
