package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

func TestStatusFault(t *testing.T) {
	for _, c := range []struct {
		status  int
		code    infer.Code
		class   infer.FailureClass
		unsent  bool
		noRetry bool
	}{
		{400, infer.CodeInvalid, infer.FailRequest, true, true},
		{401, infer.CodeUpstream, infer.FailAuth, true, true},
		{402, infer.CodeQuota, infer.FailQuota, true, true},
		{404, infer.CodeUpstream, infer.FailRequest, true, true},
		{413, infer.CodeTooLarge, infer.FailRequest, true, true},
		{418, infer.CodeUpstream, infer.FailRequest, true, true},
		{422, infer.CodeInvalid, infer.FailRequest, true, true},
		{429, infer.CodeRateLimited, infer.FailRateLimit, true, false},
		{500, infer.CodeUpstream, infer.FailServer, false, false},
		{502, infer.CodeUpstream, infer.FailServer, false, false},
		{503, infer.CodeOverloaded, infer.FailOverload, true, false},
		{504, infer.CodeTimeout, infer.FailTimeout, false, false},
		{529, infer.CodeOverloaded, infer.FailOverload, true, false},
		{302, infer.CodeUpstream, infer.FailMalformed, false, true},
	} {
		e := StatusFault(c.status, http.Header{"X-Request-Id": {"up-1"}, "Retry-After": {"3"}})
		f := e.Upstream
		if e.Code != c.code || f.Class != c.class || f.Unsent != c.unsent || e.NoRetry != c.noRetry || f.Status != c.status || f.RequestID != "up-1" || f.RetryAfter != 3*time.Second {
			t.Errorf("%d: got %+v %+v", c.status, e, f)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"2": 2 * time.Second, "1.5": 1500 * time.Millisecond, " 7 ": 7 * time.Second, "0": 0, "-3": 0, "soon": 0, "": 0, "NaN": 0,
		"1e30": maxWait, now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {in}}, now); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
	if got := RetryAfter(http.Header{"Retry-After-Ms": {"1400"}, "Retry-After": {"9"}}, now); got != 1400*time.Millisecond {
		t.Errorf("milliseconds: got %v", got)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"The reply may have at most 4096 tokens.":                    "The reply may have at most 4096 tokens",
		"Wrong key upkey-openai-7c1e.":                               "Wrong key …",
		"File /srv/model/worker_17.py, line 81 of it failed":         "File … line 81 of it failed",
		"see https://internal.example/x for more help":               "see … for more help",
		"<html><body>nginx</body></html>":                            "",
		"no route to 10.1.2.3:8080 from here today":                  "no route to … from here today",
		"unsupported value:\n'messages[0].content' is\tnot a string": "unsupported value: 'messages[0].content' is not a string",
		"token sk-abcdef": "",
		"bad token AKIAIOSFODNN7EXAMPLE1234abcd was seen": "bad token … was seen",
		"": "",
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Quote(strings.Repeat("word ", 1000)); len(got) > maxQuote+8 {
		t.Errorf("got %d bytes", len(got))
	}
}
