package store

import (
	"context"
	"errors"
	"io"
	"time"
)

// Filter selects rows. Zero fields select everything. Rows come newest first
// by their place in the ledger.
type Filter struct {
	Since   time.Time `json:"since,omitzero"` // of Started, inclusive
	Until   time.Time `json:"until,omitzero"` // of Started, exclusive
	Tenant  string    `json:"tenant,omitempty"`
	KeyID   string    `json:"key_id,omitempty"`
	Model   string    `json:"model,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	// Limit is the most rows of one page, 1 to 1000; 0 means 100.
	Limit int `json:"limit,omitempty"`
	// Cursor continues after an earlier page: its Next.
	Cursor uint64 `json:"cursor,omitempty"`
}

// Page is a piece of a listing. Next is the cursor of the following page, 0 at
// the end. A page may be short, even empty, and still have a Next: a call looks
// at a bounded number of records.
type Page struct {
	Rows []Row  `json:"rows"`
	Next uint64 `json:"next,omitempty"`
}

var errClosed = errors.New("the store is closed")

// List gives one page of rows, those of running requests included.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) { return Page{}, errClosed }

// Show gives the row of one request and every ledger record about it. The error
// is CodeNotFound if there is none.
func (s *Store) Show(ctx context.Context, requestID string) (Detail, error) {
	return Detail{}, errClosed
}

// Detail is all that the ledger knows of one request.
type Detail struct {
	Row     Row      `json:"row"`
	Records []Record `json:"records"`
}

// Format of an export.
type Format string

const (
	JSONL Format = "jsonl" // one Row a line
	CSV   Format = "csv"   // a header, then one row a line; amounts in nano-USD
)

// Export streams the rows that f selects, oldest first, ignoring Limit and
// Cursor, and returns their number. It holds no transaction open while it
// writes, so that a slow reader pins nothing.
func (s *Store) Export(ctx context.Context, w io.Writer, format Format, f Filter) (int, error) {
	return 0, errClosed
}
