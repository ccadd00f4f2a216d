//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// quiet says that an unused connection is still open and has nothing to say: a
// server that closes it, or that sends what nobody asked for, shows by being
// readable.
func quiet(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	ok = false
	var b [1]byte
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ok = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // done, readable or not
	})
	return ok && err == nil
}
