//go:build linux && (amd64 || arm64)

package remote

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// selfImage is this test binary as an image.
func selfImage(t testing.TB, dir string) *Image {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return &Image{Name: "hearth-test-worker", ELF: string(b), Dir: dir}
}

func imageCommand(im *Image, mode string) *Command {
	c := testCommand(mode, nil)
	c.Image = im
	return c
}

// answers starts a worker and has it answer once.
func answers(t *testing.T, l Launcher) (pid int, err error) {
	t.Helper()
	p, err := l.Launch(t.Context())
	if err != nil {
		return 0, err
	}
	c, err := Dial(t.Context(), p.Conn(), ClientOptions{Build: "b"})
	if err != nil {
		p.Kill()
		return 0, errors.Join(err, p.Wait())
	}
	t.Cleanup(func() { p.Kill(); p.Wait(); c.Close() })
	if o := drain(c.Generate(t.Context(), request("n=3"))); o.err != nil || o.tokens != 3 {
		t.Errorf("the worker gives %+v", o)
	}
	return c.PID(), nil
}

// A program starts from memory under its own name, also while so many files are
// open that the child's own pass every fixed number, and leaves nothing open.
func TestImageFromMemory(t *testing.T) {
	for _, open := range []int{0, highDescriptor - 20, highDescriptor + 40} {
		var held []*os.File
		for range open {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Skipf("SKIPPED: cannot have %d files open: %v", open, err)
			}
			held = append(held, f)
		}
		before := openFDs(t)
		dir := t.TempDir()
		pid, err := answers(t, imageCommand(selfImage(t, dir), "serve"))
		if err != nil {
			t.Fatalf("with %d files open: %v", open, err)
		}
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); !strings.Contains(exe, "memfd:hearth-test-worker") {
			t.Errorf("the worker runs from %s", exe)
		}
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !bytes.HasPrefix(b, []byte("hearth-test-worker\x00")) {
			t.Errorf("the worker is called %q", b)
		}
		if list, _ := os.ReadDir(dir); len(list) != 0 {
			t.Errorf("files are left: %v", list)
		}
		if n := openFDs(t) - before; n > 6 { // the connection, its output, and what the runtime keeps
			t.Errorf("%d more descriptors are open", n)
		}
		if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err != nil || len(fds) > 12 {
			t.Errorf("the worker has %d descriptors open, %v", len(fds), err)
		}
		for _, f := range held {
			f.Close()
		}
	}
}

// Where memory may not be executed, the program starts from a file, which the
// next start uses again; a file that was changed is not.
func TestImageFromFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for i := range 3 {
		out := inChild(t, "image-refused", dir)
		if !strings.HasPrefix(out, filepath.Join(dir, "hearth-test-worker-")) {
			t.Fatalf("start %d: the worker runs from %q", i, out)
		}
		file := strings.TrimSpace(out)
		if i == 1 {
			if err := os.WriteFile(file, []byte("something else"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("the file: %v, %v", st, err)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("files: %v", list)
	}
}

// Where neither works, the error has both reasons.
func TestImageNowhere(t *testing.T) {
	dir := noexecDir(t)
	out := inChild(t, "image-refused", dir)
	for _, want := range []string{"cannot start hearth-test-worker", "vm.memfd_noexec forbids it", "from " + dir, "mounted noexec"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q does not say %q", out, want)
		}
	}
	out = inChild(t, "image-refused", "")
	if !strings.Contains(out, "no directory for it was named") {
		t.Errorf("got %q", out)
	}
}

// noexecDir is a directory of a file system that holds no programs.
func noexecDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, ""); err == nil {
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.Contains(","+f[3]+",", ",noexec,") || f[2] != "tmpfs" {
			continue
		}
		if dir, err := os.MkdirTemp(f[1], "hearth-test-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	t.Skip("SKIPPED: no file system with noexec can be had")
	return ""
}

// A program whose loader is missing is not tried a second way, and the error
// names the loader.
func TestImageWithoutLoader(t *testing.T) {
	im := selfImage(t, t.TempDir())
	im.ELF = withInterpreter(t, im.ELF, "/no/such/loader.so.2")
	if got := im.interpreter(); got != "/no/such/loader.so.2" {
		t.Fatalf("the interpreter is %q", got)
	}
	_, err := answers(t, imageCommand(im, "serve"))
	var se *StartError
	if !errors.As(err, &se) || len(se.Errs) != 1 || !strings.Contains(err.Error(), "this system has no /no/such/loader.so.2") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	broken := selfImage(t, t.TempDir())
	broken.ELF = "not a program"
	if _, err := answers(t, imageCommand(broken, "serve")); err == nil || !strings.Contains(err.Error(), "not for this machine") {
		t.Errorf("got %v", err)
	}
}

// withInterpreter makes a program ask for an interpreter: its own PT_INTERP, or
// a PT_NOTE that becomes one, points to a name behind the end.
func withInterpreter(t *testing.T, program, name string) string {
	b := []byte(program)
	off, size, count := binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint16(b[54:]), binary.LittleEndian.Uint16(b[56:])
	for _, want := range []elf.ProgType{elf.PT_INTERP, elf.PT_NOTE} {
		for i := range uint64(count) {
			h := b[off+i*uint64(size):]
			if elf.ProgType(binary.LittleEndian.Uint32(h)) != want {
				continue
			}
			binary.LittleEndian.PutUint32(h, uint32(elf.PT_INTERP))
			binary.LittleEndian.PutUint64(h[8:], uint64(len(b)))
			binary.LittleEndian.PutUint64(h[32:], uint64(len(name)+1))
			return string(b) + name + "\x00"
		}
	}
	t.Skip("SKIPPED: this test binary has no program header to change")
	return ""
}

// A worker from memory dies with the thread's process too.
func TestImageParentDeath(t *testing.T) {
	cmd, pid := gateway(t, "image-parent")
	syscall.Kill(pid, syscall.SIGSTOP)
	cmd.Process.Kill()
	cmd.Wait()
	wait(t, "the worker to end", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// What the loader of shared libraries says is part of the reason.
func TestLoaderRefuses(t *testing.T) {
	s := Supervise(&Command{Path: "/bin/sh", Args: []string{"-c", "echo \"libc.so.6: version 'GLIBC_9.99' not found\" >&2; exit 127"}}, SupervisorOptions{})
	defer s.Close()
	wait(t, "the reason", func() bool { return strings.Contains(s.Health(t.Context()).Reason, "GLIBC_9.99") })
}

// inChild runs a mode of imageMain and gives what it prints.
func inChild(t *testing.T, mode, dir string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), "HEARTH_TEST_WORKER="+mode, "HEARTH_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", mode, err)
	}
	return string(out)
}

// imageMain is a gateway that starts a worker from an image and says where it
// runs from, or why it does not.
func imageMain(mode string) int {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if mode == "image-refused" {
		if err := refuseMemfd(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	im := &Image{Name: "hearth-test-worker", ELF: string(b), Dir: os.Getenv("HEARTH_TEST_DIR")}
	c := imageCommand(im, "serve")
	p, err := c.Launch(context.Background())
	if err != nil {
		fmt.Println(err)
		return 0
	}
	if mode == "image-parent" {
		fmt.Println(p.(*process).PID())
		select {}
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.(*process).PID()))
	fmt.Println(exe)
	p.Kill()
	p.Wait()
	if err != nil {
		return 1
	}
	return 0
}

// refuseMemfd makes memfd_create fail as with vm.memfd_noexec=2.
func refuseMemfd() error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		bpf(bpfLoad, dataNumber, 0, 0),
		bpf(bpfEqual, unix.SYS_MEMFD_CREATE, 0, 1),
		refuse(syscall.EACCES),
		bpf(bpfRet, unix.SECCOMP_RET_ALLOW, 0, 0),
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
