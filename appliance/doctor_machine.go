package appliance

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"hearth/engine"
	"hearth/engine/remote"
)

// clock compares with what must be in the past, and asks the kernel whether
// anybody sets the clock.
func (d *doctor) clock(context.Context) {
	const name = "clock"
	now := d.env.Now()
	if built, ok := builtAt(); ok && now.Before(built.Add(-24*time.Hour)) {
		d.fail(name, "set the clock: certificates, budgets and sessions go by it", "it says %s, before this program was made (%s)", now.Format(time.DateTime), built.Format(time.DateOnly))
		return
	}
	if synced, known := clockSynced(); known && !synced {
		d.warn(name, "run a time service (systemd-timesyncd, chrony), with a server of your network if the box is air-gapped", "it says %s, and nobody keeps it right", now.Format(time.DateTime))
		return
	} else if known {
		d.ok(name, "%s, kept by a time service", now.Format(time.DateTime))
		return
	}
	d.ok(name, "%s", now.Format(time.DateTime))
}

// builtAt is when the sources of this program were last changed.
func builtAt() (time.Time, bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}, false
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, err := time.Parse(time.RFC3339, s.Value)
			return t, err == nil
		}
	}
	return time.Time{}, false
}

// wantedFeatures are the processor's features that the fastest kernels use.
var wantedFeatures = map[string][]string{"amd64": {"avx2", "fma", "f16c", "avx_vnni", "avx512vl", "avx512_vnni", "avx512_bf16"}, "arm64": {"asimd", "asimddp", "asimdhp"}}

func (d *doctor) processor(context.Context) {
	const name = "processor"
	m, err := engine.ThisMachine()
	if err != nil {
		d.fail(name, "report this with the text of /proc/cpuinfo", "%v", err)
		return
	}
	var has []string
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		flags := map[string]bool{}
		for line := range strings.Lines(string(b)) {
			if key, list, ok := strings.Cut(line, ":"); ok && (strings.TrimSpace(key) == "flags" || strings.TrimSpace(key) == "Features") {
				for _, f := range strings.Fields(list) {
					flags[f] = true
				}
				break
			}
		}
		for _, f := range wantedFeatures[runtime.GOARCH] {
			if flags[f] {
				has = append(has, f)
			}
		}
	}
	text := m.Kernels + " kernels on " + strconv.Itoa(m.Threads) + " threads"
	if len(has) > 0 {
		text += "; it has " + strings.Join(has, " ")
	}
	if len(m.Paths) == 1 && runtime.GOARCH == "amd64" {
		d.warn(name, "in a virtual machine, pass the host's processor through (host-passthrough); AVX2 makes models several times faster", "%s: the slow ones, it has no AVX2", text)
		return
	}
	if len(m.Refused) > 0 {
		d.warn(name, "report this with the text of /proc/cpuinfo", "%s; those for %s gave wrong results and are left out", text, strings.Join(m.Refused, " and "))
		return
	}
	d.ok(name, "%s", text)
}

func (d *doctor) memory(context.Context) {
	const name = "memory"
	free := engine.AvailableMemory()
	if free == 0 {
		return
	}
	text := bytesText(free) + " can be had"
	if limit, used := engine.GroupMemory(); limit > 0 {
		text += "; the control group allows " + bytesText(limit) + ", " + bytesText(used) + " are used"
	}
	switch {
	case free < 256<<20:
		d.fail(name, "end other programs, raise the container's limit, or unload a model", "%s", text)
	case free < 1<<30:
		d.warn(name, "unload models that are not needed, or raise the container's limit", "%s", text)
	default:
		d.ok(name, "%s", text)
	}
}

// kernel looks at settings that have broken model servers before.
func (d *doctor) kernel(context.Context) {
	const name = "kernel settings"
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	well := true
	if v := read("/proc/sys/vm/overcommit_memory"); v == "2" {
		well = false
		d.warn(name, "sysctl vm.overcommit_memory=0, or give more swap", "vm.overcommit_memory is 2: mapping a large model file may be refused although memory is free")
	}
	if v := read("/proc/sys/vm/memfd_noexec"); v == "2" {
		well = false
		d.warn(name, "sysctl vm.memfd_noexec=1", "vm.memfd_noexec is 2: workers that are started from memory are refused")
	}
	if v := read("/sys/kernel/mm/transparent_hugepage/enabled"); strings.Contains(v, "[never]") {
		well = false
		d.warn(name, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", "huge pages are off: large models run a little slower")
	}
	if v := read("/proc/sys/kernel/seccomp/actions_avail"); v == "" && runtime.GOOS == "linux" {
		well = false
		d.warn(name, "see whether the container hides /proc/sys", "/proc/sys cannot be read, so that not all settings are known")
	}
	if well {
		d.ok(name, "nothing in the way")
	}
}

func (d *doctor) sandbox(context.Context) {
	const name = "sandbox of workers"
	r := remote.SandboxAvailable()
	if r.Landlock == "" && r.Seccomp == "" {
		d.ok(name, "Landlock (version %d) and seccomp", r.LandlockABI)
		return
	}
	d.warn(name, "use a kernel of 5.13 or later with Landlock (lsm=landlock,…) and seccomp; models run without, less confined", "%s", r)
}

// graphics looks for NVIDIA devices and their driver, by what the kernel shows of
// them and by what the GPU worker says: this program loads no library of the
// driver's.
func (d *doctor) graphics(ctx context.Context) {
	const name = "gpu"
	cards := nvidiaCards(pciDevices)
	module := driverVersion(readText("/proc/driver/nvidia/version"))
	nodes, _ := filepath.Glob("/dev/nvidia[0-9]*")
	switch {
	case cards == 0 && module == "" && len(nodes) == 0:
		d.ok(name, "none in this machine; models run on the processor")
		return
	case module == "":
		d.warn(name, "install NVIDIA's driver (the open kernel module does), then load it: modprobe nvidia nvidia_uvm", "%d NVIDIA devices, and the driver is not loaded", cards)
		return
	case len(nodes) == 0:
		d.warn(name, "nvidia-modprobe -c 0 -u, or run nvidia-persistenced; in a container pass the devices (--gpus all)", "driver %s is loaded and there are no device files", module)
		return
	}
	usable := 0
	for _, n := range append(nodes, "/dev/nvidiactl", "/dev/nvidia-uvm") {
		f, err := os.OpenFile(n, os.O_RDWR, 0)
		if err != nil {
			d.warn("gpu devices", "add this user to the group of the file, and in a unit allow char-nvidia, char-nvidia-frontend and char-nvidia-uvm", "%v", err)
			continue
		}
		f.Close()
		usable++
	}
	d.ok(name, "driver %s, %d device files, %d of them usable", module, len(nodes), usable)
	d.gpuWorker(ctx)
	for _, lib := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		version, found := libraryVersion(lib)
		switch {
		case !found:
			d.warn("gpu libraries", "install the driver's user space part of the same version; in a container use the NVIDIA runtime", "%s is not there", lib)
		case version != "" && version != module:
			d.warn("gpu libraries", "restart the machine after an update of the driver, so that both parts are of one version", "%s is of %s, the loaded driver of %s", lib, version, module)
		default:
			d.ok("gpu libraries", "%s %s", lib, version)
		}
	}
}

// gpuWorker has the GPU worker look, which sees what models will.
func (d *doctor) gpuWorker(ctx context.Context) {
	const name = "gpu worker"
	library := ""
	if d.conf != nil && d.conf.CUDA.Library != "" {
		library = d.dir.resolve(d.conf.CUDA.Library)
	}
	l := listGPUs(ctx, d.dir, library)
	if l.Fault != nil {
		d.warn(name, l.Fault.Fix, "%s", l.Fault.Error())
		return
	}
	usable := 0
	for i := range l.Devices {
		if f := l.Devices[i].Fault; f != nil {
			d.warn(l.Devices[i].ID, f.Fix, "%s", f.Error())
			continue
		}
		usable++
	}
	d.ok(name, "%d of %d GPUs can be used, CUDA up to %s", usable, len(l.Devices), l.CUDA)
}

func readText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 64<<10 {
		return ""
	}
	return string(b)
}

const pciDevices = "/sys/bus/pci/devices"

// nvidiaCards counts display and 3D controllers of vendor 0x10de.
func nvidiaCards(dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		vendor := strings.TrimSpace(readText(filepath.Join(dir, e.Name(), "vendor")))
		class := strings.TrimSpace(readText(filepath.Join(dir, e.Name(), "class")))
		if vendor == "0x10de" && strings.HasPrefix(class, "0x03") {
			n++
		}
	}
	return n
}

// driverVersion finds the version in /proc/driver/nvidia/version: the first word
// of figures and points of the NVRM line.
func driverVersion(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		for _, w := range strings.Fields(line) {
			if strings.Count(w, ".") >= 1 && strings.Trim(w, "0123456789.") == "" {
				return w
			}
		}
	}
	return ""
}

// libraryDirs are where distributions and container runtimes put the driver's
// libraries.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/nvidia/lib64",
	"/run/opengl-driver/lib", "/usr/lib/wsl/lib",
}

// libraryVersion follows the links of a library to the file that is named for
// the driver's version.
func libraryVersion(name string) (version string, found bool) {
	base, _, _ := strings.Cut(name, ".so")
	for _, dir := range libraryDirs {
		file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		v := strings.TrimPrefix(filepath.Base(file), base+".so.")
		if strings.Count(v, ".") < 1 || strings.Trim(v, "0123456789.") != "" {
			v = ""
		}
		return v, true
	}
	return "", false
}
