package store

import "time"

// Kind of a ledger record.
type Kind uint8

const (
	KindHold      Kind = 1 // held += amount
	KindSettle    Kind = 2 // held -= amount, spent += charge
	KindRelease   Kind = 3 // held -= amount
	KindExpire    Kind = 4 // held -= amount, spent += amount
	KindOverdraft Kind = 5 // spent += excess over the hold
	KindNote      Kind = 6 // a row without a hold
)

// Posting is the effect of a record on one budget window, in nano-USD.
type Posting struct {
	Budget    string `json:"budget"`
	Window    string `json:"window"`
	CapNano   int64  `json:"cap_nano"`   // in force when the hold was made
	HeldNano  int64  `json:"held_nano"`  // change of held
	SpentNano int64  `json:"spent_nano"` // change of spent
}

// Record is one link of the ledger's chain.
type Record struct {
	Seq       uint64    `json:"seq"`
	Kind      Kind      `json:"kind"`
	At        time.Time `json:"at"` // wall clock when written; may run backwards
	Prev      [32]byte  `json:"-"`  // SHA-256 of the predecessor's bytes
	RequestID string    `json:"request_id"`
	Postings  []Posting `json:"postings,omitempty"`
	Row       *Row      `json:"row,omitempty"` // opening half in a hold, whole at the end, nil in an overdraft
}
