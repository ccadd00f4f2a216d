// Package fakecudatest builds the libraries of packages fakecuda and fakenvml and
// says with which environment a program finds them, for tests of programs that
// use a GPU.
//
//	cmd := exec.Command(program)
//	cmd.Env = fakecudatest.Env(t, "FAKECUDA_DEVICES=9.0,memory=64MiB", "FAKECUDA_STREAMS=eager")
//
// It needs a C compiler; without one, tests that ask for the libraries skip and
// say so.
package fakecudatest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// libraries are the file names, by package.
var libraries = map[string]string{"fakecuda": "libcuda.so.1", "fakenvml": "libnvidia-ml.so.1"}

// build makes the libraries once a process.
var build = sync.OnceValues(func() (dir string, err error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	// One folder a checkout: the linker leaves files alone that are as they should be.
	key := sha256.Sum256([]byte(root))
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("hearth-fakecuda-%d-%x", os.Getuid(), key[:4]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot build in %s: others may write there", dir)
	}
	for pkg, file := range libraries {
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, file), "./kernels/"+pkg)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build %s: %w\n%s", file, err, out)
		}
		_ = os.Remove(filepath.Join(dir, strings.TrimSuffix(file, ".1")+".h")) // what the linker adds for C
	}
	return dir, nil
})

// root is the folder of go.mod, above the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

// Dir is a folder that holds libcuda.so.1 and libnvidia-ml.so.1.
func Dir(t testing.TB) string {
	t.Helper()
	if !compiler() {
		t.Skip("SKIPPED: no C compiler, so no libcuda.so.1 to test with")
	}
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// compiler tells whether cgo can work.
func compiler() bool {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	cc := strings.Fields(string(out))
	if len(cc) == 0 {
		return false
	}
	_, err = exec.LookPath(cc[0])
	return err == nil
}

// Env is this process's environment with the libraries on the loader's path and
// with the variables given, but without others that would act on the libraries.
func Env(t testing.TB, variables ...string) []string {
	t.Helper()
	dir := Dir(t)
	var env []string
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "LD_LIBRARY_PATH":
			if value != "" {
				dir += ":" + value
			}
		case strings.HasPrefix(name, "FAKECUDA_"), strings.HasPrefix(name, "FAKENVML_"), name == "CUDA_VISIBLE_DEVICES", name == "CUDA_DISABLE_PTX_JIT":
		default:
			env = append(env, v)
		}
	}
	return append(append(env, "LD_LIBRARY_PATH="+dir), variables...)
}
