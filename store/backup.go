package store

import (
	"context"
	"io"
	"time"

	bolt "go.etcd.io/bbolt"
)

// BackupInfo identifies a backup.
type BackupInfo struct {
	Bytes int64     `json:"bytes"`
	Seq   uint64    `json:"seq"`
	Head  string    `json:"head"`
	At    time.Time `json:"at"`
}

// Backup writes a consistent copy of the whole file to w while serving. The
// copy opens as a database in use at that moment: its open holds are orphans.
func (s *Store) Backup(ctx context.Context, w io.Writer) (BackupInfo, error) {
	info := BackupInfo{At: stamp(s.now())}
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		seq, head, err := decodePoint("the head of the ledger", tx.Bucket(bucketMeta).Get(metaHead))
		if err != nil {
			return err
		}
		info.Seq, info.Head = seq, hexHash(head)
		info.Bytes, err = tx.WriteTo(&ctxWriter{ctx, w})
		return err
	})
	return info, readError(err)
}

// ctxWriter stops a copy when its context ends.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *ctxWriter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}
