package remote

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
	openCall  = 0
)

// deniedOldCalls are those that not every architecture has.
var deniedOldCalls = []uint32{unix.SYS_RENAMEAT, unix.SYS_KEXEC_FILE_LOAD}
