package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// AWS Signature Version 4, by the IAM User Guide, "Create a signed AWS API
// request".
const (
	awsAlgorithm = "AWS4-HMAC-SHA256"
	awsTime      = "20060102T150405Z"
)

// awsKey is what AWS signs with.
type awsKey struct {
	id      string
	secret  string
	session string // of a temporary key
}

// awsSigner signs for one service in one region.
type awsSigner struct {
	region, service string

	mu   sync.Mutex
	day  string // of derived
	from awsKey
	key  []byte // the derived signing key, good for a day
}

// sign adds Authorization, X-Amz-Date and, with a temporary key,
// X-Amz-Security-Token.
func (s *awsSigner) sign(req *http.Request, body []byte, key awsKey, now time.Time) {
	s.signPath(req, req.URL.EscapedPath(), body, key, now)
}

func (s *awsSigner) signPath(req *http.Request, path string, body []byte, key awsKey, now time.Time) {
	stamp := now.UTC().Format(awsTime)
	req.Header["X-Amz-Date"] = []string{stamp}
	if key.session != "" {
		req.Header["X-Amz-Security-Token"] = []string{key.session}
	}
	sum := sha256.Sum256(body)
	text, names := canonical(req, path, hex.EncodeToString(sum[:]))
	day := stamp[:8]
	scope := day + "/" + s.region + "/" + s.service + "/aws4_request"
	digest := sha256.Sum256([]byte(text))
	mac := hmacSum(s.derived(key, day), awsAlgorithm+"\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(digest[:]))
	req.Header["Authorization"] = []string{
		awsAlgorithm + " Credential=" + key.id + "/" + scope + ", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(mac),
	}
}

// derived is the signing key of a day.
func (s *awsSigner) derived(key awsKey, day string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.day != day || s.from != key {
		k := hmacSum([]byte("AWS4"+key.secret), day)
		k = hmacSum(k, s.region)
		k = hmacSum(k, s.service)
		s.key, s.day, s.from = hmacSum(k, "aws4_request"), day, key
	}
	return s.key
}

func hmacSum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// unsigned are the headers that proxies on the way may change or that are set
// later; AWS's SDKs leave most of them out too.
var unsigned = []string{
	"authorization", "user-agent", "x-amzn-trace-id", "expect", "transfer-encoding", "accept", "accept-encoding", "connection", "traceparent", "tracestate",
}

// canonical makes the canonical request and the list of signed headers. path is
// that on the wire; it is encoded once more, as everywhere but at S3.
func canonical(req *http.Request, path, bodySum string) (text, names string) {
	var b strings.Builder
	b.WriteString(req.Method)
	b.WriteByte('\n')
	if path == "" {
		path = "/"
	}
	b.WriteString(awsEscape(path, false))
	b.WriteByte('\n')
	b.WriteString(canonicalQuery(req.URL.RawQuery))
	b.WriteByte('\n')

	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	lower := map[string]string{"host": host}
	list := []string{"host"}
	for name, values := range req.Header {
		n := strings.ToLower(name)
		if slices.Contains(unsigned, n) {
			continue
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		lower[n] = strings.Join(trimmed, ",")
		list = append(list, n)
	}
	slices.Sort(list)
	for _, n := range list {
		b.WriteString(n)
		b.WriteByte(':')
		b.WriteString(lower[n])
		b.WriteByte('\n')
	}
	names = strings.Join(list, ";")
	b.WriteByte('\n')
	b.WriteString(names)
	b.WriteByte('\n')
	b.WriteString(bodySum)
	return b.String(), names
}

// canonicalQuery sorts the parameters by name, then value, each encoded in AWS's
// way.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var pairs []string
	for _, p := range strings.Split(raw, "&") {
		k, v, _ := strings.Cut(p, "=")
		pairs = append(pairs, requote(k)+"="+requote(v))
	}
	slices.SortFunc(pairs, func(a, b string) int {
		ak, av, _ := strings.Cut(a, "=")
		bk, bv, _ := strings.Cut(b, "=")
		if c := strings.Compare(ak, bk); c != 0 {
			return c
		}
		return strings.Compare(av, bv)
	})
	return strings.Join(pairs, "&")
}

func requote(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		s = plain
	}
	return awsEscape(s, true)
}

// awsEscape encodes all but RFC 3986's unreserved characters, and the slash
// where it is a separator.
func awsEscape(s string, slash bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && !slash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
