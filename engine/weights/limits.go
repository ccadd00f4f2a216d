package weights

import (
	"fmt"
	"io"
	"math"
	"os"
)

// Bounds on what a file may state. Each is far above any published model; they
// keep a hostile file from costing more than its own size.
const (
	maxKeys         = 1 << 14   // GGUF key-values
	maxTensors      = 1 << 16   // per model
	maxNameBytes    = 1 << 10   // tensor name; GGUF says 64
	maxKeyBytes     = 1<<16 - 1 // GGUF metadata key, by the specification
	maxDims         = 4         // GGUF tensor dimensions
	maxAlignment    = 1 << 20
	maxShards       = 4096
	maxIntArray     = 1 << 16     // metadata arrays of integers other than the vocabulary's
	maxHeaderBytes  = 100_000_000 // safetensors JSON header, as the reference implementation has it
	maxConfigBytes  = 4 << 20     // config.json and its like
	maxVocabBytes   = 256 << 20   // tokenizer.json; the largest known are 35 MB
	maxTemplateSize = 1 << 20     // one chat template
	maxTemplates    = 64
)

// regularSize is the size of an open regular file, as an int.
func regularSize(f *os.File) (int, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", f.Name())
	}
	if st.Size() > math.MaxInt {
		return 0, fmt.Errorf("%s has %d bytes, too many for this machine's address space", f.Name(), st.Size())
	}
	return int(st.Size()), nil
}

// openRegular opens a file after making sure that it is a regular one, so that a
// pipe or device in a model's place cannot block the reader.
func openRegular(path string) (*os.File, int, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	size, err := regularSize(f)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// readSmall reads a whole file of at most limit bytes. A file that does not
// exist gives nil and no error; an empty one gives an empty slice.
func readSmall(path string, limit int) ([]byte, error) {
	f, size, err := openRegular(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d allowed", path, size, limit)
	}
	b := make([]byte, size)
	_, err = io.ReadFull(f, b)
	return b, err
}
