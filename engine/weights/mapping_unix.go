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

// Release tells the system that data, a part of a mapping, will not be read
// again soon: its pages leave memory. They come back from the file if they are
// read after all. Pages that data shares with a neighbour stay.
func Release(data []byte) {
	if len(data) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	skip := int((page - start%page) % page)
	end := len(data) - int((start+uintptr(len(data)))%page)
	if skip < end {
		// Advice only: without it the pages stay, which is no fault.
		_ = syscall.Madvise(data[skip:end], syscall.MADV_DONTNEED)
	}
}
