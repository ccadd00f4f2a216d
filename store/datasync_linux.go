package store

import (
	"errors"
	"os"
	"syscall"
)

// datasync makes what was written durable. The file does not grow, so its
// metadata need not be.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
