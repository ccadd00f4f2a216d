//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"hearth/kernels/ptx"
)

// module is what cuModuleLoadDataEx made.
type module struct {
	ctx    *context
	loaded *ptx.Loaded
	size   int64
}

// function is a kernel of a module.
type function struct {
	m          *module
	kernel     *ptx.Kernel
	maxDynamic int // bytes of dynamic shared memory that a launch may have
}

func (m *module) owner() *context   { return m.ctx }
func (f *function) owner() *context { return f.m.ctx }

// newestPTX is the newest PTX that a driver knows (PTX ISA, release notes), as
// 10·major+minor.
func newestPTX(driver int) int {
	for _, v := range []struct{ driver, ptx int }{{13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12060, 85}, {12050, 85}, {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80},
		{11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74}, {11030, 73}, {11020, 72}, {11010, 71}, {11000, 70}} {
		if driver >= v.driver {
			return v.ptx
		}
	}
	return 65
}

var (
	versionLine = regexp.MustCompile(`(?m)^[ \t]*\.version[ \t]+(\d+)\.(\d+)`)
	targetLine  = regexp.MustCompile(`(?m)^[ \t]*\.target[ \t]+sm_(\d+)([af]?)`)
)

// jit are the options of cuModuleLoadDataEx that are acted on; cuda.h, CUjit_option.
type jit struct {
	info, fail         uintptr // buffers
	infoSize, failSize *uintptr
	verbose            bool
	wall               *uintptr
}

// readJIT reads the options; values stand in place of pointers.
func readJIT(n uint32, options, values unsafe.Pointer) (jit, result) {
	var j jit
	if n == 0 {
		return j, success
	}
	if options == nil || values == nil || n > 64 {
		return j, invalidValue
	}
	list := unsafe.Slice((*uintptr)(values), n)
	for i, o := range unsafe.Slice((*int32)(options), n) {
		v := &list[i]
		switch o {
		case 2:
			j.wall = v
		case 3:
			j.info = *v
		case 4:
			j.infoSize = v
		case 5:
			j.fail = *v
		case 6:
			j.failSize = v
		case 12:
			j.verbose = *v != 0
		case 0, 1, 7, 8, 9, 10, 11, 13, 14: // of the code's form, which there is none of
		default:
			return j, invalidValue
		}
	}
	return j, success
}

// write puts text and a zero into a buffer as far as its size goes, and tells the
// bytes in the size's place.
func write(at uintptr, size *uintptr, text string) {
	if at == 0 || size == nil || *size == 0 {
		return
	}
	b := host(at, *size)
	n := copy(b[:len(b)-1], text)
	b[n] = 0
	*size = uintptr(n)
}

// loadModule is cuModuleLoadDataEx of PTX.
func (l *library) loadModule(c *context, image []byte, j jit) (uintptr, result) {
	began := time.Now()
	mod, log, r := l.compile(c, image)
	if r != success {
		write(j.info, j.infoSize, "")
		write(j.fail, j.failSize, log)
		return 0, r
	}
	// A module takes the space of its code, which is about that of its text here.
	size := (int64(len(image)) + grain - 1) &^ (grain - 1)
	if size > c.Memory-c.used {
		return 0, outOfMemory
	}
	in, err := c.machine.Load(mod)
	if err != nil {
		return 0, outOfMemory
	}
	c.used += size
	if j.verbose {
		for _, k := range mod.Kernels() {
			log += fmt.Sprintf("ptxas info    : Compiling entry function '%s' for 'sm_%d'\nptxas info    : Used %d registers, %d bytes smem\n", k.Name, c.Compute, l.registers, k.StaticShared)
		}
	}
	write(j.info, j.infoSize, log)
	write(j.fail, j.failSize, "")
	if j.wall != nil {
		*j.wall = uintptr(*(*uint32)(unsafe.Pointer(new(float32(time.Since(began).Seconds() * 1000)))))
	}
	return l.add(&module{c, in, size}), success
}

// parsed keeps modules by the hash of their text.
var parsed sync.Map

// compile judges the image as the driver's compiler does, and parses it. The text
// is the log.
func (l *library) compile(c *context, image []byte) (*ptx.Module, string, result) {
	version := versionLine.FindSubmatchIndex(image)
	target := targetLine.FindSubmatchIndex(image)
	if version == nil || target == nil {
		return nil, "", invalidImage
	}
	if l.noJIT {
		return nil, "", jitDisabled
	}
	number := func(m []int, i int) int {
		n, _ := strconv.Atoi(string(image[m[2*i]:m[2*i+1]]))
		return n
	}
	line := bytes.Count(image[:version[2]], []byte("\n")) + 1
	if v, newest := 10*number(version, 1)+number(version, 2), newestPTX(l.driver); v > newest {
		return nil, fmt.Sprintf("ptxas application ptx input, line %d; fatal   : Unsupported .version %d.%d; current version is '%d.%d'\n", line, v/10, v%10, newest/10, newest%10), unsupportedPTX
	}
	sm, kind := number(target, 1), string(image[target[4]:target[5]])
	switch {
	case kind == "a" && sm != c.Compute, kind == "f" && (sm/10 != c.Compute/10 || sm > c.Compute):
		return nil, "", 209
	case sm > c.Compute:
		return nil, "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n", invalidPTX
	}
	key := sha256.Sum256(image)
	if m, ok := parsed.Load(key); ok {
		return m.(*ptx.Module), "", success
	}
	m, err := ptx.Parse(image)
	if err != nil {
		return nil, "ptxas application ptx input; fatal   : " + err.Error() + "\n", invalidPTX
	}
	parsed.Store(key, m)
	return m, "", success
}

func (l *library) unloadModule(c *context, h uintptr) result {
	m, ok := of[*module](l, h)
	if !ok || m.ctx != c {
		return invalidHandle
	}
	if r := l.drainAll(c); r != success {
		return r
	}
	if err := c.machine.Unload(m.loaded); err != nil {
		return unknown
	}
	c.used -= m.size
	for g, v := range l.handles {
		if f, ok := v.(*function); ok && f.m == m {
			delete(l.handles, g)
		}
	}
	delete(l.handles, h)
	return success
}

func (l *library) function(c *context, h uintptr, name string) (uintptr, result) {
	m, ok := of[*module](l, h)
	if !ok || m.ctx != c {
		return 0, invalidHandle
	}
	k, ok := m.loaded.Module().Kernel(name)
	if !ok {
		return 0, notFound
	}
	for g, v := range l.handles {
		if f, ok := v.(*function); ok && f.m == m && f.kernel == k {
			return g, success
		}
	}
	return l.add(&function{m, k, max(0, freeShared-k.StaticShared)}), success
}

// global is cuModuleGetGlobal.
func (l *library) global(c *context, h uintptr, name string) (uint64, int, result) {
	m, ok := of[*module](l, h)
	if !ok || m.ctx != c {
		return 0, 0, invalidHandle
	}
	a, n, ok := m.loaded.Global(name)
	if !ok {
		return 0, 0, notFound
	}
	return a, n, success
}

// funcAttribute is cuFuncGetAttribute; numbers are of cuda.h, CUfunction_attribute.
func (l *library) funcAttribute(f *function, n int32) (int, result) {
	switch n {
	case 0: // threads of a block
		return f.kernel.MaxThreads, success
	case 1: // static shared memory
		return f.kernel.StaticShared, success
	case 2, 3, 7: // constant and local memory, cache mode
		return 0, success
	case 4:
		return l.registers, success
	case 5: // PTX version
		major, minor, _ := strings.Cut(f.m.loaded.Module().Version(), ".")
		a, _ := strconv.Atoi(major)
		b, _ := strconv.Atoi(minor)
		return 10*a + b, success
	case 6: // binary version
		return f.m.ctx.Compute, success
	case 8: // dynamic shared memory that a launch may have
		return f.maxDynamic, success
	case 9: // preferred carveout: the driver's choice
		return -1, success
	}
	return 0, invalidValue
}

func (l *library) setFuncAttribute(f *function, n, v int32) result {
	switch n {
	case 8:
		if optIn, _ := f.m.ctx.attribute(97); v < 0 || int(v)+f.kernel.StaticShared > optIn {
			return invalidValue
		}
		f.maxDynamic = int(v)
		return success
	case 9: // a hint
		if v < -1 || v > 100 {
			return invalidValue
		}
		return success
	}
	return invalidValue
}

// pack copies the parameters that kernelParams point to, or those of extra; cuda.h,
// cuLaunchKernel.
func (f *function) pack(params, extra unsafe.Pointer) ([]byte, result) {
	k := f.kernel
	if extra != nil {
		return packed(k.ParamBytes, extra)
	}
	block := make([]byte, k.ParamBytes)
	if len(k.Params) == 0 {
		return block, success
	}
	if params == nil {
		return nil, invalidValue
	}
	for i, at := range unsafe.Slice((*uintptr)(params), len(k.Params)) {
		if at == 0 {
			return nil, invalidValue
		}
		copy(block[k.Params[i].Offset:], host(at, uintptr(k.Params[i].Size)))
	}
	return block, success
}

// packed reads CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
func packed(want int, extra unsafe.Pointer) ([]byte, result) {
	var at, size uintptr
	for i := 0; ; i += 2 {
		key := *(*uintptr)(unsafe.Add(extra, i*8))
		if key == 0 {
			break
		}
		value := *(*uintptr)(unsafe.Add(extra, i*8+8))
		switch key {
		case 1:
			at = value
		case 2:
			size = *(*uintptr)(unsafe.Pointer(unsafe.SliceData(host(value, 8))))
		default:
			return nil, invalidValue
		}
	}
	if at == 0 || size < uintptr(want) {
		return nil, invalidValue
	}
	block := make([]byte, want)
	copy(block, host(at, size))
	return block, success
}
