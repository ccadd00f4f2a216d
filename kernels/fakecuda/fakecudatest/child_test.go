//go:build linux

package fakecudatest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hearth/kernels/cuda/driver"
)

// childVariable makes a test of this package the one that runs in a child.
const childVariable = "FAKECUDATEST_CHILD"

// inChild runs the test of t again in a process that finds the libraries, and
// tells whether this is that process. The child's output must hold want.
func inChild(t *testing.T, want string, variables ...string) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^"+t.Name()[:strings.IndexByte(t.Name()+"/", '/')]+"$", "-test.v")
	cmd.Env = append(Env(t, variables...), childVariable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), want) || strings.Contains(string(out), "BUG") {
		t.Errorf("%v: wanted output with %q, got (%v)\n%s", variables, want, err, out)
	}
	return false
}

// open gives the driver and its first GPU.
func open(t testing.TB) (*driver.Driver, *driver.GPU) {
	t.Helper()
	d, err := driver.Open("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	g, err := d.OpenGPU(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}
