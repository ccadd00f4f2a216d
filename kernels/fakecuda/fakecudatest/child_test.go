package fakecudatest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hearth/kernels/cuda/driver"
)

// childVariable makes a test of this package the one that runs in a child.
const childVariable = "FAKECUDATEST_CHILD"

// inChild runs the test of t again in a process that finds the libraries, and
// tells whether this is that process. The child's output is returned where it
// ended well; where want is not empty it has to be in the output, and the child
// may fail.
func inChild(t *testing.T, want string, variables ...string) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()[:strings.IndexByte(t.Name()+"/", '/')]+"$", "-test.v", "-test.timeout=4m")
	cmd.Env = append(Env(t, variables...), childVariable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	switch {
	case want != "" && !strings.Contains(string(out), want):
		t.Errorf("%v: wanted output with %q, got (%v)\n%s", variables, want, err, out)
	case want == "" && err != nil:
		t.Errorf("%v: %v\n%s", variables, err, out)
	case strings.Contains(string(out), "BUG"):
		t.Errorf("%v: %s", variables, out)
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

// do runs f on the GPU's thread.
func do(t testing.TB, g *driver.GPU, f func() error) {
	t.Helper()
	if err := g.Do(f); err != nil {
		t.Fatal(err)
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
