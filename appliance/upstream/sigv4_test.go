package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The vectors are AWS's published test suite for Signature Version 4: its inputs
// and the signatures that it expects. Left out are those about the normalizing
// of paths, which we never send, and about folded header lines, which HTTP/1.1
// forbids.
func TestSigV4Vectors(t *testing.T) {
	const all = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	const stsToken = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
	at, err := time.Parse(awsTime, "20150830T123600Z")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, path, query string
		header                    http.Header
		body, session, want       string
	}{
		{"get-header-key-duplicate", "GET", "/", "", http.Header{"My-Header1": {"value2", "value2", "value1"}}, "", "", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
		{"get-header-value-order", "GET", "/", "", http.Header{"My-Header1": {"value4", "value1", "value3", "value2"}}, "", "", "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
		{"get-header-value-trim", "GET", "/", "", http.Header{"My-Header1": {" value1"}, "My-Header2": {` "a   b   c"`}}, "", "", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		{"get-space", "GET", "/example space/", "", nil, "", "", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
		{"get-unreserved", "GET", "/" + all, "", nil, "", "", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		{"get-utf8", "GET", "/ሴ", "", nil, "", "", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		{"get-vanilla", "GET", "/", "", nil, "", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"get-vanilla-empty-query-key", "GET", "/", "Param1=value1", nil, "", "", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
		{"get-vanilla-query-order-encoded", "GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", nil, "", "", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		{"get-vanilla-query-order-key-case", "GET", "/", "Param2=value2&Param1=value1", nil, "", "", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"get-vanilla-query-unreserved", "GET", "/", all + "=" + all, nil, "", "", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
		{"get-vanilla-utf8-query", "GET", "/", "ሴ=bar", nil, "", "", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		{"get-vanilla-with-session-token", "GET", "/", "", nil, "", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
		{"post-header-key-sort", "POST", "/", "", http.Header{"My-Header1": {"value1"}}, "", "", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		{"post-header-value-case", "POST", "/", "", http.Header{"My-Header1": {"VALUE1"}}, "", "", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
		{"post-sts-header-before", "POST", "/", "", nil, "", stsToken, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
		{"post-vanilla", "POST", "/", "", nil, "", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"post-vanilla-query", "POST", "/", "Param1=value1", nil, "", "", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
		{"post-x-www-form-urlencoded", "POST", "/", "", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Content-Length": {"13"}, "X-Amz-Content-Sha256": {"9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"}}, "Param1=value1", "", "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
		{"post-x-www-form-urlencoded-parameters", "POST", "/", "", http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}, "Content-Length": {"13"}, "X-Amz-Content-Sha256": {"9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"}}, "Param1=value1", "", "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422"},
	} {
		h := c.header
		if h == nil {
			h = http.Header{}
		}
		req := &http.Request{Method: c.method, Host: "example.amazonaws.com", URL: &url.URL{Path: c.path, RawQuery: c.query}, Header: h}
		s := awsSigner{region: "us-east-1", service: "service"}
		s.signPath(req, c.path, []byte(c.body), awsKey{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", c.session}, at)
		if _, got, _ := strings.Cut(req.Header.Get("Authorization"), "Signature="); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
