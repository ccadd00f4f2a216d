package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
)

// Kinds of evidence. A candidate of a route with qualification = "enforce" needs
// one of each that has passed, is in date, and is of the contract that it has now.
const (
	conformanceEvidence = "conformance" // report of hearth conform
	qualityEvidence     = "quality"     // a quality gate: answers good enough
	loadEvidence        = "load"        // a load gate: fast enough
)

var evidenceKinds = []string{conformanceEvidence, qualityEvidence, loadEvidence}

const (
	evidenceBlobs  = "evidence" // id -> evidenceRow, and "report/" id -> what was recorded
	maxEvidence    = 2000
	maxReportBytes = 4 << 20
)

// evidenceRow is one record of evidence, without its report.
type evidenceRow struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`     // conformance, quality, load
	Upstream string `json:"upstream"` // "local": the engine in this box
	Model    string `json:"model"`
	// Contract is the fingerprint of the candidate that was judged. A candidate
	// that changes has another one, and the record says nothing of it.
	Contract string    `json:"contract"`
	Passed   bool      `json:"passed"`
	Summary  string    `json:"summary"`
	Digest   string    `json:"digest"` // sha256:… of the report
	Bytes    int       `json:"bytes"`
	At       time.Time `json:"at"`
	Expires  time.Time `json:"expires"`
	By       string    `json:"by"`
	Note     string    `json:"note,omitempty"`
	// State is how it stands now: "valid", "failed", "expired", "other contract" or,
	// where the candidate is not known, "unknown".
	State string `json:"state"`
}

// qualified says whether a candidate may be asked, and on what grounds.
type qualified struct {
	OK       bool          `json:"ok"`
	Why      string        `json:"why,omitempty"` // why not
	Contract string        `json:"contract"`      // that it has now
	Until    time.Time     `json:"until,omitzero"`
	Records  []evidenceRow `json:"records"` // the newest of each kind that counts or fails to
}

// loadEvidenceNow keeps what requests are judged by in memory.
func (a *Appliance) loadEvidenceNow(ctx context.Context) error {
	list, err := a.control().storedEvidence(ctx)
	if err != nil {
		return err
	}
	a.proofs.Store(&list)
	return nil
}

// evidence lists the records, newest first.
func (c *control) evidence(ctx context.Context) ([]evidenceRow, error) {
	if c.server != nil {
		if list := c.server.proofs.Load(); list != nil {
			return *list, nil
		}
	}
	return c.storedEvidence(ctx)
}

func (c *control) storedEvidence(ctx context.Context) ([]evidenceRow, error) {
	blobs := c.store.Blobs(evidenceBlobs)
	keys, err := blobs.List(ctx, "ev_", "", maxEvidence)
	if err != nil {
		return nil, err
	}
	out := []evidenceRow{}
	for _, k := range keys {
		b, err := blobs.Get(ctx, k.Key)
		if err != nil {
			return nil, err
		}
		var e evidenceRow
		if err := json.Unmarshal(b.Value, &e); err != nil {
			return nil, infer.Errorf(infer.CodeInternal, "cannot read the record of evidence %s: %v", k.Key, err)
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b evidenceRow) int { return b.At.Compare(a.At) })
	return out, nil
}

// newest gives the newest record of a kind about an upstream; nil: none.
func newest(list []evidenceRow, kind, upstream string) *evidenceRow {
	for i := range list {
		if list[i].Kind == kind && list[i].Upstream == upstream {
			return &list[i]
		}
	}
	return nil
}

// contractOf is the fingerprint of a candidate: of the engine's own terms, or of
// what decides how an upstream is asked. Weights, bounds and waits do not change
// it; another address, dialect, model, region or version of this program does.
func contractOf(u *policy.UpstreamConfig, contract, model string, local func(string) string) string {
	if u == nil {
		return local(model)
	}
	of, err := json.Marshal([]string{Version, contract, u.Name, u.Kind, u.BaseURL, u.Dialect, u.APIVersion, u.Region, u.Project, model})
	if err != nil {
		panic("BUG: texts cannot be written as JSON: " + err.Error())
	}
	sum := sha256.Sum256(of)
	return "fp_" + hex.EncodeToString(sum[:8])
}

// localContract is the fingerprint of a local model; empty: it is not known now.
func (a *Appliance) localContract(model string) string {
	m := a.models.get(model)
	if m == nil {
		return ""
	}
	return m.describe().Fingerprint
}

// fingerprint is contractOf a candidate as it is now.
func (c *control) fingerprint(contract string, k *policy.Candidate) string {
	local := func(string) string { return "" }
	if c.server != nil {
		local = c.server.localContract
	}
	return contractOf(k.Upstream, contract, k.Model, local)
}

// judge says whether the records let a candidate with a contract be asked.
func judgeEvidence(list []evidenceRow, upstream, model, contract string, now time.Time) qualified {
	q := qualified{Contract: contract, Records: []evidenceRow{}}
	if contract == "" {
		q.Why = "its contract is not known: the model is not loaded"
		return q
	}
	var missing []string
	for _, kind := range evidenceKinds {
		e := standing(list, kind, upstream, model, contract, now)
		switch {
		case e == nil:
			missing = append(missing, "no "+kind+" evidence")
		case e.State != "valid":
			missing = append(missing, fmt.Sprintf("the %s evidence of %s is %s", kind, e.At.Format(time.DateOnly), e.State))
		case q.Until.IsZero() || e.Expires.Before(q.Until):
			q.Until = e.Expires
		}
		if e != nil {
			q.Records = append(q.Records, *e)
		}
	}
	if q.OK = len(missing) == 0; !q.OK {
		q.Why, q.Until = "it is not qualified: "+strings.Join(missing, ", "), time.Time{}
	}
	return q
}

// standing is the newest record of a kind about a candidate with its contract, or
// else the newest about it at all. A record that failed outdoes earlier ones that
// passed.
func standing(list []evidenceRow, kind, upstream, model, contract string, now time.Time) *evidenceRow {
	var other *evidenceRow
	for i := range list {
		e := list[i]
		if e.Kind != kind || e.Upstream != upstream || e.Model != model {
			continue
		}
		if e.State = e.stateAt(contract, now); e.Contract == contract {
			return &e
		}
		if other == nil {
			other = &e
		}
	}
	return other
}

func (e *evidenceRow) stateAt(contract string, now time.Time) string {
	switch {
	case contract == "":
		return "unknown"
	case e.Contract != contract:
		return "other contract"
	case !e.Passed:
		return "failed"
	case !now.Before(e.Expires):
		return "expired"
	}
	return "valid"
}

// qualify judges a candidate of a route.
func (c *control) qualify(ctx context.Context, contract string, k *policy.Candidate) qualified {
	list, err := c.evidence(ctx)
	if err != nil {
		return qualified{Why: "the records cannot be read", Records: []evidenceRow{}} // unknown evidence does not pass
	}
	return judgeEvidence(list, k.Backend, k.Model, c.fingerprint(contract, k), c.now())
}

// unqualified is why a route that asks for evidence does not ask a candidate; nil:
// it may.
func (a *Appliance) unqualified(r *policy.Route, t *target) error {
	if r.Config == nil || r.Config.Qualification != policy.QualificationEnforce {
		return nil
	}
	var list []evidenceRow
	if p := a.proofs.Load(); p != nil {
		list = *p
	}
	k := t.candidate
	q := judgeEvidence(list, k.Backend, k.Model, contractOf(k.Upstream, r.Contract, k.Model, a.localContract), a.now())
	if q.OK {
		return nil
	}
	a.log.Debug("a candidate is not qualified", "route", r.Name, "upstream", k.Backend, "model", k.Model, "why", q.Why)
	e := infer.Errorf(infer.CodeUnavailable, "what serves this model is not qualified at present")
	e.NoRetry = true
	return e
}

// candidateNamed finds a candidate "upstream/model" of any route, with the
// contract that the route names.
func (c *control) candidateNamed(name string) (*policy.Candidate, string, error) {
	p, err := c.policyNow()
	if err != nil {
		return nil, "", err
	}
	for _, st := range p.Routes() {
		for i := range st.Route.Candidates {
			if k := &st.Route.Candidates[i]; k.Backend+"/"+k.Model == name {
				return k, st.Route.Contract, nil
			}
		}
		for _, s := range st.Route.Shadows { // evidence can be had before it is a candidate
			if k := s.Candidate(); k.Backend+"/"+k.Model == name {
				return k, st.Route.Contract, nil
			}
		}
	}
	return nil, "", infer.Errorf(infer.CodeNotFound, "no route has a candidate %.128q, wanted \"upstream/model\"", name)
}

// forgetEvidence removes a record and its report.
func (c *control) forgetEvidence(ctx context.Context, id string) error {
	blobs := c.store.Blobs(evidenceBlobs)
	if err := blobs.Delete(ctx, id); err != nil {
		if errors.Is(absent(err), fs.ErrNotExist) {
			return infer.Errorf(infer.CodeNotFound, "there is no record of evidence %.40q", id)
		}
		return err
	}
	if err := absent(blobs.Delete(ctx, "report/"+id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
