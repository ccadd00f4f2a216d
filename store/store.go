package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Options of Open. The zero value is usable.
type Options struct {
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
	// Log receives what an operator must know; nil discards.
	Log *slog.Logger
	// LockTimeout is how long to wait for another process that has the file
	// open; 0 means 1 s.
	LockTimeout time.Duration
	// Locked, if not nil, is called once no other process can have the file open,
	// before it is opened: what needs nothing else can begin then.
	Locked func()
	// BallastBytes are kept allocated in a file beside the database. When the
	// disk is full the file is removed, so that running requests can settle,
	// while new holds are refused. 0 means 16 MiB, negative none.
	BallastBytes int64
	// Rebuild derives balances, open holds and the index anew from the records
	// while opening: the way back when one of them is damaged and the chain is
	// whole. A damaged chain is refused.
	Rebuild bool

	// fault, if set, is called at named points of a commit; an error there is
	// taken as the commit's. For tests.
	fault func(point string) error
	// migrations replaces the package's own. For tests.
	migrations []migration
	// retryAfter is how long a failed store waits before it first tries to
	// reopen itself; 0 means 1 s. For tests.
	retryAfter time.Duration
}

// Recovery says what Open found left over from an earlier life.
type Recovery struct {
	Created  bool   `json:"created"`  // the file is new
	Migrated int    `json:"migrated"` // from this schema; 0: none
	Clean    bool   `json:"clean"`    // the last life closed the store
	Orphans  int    `json:"orphans"`  // open holds settled in full, flagged unknown
	Nano     int64  `json:"nano"`     // what they were charged
	Head     string `json:"head"`     // of the chain, before the orphans' ends
	Seq      uint64 `json:"seq"`
}

// Store is an open database. It is safe for concurrent use and must be closed.
// Only one process can have it open; others go through it.
type Store struct {
	path string
	opts Options
	lock *fileLock
	now  func() time.Time
	log  *slog.Logger

	// file guards db: readers hold it for the length of a read transaction,
	// the committer takes it whole to open the file anew. Taken before mu.
	file sync.RWMutex
	db   *bolt.DB

	ops  chan *op      // to the committer
	quit chan struct{} // closed by Close
	done chan struct{} // closed by the committer when it has ended
	// closing guards quit against senders: an operation is either queued before
	// quit closes, and answered, or refused.
	closing sync.RWMutex
	closed  bool

	// mu guards led, once and stats. Only the committer changes led and once.
	mu    sync.Mutex
	led   ledger
	once  onceTotals
	stats Stats
	doubt []*op // ends that could not be written, for reopen; committer only

	// The journals and what only they have; committer only, but flushing is read
	// by the goroutine that writes it into the database.
	journals []*journal // two, or none on a disk that has no room for them
	current  int        // the one in use
	active   *pending   // in the current journal
	flushing *pending   // in the other one; nil: that is free
	flushed  chan error // ends flushing
	frame    []byte     // for reuse
	scratch  []byte     // for reuse
	mark     [8]byte    // of the database, in each frame
	// unflushed says that the database lacks something that is durable.
	unflushed atomic.Bool

	// When the store failed or last tried to recover, and how long it waits
	// until the next try; committer only.
	failedAt   time.Time
	retryAfter time.Duration

	failure  atomic.Pointer[infer.Error] // why no new work is taken
	full     atomic.Bool                 // the disk is full; ends only
	ballast  bool                        // the ballast file exists; committer only
	recovery Recovery
	keys     keyring
	checked  atomic.Uint64
}

var (
	errClosed = infer.Errorf(infer.CodeUnavailable, "the database is closed")
	errFull   = &infer.Error{Code: infer.CodeUnavailable, RetryAfter: retryHint, Message: "the disk of the database is full: no new paid work is taken"}
)

// Open opens the database at path, or creates it: under a temporary name,
// synced, renamed, the folder synced. Every hold left open by an earlier life
// is settled in full and flagged OutcomeUnknown before Open returns. Errors say
// what to do: another process holds the file, a newer schema, a damaged file.
func Open(path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if o.BallastBytes == 0 {
		o.BallastBytes = 16 << 20
	}
	if o.retryAfter == 0 {
		o.retryAfter = time.Second
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	if o.Locked == nil {
		o.Locked = func() {}
	}
	s := &Store{path: path, opts: o, now: o.Now, log: o.Log,
		ops: make(chan *op, maxQueue), quit: make(chan struct{}), done: make(chan struct{}),
		active: newPending(), flushed: make(chan error, 1)}
	var err error
	if s.lock, err = lockFile(path+".lock", o.LockTimeout); err != nil {
		return nil, err
	}
	o.Locked()
	if err := s.open(); err != nil {
		if s.db != nil {
			s.db.Close()
		}
		s.closeJournals()
		s.lock.unlock()
		return nil, err
	}
	go s.commitLoop()
	return s, nil
}

// open does the work of Open under the lock.
func (s *Store) open() (err error) {
	if s.recovery, err = prepare(s.path, s.opts); err != nil {
		return err
	}
	if s.db, err = openFile(s.path); err != nil {
		return err
	}
	if err := s.openJournals(); err != nil {
		return err
	}
	if err := s.replay(!s.opts.Rebuild); err != nil {
		return fmt.Errorf("cannot read %s: %w", s.path, err)
	}
	if s.opts.Rebuild {
		if err := s.rebuild(context.Background()); err != nil {
			return err
		}
	}
	clean := false
	err = guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			clean = tx.Bucket(bucketMeta).Get(metaClean) != nil
			return s.load(tx)
		})
	})
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.path, err)
	}
	s.recovery.Clean = clean || s.recovery.Created
	s.recovery.Seq, s.recovery.Head = s.led.seq, hexHash(s.led.head)
	s.makeBallast()
	return s.settleOrphans()
}

// load reads into memory what the committer decides by.
func (s *Store) load(tx *bolt.Tx) error {
	led, err := loadLedger(tx)
	if err != nil {
		return err
	}
	keys, err := loadKeys(tx)
	if err != nil {
		return err
	}
	pepper, err := unseal("the secret of the key hashes", metaPepper, tx.Bucket(bucketMeta).Get(metaPepper))
	if err != nil {
		return err
	}
	once, err := loadOnce(tx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.led, s.once = *led, once
	s.mu.Unlock()
	s.keys.replace(slices.Clone(pepper), keys)
	return nil
}

// settleOrphans ends every hold that an earlier life left open and marks the
// file as in use. It runs before the committer does, in its place.
func (s *Store) settleOrphans() error {
	var group []*op
	for _, id := range s.led.openIDs() {
		group = append(group, s.endOp(KindSettle, id, Result{Outcome: OutcomeUnknown, ErrorCode: "process_died"}))
	}
	group = append(group, &op{put: func(w *writer) error {
		w.mark(w.tx.Bucket(bucketMeta).Delete(metaClean))
		return nil
	}})
	for len(group) > 0 {
		n := min(len(group), maxGroup)
		if err := s.commit(group[:n]); err != nil {
			return fmt.Errorf("cannot settle what the last run left open: %w", err)
		}
		for _, o := range group[:n] {
			if o.err != nil {
				return fmt.Errorf("cannot settle what the last run left open: %w", o.err)
			}
			if o.kind == opEnd {
				s.recovery.Orphans++
				s.recovery.Nano += o.row.ChargeNano
			}
		}
		group = group[n:]
	}
	if n := s.recovery.Orphans; n > 0 {
		s.log.Warn("settled holds left open by the last run", "holds", n, "nano_usd", s.recovery.Nano)
	}
	return nil
}

// Recovery tells what Open found.
func (s *Store) Recovery() Recovery { return s.recovery }

// Close waits for what is being written, and closes the file. Holds still open
// become orphans of the next Open.
func (s *Store) Close() error {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		return nil
	}
	s.closed = true
	close(s.quit)
	s.closing.Unlock()
	<-s.done
	s.file.Lock()
	defer s.file.Unlock()
	return errors.Join(s.closeDB(), s.closeJournals(), s.lock.unlock())
}

// closeDB closes the database; call with file held.
func (s *Store) closeDB() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return guard(db.Close)
}

// Err is why the store takes no new work: nil, or an *infer.Error of
// CodeUnavailable.
func (s *Store) Err() error {
	if e := s.failure.Load(); e != nil {
		return e
	}
	if s.full.Load() {
		return errFull
	}
	return nil
}

// view runs f in a read transaction. It may lack ledger records that only the
// journals have.
func (s *Store) view(ctx context.Context, f func(tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.file.RLock()
	defer s.file.RUnlock()
	if s.db == nil {
		return errClosed
	}
	db := s.db
	return guard(func() error { return db.View(f) })
}

// viewLedger is view with all of the ledger that was acknowledged before.
func (s *Store) viewLedger(ctx context.Context, f func(tx *bolt.Tx) error) error {
	if s.unflushed.Load() && s.failure.Load() == nil && ctx.Err() == nil {
		// Whatever comes of it: what can be read is read.
		_ = s.do(ctx, &op{kind: opControl, control: func() error { return nil }, done: make(chan struct{})})
	}
	return s.view(ctx, f)
}

// Stats is a snapshot for telemetry.
type Stats struct {
	Seq         uint64        `json:"seq"` // last ledger record
	OpenHolds   int           `json:"open_holds"`
	HeldNano    int64         `json:"held_nano"` // sum of the open holds
	Commits     uint64        `json:"commits"`
	Ops         uint64        `json:"ops"` // operations in those commits
	MaxGroup    int           `json:"max_group"`
	CommitTime  time.Duration `json:"commit_time_ns"` // summed
	LastCommit  time.Duration `json:"last_commit_ns"`
	Queued      int           `json:"queued"`
	Once        int           `json:"once"`       // claims to idempotency keys
	OnceBytes   int64         `json:"once_bytes"` // what they take, answers included
	FileBytes   int64         `json:"file_bytes"`
	Failed      bool          `json:"failed"`
	Full        bool          `json:"full"`
	Reason      string        `json:"reason,omitempty"`
	LastChecked uint64        `json:"last_checked"` // position of the last Check without fault
}

// Stats gives counters and gauges.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	st := s.stats
	st.Seq, st.OpenHolds, st.HeldNano = s.led.seq, len(s.led.open), s.led.heldNano
	st.Once, st.OnceBytes = s.once.n, s.once.bytes
	s.mu.Unlock()
	st.Queued = len(s.ops)
	st.Failed, st.Full = s.failure.Load() != nil, s.full.Load()
	if err := s.Err(); err != nil {
		st.Reason = err.Error()
	}
	st.LastChecked = s.checked.Load()
	return st
}
