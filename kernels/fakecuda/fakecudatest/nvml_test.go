//go:build linux

package fakecudatest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nvml calls libnvidia-ml.so.1 by name.
type nvml struct {
	testing.TB
	lib uintptr
}

func (n nvml) call(name string, args ...uintptr) int32 {
	n.Helper()
	f, err := purego.Dlsym(n.lib, name)
	if err != nil {
		n.Fatal(err)
	}
	r, _, _ := purego.SyscallN(f, args...)
	return int32(r)
}

// kept holds what the library is given addresses of, in memory that does not move.
var kept []any

func at[T any](p *T) uintptr {
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

// Monitors read what was set, and what is set while they run.
func TestReadings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings")
	if !inChild(t, "PASS: TestReadings", "FAKECUDA_DEVICES=8.0;9.0,memory=64MiB,used=1MiB,ecc=on,bus=27", "FAKENVML=temperature=41,1.temperature=55,power=70.5,1.mig=on",
		"FAKENVML_FILE="+file, "FAKENVML_ERRORS=nvmlDeviceGetTemperature:4=15") {
		return
	}
	file = os.Getenv("FAKENVML_FILE")
	lib, err := purego.Dlopen("libnvidia-ml.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		t.Fatal(err)
	}
	n := nvml{t, lib}
	want := func(what string, got, wanted any) {
		t.Helper()
		if got != wanted {
			t.Errorf("%s: got %v, wanted %v", what, got, wanted)
		}
	}
	var count, v, w uint32
	var long uint64
	var h, other uintptr
	want("count before init", n.call("nvmlDeviceGetCount_v2", at(&count)), int32(1))
	want("init", n.call("nvmlInit_v2"), int32(0))
	want("count", n.call("nvmlDeviceGetCount_v2", at(&count)), int32(0))
	want("count", count, uint32(2))
	want("by index", n.call("nvmlDeviceGetHandleByIndex_v2", 1, at(&h)), int32(0))
	want("by index", n.call("nvmlDeviceGetHandleByIndex_v2", 2, at(&other)), int32(2))
	id := make([]byte, 96)
	want("uuid", n.call("nvmlDeviceGetUUID", h, at(&id[0]), 96), int32(0))
	want("by uuid", n.call("nvmlDeviceGetHandleByUUID", at(&id[0]), at(&other)), int32(0))
	want("by uuid", other, h)
	bus := []byte("00000000:1b:00.0\x00")
	other = 0
	want("by bus", n.call("nvmlDeviceGetHandleByPciBusId_v2", at(&bus[0]), at(&other)), int32(0))
	want("by bus", other, h)
	bus[9] = '2'
	want("by bus", n.call("nvmlDeviceGetHandleByPciBusId_v2", at(&bus[0]), at(&other)), int32(6))
	name := make([]byte, 64)
	want("name", n.call("nvmlDeviceGetName", h, at(&name[0]), 64), int32(0))
	want("name", string(name[:bytes.IndexByte(name, 0)]), "NVIDIA H200")
	want("short name", n.call("nvmlDeviceGetName", h, at(&name[0]), 4), int32(7))
	want("temperature", n.call("nvmlDeviceGetTemperature", h, 0, at(&v)), int32(0))
	want("temperature", v, uint32(55))
	want("power", n.call("nvmlDeviceGetPowerUsage", h, at(&v)), int32(0))
	want("power", v, uint32(70500))
	var memory [3]uint64
	want("memory", n.call("nvmlDeviceGetMemoryInfo", h, at(&memory)), int32(0))
	want("memory", memory, [3]uint64{64 << 20, 63 << 20, 1 << 20})
	var v2 struct {
		version                     uint32
		total, reserved, free, used uint64
	}
	want("memory, no version", n.call("nvmlDeviceGetMemoryInfo_v2", h, at(&v2)), int32(25))
	v2.version = 40 | 2<<24
	want("memory", n.call("nvmlDeviceGetMemoryInfo_v2", h, at(&v2)), int32(0))
	want("memory", v2.used, uint64(1<<20))
	want("mig", n.call("nvmlDeviceGetMigMode", h, at(&v), at(&w)), int32(0))
	want("mig", v, uint32(1))
	want("ecc", n.call("nvmlDeviceGetTotalEccErrors", h, 1, 0, at(&long)), int32(0))

	// What the file says holds from then on.
	if err := os.WriteFile(file, []byte("1.temperature=93\nthrottle=0x40\nxid=79\nuncorrected=2\nerror.nvmlDeviceGetPowerUsage=3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("temperature", n.call("nvmlDeviceGetTemperature", h, 0, at(&v)), int32(0))
	want("temperature", v, uint32(93))
	want("power", n.call("nvmlDeviceGetPowerUsage", h, at(&v)), int32(3))
	want("throttle", n.call("nvmlDeviceGetCurrentClocksThrottleReasons", h, at(&long)), int32(0))
	want("throttle", long, uint64(0x40))
	want("ecc", n.call("nvmlDeviceGetTotalEccErrors", h, 1, 0, at(&long)), int32(0))
	want("ecc", long, uint64(2))
	want("temperature", n.call("nvmlDeviceGetTemperature", h, 0, at(&v)), int32(0))
	want("temperature, the fourth time", n.call("nvmlDeviceGetTemperature", h, 0, at(&v)), int32(15))
	var set uintptr
	want("set", n.call("nvmlEventSetCreate", at(&set)), int32(0))
	want("register", n.call("nvmlDeviceRegisterEvents", h, 8, set), int32(0))
	var event [4]uint64
	want("wait", n.call("nvmlEventSetWait_v2", set, at(&event), 500), int32(0))
	want("xid", event[2], uint64(79))
	want("wait again", n.call("nvmlEventSetWait_v2", set, at(&event), 20), int32(10))
	want("shutdown", n.call("nvmlShutdown"), int32(0))
	want("after shutdown", n.call("nvmlDeviceGetCount_v2", at(&count)), int32(1))
}
