package weights

import (
	"context"
	"errors"
)

// Digest computes the SHA-256 of the model, in lower-case hex, by streaming the
// files. For a single file it is the file's own digest. For a directory it is
// that of the text "HEX  NAME\n" for each file of File.Files in order, NAME
// being relative to the directory with slashes. progress may be nil; it is
// called with the bytes read so far and the total.
func (f *File) Digest(ctx context.Context, progress func(done, total int64)) (string, error) {
	return "", errors.New("not implemented")
}
