package upstream

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a provider may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long a provider asks to be left alone: retry-after-ms, else
// Retry-After in seconds or as a date (RFC 9110, section 10.2.3), else the
// latest reset of those of its limits that are used up. 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return bound(ms / 1000)
	}
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
			return bound(s)
		}
		if t, err := http.ParseTime(v); err == nil {
			return bound(t.Sub(now).Seconds())
		}
		if d, err := time.ParseDuration(v); err == nil {
			return bound(d.Seconds())
		}
	}
	var wait time.Duration
	for _, family := range resets {
		v := strings.TrimSpace(h.Get(family.reset))
		if v == "" {
			continue
		}
		if left, err := strconv.ParseFloat(h.Get(family.remaining), 64); err == nil && left != 0 {
			continue // this limit is not the one that was hit, or (-1) not known
		}
		wait = max(wait, reset(v, now))
	}
	return wait
}

// resets are the headers that tell when a limit is renewed, with those that tell
// what is left of it.
var resets = []struct{ reset, remaining string }{
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining"},
	{"Ratelimit-Reset", "Ratelimit-Remaining"},
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"},
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining"},
}

// reset reads a duration ("6m0s", "12ms"), a time (RFC 3339), seconds from now,
// or seconds or milliseconds since 1970.
func reset(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(v); err == nil {
		return bound(d.Seconds())
	}
	if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
		return bound(t.Sub(now).Seconds())
	}
	n, err := strconv.ParseFloat(v, 64)
	switch {
	case err != nil:
		return 0
	case n >= 1e12: // milliseconds since 1970
		return bound(n/1000 - float64(now.UnixMilli())/1000)
	case n >= 1e9: // seconds since 1970
		return bound(n - float64(now.UnixMilli())/1000)
	}
	return bound(n)
}

// bound makes seconds a duration of 0 to maxRetryAfter, rounded up to
// milliseconds.
func bound(s float64) time.Duration {
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	if s >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(math.Ceil(s*1000)) * time.Millisecond
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
