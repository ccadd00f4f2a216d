package store

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// flushAt is how many records may be pending before they are written into the
// database. Fewer make the tree's pages be written more often; more make the
// next start longer.
const flushAt = 2048

// openJournals opens the journals, or makes them. On a full disk the store does
// without.
func (s *Store) openJournals() error {
	for _, name := range []string{".journal-a", ".journal-b"} {
		j, err := openJournal(s.path+name, journalBytes)
		if err == nil {
			s.journals = append(s.journals, j)
			continue
		}
		if !noSpace(err) {
			return fmt.Errorf("cannot open the journal of the database: %w", err)
		}
		s.log.Warn("the disk of the database has no room for its journals: commits will be slower")
		if len(s.journals) == 0 {
			os.Remove(s.path + name) // unfinished, and never used
			return nil
		}
		// The other one may have records, so both are needed for reading; one
		// alone cannot be written.
		os.Remove(s.path + name)
		break
	}
	return nil
}

func (s *Store) closeJournals() error {
	var err error
	for _, j := range s.journals {
		if cerr := j.close(); err == nil {
			err = cerr
		}
	}
	s.journals = nil
	return err
}

// replay brings the database up to the journals and begins them anew.
func (s *Store) replay(derive bool) error {
	n := 0
	err := guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) (err error) {
			s.mark = markOf(tx)
			n, err = replay(tx, s.journals, derive)
			if err == nil && n == 0 {
				return errNothing
			}
			return err
		})
	})
	if err != nil && err != errNothing {
		return err
	}
	if n > 0 {
		s.log.Info("took records from the journals", "records", n)
	}
	for _, j := range s.journals {
		j.off = 0
	}
	s.current, s.active, s.flushing = 0, newPending(), nil
	s.unflushed.Store(false)
	return nil
}

var errNothing = errors.New("there is nothing to write")

// journaled says that a group may go into the journal: it has records of the
// ledger only.
func (s *Store) journaled(group []*op) bool {
	if len(s.journals) != 2 {
		return false
	}
	for _, o := range group {
		if o.kind != opHold && o.kind != opEnd && o.kind != opNote && o.kind != opRead {
			return false
		}
	}
	return true
}

// writeJournal runs a group and appends its records to the journal.
func (s *Store) writeJournal(group []*op) (wrote bool, err error) {
	s.rotate(flushAt)
	j := s.journals[s.current]
	full := false
	err = guard(func() error {
		tx, err := s.db.Begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		w := &writer{s: s, tx: tx, led: &s.led, now: s.now()}
		n := len(s.active.records)
		s.fill(w, group)
		if wrote = w.wrote; !wrote || w.fatal != nil {
			return w.fatal
		}
		if err := s.faultAt("before commit"); err != nil {
			return err
		}
		records := s.active.records[n:]
		b := beginFrame(s.frame, s.mark)
		for _, r := range records {
			b = addToFrame(b, r)
		}
		b = endFrame(b, len(records), s.active.last()-uint64(len(records))+1)
		s.frame = b
		if full = !j.fits(len(b)); full {
			return nil
		}
		if err := j.append(b); err != nil {
			return err
		}
		return s.faultAt("after commit")
	})
	if err == nil && full {
		return wrote, s.checkpoint()
	}
	if err == nil && wrote {
		s.unflushed.Store(true)
	}
	return wrote, err
}

// rotate begins to write what is pending into the database, if that is at least
// n records or half of the journal, and if the journal before is done with. New
// records go into that one meanwhile.
func (s *Store) rotate(n int) {
	if s.flushing != nil || s.active.empty() || len(s.journals) != 2 || s.failure.Load() != nil ||
		len(s.active.records) < n && s.journals[s.current].off < s.journals[s.current].size/2 {
		return
	}
	p := s.active
	s.mu.Lock()
	p.freeze()
	s.mu.Unlock()
	s.flushing, s.active = p, newPending()
	s.current = 1 - s.current
	s.journals[s.current].off = 0
	db := s.db
	go func() {
		s.flushed <- guard(func() error {
			if err := s.faultAt("flush"); err != nil {
				return err
			}
			return db.Update(p.put)
		})
	}()
}

// flushDone takes note that the journal before is done with.
func (s *Store) flushDone(err error) {
	s.flushing = nil
	if err != nil {
		s.commitFailed(nil, err)
		return
	}
	s.unflushed.Store(!s.active.empty())
}

// awaitFlush waits until nothing is being flushed.
func (s *Store) awaitFlush() error {
	if s.flushing == nil {
		return nil
	}
	err := <-s.flushed
	s.flushing = nil
	return err
}

// checkpoint writes all that is pending into the database.
func (s *Store) checkpoint() error {
	if !s.unflushed.Load() && s.active.empty() {
		return nil
	}
	_, err := s.writeDB(nil)
	return err
}
