//go:build linux

package cpu

import (
	"fmt"
	"syscall"
)

const madvHugePage = 14 // MADV_HUGEPAGE of madvise(2)

// allocate returns n zero bytes outside the Go heap, in huge pages where the
// system grants them, aligned to a page.
func allocate(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cannot reserve %d bytes: %w", n, err)
	}
	if n >= 2<<20 {
		_ = syscall.Madvise(b, madvHugePage) // an optimization: refusal does no harm
	}
	return b, nil
}

// free gives memory of allocate back.
func free(b []byte) error {
	if b == nil {
		return nil
	}
	return syscall.Munmap(b)
}
