package store

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

const (
	maxQueue = 4096 // operations waiting; more wait in their callers
	maxGroup = 1024 // operations in one transaction

	maxRetryAfter = time.Minute     // between tries to leave the failed state
	retryHint     = 5 * time.Second // told to callers meanwhile
)

// opKind says what must be done with an operation whose commit failed.
type opKind uint8

const (
	opOther   opKind = iota // its caller is told that the outcome is unknown
	opHold                  // undone if it was written
	opEnd                   // done again if it was not written
	opNote                  // as opOther
	opRead                  // changes nothing
	opControl               // runs between transactions, outside of any
)

// op is one operation for the committer.
type op struct {
	kind opKind
	// put first checks, and then changes the memory and writes. An error from
	// the checks refuses the operation and must leave no trace; what goes wrong
	// afterwards is reported through writer.fatal and fails the whole group.
	put func(w *writer) error
	// published runs after the commit.
	published func()
	control   func() error

	end *endRequest // of an opEnd

	requestID string
	row       *Row // not changed once it is here
	err       error
	taken     atomic.Int32 // 0 waiting, 1 the committer has it, 2 its caller left
	answered  bool         // committer only; row and err are the caller's from then on
	done      chan struct{}
}

func newOp(kind opKind, put func(w *writer) error) *op {
	return &op{kind: kind, put: put, done: make(chan struct{})}
}

// writer is one transaction of the committer.
type writer struct {
	s      *Store
	tx     *bolt.Tx
	led    *ledger
	now    time.Time
	direct bool // tx is one that writes
	wrote  bool // something was put
	fatal  error
}

// mark notes that the transaction has changes; put errors end up here.
func (w *writer) mark(err error) {
	w.wrote = true
	if err != nil && w.fatal == nil {
		w.fatal = err
	}
}

// do hands o to the committer and waits for its answer. If ctx ends first and
// the committer has not taken o yet, it never will.
func (s *Store) do(ctx context.Context, o *op) error {
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return errClosed
	}
	select {
	case s.ops <- o:
		s.closing.RUnlock()
	case <-ctx.Done():
		s.closing.RUnlock()
		return gaveUp(ctx)
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.taken.CompareAndSwap(0, 2) {
			return gaveUp(ctx)
		}
		<-o.done
	}
	return o.err
}

func gaveUp(ctx context.Context) error {
	code := infer.CodeTimeout
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = infer.CodeUnavailable
	}
	return &infer.Error{Code: code, Message: "the request ended before the ledger could take it", Cause: ctx.Err()}
}

// result is what the caller of an operation with a row gets.
func (o *op) result(err error) (Row, error) {
	if o.row == nil {
		return Row{}, err
	}
	return *o.row, err
}

func (o *op) answer() {
	o.answered = true
	if o.done != nil {
		close(o.done)
	}
}

// commitLoop is the committer: the only writer of the file and of led.
func (s *Store) commitLoop() {
	defer close(s.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	group := make([]*op, 0, maxGroup)
	for {
		select {
		case o := <-s.ops:
			s.handle(group, o)
		case err := <-s.flushed:
			s.flushDone(err)
		case <-tick.C:
			s.housekeeping()
		case <-s.quit:
			for len(s.ops) > 0 {
				s.handle(group, <-s.ops)
			}
			s.farewell()
			return
		}
	}
}

// handle commits first and all that waits behind it, up to a control operation.
func (s *Store) handle(group []*op, first *op) {
	// Those answered by the last commit are about to ask again: let them run
	// once. It costs a lone writer nothing.
	runtime.Gosched()
	select {
	case err := <-s.flushed:
		s.flushDone(err)
	default:
	}
	group = group[:0]
	var control *op
	for o := first; o != nil; {
		switch {
		case !o.taken.CompareAndSwap(0, 1):
		case o.kind == opControl:
			control = o
		default:
			group = append(group, o)
		}
		o = nil
		if control == nil && len(group) < maxGroup {
			select {
			case o = <-s.ops:
			default:
			}
		}
	}
	if len(group) > 0 {
		if err := s.commit(group); err != nil {
			s.commitFailed(group, err)
		}
		for _, o := range group {
			o.answer()
		}
		clear(group)
	}
	if control != nil {
		if err := s.checkpoint(); err != nil {
			s.commitFailed(nil, err)
		}
		control.err = control.control()
		control.answer()
	}
}

// commit runs a group in one transaction. Refusals are in the operations; an
// error means that the outcome of the others is unknown.
func (s *Store) commit(group []*op) error {
	if e := s.failure.Load(); e != nil {
		for _, o := range group {
			o.err = e
			if o.kind == opEnd {
				s.doubt = append(s.doubt, o)
			}
		}
		return nil
	}
	return s.write(group)
}

// write is commit without looking whether the store has failed.
func (s *Store) write(group []*op) error {
	began := time.Now()
	wrote, err := false, error(nil)
	if s.journaled(group) {
		wrote, err = s.writeJournal(group)
	} else {
		wrote, err = s.writeDB(group)
	}
	if err != nil {
		return err
	}
	for _, o := range group {
		if o.err == nil && o.published != nil {
			o.published()
		}
	}
	if wrote {
		s.count(len(group), time.Since(began))
	}
	return nil
}

// writeDB runs a group, and all that is pending, in one transaction of the
// database.
func (s *Store) writeDB(group []*op) (wrote bool, err error) {
	if err := s.awaitFlush(); err != nil {
		return false, err
	}
	size := int64(0)
	err = guard(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit it does nothing
		w := &writer{s: s, tx: tx, led: &s.led, now: s.now(), direct: true}
		s.fill(w, group)
		if wrote = w.wrote; !wrote {
			return nil
		}
		if w.fatal != nil {
			return w.fatal
		}
		if err := s.faultAt("before commit"); err != nil {
			return err
		}
		size = tx.Size()
		if err := tx.Commit(); err != nil {
			return err
		}
		return s.faultAt("after commit")
	})
	if err != nil {
		return wrote, err
	}
	s.unflushed.Store(false)
	for _, j := range s.journals {
		j.off = 0 // the database has all of it
	}
	if wrote {
		s.mu.Lock()
		s.stats.FileBytes = size
		s.mu.Unlock()
	}
	return wrote, nil
}

// fill puts the operations and then, into the database, what they have in
// common.
func (s *Store) fill(w *writer, group []*op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range group {
		if o.kind == opHold && s.full.Load() {
			o.err = errFull
			continue
		}
		if o.kind == opOther {
			w.putPending() // it reads the database alone
		}
		if w.fatal == nil {
			o.err = o.put(w)
		}
		if w.fatal != nil {
			return
		}
	}
	w.putPending()
}

// putPending writes what is pending into the transaction, if that can be.
func (w *writer) putPending() {
	if p := w.s.active; w.direct && !p.empty() {
		p.freeze()
		w.mark(p.put(w.tx))
		w.s.active = newPending()
	}
}

func (s *Store) count(ops int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Commits++
	s.stats.Ops += uint64(ops)
	s.stats.MaxGroup = max(s.stats.MaxGroup, ops)
	s.stats.CommitTime += took
	s.stats.LastCommit = took
	if len(s.led.balances) > maxCachedBalances {
		for k, b := range s.led.balances {
			if b.held == 0 && !b.dirty {
				delete(s.led.balances, k)
			}
		}
	}
}

func (s *Store) faultAt(point string) error {
	if s.opts.fault == nil {
		return nil
	}
	return s.opts.fault(point)
}

// housekeeping runs once a second in the committer.
func (s *Store) housekeeping() {
	if s.failure.Load() != nil {
		if time.Since(s.failedAt) >= s.retryAfter {
			s.retryAfter = min(2*s.retryAfter, maxRetryAfter)
			s.failedAt = time.Now()
			if err := s.reopen(); err != nil {
				s.log.Error("the database is still unusable", "error", err.Error(), "next_try", s.retryAfter.String())
			}
		}
		return
	}
	if s.full.Load() {
		s.refill()
	}
	if s.faultAt("tick") == nil {
		s.rotate(1)
	}
	if o := s.keys.flushOp(s.now(), false); o != nil {
		s.commitAlone(o)
	}
}

// farewell writes what is still in memory only, and marks the file as closed in
// good order.
func (s *Store) farewell() {
	if err := s.awaitFlush(); err != nil {
		s.commitFailed(nil, err)
	}
	if s.failure.Load() != nil {
		return
	}
	if o := s.keys.flushOp(s.now(), true); o != nil {
		s.commitAlone(o)
	}
	s.commitAlone(newOp(opOther, func(w *writer) error {
		w.mark(w.tx.Bucket(bucketMeta).Put(metaClean, []byte{1}))
		return nil
	}))
}

func (s *Store) commitAlone(o *op) {
	group := []*op{o}
	if err := s.commit(group); err != nil {
		s.commitFailed(group, err)
	}
}
