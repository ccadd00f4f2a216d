package store

import (
	"context"
	"fmt"
	"time"

	"hearth/engine/infer"
)

// commitFailed enters the failed state, and tries to leave it at once where that
// is promising.
func (s *Store) commitFailed(group []*op, err error) {
	cause := fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	s.log.Error("a commit of the database failed", "error", err.Error(), "operations", len(group))
	fail := &infer.Error{Code: infer.CodeUnavailable, RetryAfter: retryHint, Message: "the ledger cannot be written", Cause: cause}
	s.failure.Store(fail)
	s.failedAt, s.retryAfter = time.Now(), s.opts.retryAfter
	for _, o := range group {
		if o.err != nil {
			continue // refused before anything was written
		}
		o.err = fail
		if o.kind == opHold || o.kind == opEnd {
			s.doubt = append(s.doubt, o)
		}
	}
	full := noSpace(err)
	if full {
		s.full.Store(true)
		s.dropBallast()
	}
	// A disk that was full has space now; and if nothing new was in the commit,
	// the journals have all of it.
	if full || len(group) == 0 {
		if err := s.reopen(); err != nil {
			s.log.Error("the database cannot be opened again", "error", err.Error(), "disk_full", full)
		}
	}
}

// Reopen leaves the failed state: it reads the file anew, learns which of the
// operations in doubt were written, and completes or undoes them by request id.
// It does nothing to a store that has not failed. The store tries it by itself,
// after a second at first and ever more rarely.
func (s *Store) Reopen() error {
	o := &op{kind: opControl, done: make(chan struct{})}
	o.control = func() error {
		if s.failure.Load() == nil {
			return nil
		}
		return s.reopen()
	}
	return s.do(context.Background(), o)
}

// reopen runs in the committer.
func (s *Store) reopen() error {
	if err := s.reload(); err != nil {
		return &infer.Error{Code: infer.CodeUnavailable, Message: "the ledger cannot be read again", Cause: err}
	}
	var again []*op
	for _, o := range s.doubt {
		h := s.led.open[o.requestID]
		switch {
		case o.kind == opHold && h != nil:
			again = append(again, s.endOp(KindRelease, o.requestID, Result{Outcome: OutcomeError, ErrorCode: "ledger_unavailable"}))
		case o.kind == opEnd && h != nil:
			again = append(again, s.endOp(o.end.kind, o.requestID, o.end.result))
		}
	}
	for group := again; len(group) > 0; {
		n := min(len(group), maxGroup)
		if _, err := s.writeDB(group[:n]); err != nil {
			e := &infer.Error{Code: infer.CodeUnavailable, RetryAfter: retryHint, Message: "the ledger cannot be written", Cause: fmt.Errorf("%w: %w", ErrUnknownOutcome, err)}
			s.failure.Store(e)
			return e // what is in doubt stays so, until the next try
		}
		group = group[n:]
	}
	s.settleDoubt()
	s.failure.Store(nil)
	s.log.Info("the database was opened again", "settled", len(again))
	return nil
}

// settleDoubt tells those who still wait what became of their operations.
func (s *Store) settleDoubt() {
	for _, o := range s.doubt {
		if o.kind != opEnd || o.answered {
			continue
		}
		if row, err := s.rowOf(o.requestID); err == nil && row.Outcome != OutcomeOpen {
			o.row, o.err = &row, nil
		}
	}
	s.doubt = nil
}

// reload closes the file and opens it anew.
func (s *Store) reload() error {
	_ = s.awaitFlush() // what became of it the file will tell
	s.file.Lock()
	defer s.file.Unlock()
	if err := s.closeDB(); err != nil {
		s.log.Warn("closing the database failed", "error", err.Error())
	}
	since := map[string]time.Time{}
	for id, h := range s.led.open {
		since[id] = h.since
	}
	db, err := openFile(s.path)
	if err != nil {
		return err
	}
	s.db = db
	if err := s.replay(true); err != nil {
		return err
	}
	if err := guard(func() error { return db.View(s.load) }); err != nil {
		return err
	}
	for id, h := range s.led.open {
		if t, ok := since[id]; ok {
			h.since = t
		}
	}
	return nil
}
