package invoice

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"hearth/store"
)

// Options of a comparison.
type Options struct {
	// Provider is the deployment or the kind of provider that the export is of;
	// empty: the mapping's kinds.
	Provider string
	// Tolerance is the part of an amount by which the sides may differ, and
	// ToleranceNano how much their costs may differ in a group.
	Tolerance     float64
	ToleranceNano int64
	// Since and Until bound what is compared; zero: what the export covers.
	Since, Until time.Time
}

// Book compares an export with the ledger. First the whole export is put in,
// then the rows of the days that it covers.
type Book struct {
	opt      Options
	mapping  *Mapping
	measures []Measure
	groups   map[groupKey]*group
	theirs   map[string]*request // by the provider's id
	first    string              // day of the export
	last     string

	candidates []Candidate
	hidden     int // candidates beyond those listed
	unnamed    int // rows without a provider's id, where the export has ids
	unlisted   []string
	unlistedN  int
	matched    int
	differing  []RequestDifference
	differingN int
}

type groupKey struct{ day, model string }

type group struct{ ours, theirs Sums }

// request is what the export has of one request.
type request struct {
	key  groupKey
	sums Sums
	seen bool // the ledger has it too
}

// NewBook begins a comparison.
func NewBook(m *Mapping, o Options) *Book {
	return &Book{opt: o, mapping: m, measures: m.measured(), groups: map[groupKey]*group{}, theirs: map[string]*request{}}
}

func (b *Book) group(k groupKey) (*group, error) {
	g := b.groups[k]
	if g == nil {
		if len(b.groups) >= maxGroups {
			return nil, fmt.Errorf("cannot compare more than %d pairs of day and model at once: compare a shorter time", maxGroups)
		}
		g = &group{}
		b.groups[k] = g
	}
	return g, nil
}

// covers says whether the options leave a time in.
func (b *Book) covers(t time.Time) bool {
	return (b.opt.Since.IsZero() || !t.Before(b.opt.Since)) && (b.opt.Until.IsZero() || t.Before(b.opt.Until))
}

// Line puts a line of the export in.
func (b *Book) Line(l Line) error {
	if !b.covers(l.At) {
		return nil
	}
	k := groupKey{day(l.At), b.model(l.Model)}
	if b.first == "" || k.day < b.first {
		b.first = k.day
	}
	b.last = max(b.last, k.day)
	g, err := b.group(k)
	if err != nil {
		return err
	}
	if g.theirs == nil {
		g.theirs = Sums{}
	}
	if err := g.theirs.add(l.Sums); err != nil || l.RequestID == "" {
		return err
	}
	r := b.theirs[l.RequestID]
	if r == nil {
		if len(b.theirs) >= maxRequests {
			return fmt.Errorf("cannot compare more than %d requests at once: compare a shorter time", maxRequests)
		}
		r = &request{key: k, sums: Sums{}}
		b.theirs[l.RequestID] = r
	}
	return r.sums.add(l.Sums)
}

// Span is the time whose rows are to be put in: the days of the export, with a
// day on either side, since requests and their lines may lie on two sides of
// midnight. Both are zero if the export is empty.
func (b *Book) Span() (since, until time.Time) {
	if b.first == "" {
		return
	}
	since, _ = time.Parse(time.DateOnly, b.first)
	until, _ = time.Parse(time.DateOnly, b.last)
	return since.AddDate(0, 0, -1), until.AddDate(0, 0, 2)
}

var dated = regexp.MustCompile(`[-@](20[0-9]{2}-[0-9]{2}-[0-9]{2}|20[0-9]{6})(-v[0-9]+(:[0-9]+)?)?$`)

// model brings the names of both sides together: the mapping's own list first;
// then case and the date of a snapshot do not count.
func (b *Book) model(name string) string {
	name = strings.TrimSpace(name)
	if to, ok := b.mapping.Models[name]; ok {
		name = to
	}
	if name = dated.ReplaceAllString(strings.ToLower(name), ""); name == "" {
		return "(none)"
	}
	return name
}

// of says whether an attempt was made at the provider that the export is of.
func (b *Book) of(a *store.Attempt) bool {
	switch {
	case a.Backend == "local" || !a.Sent:
		return false
	case b.opt.Provider != "":
		return a.Backend == b.opt.Provider || a.Provider == b.opt.Provider
	case len(b.mapping.Kinds) == 0:
		return true
	}
	return slices.Contains(b.mapping.Kinds, a.Provider)
}

// served finds the attempt that a row's tokens and charge are of: the last one
// that was sent and did not fail, else the last one sent.
func served(r *store.Row) *store.Attempt {
	var last *store.Attempt
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Sent && (last == nil || a.Failure == "" || last.Failure != "") {
			last = a
		}
	}
	return last
}

// Row puts a row of the ledger in.
func (b *Book) Row(r *store.Row) error {
	a := served(r)
	if a == nil || !b.of(a) || !b.covers(at(r, a)) {
		return nil
	}
	unknown := r.Outcome == store.OutcomeAmbiguous || r.Outcome == store.OutcomeUnknown
	theirs := b.theirs[a.UpstreamRequestID]
	k := groupKey{day(at(r, a)), b.model(a.Model)}
	if theirs != nil {
		theirs.seen = true
		k.day = theirs.key.day // one request is of one day
	}
	if k.day < b.first || k.day > b.last {
		return nil
	}
	if unknown {
		b.candidate(r, a, k, theirs)
		return nil
	}
	if r.ChargeNano == 0 && r.Usage == (store.Usage{}) {
		return nil // it came to nothing
	}
	if len(b.theirs) > 0 {
		b.request(r, a, theirs)
	}
	g, err := b.group(k)
	if err != nil {
		return err
	}
	if g.ours == nil {
		g.ours = Sums{}
	}
	return g.ours.add(ofRow(r))
}

func at(r *store.Row, a *store.Attempt) time.Time {
	if a.Started.IsZero() {
		return r.Started
	}
	return a.Started
}

// request compares one request with what the export has under its id.
func (b *Book) request(r *store.Row, a *store.Attempt, theirs *request) {
	switch {
	case a.UpstreamRequestID == "":
		b.unnamed++
	case theirs == nil:
		if b.unlistedN++; len(b.unlisted) < maxListed {
			b.unlisted = append(b.unlisted, r.RequestID)
		}
	default:
		b.matched++
		if d := b.compare(ofRow(r), theirs.sums); len(d) > 0 {
			if b.differingN++; len(b.differing) < maxListed {
				b.differing = append(b.differing, RequestDifference{r.RequestID, a.UpstreamRequestID, d})
			}
		}
	}
}

func (b *Book) candidate(r *store.Row, a *store.Attempt, k groupKey, theirs *request) {
	if len(b.candidates) >= maxListed {
		b.hidden++
		return
	}
	c := Candidate{RequestID: r.RequestID, UpstreamRequestID: a.UpstreamRequestID, Day: k.day, Model: k.model,
		Outcome: r.Outcome, ChargeNano: r.ChargeNano}
	if theirs != nil {
		if cost, ok := theirs.sums[Cost]; ok {
			c.TheirsNano = &cost
		}
		c.Listed = true
	}
	b.candidates = append(b.candidates, c)
}

// compare gives the measures in which two sides differ by more than is
// tolerated.
func (b *Book) compare(ours, theirs Sums) []Difference {
	var out []Difference
	for _, m := range b.measures {
		if m == Requests && theirs[m] == 0 {
			continue // lines for single requests do not count them
		}
		d := ours[m] - theirs[m]
		allowed := b.opt.Tolerance * float64(max(ours[m], theirs[m]))
		if m == Cost {
			allowed = max(allowed, float64(b.opt.ToleranceNano))
		}
		if d != 0 && float64(max(d, -d)) > allowed {
			out = append(out, Difference{m, ours[m], theirs[m], d})
		}
	}
	return out
}

// Report gives the result.
func (b *Book) Report(x *Export) *Report {
	r := &Report{Format: b.mapping.Name, Provider: b.opt.Provider, Lines: x.Lines, Skipped: x.Skipped, FirstDay: b.first, LastDay: b.last,
		Measures: b.measures, Groups: []Group{}, Candidates: b.candidates, MoreCandidates: b.hidden}
	if r.Provider == "" {
		r.Provider = strings.Join(b.mapping.Kinds, "/")
	}
	if r.Provider == "" {
		r.Provider = "all"
	}
	keys := slices.SortedFunc(maps.Keys(b.groups), func(x, y groupKey) int {
		return cmp.Or(strings.Compare(x.day, y.day), strings.Compare(x.model, y.model))
	})
	for _, k := range keys {
		g := b.groups[k]
		out := Group{Provider: r.Provider, Day: k.day, Model: k.model, Ours: g.ours, Theirs: g.theirs, State: Same}
		out.Differences = b.compare(g.ours, g.theirs)
		switch {
		case len(out.Differences) == 0:
			r.Same++
		case g.ours == nil:
			out.State = MissingHere
		case g.theirs == nil:
			out.State = MissingThere
		default:
			out.State = Differs
		}
		r.Groups = append(r.Groups, out)
	}
	if len(b.theirs) > 0 {
		r.Requests = b.requests()
	}
	return r
}

func (b *Book) requests() *RequestReport {
	out := &RequestReport{Matched: b.matched, Differ: b.differing, DifferCount: b.differingN, MissingThere: b.unlisted,
		MissingThereCount: b.unlistedN, Unnamed: b.unnamed}
	for _, id := range slices.Sorted(maps.Keys(b.theirs)) {
		if b.theirs[id].seen {
			continue
		}
		if out.MissingHereCount++; len(out.MissingHere) < maxListed {
			out.MissingHere = append(out.MissingHere, id)
		}
	}
	return out
}
