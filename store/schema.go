package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Schema is the version of the file layout that this build writes. A file of a
// newer schema is refused; one of an older schema is migrated by Open.
const Schema = 2

// Buckets.
var (
	bucketMeta     = []byte("meta")
	bucketLedger   = []byte("ledger")   // seq, 8 bytes big endian -> record
	bucketRequests = []byte("requests") // request id -> seq of its hold or note, seq of its end (0: none)
	bucketOpen     = []byte("open")     // request id -> seq of its hold
	bucketBalances = []byte("balances") // budget 0 window -> sums, checksum
	bucketBase     = []byte("base")     // state before the oldest record kept; see compact.go
	bucketKeys     = []byte("keys")     // key id -> sealed JSON
	bucketBlobs    = []byte("blobs")    // name -> bucket of sealed values
	// Since schema 2.
	bucketCorrections = []byte("corrections") // request id -> seq of its last correction
	bucketOnce        = []byte("once")        // hash of key and Idempotency-Key -> sealed claim; see once.go
	bucketOnceDue     = []byte("once-due")    // expiry, the same hash -> size of the claim
	// The answers that are kept for later turns; see responses.go.
	bucketResponses      = []byte("responses")       // tenant 0 id -> sealed response
	bucketResponsesDue   = []byte("responses-due")   // tenant 0 expiry id -> size of the response
	bucketResponseTotals = []byte("responses-total") // tenant -> number, bytes, checksum
)

// Keys of bucketMeta.
var (
	metaSchema  = []byte("schema")   // 8 bytes big endian
	metaCreated = []byte("created")  // RFC 3339
	metaHead    = []byte("head")     // seq, hash of the last record, checksum
	metaBase    = []byte("base")     // seq, hash of the record before the oldest kept, checksum
	metaPepper  = []byte("key-hmac") // 32 random bytes: the key of the API keys' hashes
	metaClean   = []byte("clean")    // present while no process has the file open
)

// migration takes a file from schema From to From+1, in one transaction.
type migration struct {
	From int
	Do   func(tx *bolt.Tx) error
}

// migrations of this build, one for each schema below Schema.
var migrations = []migration{{1, addSchema2}}

// addSchema2 makes room for corrections and for answers that are kept for
// repeats. Records stay as they are: layout 1 is read as long as there are any.
func addSchema2(tx *bolt.Tx) error { return makeBuckets(tx, newIn2) }

var (
	newIn1 = [][]byte{bucketMeta, bucketLedger, bucketRequests, bucketOpen, bucketBalances, bucketBase, bucketKeys, bucketBlobs}
	newIn2 = [][]byte{bucketCorrections, bucketOnce, bucketOnceDue, bucketResponses, bucketResponsesDue, bucketResponseTotals}
)

func makeBuckets(tx *bolt.Tx, names [][]byte) error {
	for _, b := range names {
		if _, err := tx.CreateBucket(b); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the database if there is none and brings an older one to the
// present schema. A copy of the file as it was is left beside it first.
func prepare(path string, o Options) (Recovery, error) {
	var rec Recovery
	target := Schema + len(o.migrations) - len(migrations)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		rec.Created = true
		return rec, createFile(path, func(tx *bolt.Tx) error { return initSchema(tx, target, o.Now()) })
	} else if err != nil {
		return rec, fmt.Errorf("cannot open the database: %w", err)
	}
	db, err := openFile(path)
	if err != nil {
		return rec, err
	}
	defer db.Close()
	have := 0
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) (err error) { have, err = readSchema(tx); return err })
	})
	if err != nil {
		return rec, fmt.Errorf("cannot open %s: %w", path, err)
	}
	if have > target {
		return rec, fmt.Errorf("cannot open %s: its schema is %d and this build knows up to %d: "+
			"it was written by a newer version; run that, or restore the backup made before the upgrade", path, have, target)
	}
	if have == target {
		return rec, nil
	}
	rec.Migrated = have
	if err := copyFile(fmt.Sprintf("%s.schema-%d", path, have), path); err != nil {
		return rec, fmt.Errorf("cannot keep a copy before the migration: %w", err)
	}
	for v := have; v < target; v++ {
		if err := migrate(db, o.migrations, v); err != nil {
			return rec, fmt.Errorf("cannot migrate %s from schema %d to %d: %w", path, v, v+1, err)
		}
	}
	return rec, nil
}

func migrate(db *bolt.DB, ms []migration, from int) error {
	for _, m := range ms {
		if m.From != from {
			continue
		}
		return guard(func() error {
			return db.Update(func(tx *bolt.Tx) error {
				if err := m.Do(tx); err != nil {
					return err
				}
				return tx.Bucket(bucketMeta).Put(metaSchema, be64(uint64(from+1)))
			})
		})
	}
	return errors.New("this build has no such migration")
}

func initSchema(tx *bolt.Tx, schema int, now time.Time) error {
	if err := errors.Join(makeBuckets(tx, newIn1), makeBuckets(tx, newIn2)); err != nil {
		return err
	}
	pepper := make([]byte, 32)
	rand.Read(pepper)
	m := tx.Bucket(bucketMeta)
	return errors.Join(
		m.Put(metaSchema, be64(uint64(schema))),
		m.Put(metaCreated, []byte(now.UTC().Format(time.RFC3339))),
		m.Put(metaHead, encodePoint(0, [32]byte{})),
		m.Put(metaBase, encodePoint(0, [32]byte{})),
		m.Put(metaPepper, seal(metaPepper, pepper)),
		m.Put(metaClean, []byte{1}),
	)
}

func readSchema(tx *bolt.Tx) (int, error) {
	m := tx.Bucket(bucketMeta)
	if m == nil {
		return 0, errors.New("it is a bbolt file, but not one of ours")
	}
	v := m.Get(metaSchema)
	if len(v) != 8 {
		return 0, &DamageError{"the schema version", errShort}
	}
	n := binary.BigEndian.Uint64(v)
	if n == 0 || n > 1<<20 {
		return 0, &DamageError{"the schema version", fmt.Errorf("got %d", n)}
	}
	return int(n), nil
}

// copyFile copies a closed or locked database and syncs the copy. A copy that
// exists already is the result of an earlier, interrupted try of the same.
func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(dst+".new", dst)
	}
	if err != nil {
		os.Remove(dst + ".new")
		return err
	}
	return syncDir(filepath.Dir(dst))
}

func beUint64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

func be64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// encodePoint writes a place in the chain: seq, hash, checksum.
func encodePoint(seq uint64, hash [32]byte) []byte {
	b := append(be64(seq), hash[:]...)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

func decodePoint(what string, b []byte) (seq uint64, hash [32]byte, err error) {
	if len(b) != 44 {
		return 0, hash, &DamageError{what, fmt.Errorf("it has %d bytes, want 44", len(b))}
	}
	if checksum(b[:40]) != binary.LittleEndian.Uint32(b[40:]) {
		return 0, hash, &DamageError{what, errors.New("the checksum does not match")}
	}
	return binary.BigEndian.Uint64(b), [32]byte(b[8:40]), nil
}

// seal appends a checksum that also covers the key, so that a value found under
// another key is noticed.
func seal(key, value []byte) []byte {
	out := make([]byte, 0, len(value)+4)
	out = append(out, value...)
	return binary.LittleEndian.AppendUint32(out, checksum(key, value))
}

// unseal checks and strips the checksum. The result aliases b.
func unseal(what string, key, b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, &DamageError{what, errShort}
	}
	value := b[:len(b)-4]
	if checksum(key, value) != binary.LittleEndian.Uint32(b[len(value):]) {
		return nil, &DamageError{what, errors.New("the checksum does not match")}
	}
	return value, nil
}
