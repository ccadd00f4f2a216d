//go:build unix

package artifact

import (
	"os"
	"syscall"
)

const lockSuffix = ".lock"

// lock makes a lock file that says, as long as this process lives, that the
// temporary folder beside it is in use.
func (s *Store) lock(name string) (*os.File, error) {
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// abandoned tells whether no process holds the lock.
func (s *Store) abandoned(name string) bool {
	f, err := s.root.Open(name)
	if err != nil {
		return os.IsNotExist(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
