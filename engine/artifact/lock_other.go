//go:build !unix

package artifact

import "os"

const lockSuffix = ".lock"

// lock makes a plain file; without advisory locks, leftovers stay until an
// operator deletes them.
func (s *Store) lock(name string) (*os.File, error) {
	return s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (s *Store) abandoned(string) bool { return false }
