// Package driver binds the NVIDIA driver's library, libcuda.so.1, by the
// addresses of its entry points: no C compiler, no toolkit, and nothing of it is
// needed until Open. It follows the CUDA Driver API Reference Manual; names here
// are that manual's without the prefix cu.
//
// A Context owns one operating system thread. CUDA keeps its current context by
// thread, so everything that needs one runs there, in functions given to Do.
package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ebitengine/purego"
)

// soname is the library's name on every Linux.
const soname = "libcuda.so.1"

// MinVersion is the least driver that takes PTX 7.8, which ours is: that of CUDA
// 11.8 (PTX ISA, release notes), branch 520.
const MinVersion = 11080

// Driver is the loaded library, initialized. Its methods may be called from any
// goroutine. It stays loaded until the process ends: libcuda cannot be unloaded.
type Driver struct {
	addr    [callCount]uintptr
	path    string
	version int
}

// NoDriver says that there is no library, or none that can be loaded.
type NoDriver struct {
	Path string
	Err  error
}

func (e *NoDriver) Error() string {
	return fmt.Sprintf("no NVIDIA driver: cannot load %s: %v", e.Path, e.Err)
}

func (e *NoDriver) Unwrap() error { return e.Err }

// TooOld says that the driver is older than this program's kernels.
type TooOld struct {
	Version int    // as cuDriverGetVersion says it: 12020 for CUDA 12.2
	Missing string // an entry point that it lacks, if that is how it shows
}

func (e *TooOld) Error() string {
	if e.Missing != "" {
		return fmt.Sprintf("the NVIDIA driver is too old: it lacks %s; wanted branch 520 or newer", e.Missing)
	}
	return fmt.Sprintf("the NVIDIA driver is too old: it is one of CUDA %d.%d, wanted CUDA %d.%d (branch 520) or newer",
		e.Version/1000, e.Version%1000/10, MinVersion/1000, MinVersion%1000/10)
}

// Open loads and initializes the library. path is where it is: "" is where the
// system's loader finds it, otherwise a folder that holds it, or the file itself.
// The error is a *NoDriver, a *TooOld or an *Error.
func Open(path string) (*Driver, error) {
	file := locate(path)
	lib, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, &NoDriver{Path: file, Err: err}
	}
	d := &Driver{path: file}
	for c, name := range names {
		if d.addr[c], err = purego.Dlsym(lib, name); err != nil || d.addr[c] == 0 {
			return nil, &TooOld{Missing: name}
		}
	}
	if err := d.call(callInit, 0); err != nil {
		return nil, err
	}
	var v int32
	if err := d.call(callDriverGetVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	if d.version = int(v); d.version < MinVersion {
		return nil, &TooOld{Version: d.version}
	}
	return d, nil
}

// companions are loaded by libcuda by their plain names, when PTX is compiled.
var companions = []string{"libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"}

// locate turns the configured path into what dlopen takes. Where the library lies
// in a folder of its own its companions are loaded first, since its own search
// does not know that folder.
func locate(path string) string {
	if path == "" {
		return soname
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		dir, path = path, filepath.Join(path, soname)
	}
	for _, name := range companions {
		if file := filepath.Join(dir, name); exists(file) {
			// Without it cuModuleLoadDataEx says CUDA_ERROR_JIT_COMPILER_NOT_FOUND.
			_, _ = purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		}
	}
	return path
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, os.ErrNotExist)
}

// Path is the file that was loaded.
func (d *Driver) Path() string { return d.path }

// Version is the newest CUDA that the driver knows: 12020 is 12.2.
func (d *Driver) Version() int { return d.version }

// VersionString is Version in the usual form, "12.2".
func (d *Driver) VersionString() string {
	return fmt.Sprintf("%d.%d", d.version/1000, d.version%1000/10)
}

// call runs an entry point and turns its result into an error. Pointers among
// args are written as uintptr(unsafe.Pointer(p)) in the call itself.
//
//go:uintptrescapes
func (d *Driver) call(c call, args ...uintptr) error {
	r, _, _ := purego.SyscallN(d.addr[c], args...)
	if int32(r) == 0 {
		return nil
	}
	return d.fail(c, int32(r))
}
