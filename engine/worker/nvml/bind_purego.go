//go:build linux && !cgo

package nvml

import (
	"reflect"
	"runtime"

	"github.com/ebitengine/purego"
)

const way = "purego"

// Entry points, by their exported names.
const (
	callInit = iota
	callDriver
	callHandle
	callTemperature
	callPower
	callPowerLimit
	callMemory
	callUtilization
	callClock
	callThrottle
	callECC
	callMIG
	callEventSet
	callRegister
	callWait
	calls
)

var names = [calls]string{
	callInit: "nvmlInit_v2", callDriver: "nvmlSystemGetDriverVersion", callHandle: "nvmlDeviceGetHandleByUUID",
	callTemperature: "nvmlDeviceGetTemperature", callPower: "nvmlDeviceGetPowerUsage", callPowerLimit: "nvmlDeviceGetEnforcedPowerLimit",
	callMemory: "nvmlDeviceGetMemoryInfo", callUtilization: "nvmlDeviceGetUtilizationRates", callClock: "nvmlDeviceGetClockInfo",
	callThrottle: "nvmlDeviceGetCurrentClocksThrottleReasons", callECC: "nvmlDeviceGetTotalEccErrors", callMIG: "nvmlDeviceGetMigMode",
	callEventSet: "nvmlEventSetCreate", callRegister: "nvmlDeviceRegisterEvents", callWait: "nvmlEventSetWait_v2",
}

// byAddress binds the library by the addresses of its entry points; what an old
// library lacks has none.
type byAddress struct{ addr [calls]uintptr }

func bind(file string) (bound, error) {
	lib, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	b := &byAddress{}
	for i, name := range names {
		b.addr[i], _ = purego.Dlsym(lib, name)
	}
	return b, nil
}

// call makes a call with numbers and with pointers to what it reads or writes,
// which stay where they are until it returns.
func (b *byAddress) call(i int, args ...any) code {
	if b.addr[i] == 0 {
		return functionNotFound
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	words := make([]uintptr, len(args))
	for k, a := range args {
		switch v := reflect.ValueOf(a); v.Kind() {
		case reflect.Pointer:
			pins.Pin(a)
			words[k] = v.Pointer()
		case reflect.Uintptr:
			words[k] = uintptr(v.Uint())
		default:
			words[k] = uintptr(v.Int())
		}
	}
	r, _, _ := purego.SyscallN(b.addr[i], words...)
	return code(int32(r))
}

func (b *byAddress) init() code { return b.call(callInit) }

func (b *byAddress) driver() (string, code) {
	text := new([80]byte) // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
	c := b.call(callDriver, text, len(text))
	n := 0
	for n < len(text) && text[n] != 0 {
		n++
	}
	return string(text[:n]), c
}

func (b *byAddress) handle(uuid string) (card, code) {
	name := append([]byte(uuid), 0)
	h := new(uintptr)
	c := b.call(callHandle, &name[0], h)
	return &addressCard{b, *h}, c
}

type addressCard struct {
	b *byAddress
	h uintptr
}

// number calls an entry point that takes the card, arguments and a place for
// its result.
func number[V any](g *addressCard, i int, args ...any) (V, code) {
	v := new(V)
	c := g.b.call(i, append(append([]any{g.h}, args...), v)...)
	return *v, c
}

func (g *addressCard) temperature() (uint32, code) { return number[uint32](g, callTemperature, 0) } // NVML_TEMPERATURE_GPU
func (g *addressCard) power() (uint32, code)       { return number[uint32](g, callPower) }
func (g *addressCard) powerLimit() (uint32, code)  { return number[uint32](g, callPowerLimit) }
func (g *addressCard) clock() (uint32, code)       { return number[uint32](g, callClock, 1) } // NVML_CLOCK_SM
func (g *addressCard) throttle() (uint64, code)    { return number[uint64](g, callThrottle) }

func (g *addressCard) memory() (used, total uint64, c code) {
	m, c := number[struct{ total, free, used uint64 }](g, callMemory) // nvmlMemory_t
	return m.used, m.total, c
}

func (g *addressCard) utilization() (uint32, code) {
	u, c := number[struct{ gpu, memory uint32 }](g, callUtilization) // nvmlUtilization_t
	return u.gpu, c
}

func (g *addressCard) ecc() (corrected, wrong uint64, c code) {
	// NVML_MEMORY_ERROR_TYPE_CORRECTED and _UNCORRECTED, of NVML_VOLATILE_ECC
	if corrected, c = number[uint64](g, callECC, 0, 0); c == success {
		wrong, c = number[uint64](g, callECC, 1, 0)
	}
	return corrected, wrong, c
}

func (g *addressCard) mig() (int, code) {
	now, pending := new(uint32), new(uint32)
	c := g.b.call(callMIG, g.h, now, pending)
	return int(*now), c
}

// eventData is nvmlEventData_t.
type eventData struct {
	device          uintptr
	kind, data      uint64
	gpuInst, cuInst uint32
}

func (g *addressCard) watchXID() (func() (uint64, code), code) {
	set := new(uintptr)
	if c := g.b.call(callEventSet, set); c != success {
		return nil, c
	}
	if c := g.b.call(callRegister, g.h, 8, *set); c != success { // nvmlEventTypeXidCriticalError
		return nil, c
	}
	return func() (uint64, code) {
		ev := new(eventData)
		c := g.b.call(callWait, *set, ev, 1000)
		return ev.data, c
	}, success
}
