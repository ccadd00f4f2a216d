package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hearth/policy"
)

// Retention is one [[retention]]: the authority to keep content. Without such
// a table nothing that a caller or a model says is kept anywhere.
type Retention struct {
	// Name is what the ledger and the audit trail call it.
	Name string `toml:"name"`
	// Tenants whose requests are kept, by name; "*": every tenant's. Never empty.
	Tenants []string `toml:"tenants"`
	// Routes are the names that callers write as the model; empty: all.
	Routes []string `toml:"routes"`
	// What is kept: "prompts", "answers", "tools" (arguments of calls, and their
	// results). Never empty.
	What []string `toml:"what"`
	// PII lists kinds of personal data that are redacted before anything is
	// kept, as of a [[rule]] of kind pii. Default all.
	PII []string `toml:"pii"`
	// Rules are names of [[rule]] tables of kind keyword, regex or pii whose
	// matches are redacted as well, whatever their action. Default none.
	Rules []string `toml:"rules"`
	// Sample is the part of the requests that is kept, above 0 to 1. Default 1.
	Sample float64 `toml:"sample"`
	// TTL is how long content is kept. Default 168h.
	TTL Duration `toml:"ttl"`
	// MaxItem bounds what is kept of one request, MaxBytes of all under this
	// table; the oldest makes room. Default 256KiB, 64MiB.
	MaxItem  Size `toml:"max_item"`
	MaxBytes Size `toml:"max_bytes"`
	// Readers are the roles that may read it: "owner", "operator", "auditor",
	// "tenant-admin" (of its own tenant). Default the owner.
	Readers []string `toml:"readers"`
}

// What a retention may keep.
const (
	KeepPrompts = "prompts"
	KeepAnswers = "answers"
	KeepTools   = "tools"
)

func (r *Retention) setDefaults() {
	*r = Retention{
		PII: policy.PersonalKinds(), Sample: 1, TTL: Duration(7 * 24 * time.Hour),
		MaxItem: 256 << 10, MaxBytes: 64 << 20, Readers: []string{"owner"},
	}
}

// NewRetention is the table with that name that keeps everything of some
// tenants, with every default.
func NewRetention(name string, tenants ...string) Retention {
	var r Retention
	r.setDefaults()
	r.Name, r.Tenants, r.Routes, r.Rules = name, tenants, []string{}, []string{}
	r.What = []string{KeepPrompts, KeepAnswers, KeepTools}
	return r
}

const maxRetentions = 64

func (c *Config) validateRetention(f *Faults) {
	if len(c.Retention) > maxRetentions {
		f.add("retention", "cannot have %d tables, wanted at most %d", len(c.Retention), maxRetentions)
		return
	}
	seen := map[string]bool{}
	for i := range c.Retention {
		r, at := &c.Retention[i], fmt.Sprintf("retention[%d]", i)
		if !plainName(r.Name) {
			f.add(at+".name", "got %.64q, wanted 1 to 64 letters, digits, '-', '_' or '.'", r.Name)
		} else if seen[r.Name] {
			f.add(at+".name", "cannot have %q twice", r.Name)
		}
		seen[r.Name] = true
		r.validate(at, c, f)
	}
}

func (r *Retention) validate(at string, c *Config, f *Faults) {
	if len(r.Tenants) == 0 {
		f.add(at+".tenants", `is empty, wanted names of tenants or "*" for every one: content is kept of nobody who is not named`)
	}
	for i, name := range r.Tenants {
		if name != "*" && !slices.ContainsFunc(c.Tenants, func(t policy.TenantConfig) bool { return t.Name == name }) {
			f.add(fmt.Sprintf("%s.tenants[%d]", at, i), "no tenant is called %.64q", name)
		}
	}
	if len(r.What) == 0 {
		f.add(at+".what", `is empty, wanted some of "prompts", "answers", "tools"`)
	}
	each := func(key string, list []string, want ...string) {
		for i, s := range list {
			f.oneOf(fmt.Sprintf("%s.%s[%d]", at, key, i), s, want...)
		}
	}
	each("what", r.What, KeepPrompts, KeepAnswers, KeepTools)
	each("pii", r.PII, policy.PersonalKinds()...)
	each("readers", r.Readers, "owner", "operator", "auditor", "tenant-admin")
	for i, name := range r.Rules {
		if !slices.ContainsFunc(c.Rules, func(x policy.RuleConfig) bool { return x.Name == name && x.FindsText() }) {
			f.add(fmt.Sprintf("%s.rules[%d]", at, i), "no rule of kind keyword, regex or pii is called %.64q", name)
		}
	}
	if !(r.Sample > 0 && r.Sample <= 1) {
		f.add(at+".sample", "got %v, wanted more than 0, at most 1", r.Sample)
	}
	f.span(at+".ttl", r.TTL, time.Minute, 10*365*24*time.Hour)
	if r.MaxItem < 1<<10 || r.MaxItem > 4<<20 {
		f.add(at+".max_item", "got %s, wanted 1KiB to 4MiB", r.MaxItem)
	}
	if r.MaxBytes < r.MaxItem || r.MaxBytes > 64<<30 {
		f.add(at+".max_bytes", "got %s, wanted max_item to 64GiB", r.MaxBytes)
	}
}

// plainName says whether s is a short word that may stand in a key or a path.
func plainName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '.' && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	})
}
