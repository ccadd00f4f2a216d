package appliance

import (
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/policy"
)

// target is one candidate of a route as one request sees it.
type target struct {
	candidate *policy.Candidate
	backend   infer.Backend
	up        *liveUpstream  // nil for a local model
	model     string         // its name there
	info      infer.Model    // of a local model
	asked     *infer.Request // as it goes here, but for the model's name
	losses    []infer.Loss
	size      infer.Count
	err       error // why it cannot be asked; nil: it can
	release   func()
	served    *servedMetrics
	sent      *infer.Request // the last that request wrote for an upstream, and out of what
	sentOf    *infer.Request
	contract  string // see call.contract
	requestID string // the provider's own, from its answer
}

// target takes candidate i of the route for one request.
func (a *Appliance) target(c *policy.Candidate) *target {
	t := &target{candidate: c, model: c.Model, release: func() {}}
	if c.Backend == policy.Local {
		b, release, err := a.models.acquire(c.Model)
		if err != nil {
			t.err = err
			return t
		}
		t.backend, t.release = b, release
		t.info = a.models.get(c.Model).describe()
		t.served = a.telemetry.servedBy(servedLabels{c.Model, t.info.Device})
		return t
	}
	up, release, err := a.upstreams.acquire(c.Backend)
	if err != nil {
		t.err = err
		return t
	}
	t.up, t.backend, t.release = up, up.Backend(c.Model, c.MaxOutputTokens), release
	t.info = infer.Model{Name: c.Model}
	t.served = a.telemetry.servedBy(servedLabels{c.Model, c.Backend})
	return t
}

func (t *target) local() bool { return t.up == nil }

// provider is the kind of the upstream.
func (t *target) provider() string {
	if t.local() {
		return policy.Local
	}
	return t.up.config.Kind
}

// request writes r for the target.
func (t *target) request(r *infer.Request) *infer.Request {
	if t.local() {
		own := localRequest(r, t.info)
		own.Model = t.model
		return own
	}
	if t.sentOf != r {
		own := *r
		own.Model = t.model
		t.sent, t.sentOf = &own, r
	}
	return t.sent
}

// weigh finds what the request loses here, refuses what the route does not let
// pass, and counts its tokens.
func (t *target) weigh(c *call) {
	t.asked = c.request
	t.losses = t.lost(t.asked)
	if c.a.config().Media.Fetch && slices.ContainsFunc(t.losses, func(l infer.Loss) bool { return l.Feature == infer.FeatureImageURL }) {
		if t.asked, t.err = c.inlined(); t.err != nil {
			return
		}
		t.losses = t.lost(t.asked)
	}
	if t.err = refuse(t.losses, t.local(), c.reports()); t.err != nil {
		return
	}
	t.size, t.err = t.backend.Count(c.ctx, t.request(t.asked))
}

// lost is what r loses here.
func (t *target) lost(r *infer.Request) []infer.Loss {
	if t.local() {
		return infer.Losses(r.Uses, localClassOf(t.info))
	}
	return t.up.Losses(t.request(r), t.candidate.MaxOutputTokens)
}

// refuse gives the error for the first loss that changes what is asked for. A
// route that reports losses lets them pass, but for those that change how many
// answers there are: no report makes up for one that never comes.
func refuse(losses []infer.Loss, local, report bool) error {
	barred := func(l infer.Loss) bool {
		counted := l.Feature == infer.FeatureChoices || l.Feature == infer.FeatureManyPrompts
		return l.Refusable() && (!report || counted)
	}
	for i, l := range losses {
		if !barred(l) {
			continue
		}
		var e *infer.Error
		switch {
		case l.Feature == infer.FeatureUnknown && local:
			e = infer.Invalid(l.Path, "unknown field %q", l.Path)
		case l.Feature == infer.FeatureUnknown:
			e = infer.Invalid(l.Path, "unknown field %q: what serves this model speaks another dialect, where it would be lost", l.Path)
		case local:
			e = infer.Unsupported(l.Path, "%s is not offered by this model", l.Path)
		default:
			e = infer.Unsupported(l.Path, "%s has no counterpart at what serves this model and would be lost", l.Path)
		}
		if local && l.Why != "" {
			e.Message = l.Why // the decoder knows better words
		}
		if more := alsoLost(l.Path, losses[i+1:], barred); more != "" && !local {
			e.Message += "; so would " + more
		}
		e.NoRetry, e.Losses = true, losses
		return e
	}
	return nil
}

// passedOver notes which candidates could not be asked and why: the field that
// would be lost, or else the code of the error.
func passedOver(targets []*target) []string {
	var out []string
	for _, t := range targets {
		if t.err == nil {
			continue
		}
		e := infer.AsError(t.err)
		why := string(e.Code)
		if i := slices.IndexFunc(e.Losses, func(l infer.Loss) bool { return l.Path == e.Param }); i >= 0 {
			why = e.Param + "=" + string(e.Losses[i].Class)
		}
		out = append(out, t.candidate.Backend+"/"+t.model+"=passed: "+why)
	}
	return out
}

// maxNamed bounds how many losses an error names after the first.
const maxNamed = 8

// alsoLost names the further losses that are not let pass: who has to change a
// request wants to hear of everything at once.
func alsoLost(first string, losses []infer.Loss, barred func(infer.Loss) bool) string {
	var paths []string
	for _, l := range losses {
		if barred(l) && l.Path != first && len(paths) < maxNamed && !slices.Contains(paths, l.Path) {
			paths = append(paths, l.Path)
		}
	}
	return strings.Join(paths, ", ")
}

// promptEstimate is what the prompt is thought to cost until the target says so.
// An upstream's count is a bound, most often of one byte a token; text has about
// four.
func (t *target) promptEstimate() infer.Usage {
	if t.local() {
		return infer.Usage{PromptTokens: t.size.PromptTokens}
	}
	bytes := float64(t.size.PromptTokens) * max(t.up.config.BytesPerToken, 1)
	return infer.Usage{PromptTokens: int(bytes/4) + 1, Estimated: true}
}
