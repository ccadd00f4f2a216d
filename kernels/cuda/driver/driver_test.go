package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Without a library, or with one that is none, the error says which file.
func TestNoDriver(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, soname)
	if err := os.WriteFile(bad, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nowhere/at/all", dir, bad} {
		_, err := Open(path)
		var none *NoDriver
		if !errors.As(err, &none) {
			t.Fatalf("Open(%q): got %v, wanted a *NoDriver", path, err)
		}
		if path != "/nowhere/at/all" && !strings.Contains(err.Error(), bad) {
			t.Errorf("Open(%q): %q does not name %s", path, err, bad)
		}
	}
}

// A library without the entry points is an old driver.
func TestMissingEntry(t *testing.T) {
	libc := "/lib/x86_64-linux-gnu/libc.so.6"
	if !exists(libc) {
		t.Skip("no C library where this test expects one")
	}
	_, err := Open(libc)
	var old *TooOld
	if !errors.As(err, &old) || old.Missing != "cuInit" {
		t.Fatalf("got %v, wanted a *TooOld that misses cuInit", err)
	}
}

// Every entry point has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for c, name := range names {
		if !strings.HasPrefix(name, "cu") || seen[name] {
			t.Errorf("call %d has the name %q", c, name)
		}
		seen[name] = true
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err    Error
		want   string
		sticky bool
	}{
		{Error{Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Call: "cuMemAlloc_v2", Text: "out of memory", Detail: "7 MiB were asked for"},
			"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): the GPU has too little free memory: 7 MiB were asked for", false},
		{Error{Code: 222, Name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", Call: "cuModuleLoadDataEx"}, "update the NVIDIA driver", false},
		{Error{Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Call: "cuStreamSynchronize"}, "memory that is not its own", true},
		{Error{Code: 214, Name: "CUDA_ERROR_ECC_UNCORRECTABLE", Call: "cuStreamSynchronize"}, "reset", true},
		{Error{Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Call: "cuMemFree_v2", Text: "invalid argument"}, "cuMemFree_v2: CUDA_ERROR_INVALID_VALUE (1): invalid argument", false},
	} {
		if got := c.err.Error(); !strings.Contains(got, c.want) {
			t.Errorf("got %q, wanted it to hold %q", got, c.want)
		}
		if c.err.Sticky() != c.sticky {
			t.Errorf("%s: sticky is %v", c.err.Name, !c.sticky)
		}
	}
	if s := (&TooOld{Version: 11040}).Error(); !strings.Contains(s, "CUDA 11.4") || !strings.Contains(s, "CUDA 11.8") {
		t.Errorf("got %q", s)
	}
	if s := (&Unsupported{Device{Name: "Tesla T4", Compute: 75}}).Error(); !strings.Contains(s, "7.5") {
		t.Errorf("got %q", s)
	}
}

// The way in which launches call does not allocate.
func TestRawAllocs(t *testing.T) {
	lib, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		t.Skipf("no C library: %v", err)
	}
	abs, err := purego.Dlsym(lib, "abs")
	if err != nil {
		t.Fatal(err)
	}
	c := &Context{d: &Driver{}}
	c.d.addr[callLaunchKernel] = abs
	if n := testing.AllocsPerRun(100, func() {
		if err := c.raw(callLaunchKernel, c.args[:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

func TestCString(t *testing.T) {
	b := append([]byte("CUDA_SUCCESS"), 0)
	if got := cString(uintptr(unsafe.Pointer(&b[0]))); got != "CUDA_SUCCESS" {
		t.Errorf("got %q", got)
	}
}
