//go:build unix

package weights

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
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

// release tells the system that data will not be read again soon, if it is a
// part of m: its pages leave memory, and come back from the file if they are
// read after all. Pages that data shares with a neighbour stay. Other memory
// must not be advised so: it would be lost.
func (m *mapping) release(data []byte) {
	if len(data) == 0 || len(m.data) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	base := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if start < base || start+uintptr(len(data)) > base+uintptr(len(m.data)) {
		return
	}
	skip := int((page - start%page) % page)
	end := len(data) - int((start+uintptr(len(data)))%page)
	if skip < end {
		// Advice only: without it the pages stay, which is no fault.
		_ = syscall.Madvise(data[skip:end], syscall.MADV_DONTNEED)
	}
}
