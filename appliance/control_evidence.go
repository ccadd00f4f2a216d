package appliance

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hearth/appliance/conform"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

type evidenceQuery struct {
	Candidate string `json:"candidate,omitempty"` // "upstream/model"; empty: all
	Kind      string `json:"kind,omitempty"`
}

// evidenceAdd is a record to be made.
type evidenceAdd struct {
	Kind      string `json:"kind"`             // conformance, quality, load
	Candidate string `json:"candidate"`        // "upstream/model"
	Report    string `json:"report"`           // what was found: JSON, or text
	Digest    string `json:"digest,omitempty"` // sha256:… that the report must have; empty: it is computed
	// Passed is the verdict. Of a report of hearth conform the report tells it.
	Passed   bool   `json:"passed,omitempty"`
	ValidFor string `json:"valid_for,omitempty"` // "720h"; default 30 days, at most a year
	Note     string `json:"note,omitempty"`
}

type evidenceID struct {
	ID string `json:"id"`
}

// evidenceShown is a record with its report.
type evidenceShown struct {
	evidenceRow
	Report string `json:"report"`
}

// evidenceList is the records, and how the candidates stand that need them.
type evidenceList struct {
	Records    []evidenceRow       `json:"records"` // newest first
	Candidates []evidenceCandidate `json:"candidates"`
}

// evidenceCandidate is a candidate of a route with qualification = "enforce".
type evidenceCandidate struct {
	Route     string `json:"route"`
	Candidate string `json:"candidate"`
	qualified
}

var (
	opEvidenceList = operation[evidenceQuery, evidenceList]{
		name: "evidence/list", place: "GET /evidence", access: admin.Read,
		summary: "records of evidence, newest first, and the candidates that need them",
		run:     listEvidence,
	}
	opEvidenceShow = operation[evidenceID, evidenceShown]{
		name: "evidence/show", place: "GET /evidence/{id}", access: admin.Read,
		summary: "one record of evidence with its report",
		run:     showEvidence,
	}
	opEvidenceAdd = operation[evidenceAdd, evidenceRow]{
		name: "evidence/add", place: "POST /evidence", access: admin.Operate,
		summary: "record a conformance report, a quality gate or a load gate of a candidate",
		subject: func(r evidenceAdd) string { return r.Candidate },
		detail: func(r evidenceAdd, e evidenceRow) string {
			return fmt.Sprintf("%s %s, passed: %v, %s, until %s", e.ID, e.Kind, e.Passed, e.Digest, e.Expires.Format(time.DateOnly))
		},
		run: addEvidence,
	}
	opEvidenceDelete = operation[evidenceID, none]{
		name: "evidence/delete", place: "POST /evidence/{id}/delete", access: admin.Operate,
		summary: "withdraw a record of evidence",
		subject: func(r evidenceID) string { return r.ID },
		run: func(ctx context.Context, c *control, r evidenceID) (none, error) {
			if !strings.HasPrefix(r.ID, "ev_") {
				return none{}, infer.Errorf(infer.CodeNotFound, "there is no record of evidence %.40q", r.ID)
			}
			if err := c.forgetEvidence(ctx, r.ID); err != nil {
				return none{}, err
			}
			return none{}, c.evidenceChanged(ctx)
		},
	}
)

func (c *control) evidenceChanged(ctx context.Context) error {
	if c.server == nil {
		return nil
	}
	return c.server.loadEvidenceNow(ctx)
}

func listEvidence(ctx context.Context, c *control, q evidenceQuery) (evidenceList, error) {
	out := evidenceList{Records: []evidenceRow{}, Candidates: []evidenceCandidate{}}
	list, err := c.evidence(ctx)
	if err != nil {
		return out, err
	}
	p, err := c.policyNow()
	if err != nil {
		return out, err
	}
	contracts := map[string]string{}
	for _, st := range p.Routes() {
		for i := range st.Route.Candidates {
			k := &st.Route.Candidates[i]
			name := k.Backend + "/" + k.Model
			contracts[name] = c.fingerprint(st.Route.Contract, k)
			if r := st.Route.Config; r != nil && r.Qualification == "enforce" && (q.Candidate == "" || q.Candidate == name) {
				out.Candidates = append(out.Candidates, evidenceCandidate{st.Route.Name, name, judgeEvidence(list, k.Backend, k.Model, contracts[name], c.now())})
			}
		}
	}
	for _, e := range list {
		if q.Kind != "" && e.Kind != q.Kind || q.Candidate != "" && e.Upstream+"/"+e.Model != q.Candidate {
			continue
		}
		e.State = e.stateAt(contracts[e.Upstream+"/"+e.Model], c.now())
		out.Records = append(out.Records, e)
	}
	return out, nil
}

func showEvidence(ctx context.Context, c *control, r evidenceID) (evidenceShown, error) {
	list, err := c.evidence(ctx)
	if err != nil {
		return evidenceShown{}, err
	}
	for _, e := range list {
		if e.ID != r.ID {
			continue
		}
		b, err := c.store.Blobs(evidenceBlobs).Get(ctx, "report/"+e.ID)
		if err != nil {
			return evidenceShown{}, err
		}
		e.State = "unknown"
		if k, contract, err := c.candidateNamed(e.Upstream + "/" + e.Model); err == nil {
			e.State = e.stateAt(c.fingerprint(contract, k), c.now())
		}
		return evidenceShown{e, string(b.Value)}, nil
	}
	return evidenceShown{}, infer.Errorf(infer.CodeNotFound, "there is no record of evidence %.40q", r.ID)
}

// addEvidence records a report about a candidate as it is now.
func addEvidence(ctx context.Context, c *control, r evidenceAdd) (evidenceRow, error) {
	var e evidenceRow
	valid, err := r.check()
	if err != nil {
		return e, err
	}
	k, contract, err := c.candidateNamed(r.Candidate)
	if err != nil {
		return e, err
	}
	e = evidenceRow{ID: "ev_" + strings.ToLower(rand.Text()[:16]), Kind: r.Kind, Upstream: k.Backend, Model: k.Model, Contract: c.fingerprint(contract, k), Passed: r.Passed,
		Bytes: len(r.Report), At: c.now().UTC(), By: store.Actor(ctx), Note: r.Note}
	if e.Contract == "" {
		return e, infer.Errorf(infer.CodeConflict, "cannot record evidence of %s: its contract is known only while a running server has it loaded", r.Candidate)
	}
	sum := sha256.Sum256([]byte(r.Report))
	e.Digest, e.Expires, e.State = "sha256:"+hex.EncodeToString(sum[:]), e.At.Add(valid), "valid"
	if r.Digest != "" && r.Digest != e.Digest {
		return e, infer.Invalid("digest", "the report has %s", e.Digest)
	}
	if err := e.read(r.Report); err != nil {
		return e, err
	}
	have, err := c.storedEvidence(ctx)
	if err != nil {
		return e, err
	}
	if len(have) >= maxEvidence {
		if err := c.forgetEvidence(ctx, have[len(have)-1].ID); err != nil { // the oldest makes room
			return e, err
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	blobs := c.store.Blobs(evidenceBlobs)
	if err := blobs.Put(ctx, "report/"+e.ID, []byte(r.Report)); err != nil {
		return e, err
	}
	if err := blobs.Put(ctx, e.ID, b); err != nil {
		return e, err
	}
	if !e.Passed {
		e.State = "failed"
	}
	return e, c.evidenceChanged(ctx)
}

func (r *evidenceAdd) check() (time.Duration, error) {
	valid := 30 * 24 * time.Hour
	switch {
	case r.Kind != conformanceEvidence && r.Kind != qualityEvidence && r.Kind != loadEvidence:
		return 0, infer.Invalid("kind", "cannot be %.32q, wanted one of %q", r.Kind, evidenceKinds)
	case r.Report == "":
		return 0, infer.Invalid("report", "is empty: evidence is what was found, not a claim")
	case len(r.Report) > maxReportBytes:
		return 0, infer.Invalid("report", "has %d bytes, at most %d are kept", len(r.Report), maxReportBytes)
	case len(r.Note) > maxNote:
		return 0, infer.Invalid("note", "has %d bytes, at most %d are kept", len(r.Note), maxNote)
	}
	if r.ValidFor != "" {
		var err error
		if valid, err = time.ParseDuration(r.ValidFor); err != nil || valid < time.Minute || valid > 366*24*time.Hour {
			return 0, infer.Invalid("valid_for", "cannot be %.32q, wanted a time span from 1m to 8784h", r.ValidFor)
		}
	}
	return valid, nil
}

// read takes the verdict out of a report of hearth conform, which must be of the
// candidate; other reports are kept as they are, with the verdict that was given.
func (e *evidenceRow) read(report string) error {
	if e.Kind != conformanceEvidence {
		e.Summary = "passed"
		if !e.Passed {
			e.Summary = "failed"
		}
		return nil
	}
	var r conform.Report
	if err := json.Unmarshal([]byte(report), &r); err != nil || r.Cases == 0 {
		return infer.Invalid("report", "is no report of hearth conform (--json)")
	}
	sealed, err := conform.NewReport(r.Version, r.Upstream, r.Outcomes)
	if err != nil {
		return infer.Invalid("report", "%v", err)
	}
	switch {
	case sealed.Digest != r.Digest || sealed.Cases != r.Cases || sealed.Passed != r.Passed || sealed.Refused != r.Refused || sealed.Failed != r.Failed:
		return infer.Invalid("report", "does not match its own digest: it was changed")
	case r.Upstream.Name != e.Upstream || r.Upstream.Model != e.Model:
		return infer.Invalid("report", "is of %s/%s, wanted one of %s/%s", r.Upstream.Name, r.Upstream.Model, e.Upstream, e.Model)
	}
	e.Passed = r.Failed == 0
	e.Summary = fmt.Sprintf("%d cases: %d passed, %d refused as declared, %d failed (hearth %s)", r.Cases, r.Passed, r.Refused, r.Failed, r.Version)
	return nil
}
