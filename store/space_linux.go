package store

import (
	"errors"
	"os"
	"syscall"
)

func fallocate(f *os.File, n int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, n)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return errors.ErrUnsupported
		default:
			return err
		}
	}
}
