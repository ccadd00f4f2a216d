package invoice

import "hearth/store"

// State of a group.
type State string

// The states.
const (
	Same         State = "same"          // within the tolerance
	Differs      State = "differs"       // both have it
	MissingHere  State = "missing_here"  // the ledger has nothing
	MissingThere State = "missing_there" // the export has nothing
)

// Report is the result of a comparison.
type Report struct {
	Format   string    `json:"format"`
	Provider string    `json:"provider"`
	Lines    int       `json:"lines"`
	Skipped  int       `json:"skipped_lines"` // about something else than models
	FirstDay string    `json:"first_day"`
	LastDay  string    `json:"last_day"`
	Measures []Measure `json:"measures"` // that the export tells
	Groups   []Group   `json:"groups"`
	Same     int       `json:"same"`
	// Requests is there where the export names requests.
	Requests *RequestReport `json:"requests,omitempty"`
	// Candidates are requests of these days whose outcome is not known here: the
	// export may tell it. They are in no sum.
	Candidates     []Candidate `json:"candidates,omitempty"`
	MoreCandidates int         `json:"more_candidates,omitempty"`
}

// OK says that nothing differs by more than is tolerated.
func (r *Report) OK() bool {
	q := r.Requests
	return r.Same == len(r.Groups) && (q == nil || q.DifferCount+q.MissingHereCount+q.MissingThereCount == 0)
}

// Group is one day and model.
type Group struct {
	Provider    string       `json:"provider"`
	Day         string       `json:"day"` // UTC
	Model       string       `json:"model"`
	State       State        `json:"state"`
	Ours        Sums         `json:"ours,omitempty"`
	Theirs      Sums         `json:"theirs,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is an amount that the sides do not agree in.
type Difference struct {
	Measure    Measure `json:"measure"`
	Ours       int64   `json:"ours"`
	Theirs     int64   `json:"theirs"`
	Difference int64   `json:"difference"` // ours less theirs
}

// RequestReport compares request by request, by the provider's ids.
type RequestReport struct {
	Matched           int                 `json:"matched"`
	Differ            []RequestDifference `json:"differ,omitempty"`
	DifferCount       int                 `json:"differ_count"`
	MissingHere       []string            `json:"missing_here,omitempty"` // ids of the provider
	MissingHereCount  int                 `json:"missing_here_count"`
	MissingThere      []string            `json:"missing_there,omitempty"` // request ids of the ledger
	MissingThereCount int                 `json:"missing_there_count"`
	Unnamed           int                 `json:"unnamed"` // rows for which the provider gave no id
}

// RequestDifference is one request that the sides do not agree in.
type RequestDifference struct {
	RequestID         string       `json:"request_id"`
	UpstreamRequestID string       `json:"upstream_request_id"`
	Differences       []Difference `json:"differences"`
}

// Candidate is a request that was charged at its hold since its outcome is not
// known here.
type Candidate struct {
	RequestID         string        `json:"request_id"`
	UpstreamRequestID string        `json:"upstream_request_id,omitempty"`
	Day               string        `json:"day"`
	Model             string        `json:"model"`
	Outcome           store.Outcome `json:"outcome"`
	ChargeNano        int64         `json:"charge_nano"`
	Listed            bool          `json:"listed"` // the export has its id
	TheirsNano        *int64        `json:"theirs_nano,omitempty"`
}
