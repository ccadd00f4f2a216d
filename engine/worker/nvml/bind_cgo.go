//go:build linux && cgo

package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

const way = "go-nvml"

// viaGo binds the library through go-nvml. Functions are looked up before they
// are called: an old library without one would end the process.
type viaGo struct{ lib gonvml.Interface }

// bind cannot fail: go-nvml loads the library with its initialization.
func bind(file string) (bound, error) {
	return viaGo{gonvml.New(gonvml.WithLibraryPath(file))}, nil
}

func (b viaGo) has(name string) bool { return b.lib.Extensions().LookupSymbol(name) == nil }

func (b viaGo) init() code { return code(b.lib.Init()) }

func (b viaGo) driver() (string, code) {
	v, c := b.lib.SystemGetDriverVersion()
	return v, code(c)
}

func (b viaGo) handle(uuid string) (card, code) {
	if !b.has("nvmlDeviceGetHandleByUUID") {
		return nil, functionNotFound
	}
	d, c := b.lib.DeviceGetHandleByUUID(uuid)
	return goCard{b, d}, code(c)
}

type goCard struct {
	b viaGo
	d gonvml.Device
}

// read calls f if the library has the function.
func read[V any](b viaGo, name string, f func() (V, gonvml.Return)) (v V, c code) {
	if !b.has(name) {
		return v, functionNotFound
	}
	v, ret := f()
	return v, code(ret)
}

func (g goCard) temperature() (uint32, code) {
	return read(g.b, "nvmlDeviceGetTemperature", func() (uint32, gonvml.Return) { return g.d.GetTemperature(gonvml.TEMPERATURE_GPU) })
}

func (g goCard) power() (uint32, code) {
	return read(g.b, "nvmlDeviceGetPowerUsage", g.d.GetPowerUsage)
}

func (g goCard) powerLimit() (uint32, code) {
	return read(g.b, "nvmlDeviceGetEnforcedPowerLimit", g.d.GetEnforcedPowerLimit)
}

func (g goCard) memory() (used, total uint64, c code) {
	m, c := read(g.b, "nvmlDeviceGetMemoryInfo", g.d.GetMemoryInfo)
	return m.Used, m.Total, c
}

func (g goCard) utilization() (uint32, code) {
	u, c := read(g.b, "nvmlDeviceGetUtilizationRates", g.d.GetUtilizationRates)
	return u.Gpu, c
}

func (g goCard) clock() (uint32, code) {
	return read(g.b, "nvmlDeviceGetClockInfo", func() (uint32, gonvml.Return) { return g.d.GetClockInfo(gonvml.CLOCK_SM) })
}

func (g goCard) throttle() (uint64, code) {
	return read(g.b, "nvmlDeviceGetCurrentClocksThrottleReasons", g.d.GetCurrentClocksThrottleReasons)
}

func (g goCard) ecc() (corrected, wrong uint64, c code) {
	errs := func(kind gonvml.MemoryErrorType) (uint64, code) {
		return read(g.b, "nvmlDeviceGetTotalEccErrors", func() (uint64, gonvml.Return) { return g.d.GetTotalEccErrors(kind, gonvml.VOLATILE_ECC) })
	}
	if corrected, c = errs(gonvml.MEMORY_ERROR_TYPE_CORRECTED); c == success {
		wrong, c = errs(gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)
	}
	return corrected, wrong, c
}

func (g goCard) mig() (int, code) {
	return read(g.b, "nvmlDeviceGetMigMode", func() (int, gonvml.Return) {
		now, _, c := g.d.GetMigMode()
		return now, c
	})
}

func (g goCard) watchXID() (func() (uint64, code), code) {
	for _, name := range []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"} {
		if !g.b.has(name) {
			return nil, functionNotFound
		}
	}
	set, c := g.b.lib.EventSetCreate()
	if c != gonvml.SUCCESS {
		return nil, code(c)
	}
	if c := g.d.RegisterEvents(gonvml.EventTypeXidCriticalError, set); c != gonvml.SUCCESS {
		return nil, code(c)
	}
	return func() (uint64, code) {
		ev, c := set.Wait(1000)
		return ev.EventData, code(c)
	}, success
}
