//go:build linux && (amd64 || arm64)

package remote

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sandbox takes away from this process, all its threads and whatever they
// start, what a worker with an open model does not need: opening files but
// those named, the network, other programs and processes, and a good part of
// the kernel's surface. It cannot be undone. Where the kernel lacks a part the
// report says so, and the rest is in force; an error is returned only for
// faulty options.
func Sandbox(o SandboxOptions) (SandboxReport, error) {
	var r SandboxReport
	// A core file would hold prompts.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return r, fmt.Errorf("cannot forbid core files: %w", err)
	}
	_, _ = time.Now().Zone() // the zone's file is read at its first use
	runtime.LockOSThread()   // seccomp hands this thread's state to the others
	defer runtime.UnlockOSThread()
	if err := noNewPrivileges(); err != nil {
		r.Landlock, r.Seccomp = err.Error(), err.Error()
		return r, nil
	}
	abi, err := landlock(o.Read, o.Devices)
	var bad *badPathError
	if errors.As(err, &bad) {
		return r, err
	}
	r.LandlockABI = abi
	if err != nil {
		r.Landlock = err.Error()
	}
	if err := seccomp(o); err != nil {
		r.Seccomp = err.Error()
	}
	return r, nil
}

// noNewPrivileges is what an unprivileged process must give up before it may
// confine itself. Where cgo keeps us from reaching all threads, seccomp does so
// later.
func noNewPrivileges() error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if e == syscall.ENOTSUP {
		_, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	}
	if e != 0 {
		return fmt.Errorf("cannot give up new privileges: %w", e)
	}
	return nil
}

// fsAccess are the file system rights that each Landlock ABI knows.
func fsAccess(abi int) uint64 {
	access := uint64(1<<13 - 1) // execute to make_sym
	for _, r := range []struct {
		abi   int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= r.abi {
			access |= r.right
		}
	}
	return access
}

// badPathError is about a path that cannot be kept open.
type badPathError struct{ err error }

func (e *badPathError) Error() string { return "cannot leave a path readable: " + e.err.Error() }
func (e *badPathError) Unwrap() error { return e.err }

func landlockABI() (int, error) {
	v, _, e := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, fmt.Errorf("the kernel has none (%w)", e)
	}
	return int(v), nil
}

// landlock confines files to reading what is named and using the devices, and
// forbids TCP.
func landlock(read, devices []string) (abi int, err error) {
	abi, err = landlockABI()
	if err != nil {
		return 0, err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fsAccess(abi)}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	fd, _, e := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return abi, fmt.Errorf("cannot make a rule set: %w", e)
	}
	defer unix.Close(int(fd))
	for _, path := range read {
		if err := allow(int(fd), path, unix.LANDLOCK_ACCESS_FS_READ_FILE); err != nil {
			return abi, err
		}
	}
	drive := fsAccess(abi) & (unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	for _, path := range devices {
		if err := allow(int(fd), path, drive); err != nil {
			return abi, err
		}
	}
	e = syscall.ENOTSUP
	if abi >= 8 { // the kernel reaches all threads by itself
		_, _, e = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, unix.LANDLOCK_RESTRICT_SELF_TSYNC, 0)
	}
	if e != 0 {
		_, _, e = syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	}
	if e == syscall.ENOTSUP {
		return abi, errors.New("a program built with cgo needs Landlock ABI 8 to confine all its threads")
	}
	if e != 0 {
		return abi, fmt.Errorf("cannot confine the process: %w", e)
	}
	return abi, nil
}

// allow grants rights on a path and, where it is a directory, on all below it.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &badPathError{fmt.Errorf("%s: %w", path, err)}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &badPathError{fmt.Errorf("%s: %w", path, err)}
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.Allowed_access |= unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	_, _, e := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return &badPathError{fmt.Errorf("%s: %w", path, e)}
	}
	return nil
}

// seccomp installs the filter on all threads.
func seccomp(o SandboxOptions) error {
	filter := seccompFilter(uint32(unix.Getpid()), o)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	tid, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if e != 0 {
		return fmt.Errorf("the kernel refuses the filter (%w)", e)
	}
	if tid != 0 {
		return fmt.Errorf("thread %d has another filter", tid)
	}
	return nil
}

// Offsets in struct seccomp_data; of arguments the lower half, little-endian.
const (
	dataNumber = 0
	dataArch   = 4
)

func dataArg(i int) uint32 { return uint32(16 + 8*i) }

func bpf(code uint16, k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k}
}

const (
	bpfLoad  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfSet   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	bpfAbove = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfRet   = unix.BPF_RET | unix.BPF_K
)

func refuse(e syscall.Errno) unix.SockFilter {
	return bpf(bpfRet, unix.SECCOMP_RET_ERRNO|uint32(e), 0, 0)
}

// seccompFilter allows all but what is named: the Go runtime's needs are not
// promised anywhere, and a list of allowed calls would break with a release.
func seccompFilter(pid uint32, o SandboxOptions) []unix.SockFilter {
	f := []unix.SockFilter{
		bpf(bpfLoad, dataArch, 0, 0),
		bpf(bpfEqual, auditArch, 1, 0),
		bpf(bpfRet, unix.SECCOMP_RET_KILL_PROCESS, 0, 0),
		bpf(bpfLoad, dataNumber, 0, 0),
	}
	if x32Bit != 0 {
		f = append(f, bpf(bpfAbove, x32Bit, 0, 1), refuse(syscall.EPERM))
	}
	for _, nr := range append(append([]uint32{}, deniedCalls...), deniedOldCalls...) {
		f = append(f, bpf(bpfEqual, nr, 0, 1), refuse(syscall.EPERM))
	}
	// Their arguments are in memory, where a filter cannot look; callers that
	// get ENOSYS go back to clone and openat.
	for _, nr := range []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2} {
		f = append(f, bpf(bpfEqual, nr, 0, 1), refuse(syscall.ENOSYS))
	}
	// onArg refuses a call by the bits of an argument; the number is loaded
	// again afterwards.
	onArg := func(nr uint32, arg int, test unix.SockFilter, e syscall.Errno) {
		f = append(f,
			bpf(bpfEqual, nr, 0, 4),
			bpf(bpfLoad, dataArg(arg), 0, 0),
			test,
			refuse(e),
			bpf(bpfLoad, dataNumber, 0, 0),
		)
	}
	refuseIf := func(bits uint32) unix.SockFilter { return bpf(bpfSet, bits, 0, 1) }
	refuseUnless := func(bits uint32) unix.SockFilter { return bpf(bpfSet, bits, 1, 0) }
	onArg(unix.SYS_CLONE, 0, refuseUnless(unix.CLONE_THREAD), syscall.EPERM)
	writing := uint32(unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC)
	if len(o.Devices) > 0 { // Landlock says which; making files is no part of it
		writing = unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY
	}
	onArg(unix.SYS_OPENAT, 2, refuseIf(writing), syscall.EACCES)
	if openCall != 0 {
		onArg(openCall, 1, refuseIf(writing), syscall.EACCES)
	}
	if !o.ExecutableMemory {
		onArg(unix.SYS_MMAP, 2, refuseIf(unix.PROT_EXEC), syscall.EPERM)
		onArg(unix.SYS_MPROTECT, 2, refuseIf(unix.PROT_EXEC), syscall.EPERM)
	}
	for _, nr := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL} {
		onArg(nr, 0, bpf(bpfEqual, pid, 1, 0), syscall.EPERM)
	}
	return append(f, bpf(bpfRet, unix.SECCOMP_RET_ALLOW, 0, 0))
}

// deniedCalls are those of every architecture: the network, other programs and
// processes, changing files, and corners of the kernel that a worker has no
// business in, io_uring among them since it goes around filters.
var deniedCalls = []uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_TKILL, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT2,
	unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_TRUNCATE, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_UTIMENSAT,
	unix.SYS_MEMFD_CREATE, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PERSONALITY,
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS, unix.SYS_CAPSET,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE,
}

func landlockVersion() (int, error) { return landlockABI() }
