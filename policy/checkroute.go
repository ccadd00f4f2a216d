package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
)

// Effect classes of a route.
const (
	ReadOnly  = "read-only" // repetition is safe
	Effectful = "effectful" // a request whose outcome is unknown is never sent again
)

// Splits: how a candidate is chosen among those that may be asked.
const (
	SplitOrdered  = "ordered"
	SplitWeighted = "weighted"
	SplitLeast    = "least-outstanding"
	SplitPrefix   = "prefix"
)

// Whether candidates need evidence.
const (
	QualificationOff     = "off"
	QualificationEnforce = "enforce"
)

// Bounds of [[route]] tables.
const (
	maxCandidates   = 64
	maxAttempts     = 10
	maxWeight       = 1000
	maxQueueDepth   = 10_000
	maxOutputTokens = 10_000_000
	maxRouteRules   = 32

	defaultMaxOutput = 4096
)

// retryable are the failure classes after which another attempt may be made. A
// fault of the request itself is none of them: it would fail again.
var retryable = []string{string(infer.FailConnect), string(infer.FailRateLimit), string(infer.FailQuota), string(infer.FailOverload),
	string(infer.FailServer), string(infer.FailTimeout), string(infer.FailLost), string(infer.FailMalformed), string(infer.FailAuth)}

// retriedByDefault are those of them that tend to pass.
var retriedByDefault = []string{string(infer.FailConnect), string(infer.FailRateLimit), string(infer.FailOverload),
	string(infer.FailServer), string(infer.FailTimeout), string(infer.FailLost)}

func (r *RouteConfig) defaults() {
	if len(r.Candidates) == 0 {
		r.Candidates = []CandidateConfig{{Upstream: Local}}
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Model == "" {
			c.Model = r.Model
		}
		if c.Weight == 0 {
			c.Weight = 1
		}
		if c.MaxOutputTokens == 0 && c.Upstream != Local {
			c.MaxOutputTokens = defaultMaxOutput
		}
		if c.QuotaDomain == "" {
			c.QuotaDomain = c.Upstream + "/" + r.Model
		}
	}
	for i := range r.Shadows {
		r.Shadows[i].defaults(r.Model)
	}
	setText(&r.Contract, r.Model)
	setText(&r.Effect, Effectful)
	setText(&r.Split, SplitOrdered)
	setText(&r.OnLoss, "reject")
	setText(&r.Qualification, QualificationOff)
	setText(&r.OverMax, "reject")
	if r.Retry.Attempts == 0 {
		r.Retry.Attempts = 3
	}
	if r.Retry.On == nil {
		r.Retry.On = slices.Clone(retriedByDefault)
	}
	setDuration(&r.Retry.Backoff, 250*time.Millisecond)
	setDuration(&r.Retry.MaxBackoff, 8*time.Second)
}

func setText(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

func (v *validator) routes(c *Config) {
	if len(c.Routes) > maxRoutes {
		v.fault("route", "cannot have %d routes: want at most %d", len(c.Routes), maxRoutes)
		return
	}
	taken := map[string]bool{}
	upstreams := map[string]*UpstreamConfig{}
	for i := range c.Upstreams {
		upstreams[c.Upstreams[i].Name] = &c.Upstreams[i]
	}
	for i := range c.Routes {
		r, path := &c.Routes[i], fmt.Sprintf("route[%d]", i)
		v.public(path+".model", r.Model, taken)
		if len(r.Aliases) > maxModelList {
			v.fault(path+".aliases", "cannot have %d aliases: want at most %d", len(r.Aliases), maxModelList)
			continue
		}
		for j, a := range r.Aliases {
			v.public(fmt.Sprintf("%s.aliases[%d]", path, j), a, taken)
		}
		v.route(path, r, c.Rules)
		v.candidates(path+".candidate", r, upstreams)
		v.shadows(path+".shadow", r, upstreams, c.Tenants)
	}
}

// public checks a name that callers may write and that no other route has.
func (v *validator) public(path, name string, taken map[string]bool) {
	v.name(path, name, false)
	if strings.Contains(name, "*") {
		v.fault(path, "cannot use %.64q: a public name has no star", name)
	}
	if taken[name] {
		v.fault(path, "cannot route %.64q twice", name)
	}
	taken[name] = true
}

func (v *validator) route(path string, r *RouteConfig, rules []RuleConfig) {
	v.name(path+".contract", r.Contract, true)
	v.name(path+".class", r.Class, true)
	v.oneOf(path+".effect", r.Effect, ReadOnly, Effectful)
	v.oneOf(path+".split", r.Split, SplitOrdered, SplitWeighted, SplitLeast, SplitPrefix)
	v.oneOf(path+".on_loss", r.OnLoss, "reject", "report")
	v.oneOf(path+".qualification", r.Qualification, QualificationOff, QualificationEnforce)
	v.span(path+".deadline", r.Deadline, time.Second, 24*time.Hour, true)
	v.between(path+".max_output_tokens", r.MaxOutputTokens, 0, maxOutputTokens)
	v.oneOf(path+".over_max", r.OverMax, "reject", "clamp")
	v.labels(path+".data_classes", r.DataClasses)
	v.labels(path+".regions", r.Regions)
	v.retry(path+".retry", &r.Retry)
	v.between(path+".queue.depth", r.Queue.Depth, 0, maxQueueDepth)
	v.span(path+".queue.wait", r.Queue.Wait, time.Millisecond, 24*time.Hour, true)
	for i, n := range r.Normalize {
		v.oneOf(fmt.Sprintf("%s.normalize[%d]", path, i), n, normalNewlines, normalTrim, normalNFC)
	}
	if len(r.Rules) > maxRouteRules {
		v.fault(path+".rules", "cannot apply %d rules: want at most %d", len(r.Rules), maxRouteRules)
		return
	}
	for i, name := range r.Rules {
		at := fmt.Sprintf("%s.rules[%d]", path, i)
		if !slices.ContainsFunc(rules, func(c RuleConfig) bool { return c.Name == name }) {
			v.fault(at, "cannot find rule %.64q: want the name of a [[rule]]", name)
		} else if slices.Index(r.Rules, name) < i {
			v.fault(at, "cannot apply rule %.64q twice", name)
		}
	}
}

func (v *validator) retry(path string, r *RetryConfig) {
	v.between(path+".attempts", r.Attempts, 1, maxAttempts)
	for i, class := range r.On {
		at := fmt.Sprintf("%s.on[%d]", path, i)
		if class == string(infer.FailRequest) {
			v.fault(at, "cannot repeat after %q: a request that is at fault itself fails again", class)
			continue
		}
		v.oneOf(at, class, retryable...)
	}
	v.span(path+".backoff", r.Backoff, time.Millisecond, time.Minute, false)
	v.span(path+".max_backoff", r.MaxBackoff, time.Millisecond, 10*time.Minute, false)
	if r.MaxBackoff < r.Backoff {
		v.fault(path+".max_backoff", "cannot be shorter than backoff: got %v and %v", time.Duration(r.MaxBackoff), time.Duration(r.Backoff))
	}
}

func (v *validator) candidates(path string, r *RouteConfig, upstreams map[string]*UpstreamConfig) {
	if len(r.Candidates) > maxCandidates {
		v.fault(path, "cannot have %d candidates: want at most %d", len(r.Candidates), maxCandidates)
		return
	}
	seen := map[string]bool{}
	for i := range r.Candidates {
		c, at := &r.Candidates[i], fmt.Sprintf("%s[%d]", path, i)
		v.name(at+".model", c.Model, false)
		v.between(at+".weight", c.Weight, 1, maxWeight)
		v.between(at+".max_concurrent", c.MaxConcurrent, 0, maxConcurrency)
		v.between(at+".max_output_tokens", c.MaxOutputTokens, 0, maxOutputTokens)
		v.name(at+".quota_domain", c.QuotaDomain, false)
		if key := c.Upstream + "/" + c.Model; seen[key] {
			v.fault(at, "cannot have candidate %.128q twice in one route", key)
		} else {
			seen[key] = true
		}
		v.goesTo(at+".upstream", c.Upstream, r, upstreams)
	}
}

// goesTo checks that the data of a route may go to an upstream.
func (v *validator) goesTo(at, name string, r *RouteConfig, upstreams map[string]*UpstreamConfig) {
	if name == Local {
		return
	}
	u := upstreams[name]
	if u == nil {
		v.fault(at, "cannot find upstream %.64q: want the name of an [[upstream]], or %q for the engine in this box", name, Local)
		return
	}
	for _, class := range r.DataClasses {
		if !u.takes(class) {
			v.fault(at, "cannot send data of class %.64q to upstream %q: its data_classes do not list it", class, u.Name)
		}
	}
	if len(u.DataClasses) > 0 && len(r.DataClasses) == 0 {
		v.fault(at, "cannot send any data to upstream %q, which takes certain classes only: want data_classes on the route", u.Name)
	}
	if !u.in(r.Regions) {
		v.fault(at, "cannot serve this route at upstream %q: its region %.64q is not among the route's", u.Name, u.Region)
	}
}

func (v *validator) shadows(path string, r *RouteConfig, upstreams map[string]*UpstreamConfig, tenants []TenantConfig) {
	if len(r.Shadows) > maxShadows {
		v.fault(path, "cannot have %d shadows: want at most %d", len(r.Shadows), maxShadows)
		return
	}
	seen := map[string]bool{}
	for i := range r.Shadows {
		s, at := &r.Shadows[i], fmt.Sprintf("%s[%d]", path, i)
		if r.Effect != ReadOnly {
			v.fault(at, "cannot copy requests that are %s: want effect = %q on the route", r.Effect, ReadOnly)
		}
		v.name(at+".model", s.Model, false)
		v.note(Constraint{Path: at + ".share", Low: 0, High: 1})
		if !(s.Share >= 0 && s.Share <= 1) {
			v.fault(at+".share", "cannot use %v: want 0 to 1, such as 0.05 for one request in twenty", s.Share)
		}
		v.between(at+".max_concurrent", s.MaxConcurrent, 1, maxShadowConcurrent)
		v.between(at+".max_output_tokens", s.MaxOutputTokens, 1, maxOutputTokens)
		v.span(at+".deadline", s.Deadline, time.Second, 24*time.Hour, false)
		if !slices.ContainsFunc(tenants, func(t TenantConfig) bool { return t.Name == s.Tenant }) {
			v.fault(at+".tenant", "cannot find tenant %.64q: want the name of the [[tenant]] that is charged for the copies", s.Tenant)
		}
		if key := s.Upstream + "/" + s.Model; seen[key] {
			v.fault(at, "cannot have shadow %.128q twice in one route", key)
		} else {
			seen[key] = true
		}
		v.goesTo(at+".upstream", s.Upstream, r, upstreams)
	}
}

// takes says whether data of a class may go there.
func (u *UpstreamConfig) takes(class string) bool {
	return len(u.DataClasses) == 0 || slices.Contains(u.DataClasses, class)
}

// in says whether it is in one of the regions; an empty list has all.
func (u *UpstreamConfig) in(regions []string) bool {
	return len(regions) == 0 || slices.Contains(regions, u.Region)
}
