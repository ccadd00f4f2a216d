package store

import (
	"errors"
	"fmt"
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
			NoFreelistSync:  true, // found anew from the tree, which was just walked; one page less to damage and to write
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
