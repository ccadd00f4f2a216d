package cpu

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Operations of futex(2) on memory of one process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// bed lets threads sleep until a word changes.
type bed struct{}

// sleep returns when the word is not value.
func (bed) sleep(word *atomic.Uint32, value uint32) {
	for word.Load() == value { // the kernel looks once more before the thread sleeps
		syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), 0, 0, 0)
	}
}

// rouse wakes all that sleep on the word, which has changed.
func (bed) rouse(word *atomic.Uint32) {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}
