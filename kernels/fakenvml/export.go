//go:build linux && cgo

package main

// #include "preempt.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"unsafe"
)

func init() { C.fakenvml_give_back_preemption() }

var lib = sync.OnceValue(func() *library {
	l, err := newLibrary(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakenvml:", err)
		os.Exit(97)
	}
	return l
})

// put stores a result if the call succeeded.
func put[T any](to unsafe.Pointer, v T, c code) code {
	if c == success {
		if to == nil {
			return invalidArgument
		}
		*(*T)(to) = v
	}
	return c
}

// putText stores a string with its end.
func putText(to unsafe.Pointer, room uint32, s string) code {
	if to == nil {
		return invalidArgument
	}
	if int(room) < len(s)+1 {
		return tooSmall
	}
	copy(unsafe.Slice((*byte)(to), room), s+"\x00")
	return success
}

// text reads a string of C.
func text(at unsafe.Pointer) string { return C.GoString((*C.char)(at)) }

// ofGPU is a call about a GPU.
func ofGPU(name string, h uintptr, f func(g gpu) code) int32 {
	return lib().call(name, func(set map[string]string) code {
		g, ok := lib().gpu(h, set)
		if !ok {
			return invalidArgument
		}
		return f(g)
	})
}

func start(name string) int32 {
	return lib().call(name, func(map[string]string) code {
		lib().uses++
		return success
	})
}

//export nvmlInit_v2
func nvmlInit_v2() int32 { return start("nvmlInit_v2") }

//export nvmlInit
func nvmlInit() int32 { return start("nvmlInit") }

//export nvmlInitWithFlags
func nvmlInitWithFlags(uint32) int32 { return start("nvmlInitWithFlags") }

//export nvmlShutdown
func nvmlShutdown() int32 {
	return lib().call("nvmlShutdown", func(map[string]string) code {
		lib().uses--
		return success
	})
}

// given are the texts that were handed out, which stay for ever.
var given sync.Map

//export nvmlErrorString
func nvmlErrorString(c int32) unsafe.Pointer {
	s := texts[code(c)]
	if s == "" {
		s = "Unknown Error"
	}
	p, ok := given.Load(s)
	if !ok {
		p, _ = given.LoadOrStore(s, unsafe.Pointer(C.CString(s)))
	}
	return p.(unsafe.Pointer)
}

//export nvmlSystemGetDriverVersion
func nvmlSystemGetDriverVersion(to unsafe.Pointer, room uint32) int32 {
	return lib().call("nvmlSystemGetDriverVersion", func(set map[string]string) code {
		return putText(to, room, gpu{set: set}.text("driver", "580.95.05"))
	})
}

//export nvmlSystemGetNVMLVersion
func nvmlSystemGetNVMLVersion(to unsafe.Pointer, room uint32) int32 {
	return lib().call("nvmlSystemGetNVMLVersion", func(set map[string]string) code {
		return putText(to, room, "13."+gpu{set: set}.text("driver", "580.95.05"))
	})
}

//export nvmlSystemGetCudaDriverVersion_v2
func nvmlSystemGetCudaDriverVersion_v2(to unsafe.Pointer) int32 {
	return lib().call("nvmlSystemGetCudaDriverVersion_v2", func(map[string]string) code {
		v := lib().get("FAKECUDA_DRIVER_VERSION")
		if v == "" {
			v = "12020"
		}
		return put(to, int32(number("FAKECUDA_DRIVER_VERSION", v)), success)
	})
}

//export nvmlDeviceGetCount_v2
func nvmlDeviceGetCount_v2(to unsafe.Pointer) int32 {
	return lib().call("nvmlDeviceGetCount_v2", func(map[string]string) code { return put(to, uint32(len(lib().gpus)), success) })
}

// find gives the handle of the GPU for which f holds.
func find(name string, to unsafe.Pointer, f func(g gpu) bool) int32 {
	return lib().call(name, func(set map[string]string) code {
		for i := range lib().gpus {
			if f(gpu{lib().gpus[i], i, set}) {
				return put(to, handle(i), success)
			}
		}
		return notFound
	})
}

//export nvmlDeviceGetHandleByIndex_v2
func nvmlDeviceGetHandleByIndex_v2(index uint32, to unsafe.Pointer) int32 {
	if int(index) >= len(lib().gpus) {
		return lib().call("nvmlDeviceGetHandleByIndex_v2", func(map[string]string) code { return invalidArgument })
	}
	return find("nvmlDeviceGetHandleByIndex_v2", to, func(g gpu) bool { return g.index == int(index) })
}

//export nvmlDeviceGetHandleByUUID
func nvmlDeviceGetHandleByUUID(uuid, to unsafe.Pointer) int32 {
	want := text(uuid)
	return find("nvmlDeviceGetHandleByUUID", to, func(g gpu) bool { return g.ID() == want })
}

// busID is the address on PCI as NVML writes it.
func (g gpu) busID(format string) string { return fmt.Sprintf(format, 0, g.Bus, 0) }

//export nvmlDeviceGetHandleByPciBusId_v2
func nvmlDeviceGetHandleByPciBusId_v2(id, to unsafe.Pointer) int32 {
	want := text(id)
	return find("nvmlDeviceGetHandleByPciBusId_v2", to, func(g gpu) bool {
		return strings.EqualFold(want, g.busID("%08X:%02X:%02X.0")) || strings.EqualFold(want, g.busID("%04X:%02X:%02X.0"))
	})
}

//export nvmlDeviceGetIndex
func nvmlDeviceGetIndex(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetIndex", h, func(g gpu) code { return put(to, uint32(g.index), success) })
}

//export nvmlDeviceGetName
func nvmlDeviceGetName(h uintptr, to unsafe.Pointer, room uint32) int32 {
	return ofGPU("nvmlDeviceGetName", h, func(g gpu) code { return putText(to, room, g.Name) })
}

//export nvmlDeviceGetUUID
func nvmlDeviceGetUUID(h uintptr, to unsafe.Pointer, room uint32) int32 {
	return ofGPU("nvmlDeviceGetUUID", h, func(g gpu) code { return putText(to, room, g.ID()) })
}

//export nvmlDeviceGetCudaComputeCapability
func nvmlDeviceGetCudaComputeCapability(h uintptr, major, minor unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetCudaComputeCapability", h, func(g gpu) code {
		return put(minor, int32(g.Compute%10), put(major, int32(g.Compute/10), success))
	})
}

// pciInfo is nvmlPciInfo_t.
type pciInfo struct {
	legacy                                  [16]byte
	domain, bus, device, pciID, pciSubsysID uint32
	id                                      [32]byte
}

//export nvmlDeviceGetPciInfo_v3
func nvmlDeviceGetPciInfo_v3(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetPciInfo_v3", h, func(g gpu) code {
		p := pciInfo{bus: uint32(g.Bus), pciID: 0x233510de}
		copy(p.legacy[:], g.busID("%04X:%02X:%02X.0"))
		copy(p.id[:], g.busID("%08X:%02X:%02X.0"))
		return put(to, p, success)
	})
}

//export nvmlDeviceGetMemoryInfo
func nvmlDeviceGetMemoryInfo(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetMemoryInfo", h, func(g gpu) code {
		return put(to, struct{ total, free, used uint64 }{uint64(g.Memory), uint64(g.Memory) - g.used(), g.used()}, success)
	})
}

// memoryV2 is nvmlMemory_v2_t.
type memoryV2 struct {
	version                     uint32
	total, reserved, free, used uint64
}

//export nvmlDeviceGetMemoryInfo_v2
func nvmlDeviceGetMemoryInfo_v2(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetMemoryInfo_v2", h, func(g gpu) code {
		version := uint32(unsafe.Sizeof(memoryV2{})) | 2<<24 // NVML_STRUCT_VERSION
		switch {
		case to == nil:
			return invalidArgument
		case *(*uint32)(to) != version:
			return versionMismatch
		}
		return put(to, memoryV2{version, uint64(g.Memory), 0, uint64(g.Memory) - g.used(), g.used()}, success)
	})
}

//export nvmlDeviceGetUtilizationRates
func nvmlDeviceGetUtilizationRates(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetUtilizationRates", h, func(g gpu) code {
		return put(to, [2]uint32{uint32(g.number("utilization", "0")), uint32(g.number("memoryutilization", "0"))}, success)
	})
}

//export nvmlDeviceGetTemperature
func nvmlDeviceGetTemperature(h uintptr, sensor int32, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetTemperature", h, func(g gpu) code {
		if sensor != 0 { // NVML_TEMPERATURE_GPU
			return invalidArgument
		}
		return put(to, uint32(g.number("temperature", "40")), success)
	})
}

// milli is a value in thousandths.
func (g gpu) milli(name, otherwise string) uint32 {
	return uint32(math.Round(1000 * g.number(name, otherwise)))
}

//export nvmlDeviceGetPowerUsage
func nvmlDeviceGetPowerUsage(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetPowerUsage", h, func(g gpu) code { return put(to, g.milli("power", "75"), success) })
}

//export nvmlDeviceGetEnforcedPowerLimit
func nvmlDeviceGetEnforcedPowerLimit(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetEnforcedPowerLimit", h, func(g gpu) code { return put(to, g.milli("limit", "300"), success) })
}

//export nvmlDeviceGetPowerManagementLimit
func nvmlDeviceGetPowerManagementLimit(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetPowerManagementLimit", h, func(g gpu) code { return put(to, g.milli("limit", "300"), success) })
}

// clock is a clock in MHz by nvmlClockType_t: graphics, multiprocessors, memory, video.
func (g gpu) clock(kind int32, name string) (uint32, code) {
	switch kind {
	case 0, 1, 3:
		return uint32(g.number(name, map[string]string{"clock": "1410", "maxclock": "1980"}[name])), success
	case 2:
		return uint32(g.number("memoryclock", "2619")), success
	}
	return 0, invalidArgument
}

//export nvmlDeviceGetClockInfo
func nvmlDeviceGetClockInfo(h uintptr, kind int32, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetClockInfo", h, func(g gpu) code {
		v, c := g.clock(kind, "clock")
		return put(to, v, c)
	})
}

//export nvmlDeviceGetMaxClockInfo
func nvmlDeviceGetMaxClockInfo(h uintptr, kind int32, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetMaxClockInfo", h, func(g gpu) code {
		v, c := g.clock(kind, "maxclock")
		return put(to, v, c)
	})
}

//export nvmlDeviceGetCurrentClocksThrottleReasons
func nvmlDeviceGetCurrentClocksThrottleReasons(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetCurrentClocksThrottleReasons", h, func(g gpu) code { return put(to, uint64(g.number("throttle", "0")), success) })
}

//export nvmlDeviceGetCurrentClocksEventReasons
func nvmlDeviceGetCurrentClocksEventReasons(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetCurrentClocksEventReasons", h, func(g gpu) code { return put(to, uint64(g.number("throttle", "0")), success) })
}

// eccDefault is what FAKECUDA_DEVICES says.
func (g gpu) eccDefault() string {
	if g.ECC {
		return "on"
	}
	return "off"
}

//export nvmlDeviceGetEccMode
func nvmlDeviceGetEccMode(h uintptr, now, pending unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetEccMode", h, func(g gpu) code {
		v, c := g.mode("ecc", g.eccDefault())
		return put(pending, v, put(now, v, c))
	})
}

//export nvmlDeviceGetTotalEccErrors
func nvmlDeviceGetTotalEccErrors(h uintptr, kind, counter int32, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetTotalEccErrors", h, func(g gpu) code {
		on, c := g.mode("ecc", g.eccDefault())
		switch {
		case c != success:
			return c
		case on == 0:
			return notSupported
		case kind < 0 || kind > 1 || counter < 0 || counter > 1:
			return invalidArgument
		}
		return put(to, uint64(g.number([]string{"corrected", "uncorrected"}[kind], "0")), success)
	})
}

//export nvmlDeviceGetMigMode
func nvmlDeviceGetMigMode(h uintptr, now, pending unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetMigMode", h, func(g gpu) code {
		otherwise := "off"
		if g.Compute != 80 && g.Compute != 90 && g.Compute != 100 {
			otherwise = "none"
		}
		v, c := g.mode("mig", otherwise)
		return put(pending, v, put(now, v, c))
	})
}

//export nvmlDeviceGetCurrPcieLinkGeneration
func nvmlDeviceGetCurrPcieLinkGeneration(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetCurrPcieLinkGeneration", h, func(g gpu) code { return put(to, uint32(g.number("pciegen", "4")), success) })
}

//export nvmlDeviceGetCurrPcieLinkWidth
func nvmlDeviceGetCurrPcieLinkWidth(h uintptr, to unsafe.Pointer) int32 {
	return ofGPU("nvmlDeviceGetCurrPcieLinkWidth", h, func(g gpu) code { return put(to, uint32(g.number("pciewidth", "16")), success) })
}

//export nvmlEventSetCreate
func nvmlEventSetCreate(to unsafe.Pointer) int32 {
	return lib().call("nvmlEventSetCreate", func(map[string]string) code {
		l := lib()
		l.next += 16
		l.events[l.next] = &eventSet{map[int]uint64{}}
		return put(to, l.next, success)
	})
}

//export nvmlEventSetFree
func nvmlEventSetFree(set uintptr) int32 {
	return lib().call("nvmlEventSetFree", func(map[string]string) code {
		if lib().events[set] == nil {
			return invalidArgument
		}
		delete(lib().events, set)
		return success
	})
}

//export nvmlDeviceRegisterEvents
func nvmlDeviceRegisterEvents(h uintptr, kinds uint64, set uintptr) int32 {
	return ofGPU("nvmlDeviceRegisterEvents", h, func(g gpu) code {
		e := lib().events[set]
		if e == nil {
			return invalidArgument
		}
		e.gpus[g.index] |= kinds
		return success
	})
}

//export nvmlEventSetWait_v2
func nvmlEventSetWait_v2(set uintptr, to unsafe.Pointer, ms uint32) int32 {
	g, xid, c := lib().wait(set, ms)
	if c == success && to == nil {
		return int32(invalidArgument)
	}
	if c == success { // nvmlEventData_t
		b := unsafe.Slice((*byte)(to), 32)
		binary.LittleEndian.PutUint64(b, uint64(handle(g.index)))
		binary.LittleEndian.PutUint64(b[8:], xidEvent)
		binary.LittleEndian.PutUint64(b[16:], xid)
		binary.LittleEndian.PutUint64(b[24:], math.MaxUint64)
	}
	return int32(c)
}
