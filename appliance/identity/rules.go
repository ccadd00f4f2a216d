package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hearth/appliance/config"
	"hearth/policy"
)

// rules say whose a caller is and what it may ask for.
type rules struct {
	conf    *config.Identity
	require *condition
	grants  []grant
}

type grant struct {
	match *condition
	conf  *config.IdentityGrant
}

// condition holds where of every name one value meets one of its patterns.
type condition struct {
	names    []string
	patterns map[string][]*regexp.Regexp
}

func newRules(conf *config.Identity) (*rules, error) {
	r := &rules{conf: conf}
	var err error
	if r.require, err = newCondition(conf.Require); err != nil {
		return nil, err
	}
	for i := range conf.Grants {
		c, err := newCondition(conf.Grants[i].Match)
		if err != nil {
			return nil, err
		}
		r.grants = append(r.grants, grant{c, &conf.Grants[i]})
	}
	return r, nil
}

func newCondition(list []string) (*condition, error) {
	c := &condition{patterns: map[string][]*regexp.Regexp{}}
	for _, m := range list {
		name, pattern, ok := strings.Cut(m, "=")
		if !ok {
			return nil, fmt.Errorf("cannot read condition %.64q: wanted NAME=PATTERN", m)
		}
		re, err := compile(name, pattern)
		if err != nil {
			return nil, err
		}
		if c.patterns[name] == nil {
			c.names = append(c.names, name)
		}
		c.patterns[name] = append(c.patterns[name], re)
	}
	return c, nil
}

// compile turns stars into an expression that takes linear time.
func compile(name, pattern string) (*regexp.Regexp, error) {
	one := ".*"
	switch name {
	case "dns":
		pattern, one = strings.ToLower(pattern), `[^.]*`
	case "uri", "spiffe":
		one = `[^/]*`
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for pattern != "" {
		switch {
		case strings.HasPrefix(pattern, "**"):
			b.WriteString(".*")
			pattern = pattern[2:]
		case pattern[0] == '*':
			b.WriteString(one)
			pattern = pattern[1:]
		default:
			n := strings.IndexByte(pattern, '*')
			if n < 0 {
				n = len(pattern)
			}
			b.WriteString(regexp.QuoteMeta(pattern[:n]))
			pattern = pattern[n:]
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("cannot use the pattern of %.64q: %w", name, err)
	}
	return re, nil
}

func (c *condition) holds(f facts) bool {
	for _, name := range c.names {
		met := slices.ContainsFunc(f.values(name), func(v string) bool {
			return slices.ContainsFunc(c.patterns[name], func(p *regexp.Regexp) bool { return p.MatchString(v) })
		})
		if !met {
			return false
		}
	}
	return true
}

// apply says whose a caller is and what it may ask for; false: it is nobody here.
func (r *rules) apply(f facts) (tenant string, g policy.Grants, ok bool) {
	if !r.require.holds(f) {
		return "", g, false
	}
	own := &config.IdentityGrant{}
	if len(r.grants) > 0 {
		i := slices.IndexFunc(r.grants, func(g grant) bool { return g.match.holds(f) })
		if i < 0 {
			return "", g, false
		}
		own = r.grants[i].conf
	}
	if tenant = own.Tenant; tenant == "" {
		if tenant, ok = r.tenant(f); !ok {
			return "", g, false
		}
	}
	c := r.conf
	g.Models = narrow(c.Models, own.Models, granted(f, c.ModelsClaim, "models"))
	g.Tools = narrow(c.Tools, own.Tools, granted(f, c.ToolsClaim, "tools"))
	g.DataClasses = narrow(c.DataClasses, own.DataClasses, granted(f, c.DataClassesClaim, "data_classes"))
	g.Regions = narrow(c.Regions, own.Regions, granted(f, c.RegionsClaim, "regions"))
	g.Effects = narrow(c.Effects, own.Effects, granted(f, c.EffectsClaim, "effects"))
	return tenant, g, true
}

// tenant is what the identity says, or its claim, which must hold exactly one.
func (r *rules) tenant(f facts) (string, bool) {
	if r.conf.TenantClaim == "" {
		return r.conf.Tenant, r.conf.Tenant != ""
	}
	values := f.values(r.conf.TenantClaim)
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	if len(r.conf.Tenants) == 0 {
		return values[0], len(values[0]) <= 64
	}
	t, ok := r.conf.Tenants[values[0]]
	return t, ok && t != ""
}

var nothing = []string{policy.NoGrant}

// maxGranted bounds the names that one claim may list.
const maxGranted = 256

// granted reads the names that a claim lists; nil: it is not asked.
func granted(f facts, claim, key string) []string {
	if claim == "" {
		return nil
	}
	var out []string
	for _, v := range f.values(claim) {
		for _, word := range strings.Fields(v) {
			if claim == "scope" || claim == "scp" {
				var ours bool
				if word, ours = strings.CutPrefix(word, key+":"); !ours {
					continue
				}
			}
			if word != "" && len(word) <= 200 && !strings.Contains(word, policy.NoGrant) {
				out = append(out, word)
			}
		}
	}
	if len(out) == 0 || len(out) > maxGranted {
		return nothing
	}
	return out
}

// narrow gives what all lists allow; an empty one allows everything.
func narrow(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		switch {
		case len(l) == 0:
		case out == nil:
			out = l
		default:
			if out = common(out, l); len(out) == 0 {
				return nothing
			}
		}
	}
	return out
}

// common gives the names and prefixes that both lists allow.
func common(a, b []string) []string {
	out := []string{}
	for _, pair := range [2][2][]string{{a, b}, {b, a}} {
		for _, p := range pair[0] {
			if covers(pair[1], p) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	slices.Sort(out)
	return out
}

// covers says whether a list allows everything that a name or prefix* stands for.
func covers(list []string, p string) bool {
	return slices.ContainsFunc(list, func(q string) bool {
		if prefix, star := strings.CutSuffix(q, "*"); star {
			return strings.HasPrefix(strings.TrimSuffix(p, "*"), prefix)
		}
		return q == p
	})
}
