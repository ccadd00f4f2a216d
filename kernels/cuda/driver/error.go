package driver

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Error is what an entry point returned instead of CUDA_SUCCESS.
type Error struct {
	Code   int    // CUresult
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Call   string // the entry point
	Text   string // the driver's own description
	Detail string // what was asked for, or the compiler's log
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	switch {
	case advice[e.Code] != "":
		s += ": " + advice[e.Code]
	case e.Text != "":
		s += ": " + e.Text
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Results that are told apart; cuda.h, enum CUresult.
const (
	codeOutOfMemory      = 2
	codeNoDevice         = 100
	codeECC              = 214
	codeInvalidPTX       = 218
	codeNVLink           = 220
	codeUnsupportedPTX   = 222
	codeContained        = 226
	codeNotReady         = 600
	codeIllegalAddress   = 700
	codeLaunchTimeout    = 702
	codeAssert           = 710
	codeHardwareStack    = 714
	codeIllegalCode      = 715
	codeMisaligned       = 716
	codeAddressSpace     = 717
	codeInvalidPC        = 718
	codeLaunchFailed     = 719
	codeTensorMemoryLeak = 721
	codeContextDestroyed = 709
	codeUnknown          = 999
)

// advice says what an operator can do, where the driver's own words do not.
var advice = map[int]string{
	codeOutOfMemory:    "the GPU has too little free memory",
	34:                 "this libcuda is the toolkit's stub, not a driver: the library path should name the driver's",
	46:                 "the GPU is not available: another process holds it exclusively, or its compute mode forbids use",
	codeNoDevice:       "the driver finds no GPU, or none that this process may see (CUDA_VISIBLE_DEVICES, device nodes)",
	101:                "there is no such GPU",
	209:                "the program holds no code for this GPU",
	codeECC:            "the GPU met a memory error that it cannot correct: it needs a reset, and a look at its health",
	codeInvalidPTX:     "the driver's compiler refuses the program's PTX",
	codeNVLink:         "a link between GPUs met an error that it cannot correct: the GPU needs a reset",
	221:                "the driver's PTX compiler, libnvidia-ptxjitcompiler.so.1, is not installed beside libcuda",
	codeUnsupportedPTX: "the driver is too old for the program's PTX: update the NVIDIA driver to branch 520 or newer",
	223:                "compiling PTX is switched off (CUDA_DISABLE_PTX_JIT)",
	codeContained:      "the GPU met an error that it contained to this process",
	304:                "the operating system refused something to the driver (device nodes, limits or the kernel module)",
	codeIllegalAddress: "a kernel touched memory that is not its own",
	codeLaunchTimeout:  "a kernel ran for longer than the system allows",
	codeMisaligned:     "a kernel touched memory off its alignment",
	codeLaunchFailed:   "a kernel failed",
	801:                "the driver does not support this here",
	802:                "the GPU system is not ready: the fabric manager may not run",
	803:                "driver library and kernel module are of different versions: reboot after a driver update",
	804:                "this driver library is too new for the kernel module of this GPU",
	codeUnknown:        "the driver gives no reason",
}

// sticky results leave the context, and so the process, without a GPU until it
// is started anew.
var sticky = map[int]bool{
	codeECC: true, codeNVLink: true, codeContained: true, codeIllegalAddress: true, codeLaunchTimeout: true,
	codeAssert: true, codeHardwareStack: true, codeIllegalCode: true, codeMisaligned: true, codeAddressSpace: true,
	codeInvalidPC: true, codeLaunchFailed: true, codeTensorMemoryLeak: true, codeContextDestroyed: true, codeUnknown: true,
}

// Sticky tells whether the context is lost: every later call fails alike, and
// only a new process helps.
func (e *Error) Sticky() bool { return sticky[e.Code] }

// Degraded tells whether the GPU itself is at fault.
func (e *Error) Degraded() bool {
	return e.Code == codeECC || e.Code == codeNVLink || e.Code == codeContained
}

// OutOfMemory tells whether the GPU had too little free memory.
func (e *Error) OutOfMemory() bool { return e.Code == codeOutOfMemory }

// fail makes the error of a result.
func (d *Driver) fail(c call, code int32) error {
	e := &Error{Code: int(code), Call: names[c], Name: d.describe(callGetErrorName, code), Text: d.describe(callGetErrorString, code)}
	if e.Name == "" {
		e.Name = "an unknown result"
	}
	return e
}

// describe asks for the name or the text of a result.
func (d *Driver) describe(c call, code int32) string {
	out := new(uintptr)
	r, _, _ := purego.SyscallN(d.addr[c], uintptr(code), uintptr(unsafe.Pointer(out)))
	if int32(r) != 0 || *out == 0 {
		return ""
	}
	return cString(*out)
}

// cString reads a string that the driver owns and never frees.
func cString(at uintptr) string {
	p := *(**byte)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// detail adds what was asked for to an *Error.
func detail(err error, format string, args ...any) error {
	var e *Error
	if errors.As(err, &e) {
		e.Detail = fmt.Sprintf(format, args...)
	}
	return err
}
