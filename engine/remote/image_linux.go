package remote

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Numbers of descriptors. Between fork and exec the descriptors of the child's
// own files are made, from 3 upwards and beside the numbers that the files have
// here; the program to start must be out of their way, since it is opened by its
// number only then.
const (
	highDescriptor  = 512
	spareDescriptor = 64 // above every file that is handed over
)

// place is a path that a program can be started from.
type place struct {
	path string
	what string // for messages
	file *os.File
}

func (p place) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// StartError says why a program that is part of this one could not be started.
type StartError struct {
	Name string
	Errs []error // of each way that was tried
}

func (e *StartError) Error() string {
	text := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		text[i] = err.Error()
	}
	return fmt.Sprintf("cannot start %s: %s", e.Name, strings.Join(text, "; "))
}

// Unwrap gives what each way said.
func (e *StartError) Unwrap() []error { return e.Errs }

// start puts the program where it can be run and has run try each place until
// one works. above is the highest descriptor that the child is given.
func (im *Image) start(above int, run func(path string) error) error {
	failed := &StartError{Name: im.Name}
	for _, put := range []func(int) (place, error){im.inMemory, im.onDisk} {
		p, err := put(above)
		if err == nil {
			err = runQuiet(p.path, run)
			p.close()
			if err == nil || isExit(err) {
				return err
			}
			err = fmt.Errorf("%s: %w", p.what, im.explain(err))
		}
		failed.Errs = append(failed.Errs, err)
		if errors.As(err, new(*loaderError)) {
			break // it would be missing elsewhere too
		}
	}
	return failed
}

// runQuiet tries again for a moment where a file is still open for writing: a
// child that another thread has just forked holds all our descriptors until its
// own exec.
func runQuiet(path string, run func(string) error) (err error) {
	for pause := time.Millisecond; pause < 200*time.Millisecond; pause *= 2 {
		if err = run(path); !errors.Is(err, unix.ETXTBSY) {
			return err
		}
		time.Sleep(pause)
	}
	return err
}

// memfdExec asks for memory that may be executed (Linux 6.3, memfd_create(2)).
const memfdExec = unix.MFD_EXEC

// inMemory puts the program into memory of no file, at a high descriptor.
func (im *Image) inMemory(above int) (p place, err error) {
	defer func() {
		if err != nil {
			p.close()
			err = fmt.Errorf("from memory: %w", err)
		}
	}()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return p, fmt.Errorf("/proc is not mounted: %w", err)
	}
	fd, err := unix.MemfdCreate(im.Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|memfdExec)
	if errors.Is(err, unix.EINVAL) { // a kernel that does not know the flag allows it anyway
		fd, err = unix.MemfdCreate(im.Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if errors.Is(err, unix.EACCES) {
		return p, fmt.Errorf("vm.memfd_noexec forbids it: %w", err)
	}
	if err != nil {
		return p, fmt.Errorf("memfd_create: %w", err)
	}
	low := os.NewFile(uintptr(fd), im.Name)
	defer low.Close()
	if _, err := low.WriteString(im.ELF); err != nil {
		return p, err
	}
	// What is run is what was written: nobody can change it any more.
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return p, fmt.Errorf("cannot seal it: %w", err)
	}
	high, err := highCopy(fd, above)
	if err != nil {
		return p, err
	}
	return place{path: fmt.Sprintf("/proc/self/fd/%d", high), what: "from memory", file: os.NewFile(uintptr(high), im.Name)}, nil
}

// highCopy duplicates a descriptor to a number far above those of a child.
func highCopy(fd, above int) (int, error) {
	least := max(highDescriptor, above+spareDescriptor)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, least)
	if errors.Is(err, unix.EINVAL) { // the limit of open files is lower
		high, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, above+spareDescriptor)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot move it to a high descriptor: %w", err)
	}
	return high, nil
}

// onDisk puts the program into a file, which a later start finds again.
func (im *Image) onDisk(int) (place, error) {
	if im.Dir == "" {
		return place{}, errors.New("from a file: no directory for it was named")
	}
	sum := sha256.Sum256([]byte(im.ELF))
	path := filepath.Join(im.Dir, im.Name+"-"+hex.EncodeToString(sum[:8]))
	p := place{path: path, what: "from " + path}
	if have, err := os.ReadFile(path); err == nil && sha256.Sum256(have) == sum {
		return p, os.Chmod(path, 0o700)
	}
	if err := im.write(path); err != nil {
		return p, fmt.Errorf("from a file: %w", err)
	}
	return p, nil
}

// write makes the file whole or not at all.
func (im *Image) write(path string) error {
	if err := os.MkdirAll(im.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(im.Dir, im.Name+"-*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(im.ELF)
	if err := errors.Join(err, f.Chmod(0o700), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// loaderError says that the program's interpreter is missing.
type loaderError struct{ interpreter string }

func (e *loaderError) Error() string {
	return fmt.Sprintf("this system has no %s, the loader of programs that use shared libraries", e.interpreter)
}

// explain gives a reason for what exec said: "no such file" is about the
// interpreter where the file itself is there, and "permission denied" about the
// place.
func (im *Image) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if name := im.interpreter(); name != "" {
			if _, serr := os.Stat(name); serr != nil {
				return fmt.Errorf("%w (%w)", &loaderError{name}, err)
			}
		}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the place may not hold programs (mounted noexec, or vm.memfd_noexec): %w", err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("it is not for this machine: %w", err)
	}
	return err
}

// interpreter reads PT_INTERP; empty: the program has none.
func (im *Image) interpreter() string {
	f, err := elf.NewFile(strings.NewReader(im.ELF))
	if err != nil {
		return ""
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err == nil {
				return strings.TrimRight(string(b), "\x00")
			}
		}
	}
	return ""
}
