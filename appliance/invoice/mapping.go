package invoice

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Mapping says which column of an export means what. Columns of JSON exports
// are paths with dots.
type Mapping struct {
	Name string `toml:"name"`
	// Kinds of providers whose attempts the export is compared with; empty: all
	// but the local engine.
	Kinds []string `toml:"kinds"`

	Time      string `toml:"time"`
	Model     string `toml:"model"`
	RequestID string `toml:"request_id"` // the provider's id of a request

	Requests       string `toml:"requests"`
	Input          string `toml:"input"` // the whole prompt
	Fresh          string `toml:"fresh_input"`
	Cached         string `toml:"cached_input"`
	CacheWrite     string `toml:"cache_write"`
	CacheWriteHour string `toml:"cache_write_hour"`
	Output         string `toml:"output"`
	// TokenType and Tokens are of exports that have a line for each kind of
	// token.
	TokenType  string `toml:"token_type"`
	Tokens     string `toml:"tokens"`
	TokensUnit string `toml:"tokens_unit"` // a column such as "1K tokens"

	Cost     string `toml:"cost"`
	CostUnit string `toml:"cost_unit"` // "usd" (default), "cents" or "nano"
	Currency string `toml:"currency"`

	// Only lets pass lines whose column Only contains OnlyValue, in any case.
	Only      string `toml:"only"`
	OnlyValue string `toml:"only_value"`

	// Models gives the name in the ledger for a name in the export.
	Models map[string]string `toml:"models"`

	tidy func(model string) string
}

// Known are the exports that are recognized by their columns, the most telling
// first.
var Known = []Mapping{
	{Name: "anthropic-usage-csv", Kinds: []string{"anthropic"}, Time: "usage_date_utc", Model: "model_version",
		Fresh: "usage_input_tokens_no_cache", CacheWrite: "usage_input_tokens_cache_write_5m",
		CacheWriteHour: "usage_input_tokens_cache_write_1h", Cached: "usage_input_tokens_cache_read", Output: "usage_output_tokens"},
	{Name: "anthropic-cost-csv", Kinds: []string{"anthropic"}, Time: "usage_date_utc", Model: "model", Cost: "cost_usd"},
	{Name: "anthropic-usage-api", Kinds: []string{"anthropic"}, Time: "starting_at", Model: "model", Fresh: "uncached_input_tokens",
		CacheWrite: "cache_creation.ephemeral_5m_input_tokens", CacheWriteHour: "cache_creation.ephemeral_1h_input_tokens",
		Cached: "cache_read_input_tokens", Output: "output_tokens"},
	{Name: "anthropic-cost-api", Kinds: []string{"anthropic"}, Time: "starting_at", Model: "model", Cost: "amount", CostUnit: "cents", Currency: "currency"},
	{Name: "openai-usage-csv", Kinds: []string{"openai"}, Time: "start_time", Model: "model", Requests: "num_model_requests",
		Input: "input_tokens", Cached: "input_cached_tokens", Output: "output_tokens"},
	{Name: "openai-cost-csv", Kinds: []string{"openai"}, Time: "start_time", Model: "line_item", Cost: "amount_value", Currency: "amount_currency",
		tidy: beforeComma},
	{Name: "openai-cost-api", Kinds: []string{"openai"}, Time: "start_time", Model: "line_item", Cost: "amount.value", Currency: "amount.currency",
		tidy: beforeComma},
	{Name: "aws-cur", Kinds: []string{"bedrock"}, Time: "lineItem/UsageStartDate", Model: "lineItem/UsageType", TokenType: "lineItem/UsageType",
		Tokens: "lineItem/UsageAmount", TokensUnit: "pricing/unit", Cost: "lineItem/UnblendedCost", Currency: "lineItem/CurrencyCode",
		Only: "lineItem/ProductCode", OnlyValue: "bedrock", tidy: usageTypeModel},
	{Name: "aws-cur-2", Kinds: []string{"bedrock"}, Time: "line_item_usage_start_date", Model: "line_item_usage_type", TokenType: "line_item_usage_type",
		Tokens: "line_item_usage_amount", TokensUnit: "pricing_unit", Cost: "line_item_unblended_cost", Currency: "line_item_currency_code",
		Only: "line_item_product_code", OnlyValue: "bedrock", tidy: usageTypeModel},
	{Name: "google-billing", Kinds: []string{"gemini", "vertex"}, Time: "usage_start_time", Model: "sku.description", TokenType: "sku.description",
		Tokens: "usage.amount", TokensUnit: "usage.unit", Cost: "cost", Currency: "currency", tidy: skuModel},
	{Name: "hearth", Time: "started", Model: "upstream_models", RequestID: "upstream_request_ids", Fresh: "fresh_input", Cached: "cached_input",
		CacheWrite: "cache_write", CacheWriteHour: "cache_write_hour", Output: "output", Cost: "charge_nano_usd", CostUnit: "nano"},
	{Name: "generic", Time: "date", Model: "model", Input: "input_tokens", Output: "output_tokens", Cost: "cost"},
}

// ReadMapping reads a mapping that an operator wrote, as TOML.
func ReadMapping(data []byte) (*Mapping, error) {
	m := &Mapping{Name: "custom"}
	meta, err := toml.Decode(string(data), m)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mapping: %w", err)
	}
	if u := meta.Undecoded(); len(u) > 0 {
		return nil, fmt.Errorf("cannot read the mapping: unknown key %s", u[0])
	}
	return m, m.check()
}

func (m *Mapping) check() error {
	var errs []error
	if m.Time == "" {
		errs = append(errs, errors.New("the mapping names no column for time"))
	}
	if m.Model == "" && m.RequestID == "" {
		errs = append(errs, errors.New("the mapping names no column for model or request_id"))
	}
	if (m.TokenType == "") != (m.Tokens == "") {
		errs = append(errs, errors.New("the mapping needs both token_type and tokens, or neither"))
	}
	if _, ok := costUnits[m.CostUnit]; !ok {
		errs = append(errs, fmt.Errorf("cost_unit is %.20q, wanted usd, cents or nano", m.CostUnit))
	}
	if len(m.measured()) == 0 {
		errs = append(errs, errors.New("the mapping names nothing to compare"))
	}
	return errors.Join(errs...)
}

// costUnits is nano-USD in one of the unit.
var costUnits = map[string]int64{"": 1e9, "usd": 1e9, "cents": 1e7, "nano": 1}

// direct gives the columns that are measures by themselves.
func (m *Mapping) direct() map[Measure]string {
	all := map[Measure]string{Requests: m.Requests, Input: m.Input, Fresh: m.Fresh, Cached: m.Cached,
		CacheWrite: m.CacheWrite, CacheWriteHour: m.CacheWriteHour, Output: m.Output}
	maps.DeleteFunc(all, func(_ Measure, c string) bool { return c == "" })
	return all
}

// measured lists what the export tells.
func (m *Mapping) measured() []Measure {
	has := m.direct()
	if m.Tokens != "" {
		for _, t := range []Measure{Fresh, Cached, CacheWrite, CacheWriteHour, Output} {
			has[t] = m.Tokens
		}
	}
	if m.Cost != "" {
		has[Cost] = m.Cost
	}
	return slices.DeleteFunc(slices.Clone(Measures), func(x Measure) bool { _, ok := has[x]; return !ok })
}

// columns lists the names that an export must have.
func (m *Mapping) columns() []string {
	out := []string{m.Time}
	for _, c := range []string{m.Model, m.RequestID, m.Tokens, m.Cost} {
		if c != "" {
			out = append(out, c)
		}
	}
	for _, c := range m.direct() {
		out = append(out, c)
	}
	return out
}

// Detect finds the mapping of an export by the columns that it has.
func Detect(columns []string) (*Mapping, error) {
	for i := range Known {
		if !slices.ContainsFunc(Known[i].columns(), func(c string) bool { return !slices.Contains(columns, c) }) {
			return &Known[i], nil
		}
	}
	return nil, fmt.Errorf("cannot tell what export this is by its columns %.300q: give a mapping", columns)
}

func beforeComma(s string) string {
	s, _, _ = strings.Cut(s, ", ")
	return s
}

// usageTypeModel takes region and kind of token off a usage type:
// "USE1-Claude3.5Sonnet-input-tokens".
func usageTypeModel(s string) string {
	if region, rest, ok := strings.Cut(s, "-"); ok && region == strings.ToUpper(region) {
		s = rest
	}
	for _, cut := range []string{"-input", "-output", "-cache", "-InputToken", "-OutputToken", "-Cache"} {
		s, _, _ = strings.Cut(s, cut)
	}
	return s
}

// skuModel takes the kind of token off a description: "Gemini 2.5 Pro Text
// Input - Predictions".
func skuModel(s string) string {
	for _, cut := range []string{" - ", " Text ", " Image ", " Audio ", " Video ", " Input", " Output", " Cach"} {
		s, _, _ = strings.Cut(s, cut)
	}
	return s
}
