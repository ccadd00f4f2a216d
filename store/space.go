package store

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// noSpace tells a full disk from other faults. bbolt formats some of its causes
// into text, so the text is looked at too.
func noSpace(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
		for u := err; u != nil; u = errors.Unwrap(u) {
			if strings.Contains(u.Error(), e.Error()) {
				return true
			}
		}
	}
	return false
}

func (s *Store) ballastPath() string { return s.path + ".ballast" }

// makeBallast sets space aside in a file, blocks allocated. A disk too full for
// it makes the store full from the start.
func (s *Store) makeBallast() {
	if s.opts.BallastBytes < 0 || s.ballast {
		return
	}
	if st, err := os.Stat(s.ballastPath()); err == nil && st.Size() == s.opts.BallastBytes {
		s.ballast = true
		return
	}
	err := allocate(s.ballastPath(), s.opts.BallastBytes)
	switch {
	case err == nil:
		s.ballast = true
	case noSpace(err):
		os.Remove(s.ballastPath())
		s.full.Store(true)
		s.log.Error("the disk of the database is nearly full: no new paid work is taken", "reserve_bytes", s.opts.BallastBytes)
	default:
		os.Remove(s.ballastPath())
		s.log.Warn("cannot set disk space aside", "error", err.Error())
	}
}

// dropBallast gives the space set aside to the running requests.
func (s *Store) dropBallast() {
	if err := os.Remove(s.ballastPath()); err == nil {
		s.log.Warn("the disk of the database is full: released the reserve, new paid work is refused")
	}
	s.ballast = false
}

// refill tries to set the space aside again, and with it ends being full.
func (s *Store) refill() {
	if s.opts.BallastBytes >= 0 {
		if err := allocate(s.ballastPath(), s.opts.BallastBytes); err != nil {
			os.Remove(s.ballastPath())
			return
		}
		s.ballast = true
	}
	s.full.Store(false)
	s.log.Info("the disk of the database has space again")
}

// allocate makes a file of n bytes with its blocks.
func allocate(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	err = fallocate(f, n)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	block := make([]byte, 1<<20)
	for off := int64(0); off < n; off += int64(len(block)) {
		if _, err := f.WriteAt(block[:min(int64(len(block)), n-off)], off); err != nil {
			return err
		}
	}
	return f.Sync()
}
