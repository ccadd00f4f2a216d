package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// revision is a digest of all that decides how a route serves: its own table, its
// upstreams with their references to secrets, its rules and prices. It is the
// SHA-256 of their canonical JSON, sorted by key, shortened to 64 bits.
func (s *Snapshot) revision(r *Route) string {
	of := struct {
		Name         string
		Route        *RouteConfig
		Upstreams    []*UpstreamConfig
		Rules        []RuleConfig
		Prices       []any
		PriceVersion string
	}{Name: r.Name, Route: r.Config, PriceVersion: s.config.PriceVersion}
	if r.Config != nil { // who gets copies decides nothing of how callers are served
		own := *r.Config
		own.Shadows = nil
		of.Route = &own
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		of.Upstreams = append(of.Upstreams, c.Upstream)
		of.Prices = append(of.Prices, c.Price, c.Priced)
	}
	if r.Config != nil {
		of.Rules = s.config.rulesOf(r.Config)
	}
	plain, err := json.Marshal(of)
	if err != nil {
		panic("BUG: a route cannot be written as JSON: " + err.Error())
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		panic("BUG: a route's JSON cannot be read: " + err.Error())
	}
	sorted, _ := json.Marshal(tree) // maps are written in the order of their keys
	sum := sha256.Sum256(sorted)
	return hex.EncodeToString(sum[:8])
}

// rulesOf gives the rules that a route names, in its order.
func (c *Config) rulesOf(r *RouteConfig) []RuleConfig {
	var out []RuleConfig
	for _, name := range r.Rules {
		for i := range c.Rules {
			if c.Rules[i].Name == name {
				out = append(out, c.Rules[i])
			}
		}
	}
	return out
}
