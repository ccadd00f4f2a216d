//go:build unix

package weights

import (
	"fmt"
	"syscall"
)

// mapping is a whole file, mapped read-only. The file must not shrink while it
// is mapped (the kernel would answer an access with SIGBUS): installed models
// are never written in place.
type mapping struct {
	data []byte
}

func mapFile(path string) (*mapping, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size == 0 {
		return &mapping{}, nil
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s (%d bytes): %w", path, size, err)
	}
	return &mapping{data}, nil
}

func (m *mapping) close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return syscall.Munmap(data)
}
