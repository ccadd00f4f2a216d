package store

import (
	"context"
	"errors"
	"fmt"

	"hearth/engine/infer"
)

// Sentinels of the ledger calls.
var (
	// ErrResolved: the hold has already been settled, released or expired.
	ErrResolved = errors.New("the hold has already ended")
	// ErrNoHold: no hold was ever made under this request id.
	ErrNoHold = errors.New("no hold under this request id")
	// ErrDuplicate: the request id has been used before.
	ErrDuplicate = errors.New("the request id has been used before")
	// ErrUnknownOutcome: the commit failed and may or may not be visible. The
	// store settles it by request id when it is next opened or reopened.
	ErrUnknownOutcome = errors.New("the commit failed with unknown outcome")
)

// BudgetError says which budget a hold did not fit into. It is wrapped by an
// *infer.Error of CodeQuota with NoRetry set.
type BudgetError struct {
	Budget, Window                         string
	CapNano, SpentNano, HeldNano, WantNano int64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("budget %s, window %s: cannot hold %d nano-USD: cap %d, spent %d, held %d",
		e.Budget, e.Window, e.WantNano, e.CapNano, e.SpentNano, e.HeldNano)
}

// Charge names one budget window that a hold counts against, with the cap that
// is in force now.
type Charge struct {
	Budget  string `json:"budget"` // opaque, stable, at most 200 bytes; policy uses "tenant/acme/day"
	Window  string `json:"window"` // Window.ID
	CapNano int64  `json:"cap_nano"`
}

// HoldRequest asks for AmountNano to be held against every budget in Charges,
// all or nothing. No charges is allowed: the request then only gets its row.
type HoldRequest struct {
	Opening    Opening  `json:"opening"`
	AmountNano int64    `json:"amount_nano"`
	Charges    []Charge `json:"charges,omitempty"`
}

// Hold makes the hold durable before it returns. Errors: CodeQuota wrapping a
// *BudgetError, CodeConflict wrapping ErrDuplicate, CodeInvalid for a malformed
// request, CodeUnavailable if the store cannot take new work (failed, full,
// closed). If ctx ends before the committer has taken the operation nothing is
// held; after that Hold waits for the commit and reports what happened.
func (s *Store) Hold(ctx context.Context, h HoldRequest) (Row, error) {
	return Row{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Settle ends the hold of a request with its actual charge, which may be above
// the hold: the excess becomes an overdraft record in the same transaction. It
// returns the finished row. Errors: ErrNoHold, ErrResolved, CodeUnavailable
// wrapping ErrUnknownOutcome. A settle that could not be written is kept and
// written by Reopen; after a crash the hold is settled in full instead.
//
// Settle takes no context: a charge is recorded whether or not anybody waits.
func (s *Store) Settle(requestID string, chargeNano int64, r Result) (Row, error) {
	return Row{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Release ends the hold of a request without charge. Errors as of Settle.
func (s *Store) Release(requestID string, r Result) (Row, error) {
	return Row{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Expire ends the hold of a request whose outcome nobody knows: it is charged
// in full, its row says OutcomeUnknown. Errors as of Settle.
func (s *Store) Expire(requestID, errorCode string) (Row, error) {
	return Row{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Note writes the row of a request that ended before it could be held
// (refused by a rule, a limit or a budget). It touches no balance.
func (s *Store) Note(ctx context.Context, o Opening, r Result) (Row, error) {
	return Row{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}

// Balance is the position of one budget window.
type Balance struct {
	Budget        string `json:"budget"`
	Window        string `json:"window"`
	SpentNano     int64  `json:"spent_nano"` // committed, overdrafts included
	HeldNano      int64  `json:"held_nano"`
	OverdraftNano int64  `json:"overdraft_nano"` // the part of SpentNano booked as overdraft
}

// Balance gives the position of one budget window; all zero if never used.
func (s *Store) Balance(budget, window string) (Balance, error) {
	return Balance{}, infer.Errorf(infer.CodeUnavailable, "the ledger is not open")
}
