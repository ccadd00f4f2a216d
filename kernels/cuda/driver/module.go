package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"hearth/kernels/cuda/kernel"
)

// Module is compiled PTX.
type Module struct {
	c      *Context
	name   string
	handle uintptr
	Log    string // what the compiler had to say: registers and spills, if asked
}

// Options of cuModuleLoadDataEx; cuda.h, enum CUjit_option.
const (
	jitInfoLog   = 3
	jitInfoSize  = 4
	jitErrorLog  = 5
	jitErrorSize = 6
	jitVerbose   = 12
)

const jitLogBytes = 16 << 10

// LoadModule compiles PTX. name is for errors, which end with the compiler's log.
// verbose asks for its report on each kernel.
func (c *Context) LoadModule(name string, ptx []byte, verbose bool) (*Module, error) {
	image := append(append(make([]byte, 0, len(ptx)+1), ptx...), 0)
	info, fail := make([]byte, jitLogBytes), make([]byte, jitLogBytes)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&info[0])
	pin.Pin(&fail[0])
	options := []int32{jitInfoLog, jitInfoSize, jitErrorLog, jitErrorSize}
	// A value is a word that stands in a pointer's place (the manual, of
	// cuModuleLoadDataEx); sizes come back in theirs.
	values := []uintptr{uintptr(unsafe.Pointer(&info[0])), jitLogBytes, uintptr(unsafe.Pointer(&fail[0])), jitLogBytes}
	if verbose {
		options, values = append(options, jitVerbose), append(values, 1)
	}
	m := &Module{c: c, name: name}
	err := c.call(callModuleLoadDataEx, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])))
	m.Log = text(info)
	if err == nil {
		return m, nil
	}
	var e *Error
	if errors.As(err, &e) {
		e.Detail = text(fail)
	}
	return nil, fmt.Errorf("cannot load kernels %s for compute capability %d.%d: %w", name, c.gpu.Compute/10, c.gpu.Compute%10, err)
}

func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(s)
}

// Unload gives a module back.
func (m *Module) Unload() error { return m.c.call(callModuleUnload, m.handle) }

// Global finds a variable of the module.
func (m *Module) Global(name string) (kernel.Addr, int64, error) {
	var p, n uint64
	sym := append([]byte(name), 0)
	err := m.c.call(callModuleGetGlobal, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&n)), m.handle, uintptr(unsafe.Pointer(&sym[0])))
	return kernel.Addr(p), int64(n), detail(err, "variable %s of kernels %s", name, m.name)
}

// Function is one kernel.
type Function struct {
	c      *Context
	name   string
	handle uintptr
	shared int // bytes of dynamic shared memory that are allowed
	FunctionInfo
}

// FunctionInfo is what the compiler made of a kernel.
type FunctionInfo struct {
	MaxThreads   int // of a block
	StaticShared int // bytes
	Registers    int // of a thread
	Local        int // bytes of a thread: what was spilled and arrays
}

// Attributes; cuda.h, enum CUfunction_attribute.
const (
	funcMaxThreads = 0
	funcShared     = 1
	funcLocal      = 3
	funcRegisters  = 4
	funcMaxDynamic = 8

	// freeShared is what a block may have without being asked for (CUDA C++
	// Programming Guide, compute capabilities).
	freeShared = 48 << 10
)

// Function finds a kernel and reads what it needs, which also loads it.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{c: m.c, name: name, shared: freeShared}
	sym := append([]byte(name), 0)
	if err := m.c.call(callModuleGetFunction, uintptr(unsafe.Pointer(&f.handle)), m.handle, uintptr(unsafe.Pointer(&sym[0]))); err != nil {
		return nil, detail(err, "kernel %s of %s", name, m.name)
	}
	for _, a := range []struct {
		to   *int
		attr int
	}{{&f.MaxThreads, funcMaxThreads}, {&f.StaticShared, funcShared}, {&f.Local, funcLocal}, {&f.Registers, funcRegisters}} {
		var v int32
		if err := m.c.call(callFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a.attr), f.handle); err != nil {
			return nil, detail(err, "attribute %d of kernel %s", a.attr, name)
		}
		*a.to = int(v)
	}
	return f, nil
}

// AllowShared lets launches ask for n bytes of dynamic shared memory.
func (f *Function) AllowShared(n int) error {
	if n+f.StaticShared <= freeShared || n <= f.shared && f.shared > freeShared {
		return nil
	}
	if err := f.c.call(callFuncSetAttribute, f.handle, funcMaxDynamic, uintptr(n)); err != nil {
		return detail(err, "%d bytes of shared memory for kernel %s, a block may have %d", n, f.name, f.c.gpu.Shared)
	}
	f.shared = n
	return nil
}

// BlocksPerSM is how many blocks of threads threads run on one multiprocessor at
// once.
func (f *Function) BlocksPerSM(threads, shared int) (int, error) {
	var n int32
	err := f.c.call(callOccupancy, uintptr(unsafe.Pointer(&n)), f.handle, uintptr(threads), uintptr(shared))
	return int(n), err
}
