package policy

import (
	"time"

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
	Routes  []RouteConfig  `toml:"route"`
	Prices  []PriceConfig  `toml:"price"`
}

// AuthConfig bounds how often one address may fail to authenticate.
type AuthConfig struct {
	// FailureBurst failed attempts are answered at once (default 20); further
	// ones are refused with 429 at more than FailuresPerMinute (default 10).
	FailureBurst      int `toml:"failure_burst"`
	FailuresPerMinute int `toml:"failures_per_minute"`
}

// TenantConfig is one [[tenant]].
type TenantConfig struct {
	Name     string `toml:"name"`
	Disabled bool   `toml:"disabled"`
	// Models that the tenant may use, by the name callers write; "prefix*"
	// allowed; empty means all.
	Models []string `toml:"models"`
	// Zone of its budgets; empty means the file's.
	Zone string `toml:"zone"`
	// Limits of the tenant as a whole, and of each of its keys that has no own.
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
	Model    string   `toml:"model"`    // the public name
	Aliases  []string `toml:"aliases"`  // more public names
	Backend  string   `toml:"backend"`  // empty: the local engine
	Upstream string   `toml:"upstream"` // the model's name at the backend; empty: Model
	Class    string   `toml:"class"`    // request class for scheduling; empty: the default
	// Deadline bounds a whole request, from admission to the last token;
	// default 0: none beyond the server's.
	Deadline Duration `toml:"deadline"`
}

// PriceConfig is one [[price]], in dollars per million tokens.
type PriceConfig struct {
	// Model is the name at the backend, or a route's public name, which wins.
	Model             string   `toml:"model"`
	InputUSDPerM      NanoUSD  `toml:"input_usd_per_m"`
	OutputUSDPerM     NanoUSD  `toml:"output_usd_per_m"`
	CachedUSDPerM     *NanoUSD `toml:"cached_usd_per_m"`      // default: as input
	CacheWriteUSDPerM *NanoUSD `toml:"cache_write_usd_per_m"` // default: as input
}

// Duration is a time span written as text with units ("90s", "5m").
type Duration time.Duration

// Fault is one thing wrong with a configuration.
type Fault struct {
	Path    string `json:"path"` // key path, as tenant[2].budget[0].cap_usd
	Message string `json:"message"`
}

// Defaults fills what was left out.
func (c *Config) Defaults() {}

// Validate lists all faults at once, in the order of the file's keys. Call
// Defaults first.
func (c *Config) Validate() []Fault { return nil }
