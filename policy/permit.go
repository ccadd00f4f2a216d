package policy

import (
	"slices"

	"hearth/engine/infer"
	"hearth/store"
)

// scope is what one caller may ask for: what its tenant allows and its key does
// not exclude. A nil list allows all, an empty one nothing.
type scope struct {
	classes, regions []string
	effects          [2][]string // each allows all if it is empty
}

func scopeOf(t *tenant, k *store.Key) scope {
	return scope{classes: granted(both(t.dataClasses, k.DataClasses)), regions: granted(both(t.regions, k.Regions)), effects: [2][]string{t.effects, k.Effects}}
}

// granted reads a list that allows nothing as what it says.
func granted(list []string) []string {
	if len(list) == 1 && list[0] == NoGrant {
		return []string{}
	}
	return list
}

// both gives what two lists have in common, where an empty list has everything;
// nil: everything.
func both(a, b []string) []string {
	switch {
	case len(a) == 0 && len(b) == 0:
		return nil
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := []string{}
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// permit gives the route with the candidates that the caller may be served by:
//
//   - The route's effect must be among the caller's.
//   - Its requests hold data of the classes that both the caller and the route
//     list (of those that one lists, where the other lists none); there must be
//     one, and the candidate's upstream must accept all of them.
//   - The candidate must be in one of the caller's regions. The engine in this
//     box is in all of them.
func (s *scope) permit(r *Route) (*Route, error) {
	for _, allowed := range s.effects {
		if len(allowed) > 0 && !slices.Contains(allowed, r.effect()) {
			return nil, forbidden("effects", "this api key may not use a model whose requests are %s", r.effect())
		}
	}
	classes := s.classes
	if r.Config != nil && len(classes) > 0 {
		classes = both(classes, r.Config.DataClasses)
	}
	if classes != nil && len(classes) == 0 {
		return nil, forbidden("data_classes", "this api key may not use a model that is for data of other classes")
	}
	return s.servedBy(r, classes) // without classes of the caller the configuration was checked for the route's
}

func (s *scope) servedBy(r *Route, classes []string) (*Route, error) {
	rule := ""
	may := func(c *Candidate) bool {
		switch {
		case c.Upstream == nil:
			return true
		case s.regions != nil && !slices.Contains(s.regions, c.Upstream.Region):
			rule = "regions"
			return false
		case slices.ContainsFunc(classes, func(class string) bool { return !c.Upstream.takes(class) }):
			rule = "data_classes"
			return false
		}
		return true
	}
	first := 0
	for first < len(r.Candidates) && may(&r.Candidates[first]) {
		first++
	}
	shadows := slices.DeleteFunc(slices.Clone(r.Shadows), func(s *Shadow) bool { return !may(s.Candidate()) })
	if first == len(r.Candidates) && len(shadows) == len(r.Shadows) {
		return r, nil
	}
	own := *r
	own.Shadows = shadows
	own.Candidates = slices.Clone(r.Candidates[:first])
	for i := first; i < len(r.Candidates); i++ {
		if may(&r.Candidates[i]) {
			own.Candidates = append(own.Candidates, r.Candidates[i])
		}
	}
	if len(own.Candidates) == 0 {
		return nil, forbidden(rule, "nothing that serves this model may be used by this api key")
	}
	return &own, nil
}

// effect is the route's effect class. Our own engine, asked by its model's name,
// changes nothing.
func (r *Route) effect() string {
	if r.Config == nil {
		return ReadOnly
	}
	return r.Config.Effect
}

// forbidden is the refusal by a rule of authorization.
func forbidden(rule, format string, args ...any) *infer.Error {
	e := infer.Errorf(infer.CodeForbidden, format+" ("+rule+")", args...)
	e.NoRetry = true
	return e
}

// AllowTools says whether the caller may declare the tools that a request
// declares; CodeForbidden if not.
func (p *Policy) AllowTools(id *Identity, r *infer.Request) error {
	var k store.Key
	_, t, err := p.caller(id, &k)
	if err != nil {
		return err
	}
	if len(t.tools) == 0 && len(k.Tools) == 0 {
		return nil
	}
	for _, tool := range declaredTools(r) {
		if !allows(t.tools, tool.name) || !allows(k.Tools, tool.name) {
			e := forbidden("tools", "this api key may not declare this tool")
			e.Param = tool.path
			return e
		}
	}
	return nil
}
