package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// initialMmapBytes is address space, not memory: while the file is smaller, a
// long reader (backup, check, export) cannot make the committer wait for the
// mapping to grow.
const initialMmapBytes = 4 << 30

// fileLock is the lock that makes this process the only one with the database.
// It is a file of its own, so that it also covers the making of the database,
// and it holds the owner's pid for the error message of everybody else.
type fileLock struct{ f *os.File }

func lockFile(path string, timeout time.Duration) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock file: %w", err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			who := "another process"
			if pid, rerr := io.ReadAll(io.LimitReader(f, 20)); rerr == nil && len(pid) > 0 {
				who += " (pid " + strings.TrimSpace(string(pid)) + ")"
			}
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("%s has the database open (lock file %s): stop it, or go through it", who, path)
			}
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
	}
	// The pid is for people; failing to note it harms nothing.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &fileLock{f}, nil
}

func (l *fileLock) unlock() error { return l.f.Close() }

// createFile makes a database with fill, so that path either does not exist or
// is whole, whatever moment the power fails at.
func createFile(path string, fill func(*bolt.Tx) error) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove an unfinished database: %w", err)
	}
	db, err := bolt.Open(tmp, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("cannot create the database: %w", err)
	}
	err = db.Update(fill)
	if err == nil {
		err = db.Sync()
	}
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("cannot create the database: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// openFile opens an existing database after looking whether it is whole: bbolt
// would map a file that was cut short and die on touching what is missing.
func openFile(path string) (*bolt.DB, error) {
	if err := inspect(path); err != nil {
		return nil, err
	}
	var db *bolt.DB
	err := guard(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:         time.Second,
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: mmapBytes(),
			NoStatistics:    true,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	return db, nil
}

func mmapBytes() int {
	if strconv.IntSize < 64 {
		return 0
	}
	n := int64(initialMmapBytes)
	return int(n)
}

// guard turns panics and memory faults under f into errors: bbolt panics on
// pages that make no sense, and a mapped file can fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if s, ok := p.(string); ok && strings.HasPrefix(s, "BUG") {
				panic(p)
			}
			err = &DamageError{What: "the database file", Why: fmt.Errorf("%v", p)}
		}
	}()
	return f()
}

// inspect reads the two meta pages as bbolt lays them out (its
// internal/common/meta.go: a 16-byte page header, then magic, version, page
// size, flags, root, freelist, high-water page, transaction, FNV-64a) and
// compares the newer one with the size of the file.
func inspect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("cannot open the database: %s is not a regular file", path)
	}
	var best metaPage
	found := false
	for _, off := range [...]int64{0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		if m, ok := readMeta(f, off); ok && (!found || m.txid > best.txid) {
			best, found = m, true
		}
	}
	if !found {
		return &DamageError{path, errors.New("it has no valid meta page: not a database of ours, or overwritten; restore a backup")}
	}
	if want := best.pages * best.pageSize; best.pages > 1<<40 || want > uint64(st.Size()) {
		return &DamageError{path, fmt.Errorf("it is %d bytes long, want at least %d: it was cut short; restore a backup", st.Size(), want)}
	}
	return nil
}

type metaPage struct{ pageSize, pages, txid uint64 }

func readMeta(f *os.File, off int64) (metaPage, bool) {
	var b [80]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		return metaPage{}, false
	}
	m, le := b[16:], binary.NativeEndian
	h := fnv.New64a()
	h.Write(m[:56])
	if le.Uint32(m[0:]) != 0xED0CDAED || le.Uint32(m[4:]) != 2 || le.Uint64(m[56:]) != h.Sum64() {
		return metaPage{}, false
	}
	p := metaPage{uint64(le.Uint32(m[8:])), le.Uint64(m[40:]), le.Uint64(m[48:])}
	return p, off == 0 || uint64(off) == p.pageSize
}
