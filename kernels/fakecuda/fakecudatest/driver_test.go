//go:build linux

package fakecudatest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
)

// What goes wrong reaches the caller with CUDA's names.
func TestFailures(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"FAKECUDA_DEVICES=none", "CUDA_ERROR_NO_DEVICE"},
		{"FAKECUDA_DEVICES=7.5", "compute capability is 7.5, wanted 8.0"},
		{"FAKECUDA_DRIVER_VERSION=11040", "too old: it is one of CUDA 11.4"},
		{"FAKECUDA_ERRORS=cuInit:1=803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
		{"FAKECUDA_ERRORS=cuDevicePrimaryCtxRetain:1=46", "CUDA_ERROR_DEVICE_UNAVAILABLE"},
		{"FAKECUDA_ERRORS=cuModuleLoadDataEx:1=222", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): the driver is too old"},
		{"CUDA_DISABLE_PTX_JIT=1", "CUDA_ERROR_JIT_COMPILATION_DISABLED"},
		{"FAKECUDA_DEVICES=8.0,memory=6MiB", "CUDA_ERROR_OUT_OF_MEMORY"},
		{"FAKECUDA_ERRORS=cuMemAlloc_v2:1=2", "4 MiB were asked for"},
		{"FAKECUDA_ERRORS=cuMemHostAlloc:1=304", "CUDA_ERROR_OPERATING_SYSTEM"},
		{"FAKECUDA_ERRORS=cuEventSynchronize:1=700", "later: cuMemcpyHtoDAsync_v2: CUDA_ERROR_ILLEGAL_ADDRESS"},
		{"FAKECUDA_DEVICES=elephant", "FAKECUDA_DEVICES: got compute capability"},
		{"CUDA_VISIBLE_DEVICES=3", "CUDA_ERROR_NO_DEVICE"},
	} {
		if inChild(t, c.want, c.variable) {
			fmt.Println(failure())
			return
		}
	}
}

// failure does a little of everything, to the first error.
func failure() error {
	d, err := driver.Open("")
	if err != nil {
		return err
	}
	all, err := d.Devices()
	if err != nil {
		return err
	}
	g, err := d.OpenGPU(all[0])
	if err != nil {
		return err
	}
	images, err := cuda.Images(all[0].Compute)
	if err != nil {
		return err
	}
	return g.Do(func() error {
		if err := g.Load("blocks", images["blocks"]); err != nil {
			return err
		}
		a, err := g.Alloc(4 << 20)
		if err != nil {
			return err
		}
		h, err := g.HostAlloc(4096)
		if err != nil {
			return err
		}
		if err := errors.Join(g.Upload(a, h), g.Mark(0)); err != nil {
			return err
		}
		if err := g.Wait(0); err != nil {
			return fmt.Errorf("%w; later: %w", err, g.Upload(a, h))
		}
		return errors.New("nothing fails")
	})
}

// Two Go runtimes in one process: threads that call the library, beside others
// that allocate and a collector that runs all the time; signals go where they
// belong.
func TestTwoRuntimes(t *testing.T) {
	if !inChild(t, "PASS: TestTwoRuntimes", "GOGC=10", "FAKECUDA_DEVICES=8.0,memory=32MiB;9.0,memory=32MiB;8.6,memory=32MiB", "FAKECUDA_CHECKS=0") {
		return
	}
	d, err := driver.Open("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Devices()
	if err != nil || len(all) != 3 {
		t.Fatalf("got %d GPUs (%v)", len(all), err)
	}
	until := time.Now().Add(time.Second)
	var users, idle sync.WaitGroup
	stop := make(chan struct{})
	for range 2 { // garbage
		idle.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				b := make([]byte, 1<<12+n%4096)
				for i := range b {
					b[i] = byte(i * n)
				}
				if n%512 == 0 {
					runtime.GC()
				}
			}
		})
	}
	for _, dev := range all {
		users.Go(func() {
			g, err := d.OpenGPU(dev)
			if err != nil {
				t.Error(err)
				return
			}
			rounds := 0
			for ; time.Now().Before(until); rounds++ {
				if err := g.Do(func() error { return round(g, byte(rounds)) }); err != nil {
					t.Error(err)
					return
				}
			}
			if err := g.Close(); err != nil || rounds == 0 {
				t.Errorf("closed after %d rounds: %v", rounds, err)
			}
		})
	}
	// A fault of this runtime's own code stays an ordinary panic.
	func() {
		defer func() {
			if e, ok := recover().(runtime.Error); !ok || !strings.Contains(e.Error(), "nil pointer") {
				t.Errorf("got %v, wanted a nil pointer's panic", e)
			}
		}()
		var p *driver.Device
		_ = p.Name
	}()
	users.Wait()
	close(stop)
	idle.Wait()
}

// A loop without calls can only be interrupted by a signal, which the library's
// runtime wants too: the collector of this one has to get through.
func TestPreemption(t *testing.T) {
	if !inChild(t, "PASS: TestPreemption") { // which is ended where it hangs
		return
	}
	_, g := open(t)
	defer g.Close()
	var stop atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	time.Sleep(20 * time.Millisecond)
	for range 3 {
		runtime.GC() // does not return if it cannot stop the loops
	}
	stop.Store(true)
}

// round copies bytes to the GPU and back.
func round(g *driver.GPU, v byte) error {
	a, err := g.Alloc(1 << 16)
	if err != nil {
		return err
	}
	h, err := g.HostAlloc(1 << 16)
	if err != nil {
		return err
	}
	for i := range h {
		h[i] = v + byte(i)
	}
	back, err := g.HostAlloc(1 << 16)
	if err != nil {
		return err
	}
	if err := errors.Join(g.Upload(a, h), g.Download(back, a), g.Mark(0), g.Wait(0)); err != nil {
		return err
	}
	if !bytes.Equal(h, back) {
		return errors.New("other bytes came back")
	}
	return errors.Join(g.Free(a), g.HostFree(h), g.HostFree(back))
}

// A program without cgo, as it ships, compiles all kernels with the library.
func TestProgramWithoutCgo(t *testing.T) {
	env := Env(t, "FAKECUDA_DEVICES=9.0", "CGO_ENABLED=0")
	file := filepath.Join(t.TempDir(), "devicecheck")
	build := exec.Command("go", "build", "-o", file, "hearth/internal/devicecheck")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(file, "ptx")
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "NVIDIA H200, compute capability 9.0, driver of CUDA 12.2") || !strings.Contains(string(out), " 0 faults") {
		t.Errorf("%v\n%s", err, out)
	}
}
