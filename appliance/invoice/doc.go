// Package invoice reads what a provider says was used and charged (its exports
// of usage and cost, as CSV or JSON) and compares it with the ledger: request by
// request where the export names requests, else by day, in UTC, and model.
//
// An export is read once, line by line, within bounds; what is kept of it is
// sums. Formats differ in the names of their columns only: a Mapping says which
// column means what.
package invoice

import (
	"fmt"
	"strings"
	"time"

	"hearth/store"
)

// Bounds of what is read and kept.
const (
	maxRow      = 64 << 20 // bytes of one line or JSON document
	maxColumns  = 500
	maxGroups   = 200_000
	maxRequests = 500_000
	maxListed   = 200 // requests of each kind in a report
)

// Measure is something that both sides count.
type Measure string

// The measures, in the order of a report.
const (
	Requests       Measure = "requests"
	Input          Measure = "input" // the whole prompt
	Fresh          Measure = "fresh_input"
	Cached         Measure = "cached_input"
	CacheWrite     Measure = "cache_write"
	CacheWriteHour Measure = "cache_write_hour"
	Output         Measure = "output"
	Cost           Measure = "cost_nano" // nano-USD
)

// Measures lists all.
var Measures = []Measure{Requests, Input, Fresh, Cached, CacheWrite, CacheWriteHour, Output, Cost}

// Sums are amounts by measure; only what a side knows is there.
type Sums map[Measure]int64

// Line is one line of an export.
type Line struct {
	At        time.Time
	Model     string // as the provider writes it
	RequestID string
	Sums      Sums
}

// day is the UTC day of a time, as it is written in reports.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// add sums b up in s, and says whether all fits.
func (s Sums) add(b Sums) error {
	for m, n := range b {
		sum := s[m] + n
		if (sum > s[m]) != (n > 0) && n != 0 {
			return fmt.Errorf("the sum of %s is too large", m)
		}
		s[m] = sum
	}
	return nil
}

// ofRow is what the ledger has of a request.
func ofRow(r *store.Row) Sums {
	u := &r.Usage
	return Sums{Requests: 1, Input: u.Prompt(), Fresh: u.FreshInput, Cached: u.CachedInput, CacheWrite: u.CacheWrite,
		CacheWriteHour: u.CacheWriteHour, Output: u.Output, Cost: r.ChargeNano}
}

// bucket finds the measure that a provider's name of a kind of token stands
// for: "uncached_input_tokens", "USE1-Claude3-output-tokens"… False: none.
func bucket(name string) (Measure, bool) {
	n := strings.ToLower(name)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(n, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("uncached", "no_cache", "no-cache"):
		return Fresh, true
	case has("cache", "ephemeral") && has("1h", "1-h", "hour"):
		return CacheWriteHour, true
	case has("ephemeral") || has("cache") && has("write", "creat"):
		return CacheWrite, true
	case has("cache"):
		return Cached, true
	case has("output", "completion", "response", "candidates"):
		return Output, true
	case has("input", "prompt", "request"):
		return Fresh, true
	}
	return "", false
}
