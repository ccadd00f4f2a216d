//go:build !unix

package weights

import "io"

// mapping is a whole file, read into memory where it cannot be mapped.
type mapping struct {
	data []byte
}

func mapFile(path string) (*mapping, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	return &mapping{data}, nil
}

func (m *mapping) close() error {
	m.data = nil
	return nil
}

// release does nothing here: the file is a copy in memory.
func (m *mapping) release([]byte) {}
