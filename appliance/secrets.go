package appliance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
)

// minSecret is the shortest value that is looked for: shorter ones stand in many
// places by chance.
const minSecret = 6

// secrets are values that must not be shown.
type secrets struct{ values [][]byte }

// add takes a value and how it looks inside JSON, a URL and base64.
func (s *secrets) add(value string) {
	if len(value) < minSecret {
		return
	}
	forms := []string{value, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))}
	if b, err := json.Marshal(value); err == nil {
		forms = append(forms, string(b[1:len(b)-1]))
	}
	for _, f := range forms {
		if !slices.ContainsFunc(s.values, func(v []byte) bool { return string(v) == f }) {
			s.values = append(s.values, []byte(f))
		}
	}
	// The longest first: one may be part of another.
	slices.SortStableFunc(s.values, func(a, b []byte) int { return len(b) - len(a) })
}

// shapes are secrets that are known by how they look.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`hk_[a-z2-7]{12}_[A-Za-z0-9]{20,}`),                               // our API keys
	regexp.MustCompile(`\b(?:sk|pk|rk|ghp|gho|xox[abp]|glpat|hf)[-_][A-Za-z0-9_-]{16,}`), // keys of providers
	regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`),                                  // AWS
	regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`),                                        // Google
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`),      // JWT
	regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*`),               // of an Authorization header
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`/setup#[A-Za-z0-9_-]{8,}`), // a link that signs in
	regexp.MustCompile(`://[^/\s:@"]+:[^/\s@"]+@`), // user and password of a URL
}

var maskText = []byte("[secret]")

// mask takes the secrets out of a text and gives their number.
func (s *secrets) mask(b []byte) ([]byte, int) {
	n := 0
	for _, v := range s.values {
		if k := bytes.Count(b, v); k > 0 {
			n += k
			b = bytes.ReplaceAll(b, v, maskText)
		}
	}
	for _, re := range shapes {
		b = re.ReplaceAllFunc(b, func([]byte) []byte { n++; return maskText })
	}
	return b, n
}
