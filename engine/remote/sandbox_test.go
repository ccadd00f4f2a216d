//go:build linux && (amd64 || arm64)

package remote

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sandboxMain is a process that confines itself and says for each act whether
// it was allowed. HEARTH_TEST_DIR is the directory that it may read.
func sandboxMain() int {
	dir := os.Getenv("HEARTH_TEST_DIR")
	if dir == "" {
		return 3
	}
	// Threads from before the sandbox: all must be confined.
	const threads = 4
	ready, begin := make(chan bool), make(chan bool)
	results := make(chan string, 1000)
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			ready <- true
			<-begin
			for _, a := range acts(dir) {
				if a.all || i == 0 {
					results <- fmt.Sprintf("%s: %v", a.name, a.try())
				}
			}
		})
	}
	for range threads {
		<-ready
	}
	o := SandboxOptions{Read: []string{filepath.Join(dir, "model")}}
	if drives() {
		o.ExecutableMemory, o.Devices = true, []string{filepath.Join(dir, "device")}
	}
	r, err := Sandbox(o)
	fmt.Println("sandbox:", r, err)
	close(begin)
	wg.Wait()
	// Life goes on: threads, memory, timers.
	var more sync.WaitGroup
	for range 8 {
		more.Go(func() {
			runtime.LockOSThread()
			b := make([]byte, 8<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			time.Sleep(time.Millisecond)
		})
	}
	more.Wait()
	runtime.GC()
	close(results)
	for l := range results {
		fmt.Println(l)
	}
	return 0
}

// drives says whether the process is to keep a device.
func drives() bool { return os.Getenv("HEARTH_TEST_DEVICE") != "" }

// act is something a worker tries.
type act struct {
	name     string
	allowed  bool
	all      bool // tried on every thread
	landlock bool // denied by Landlock alone
	try      func() error
}

func acts(dir string) []act {
	open := func(path string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}
	}
	call := func(nr uintptr, args ...uintptr) func() error {
		return func() error {
			var a [6]uintptr
			copy(a[:], args)
			if _, _, e := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
				return e
			}
			return nil
		}
	}
	socket := func(domain, typ int) func() error {
		return func() error {
			fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}
	}
	parent := os.Getppid()
	return []act{
		{name: "write to a device", allowed: drives(), all: true, try: open(filepath.Join(dir, "device"), unix.O_RDWR)},
		{name: "read the model", allowed: true, all: true, try: open(filepath.Join(dir, "model/weights"), unix.O_RDONLY)},
		{name: "list the model", allowed: true, try: open(filepath.Join(dir, "model"), unix.O_RDONLY|unix.O_DIRECTORY)},
		{name: "signal itself", allowed: true, try: func() error { return unix.Kill(os.Getpid(), 0) }},
		{name: "write to the model", all: true, landlock: drives(), try: open(filepath.Join(dir, "model/weights"), unix.O_WRONLY)},
		{name: "read beside the model", all: true, landlock: true, try: open(filepath.Join(dir, "secret"), unix.O_RDONLY)},
		{name: "read a system file", all: true, landlock: true, try: open("/etc/passwd", unix.O_RDONLY)},
		{name: "read through proc", landlock: true, try: open("/proc/self/root/etc/passwd", unix.O_RDONLY)},
		{name: "read the parent's memory", landlock: true, try: open(fmt.Sprintf("/proc/%d/mem", parent), unix.O_RDONLY)},
		{name: "create a file", all: true, try: open(filepath.Join(dir, "new"), unix.O_CREAT|unix.O_RDWR)},
		{name: "create a temporary file", try: open("/tmp", unix.O_TMPFILE|unix.O_RDWR)},
		{name: "remove a file", try: func() error { return unix.Unlink(filepath.Join(dir, "secret")) }},
		{name: "rename a file", try: func() error { return unix.Rename(filepath.Join(dir, "secret"), filepath.Join(dir, "model/x")) }},
		{name: "make a directory", try: func() error { return unix.Mkdir(filepath.Join(dir, "d"), 0o700) }},
		{name: "change a mode", try: func() error { return unix.Chmod(filepath.Join(dir, "secret"), 0o777) }},
		{name: "tcp", all: true, try: socket(unix.AF_INET, unix.SOCK_STREAM)},
		{name: "udp", all: true, try: socket(unix.AF_INET6, unix.SOCK_DGRAM)},
		{name: "unix socket", all: true, try: socket(unix.AF_UNIX, unix.SOCK_STREAM)},
		{name: "netlink", try: socket(unix.AF_NETLINK, unix.SOCK_RAW)},
		{name: "socketpair", try: func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
		{name: "exec", all: true, try: func() error { return syscall.Exec("/bin/true", []string{"true"}, nil) }},
		{name: "start a program", try: func() error { _, err := syscall.ForkExec("/bin/true", []string{"true"}, nil); return err }},
		{name: "memfd", try: func() error { _, err := unix.MemfdCreate("x", 0); return err }},
		{name: "trace the parent", all: true, try: func() error { return unix.PtraceAttach(parent) }},
		{name: "signal the parent", all: true, try: func() error { return unix.Kill(parent, 0) }},
		{name: "process_vm_readv", try: call(unix.SYS_PROCESS_VM_READV, uintptr(parent))},
		{name: "unshare", try: func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{name: "mount", try: func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{name: "io_uring", try: call(unix.SYS_IO_URING_SETUP, 1)},
		{name: "bpf", try: call(unix.SYS_BPF)},
		{name: "userfaultfd", try: call(unix.SYS_USERFAULTFD)},
		{name: "keyctl", try: call(unix.SYS_KEYCTL)},
		{name: "clone3", try: call(unix.SYS_CLONE3)},
		{name: "openat2", try: call(unix.SYS_OPENAT2)},
		{name: "executable memory", allowed: drives(), all: true, try: func() error {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err == nil {
				unix.Munmap(b)
			}
			return err
		}},
		{name: "dump core", try: func() error {
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Cur != 0 || l.Max != 0 {
				return nil
			}
			return unix.EPERM
		}},
	}
}

// TestSandbox tries what a worker must not do, and the little that it may, on
// threads from before and after.
func TestSandbox(t *testing.T) {
	t.Run("processor", func(t *testing.T) { testSandbox(t, "") })
	t.Run("device", func(t *testing.T) { testSandbox(t, "1") })
}

func testSandbox(t *testing.T, device string) {
	t.Setenv("HEARTH_TEST_DEVICE", device)
	dir := t.TempDir()
	for _, f := range []string{"model/weights", "secret", "device"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), "HEARTH_TEST_WORKER=sandbox", "HEARTH_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head, rest, _ := strings.Cut(string(out), "\n")
	t.Log(head)
	landlocked := !strings.Contains(head, "landlock:")
	if !landlocked {
		t.Log("NOT CHECKED: Landlock is not in force here")
	}
	if strings.Contains(head, "seccomp:") {
		t.Skip("SKIPPED: the kernel takes no seccomp filter")
	}
	got := map[string][]string{}
	for l := range strings.Lines(rest) {
		name, result, _ := strings.Cut(strings.TrimSpace(l), ": ")
		got[name] = append(got[name], result)
	}
	for _, a := range acts(dir) {
		want := 1
		if a.all {
			want = 4
		}
		if len(got[a.name]) != want {
			t.Errorf("%s was tried %d times, want %d", a.name, len(got[a.name]), want)
		}
		for _, r := range got[a.name] {
			if ok := r == "<nil>"; ok != a.allowed && (landlocked || !a.landlock) {
				t.Errorf("%s: %s", a.name, r)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "secret")); err != nil {
		t.Error(err)
	}
}

func TestSandboxPath(t *testing.T) {
	if _, err := landlockABI(); err != nil {
		t.Skip("SKIPPED: no Landlock here")
	}
	if err := allow(-1, "/no/such/file", unix.LANDLOCK_ACCESS_FS_READ_FILE); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("got %v", err)
	}
}
