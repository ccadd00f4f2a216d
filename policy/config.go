package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are known also on a machine, or in a root, without zone files

	"hearth/store"
)

// Config is the policy part of the configuration file: the top-level keys and
// tables named by its tags. Embed it anonymously in the file's struct.
type Config struct {
	// Zone is the IANA time zone in which budget windows begin; default "UTC".
	Zone string `toml:"zone"`
	// PriceVersion names the price table; required where there are prices. It
	// is written into every ledger row.
	PriceVersion string `toml:"price_version"`
	// Auth bounds failed log-ins.
	Auth AuthConfig `toml:"auth"`
	// Tenants; if there are none, one called "default" without limits exists.
	Tenants []TenantConfig `toml:"tenant"`
	// Upstreams are the providers that routes may name.
	Upstreams []UpstreamConfig `toml:"upstream"`
	Routes    []RouteConfig    `toml:"route"`
	// Rules are what routes may have done to requests and answers.
	Rules  []RuleConfig  `toml:"rule"`
	Prices []PriceConfig `toml:"price"`
}

// AuthConfig bounds how often one address may fail to authenticate.
type AuthConfig struct {
	// FailureBurst failed attempts are answered with 401 (default 20); further
	// ones with 429 as long as more than FailuresPerMinute (default 10) come.
	FailureBurst      int `toml:"failure_burst"`
	FailuresPerMinute int `toml:"failures_per_minute"`
}

// TenantConfig is one [[tenant]].
type TenantConfig struct {
	Name     string `toml:"name"` // 1 to 64 of a-z A-Z 0-9 . _ -
	Disabled bool   `toml:"disabled"`
	// Models that the tenant may use, by the name callers write; "prefix*"
	// allowed; empty means all.
	Models []string `toml:"models"`
	// Tools that its requests may declare, by name; "prefix*" allowed. A tool
	// that the provider runs itself goes by its type. Empty: all.
	Tools []string `toml:"tools"`
	// DataClasses that its requests may hold, Regions in which they may be
	// served, and Effects ("read-only", "effectful") of the routes it may use;
	// empty: all. See Policy.Route.
	DataClasses []string `toml:"data_classes"`
	Regions     []string `toml:"regions"`
	Effects     []string `toml:"effects"`
	// Zone of its budgets; empty means the file's.
	Zone string `toml:"zone"`
	// Limits of the tenant as a whole, and of each of its keys that has none of
	// its own.
	Limits    store.Limits   `toml:"limits"`
	KeyLimits store.Limits   `toml:"key_limits"`
	Budgets   []BudgetConfig `toml:"budget"`
	// KeyBudgets apply to each of its keys that has none of its own.
	KeyBudgets []BudgetConfig `toml:"key_budget"`
}

// BudgetConfig is a cap in a calendar window: [[tenant.budget]].
type BudgetConfig struct {
	Period store.Period `toml:"period"` // "day", "month", "total"
	CapUSD NanoUSD      `toml:"cap_usd"`
}

// RouteConfig is one [[route]]: a name that callers may ask for, and what
// serves it. Local models that no route names are served under their own name.
type RouteConfig struct {
	Model   string   `toml:"model"`   // the public name
	Aliases []string `toml:"aliases"` // more public names
	// Contract names the contract that all candidates are declared to keep;
	// empty: the route's name.
	Contract string `toml:"contract"`
	Class    string `toml:"class"` // request class for scheduling; empty: the default
	// Effect is "read-only" (repetition is safe) or "effectful" (default): then a
	// request whose outcome is unknown is never sent again.
	Effect string `toml:"effect"`
	// Candidates, in order of preference. None: the local model named Model.
	Candidates []CandidateConfig `toml:"candidate"`
	// Split says how a candidate is chosen: "ordered" (default), "weighted",
	// "least-outstanding", "prefix".
	Split string `toml:"split"`
	// OnLoss is "reject" (default) or "report": what happens where a field that
	// changes the meaning has no counterpart at a candidate.
	OnLoss string `toml:"on_loss"`
	// Qualification is "off" (default) or "enforce": a candidate is asked only
	// while evidence of it is recorded and in date.
	Qualification string `toml:"qualification"`
	// Deadline bounds a whole request, from admission to the last token;
	// default 0: none beyond the server's.
	Deadline Duration    `toml:"deadline"`
	Retry    RetryConfig `toml:"retry"`
	Queue    QueueConfig `toml:"queue"`
	// MaxOutputTokens bounds what a caller may ask for; OverMax says what
	// happens beyond: "reject" (default) or "clamp". 0: no bound.
	MaxOutputTokens int    `toml:"max_output_tokens"`
	OverMax         string `toml:"over_max"`
	// DataClasses that requests of this route may hold; a candidate's upstream
	// must accept all of them. Regions in which it may be served; empty: any. The
	// engine in this box is in every region and takes every class.
	DataClasses []string `toml:"data_classes"`
	Regions     []string `toml:"regions"`
	// Rules names the [[rule]] tables that are applied, in order.
	Rules []string `toml:"rules"`
	// Normalize lists what is done to the text of a request before its rules see
	// it: "newlines" (CR LF and CR become LF), "trim" (white space at both ends of
	// a turn goes), "nfc" (Unicode normalization form C). Empty: nothing, the text
	// is served as it came.
	Normalize []string `toml:"normalize"`
	// Shadows are deployments that are sent copies of its requests.
	Shadows []ShadowConfig `toml:"shadow" json:",omitempty"`
}

// PriceConfig is one [[price]], in dollars per million tokens.
type PriceConfig struct {
	// Model is a deployment ("upstream/model"), a route's public name, or a
	// model's name at its backend; the first of these that is found holds.
	Model             string   `toml:"model"`
	InputUSDPerM      NanoUSD  `toml:"input_usd_per_m"`
	OutputUSDPerM     NanoUSD  `toml:"output_usd_per_m"`
	CachedUSDPerM     *NanoUSD `toml:"cached_usd_per_m"`      // default: as input
	CacheWriteUSDPerM *NanoUSD `toml:"cache_write_usd_per_m"` // default: as input
	// CacheWriteHourUSDPerM is for what is written to be kept for an hour.
	CacheWriteHourUSDPerM *NanoUSD `toml:"cache_write_hour_usd_per_m"` // default: as cache_write
}

// Duration is a time span written as text with units ("90s", "5m").
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration reads, not negative.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("cannot read %.32q as a time span: want a number with unit, such as \"90s\"", b)
	}
	*d = Duration(v)
	return nil
}

// String is the text that UnmarshalText reads.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Bounds of what a configuration may hold, so that a snapshot stays small.
const (
	maxTenants    = 10_000
	maxRoutes     = 10_000
	maxPrices     = 10_000
	maxBudgets    = 8 // of one tenant or key: one for each period, and room
	maxNameBytes  = 200
	maxModelList  = 256
	maxLimit      = 1_000_000_000
	maxCapUSD     = 1_000_000
	maxPriceUSD   = 1_000_000
	defaultTenant = "default"
)

// Local is the name of the engine in this box among upstreams.
const Local = "local"

// Fault is one thing wrong with a configuration.
type Fault struct {
	Path    string `json:"path"` // key path, as tenant[2].budget[0].cap_usd
	Message string `json:"message"`
}

func (f Fault) Error() string { return f.Path + ": " + f.Message }

// Defaults fills what was left out.
func (c *Config) Defaults() {
	if c.Zone == "" {
		c.Zone = "UTC"
	}
	if c.Auth.FailureBurst == 0 {
		c.Auth.FailureBurst = 20
	}
	if c.Auth.FailuresPerMinute == 0 {
		c.Auth.FailuresPerMinute = 10
	}
	if len(c.Tenants) == 0 {
		c.Tenants = []TenantConfig{{Name: defaultTenant}}
	}
	for i := range c.Upstreams {
		c.Upstreams[i].defaults()
	}
	for i := range c.Routes {
		c.Routes[i].defaults()
	}
	for i := range c.Rules {
		c.Rules[i].defaults()
	}
	for i := range c.Prices {
		p := &c.Prices[i]
		if p.CachedUSDPerM == nil {
			p.CachedUSDPerM = &p.InputUSDPerM
		}
		if p.CacheWriteUSDPerM == nil {
			p.CacheWriteUSDPerM = &p.InputUSDPerM
		}
		if p.CacheWriteHourUSDPerM == nil {
			p.CacheWriteHourUSDPerM = p.CacheWriteUSDPerM
		}
	}
}

// Validate lists all faults at once, in the order of the file's keys. Call
// Defaults first.
func (c *Config) Validate() []Fault {
	v := &validator{}
	c.check(v)
	return v.faults
}

func (c *Config) check(v *validator) {
	v.zone("zone", c.Zone)
	if len(c.Prices) > 0 && c.PriceVersion == "" {
		v.fault("price_version", "must be set where there are prices: it tells which table a ledger row was charged by")
	}
	v.name("price_version", c.PriceVersion, true)
	v.limit("auth.failure_burst", c.Auth.FailureBurst, 1)
	v.limit("auth.failures_per_minute", c.Auth.FailuresPerMinute, 1)
	v.tenants(c.Tenants)
	v.upstreams(c.Upstreams)
	v.rules(c.Rules)
	v.routes(c)
	v.prices(c.Prices)
}

type validator struct {
	faults []Fault
	seen   func(Constraint) // nil: nobody wants to know
}

func (v *validator) fault(path, format string, args ...any) {
	v.faults = append(v.faults, Fault{path, fmt.Sprintf(format, args...)})
}

func (v *validator) zone(path, name string) {
	if name == "Local" {
		v.fault(path, "cannot use the machine's own zone: name one, such as \"Europe/Berlin\"")
	} else if _, err := time.LoadLocation(name); err != nil {
		v.fault(path, "cannot use time zone %.64q: %v", name, err)
	}
}

// name accepts printable text without spaces.
func (v *validator) name(path, s string, empty bool) {
	if s == "" && empty {
		return
	}
	if s == "" || len(s) > maxNameBytes || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		v.fault(path, "cannot use %.64q: want 1 to %d printable ASCII characters without spaces", s, maxNameBytes)
	}
}

func (v *validator) limit(path string, n, least int) {
	v.noteRange(path, least, maxLimit)
	if n < least || n > maxLimit {
		v.fault(path, "cannot use %d: want %d to %d", n, least, maxLimit)
	}
}

func (v *validator) tenants(ts []TenantConfig) {
	if len(ts) > maxTenants {
		v.fault("tenant", "cannot have %d tenants: want at most %d", len(ts), maxTenants)
		return
	}
	seen := map[string]bool{}
	for i := range ts {
		t, path := &ts[i], fmt.Sprintf("tenant[%d]", i)
		if t.Name == "" || len(t.Name) > 64 || strings.ContainsFunc(t.Name, notNameRune) {
			v.fault(path+".name", "cannot use %.64q: want 1 to 64 of a-z, A-Z, 0-9, dot, underscore and dash", t.Name)
		} else if seen[t.Name] {
			v.fault(path+".name", "cannot have tenant %q twice", t.Name)
		}
		seen[t.Name] = true
		v.patterns(path+".models", t.Models)
		v.patterns(path+".tools", t.Tools)
		v.labels(path+".data_classes", t.DataClasses)
		v.labels(path+".regions", t.Regions)
		for j, e := range t.Effects {
			v.oneOf(fmt.Sprintf("%s.effects[%d]", path, j), e, ReadOnly, Effectful)
		}
		if t.Zone != "" {
			v.zone(path+".zone", t.Zone)
		}
		v.limits(path+".limits", t.Limits)
		v.limits(path+".key_limits", t.KeyLimits)
		v.budgets(path+".budget", t.Budgets)
		v.budgets(path+".key_budget", t.KeyBudgets)
	}
}

func notNameRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}

func (v *validator) patterns(path string, ps []string) {
	if len(ps) > maxModelList {
		v.fault(path, "cannot list %d names: want at most %d", len(ps), maxModelList)
		return
	}
	for i, p := range ps {
		at := fmt.Sprintf("%s[%d]", path, i)
		v.name(at, p, false)
		if strings.Contains(strings.TrimSuffix(p, "*"), "*") {
			v.fault(at, "cannot use %.64q: a star may only stand at the end", p)
		}
	}
}

func (v *validator) limits(path string, l store.Limits) {
	v.limit(path+".requests_per_minute", l.RequestsPerMinute, 0)
	v.limit(path+".tokens_per_minute", l.TokensPerMinute, 0)
	v.limit(path+".concurrency", l.Concurrency, 0)
}

func (v *validator) budgets(path string, bs []BudgetConfig) {
	if len(bs) > maxBudgets {
		v.fault(path, "cannot have %d budgets: want at most %d", len(bs), maxBudgets)
		return
	}
	seen := map[store.Period]bool{}
	for i, b := range bs {
		at := fmt.Sprintf("%s[%d]", path, i)
		v.note(Constraint{Path: at + ".period", Choices: periods})
		switch {
		case b.Period != store.Day && b.Period != store.Month && b.Period != store.Total:
			v.fault(at+".period", "cannot use %.16q: want \"day\", \"month\" or \"total\"", b.Period)
		case seen[b.Period]:
			v.fault(at+".period", "cannot have two budgets of period %q", b.Period)
		}
		seen[b.Period] = true
		if b.CapUSD < 0 || b.CapUSD > maxCapUSD*nanoPerUSD {
			v.fault(at+".cap_usd", "cannot use %v: want 0 to %d dollars", b.CapUSD, maxCapUSD)
		}
	}
}

func (v *validator) prices(ps []PriceConfig) {
	if len(ps) > maxPrices {
		v.fault("price", "cannot have %d prices: want at most %d", len(ps), maxPrices)
		return
	}
	var seen []string
	for i := range ps {
		p, path := &ps[i], fmt.Sprintf("price[%d]", i)
		v.name(path+".model", p.Model, false)
		if slices.Contains(seen, p.Model) {
			v.fault(path+".model", "cannot price %.64q twice", p.Model)
		}
		seen = append(seen, p.Model)
		for _, f := range []struct {
			key string
			n   *NanoUSD
		}{
			{"input_usd_per_m", &p.InputUSDPerM}, {"output_usd_per_m", &p.OutputUSDPerM},
			{"cached_usd_per_m", p.CachedUSDPerM}, {"cache_write_usd_per_m", p.CacheWriteUSDPerM},
			{"cache_write_hour_usd_per_m", p.CacheWriteHourUSDPerM},
		} {
			if f.n != nil && (*f.n < 0 || *f.n > maxPriceUSD*nanoPerUSD) {
				v.fault(path+"."+f.key, "cannot use %v: want 0 to %d dollars for a million tokens", *f.n, maxPriceUSD)
			}
		}
	}
}
