//go:build linux && cgo

package main

// #include <stdint.h>
// #include "preempt.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"hearth/kernels/ptx"
)

func init() { C.fakecuda_give_back_preemption() }

// lib is the library of this process, made at the first call.
var lib = sync.OnceValue(func() *library {
	c, err := readConfig(os.Getenv)
	if err == nil {
		var l *library
		if l, err = newLibrary(c); err == nil {
			return l
		}
	}
	fmt.Fprintln(os.Stderr, "fakecuda:", err)
	os.Exit(97)
	return nil
})

// put stores a result if the call succeeded. A nil place is the caller's fault.
func put[T any](to unsafe.Pointer, v T, r result) result {
	if r == success {
		if to == nil {
			return invalidValue
		}
		*(*T)(to) = v
	}
	return r
}

// text reads a string of C.
func text(at unsafe.Pointer) string { return C.GoString((*C.char)(at)) }

//export cuInit
func cuInit(flags uint32) int32 {
	return lib().call("cuInit", needNothing, func(*context) result { return lib().init(flags) })
}

//export cuDriverGetVersion
func cuDriverGetVersion(to unsafe.Pointer) int32 {
	return lib().call("cuDriverGetVersion", needNothing, func(*context) result { return put(to, int32(lib().driver), success) })
}

//export cuDeviceGetCount
func cuDeviceGetCount(to unsafe.Pointer) int32 {
	return lib().call("cuDeviceGetCount", needInit, func(*context) result { return put(to, int32(len(lib().devices)), success) })
}

//export cuDeviceGet
func cuDeviceGet(to unsafe.Pointer, ordinal int32) int32 {
	return lib().call("cuDeviceGet", needInit, func(*context) result {
		if lib().device(ordinal) == nil {
			return invalidDevice
		}
		return put(to, ordinal, success)
	})
}

// ofDevice is a call about a device.
func ofDevice(name string, n int32, f func(d *device) result) int32 {
	return lib().call(name, needInit, func(*context) result {
		d := lib().device(n)
		if d == nil {
			return invalidDevice
		}
		return f(d)
	})
}

//export cuDeviceGetName
func cuDeviceGetName(to unsafe.Pointer, n int32, dev int32) int32 {
	return ofDevice("cuDeviceGetName", dev, func(d *device) result {
		if to == nil || n <= 0 {
			return invalidValue
		}
		b := unsafe.Slice((*byte)(to), n)
		b[copy(b[:n-1], d.Name)] = 0
		return success
	})
}

//export cuDeviceGetAttribute
func cuDeviceGetAttribute(to unsafe.Pointer, attribute, dev int32) int32 {
	return ofDevice("cuDeviceGetAttribute", dev, func(d *device) result {
		v, ok := d.attribute(attribute)
		if !ok {
			return invalidValue
		}
		return put(to, int32(v), success)
	})
}

//export cuDeviceTotalMem_v2
func cuDeviceTotalMem_v2(to unsafe.Pointer, dev int32) int32 {
	return ofDevice("cuDeviceTotalMem_v2", dev, func(d *device) result { return put(to, uint64(d.Memory), success) })
}

//export cuDeviceGetUuid
func cuDeviceGetUuid(to unsafe.Pointer, dev int32) int32 {
	return ofDevice("cuDeviceGetUuid", dev, func(d *device) result { return put(to, d.UUID, success) })
}

//export cuDevicePrimaryCtxRetain
func cuDevicePrimaryCtxRetain(to unsafe.Pointer, dev int32) int32 {
	return lib().call("cuDevicePrimaryCtxRetain", needInit, func(*context) result {
		h, r := lib().retain(dev)
		return put(to, h, r)
	})
}

//export cuDevicePrimaryCtxRelease_v2
func cuDevicePrimaryCtxRelease_v2(dev int32) int32 {
	return lib().call("cuDevicePrimaryCtxRelease_v2", needInit, func(*context) result { return lib().release(dev) })
}

//export cuCtxSetCurrent
func cuCtxSetCurrent(ctx uintptr) int32 {
	return lib().call("cuCtxSetCurrent", needInit, func(*context) result { return lib().setCurrent(ctx) })
}

//export cuModuleLoadDataEx
func cuModuleLoadDataEx(to, image unsafe.Pointer, n uint32, options, values unsafe.Pointer) int32 {
	return lib().call("cuModuleLoadDataEx", needContext, func(c *context) result {
		if image == nil {
			return invalidValue
		}
		j, r := readJIT(n, options, values)
		if r != success {
			return r
		}
		h, r := lib().loadModule(c, []byte(text(image)), j)
		return put(to, h, r)
	})
}

//export cuModuleUnload
func cuModuleUnload(m uintptr) int32 {
	return lib().call("cuModuleUnload", needContext, func(c *context) result { return lib().unloadModule(c, m) })
}

//export cuModuleGetFunction
func cuModuleGetFunction(to unsafe.Pointer, m uintptr, name unsafe.Pointer) int32 {
	return lib().call("cuModuleGetFunction", needContext, func(c *context) result {
		if name == nil {
			return invalidValue
		}
		h, r := lib().function(c, m, text(name))
		return put(to, h, r)
	})
}

//export cuModuleGetGlobal_v2
func cuModuleGetGlobal_v2(to, size unsafe.Pointer, m uintptr, name unsafe.Pointer) int32 {
	return lib().call("cuModuleGetGlobal_v2", needContext, func(c *context) result {
		if name == nil {
			return invalidValue
		}
		a, n, r := lib().global(c, m, text(name))
		if r == success && to != nil {
			r = put(to, a, r)
		}
		if r == success && size != nil {
			r = put(size, uint64(n), r)
		}
		return r
	})
}

// ofFunction is a call about a kernel.
func ofFunction(name string, h uintptr, f func(c *context, k *function) result) int32 {
	return lib().call(name, needContext, func(c *context) result {
		k, ok := of[*function](lib(), h)
		if !ok {
			return invalidHandle
		}
		return f(c, k)
	})
}

//export cuFuncGetAttribute
func cuFuncGetAttribute(to unsafe.Pointer, attribute int32, f uintptr) int32 {
	return ofFunction("cuFuncGetAttribute", f, func(_ *context, k *function) result {
		v, r := lib().funcAttribute(k, attribute)
		return put(to, int32(v), r)
	})
}

//export cuFuncSetAttribute
func cuFuncSetAttribute(f uintptr, attribute, v int32) int32 {
	return ofFunction("cuFuncSetAttribute", f, func(_ *context, k *function) result { return lib().setFuncAttribute(k, attribute, v) })
}

//export cuOccupancyMaxActiveBlocksPerMultiprocessor
func cuOccupancyMaxActiveBlocksPerMultiprocessor(to unsafe.Pointer, f uintptr, threads int32, dynamic uintptr) int32 {
	return ofFunction("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, func(c *context, k *function) result {
		if threads <= 0 || dynamic > 1<<20 {
			return invalidValue
		}
		return put(to, int32(c.blocksPerSM(int(threads), lib().registers, k.kernel.StaticShared+int(dynamic))), success)
	})
}

//export cuMemGetInfo_v2
func cuMemGetInfo_v2(free, total unsafe.Pointer) int32 {
	return lib().call("cuMemGetInfo_v2", needContext, func(c *context) result {
		f, t := c.memInfo()
		return put(total, t, put(free, f, success))
	})
}

//export cuMemAlloc_v2
func cuMemAlloc_v2(to unsafe.Pointer, n uintptr) int32 {
	return lib().call("cuMemAlloc_v2", needContext, func(c *context) result {
		a, r := c.alloc(uint64(n))
		return put(to, a, r)
	})
}

//export cuMemFree_v2
func cuMemFree_v2(a uint64) int32 {
	return lib().call("cuMemFree_v2", needContext, func(c *context) result { return lib().free(c, a) })
}

//export cuMemHostAlloc
func cuMemHostAlloc(to unsafe.Pointer, n uintptr, flags uint32) int32 {
	return lib().call("cuMemHostAlloc", needContext, func(*context) result {
		if flags&^7 != 0 {
			return invalidValue
		}
		at, r := lib().hostAlloc(n)
		return put(to, at, r)
	})
}

//export cuMemFreeHost
func cuMemFreeHost(at uintptr) int32 {
	return lib().call("cuMemFreeHost", needContext, func(c *context) result { return lib().drop(c, at, true) })
}

//export cuMemHostRegister_v2
func cuMemHostRegister_v2(at, n uintptr, flags uint32) int32 {
	return lib().call("cuMemHostRegister_v2", needContext, func(*context) result {
		if at == 0 || n == 0 || flags&^0xf != 0 {
			return invalidValue
		}
		return lib().pinned.add(hostRange{at, n, false})
	})
}

//export cuMemHostUnregister
func cuMemHostUnregister(at uintptr) int32 {
	return lib().call("cuMemHostUnregister", needContext, func(c *context) result { return lib().drop(c, at, false) })
}

// inStream is a call that has to do with a stream.
func inStream(name string, h uintptr, f func(s *stream) result) int32 {
	return lib().call(name, needContext, func(c *context) result {
		s, ok := lib().stream(c, h)
		if !ok {
			return invalidHandle
		}
		return f(s)
	})
}

//export cuMemcpyHtoDAsync_v2
func cuMemcpyHtoDAsync_v2(dst uint64, src, n, stream_ uintptr) int32 {
	return inStream("cuMemcpyHtoDAsync_v2", stream_, func(s *stream) result { return lib().upload(s, dst, src, n) })
}

//export cuMemcpyDtoHAsync_v2
func cuMemcpyDtoHAsync_v2(dst uintptr, src uint64, n, stream_ uintptr) int32 {
	return inStream("cuMemcpyDtoHAsync_v2", stream_, func(s *stream) result { return lib().download(s, dst, src, n) })
}

//export cuMemcpyDtoDAsync_v2
func cuMemcpyDtoDAsync_v2(dst, src uint64, n, stream_ uintptr) int32 {
	return inStream("cuMemcpyDtoDAsync_v2", stream_, func(s *stream) result { return lib().copy(s, dst, src, n) })
}

//export cuMemsetD8Async
func cuMemsetD8Async(dst uint64, v uint8, n, stream_ uintptr) int32 {
	return inStream("cuMemsetD8Async", stream_, func(s *stream) result { return lib().fill(s, dst, v, n) })
}

//export cuStreamCreate
func cuStreamCreate(to unsafe.Pointer, flags uint32) int32 {
	return lib().call("cuStreamCreate", needContext, func(c *context) result {
		h, r := lib().newStream(c, flags)
		return put(to, h, r)
	})
}

//export cuStreamDestroy_v2
func cuStreamDestroy_v2(s uintptr) int32 {
	return lib().call("cuStreamDestroy_v2", needContext, func(c *context) result { return lib().destroyStream(c, s) })
}

//export cuStreamSynchronize
func cuStreamSynchronize(s uintptr) int32 {
	return inStream("cuStreamSynchronize", s, func(s *stream) result { return lib().synchronize(s) })
}

// ofEvent is a call about an event.
func ofEvent(name string, h uintptr, f func(e *event) result) int32 {
	return lib().call(name, needContext, func(c *context) result {
		e, ok := of[*event](lib(), h)
		if !ok || e.ctx != c {
			return invalidHandle
		}
		return f(e)
	})
}

//export cuStreamWaitEvent
func cuStreamWaitEvent(stream_, event_ uintptr, flags uint32) int32 {
	return ofEvent("cuStreamWaitEvent", event_, func(e *event) result {
		s, ok := lib().stream(e.ctx, stream_)
		if !ok {
			return invalidHandle
		}
		if flags != 0 {
			return invalidValue
		}
		return lib().waitEvent(s, e)
	})
}

//export cuEventCreate
func cuEventCreate(to unsafe.Pointer, flags uint32) int32 {
	return lib().call("cuEventCreate", needContext, func(c *context) result {
		h, r := lib().newEvent(c, flags)
		return put(to, h, r)
	})
}

//export cuEventRecord
func cuEventRecord(event_, stream_ uintptr) int32 {
	return ofEvent("cuEventRecord", event_, func(e *event) result {
		s, ok := lib().stream(e.ctx, stream_)
		if !ok {
			return invalidHandle
		}
		return lib().record(s, e)
	})
}

//export cuEventQuery
func cuEventQuery(event_ uintptr) int32 {
	return ofEvent("cuEventQuery", event_, func(e *event) result { return lib().query(e) })
}

//export cuEventSynchronize
func cuEventSynchronize(event_ uintptr) int32 {
	return ofEvent("cuEventSynchronize", event_, func(e *event) result { return lib().await(e) })
}

//export cuEventElapsedTime
func cuEventElapsedTime(to unsafe.Pointer, from, until uintptr) int32 {
	return ofEvent("cuEventElapsedTime", from, func(a *event) result {
		b, ok := of[*event](lib(), until)
		if !ok {
			return invalidHandle
		}
		ms, r := lib().elapsed(a, b)
		return put(to, ms, r)
	})
}

//export cuEventDestroy_v2
func cuEventDestroy_v2(event_ uintptr) int32 {
	return ofEvent("cuEventDestroy_v2", event_, func(*event) result {
		delete(lib().handles, event_)
		return success
	})
}

//export cuLaunchKernel
func cuLaunchKernel(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream_ uintptr, params, extra unsafe.Pointer) int32 {
	return ofFunction("cuLaunchKernel", f, func(c *context, k *function) result {
		s, ok := lib().stream(c, stream_)
		if !ok {
			return invalidHandle
		}
		if params != nil && extra != nil {
			return invalidValue
		}
		block, r := k.pack(params, extra)
		if r != success {
			return r
		}
		return lib().launch(s, k, launchArgs{ptx.Dim{X: gx, Y: gy, Z: gz}, ptx.Dim{X: bx, Y: by, Z: bz}, shared, block})
	})
}

//export cuStreamBeginCapture_v2
func cuStreamBeginCapture_v2(s uintptr, mode uint32) int32 {
	return inStream("cuStreamBeginCapture_v2", s, func(s *stream) result { return lib().beginCapture(s, mode) })
}

//export cuStreamEndCapture
func cuStreamEndCapture(s uintptr, to unsafe.Pointer) int32 {
	return inStream("cuStreamEndCapture", s, func(s *stream) result {
		if to == nil {
			return invalidValue
		}
		h, r := lib().endCapture(s)
		*(*uintptr)(to) = h
		return r
	})
}

//export cuGraphInstantiateWithFlags
func cuGraphInstantiateWithFlags(to unsafe.Pointer, g uintptr, flags uint64) int32 {
	return lib().call("cuGraphInstantiateWithFlags", needContext, func(c *context) result {
		h, r := lib().instantiate(c, g, flags)
		return put(to, h, r)
	})
}

//export cuGraphLaunch
func cuGraphLaunch(g, s uintptr) int32 {
	return inStream("cuGraphLaunch", s, func(s *stream) result { return lib().launchGraph(g, s) })
}

//export cuGraphExecDestroy
func cuGraphExecDestroy(g uintptr) int32 {
	return lib().call("cuGraphExecDestroy", needContext, func(*context) result { return destroyGraph[*graphExec](lib(), g) })
}

//export cuGraphDestroy
func cuGraphDestroy(g uintptr) int32 {
	return lib().call("cuGraphDestroy", needContext, func(*context) result { return destroyGraph[*graph](lib(), g) })
}

// strings_ are the texts that were handed out, which stay for ever.
var strings_ sync.Map

func describe(code int32, which int, to unsafe.Pointer) result {
	t, ok := resultTexts[result(code)]
	if to == nil || !ok {
		if to != nil {
			*(*unsafe.Pointer)(to) = nil
		}
		return invalidValue
	}
	p, ok := strings_.Load(t[which])
	if !ok {
		p, _ = strings_.LoadOrStore(t[which], unsafe.Pointer(C.CString(t[which])))
	}
	*(*unsafe.Pointer)(to) = p.(unsafe.Pointer)
	return success
}

//export cuGetErrorName
func cuGetErrorName(code int32, to unsafe.Pointer) int32 { return int32(describe(code, 0, to)) }

//export cuGetErrorString
func cuGetErrorString(code int32, to unsafe.Pointer) int32 { return int32(describe(code, 1, to)) }
