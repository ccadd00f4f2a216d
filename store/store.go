package store

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// Schema is the version of the file layout that this build writes. A file of a
// newer schema is refused; one of an older schema is migrated by Open.
const Schema = 1

// Options of Open. The zero value is usable.
type Options struct {
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
	// Log receives what an operator must know; nil discards.
	Log *slog.Logger
	// LockTimeout is how long to wait for another process that has the file
	// open; 0 means 1 s.
	LockTimeout time.Duration
	// BallastBytes are kept allocated in a file beside the database. When the
	// disk is full the file is removed, so that running requests can settle,
	// while new holds are refused. 0 means 16 MiB, negative none.
	BallastBytes int64
}

// Recovery says what Open found left over from an earlier life.
type Recovery struct {
	Created  bool   `json:"created"`  // the file is new
	Migrated int    `json:"migrated"` // from this schema; 0: none
	Clean    bool   `json:"clean"`    // the last life closed the store
	Orphans  int    `json:"orphans"`  // open holds settled in full, flagged unknown
	Nano     int64  `json:"nano"`     // what they were charged
	Head     string `json:"head"`
	Seq      uint64 `json:"seq"`
}

// Store is an open database. It is safe for concurrent use and must be closed.
// Only one process can have it open; others go through it.
type Store struct{}

// Open opens the database at path, or creates it: under a temporary name,
// synced, renamed, the folder synced. Every hold left open by an earlier life
// is settled in full and flagged OutcomeUnknown before Open returns. Errors say
// what to do: another process holds the file, a newer schema, a damaged file.
func Open(path string, o Options) (*Store, error) { return nil, errClosed }

// Recovery tells what Open found.
func (s *Store) Recovery() Recovery { return Recovery{} }

// Reopen leaves the failed state: it reads the file anew, learns which of the
// operations in doubt were written, and completes or undoes them by request id.
func (s *Store) Reopen() error { return errClosed }

// Close waits for what is being written, and closes the file. Holds still open
// become orphans of the next Open.
func (s *Store) Close() error { return nil }

// Err is why the store takes no new work: nil, or an *infer.Error of
// CodeUnavailable.
func (s *Store) Err() error { return errClosed }

// Stats is a snapshot for telemetry.
type Stats struct {
	Seq         uint64        `json:"seq"` // last ledger record
	OpenHolds   int           `json:"open_holds"`
	HeldNano    int64         `json:"held_nano"`
	Commits     uint64        `json:"commits"`
	Ops         uint64        `json:"ops"` // operations in those commits
	MaxGroup    int           `json:"max_group"`
	CommitTime  time.Duration `json:"commit_time_ns"` // summed
	LastCommit  time.Duration `json:"last_commit_ns"`
	Queued      int           `json:"queued"`
	FileBytes   int64         `json:"file_bytes"`
	Failed      bool          `json:"failed"`
	Full        bool          `json:"full"`
	Reason      string        `json:"reason,omitempty"`
	LastChecked uint64        `json:"last_checked"` // sequence of the last Check without fault
}

// Stats gives counters and gauges.
func (s *Store) Stats() Stats { return Stats{} }

// BackupInfo identifies a backup.
type BackupInfo struct {
	Bytes int64     `json:"bytes"`
	Seq   uint64    `json:"seq"`
	Head  string    `json:"head"`
	At    time.Time `json:"at"`
}

// Backup writes a consistent copy of the whole file to w while serving.
func (s *Store) Backup(ctx context.Context, w io.Writer) (BackupInfo, error) {
	return BackupInfo{}, errClosed
}
