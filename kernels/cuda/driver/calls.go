package driver

// call is an entry point of the library.
type call uint8

const (
	callInit call = iota
	callDriverGetVersion
	callDeviceGetCount
	callDeviceGet
	callDeviceGetName
	callDeviceGetAttribute
	callDeviceTotalMem
	callDeviceGetUUID
	callDevicePrimaryCtxRetain
	callDevicePrimaryCtxRelease
	callCtxSetCurrent
	callModuleLoadDataEx
	callModuleUnload
	callModuleGetFunction
	callModuleGetGlobal
	callFuncGetAttribute
	callFuncSetAttribute
	callMemGetInfo
	callMemAlloc
	callMemFree
	callMemHostAlloc
	callMemFreeHost
	callMemHostRegister
	callMemHostUnregister
	callMemcpyHtoDAsync
	callMemcpyDtoHAsync
	callMemcpyDtoDAsync
	callMemsetD8Async
	callStreamCreate
	callStreamDestroy
	callStreamSynchronize
	callStreamWaitEvent
	callEventCreate
	callEventRecord
	callEventQuery
	callEventSynchronize
	callEventElapsedTime
	callEventDestroy
	callLaunchKernel
	callOccupancy
	callStreamBeginCapture
	callStreamEndCapture
	callGraphInstantiate
	callGraphLaunch
	callGraphExecDestroy
	callGraphDestroy
	callGetErrorName
	callGetErrorString
	callCount
)

// names are the exported symbols. cuda.h renames some functions to a later
// version by macro; these are what it calls, the same in CUDA 11.8 to 13.0.
var names = [callCount]string{
	callInit:                    "cuInit",
	callDriverGetVersion:        "cuDriverGetVersion",
	callDeviceGetCount:          "cuDeviceGetCount",
	callDeviceGet:               "cuDeviceGet",
	callDeviceGetName:           "cuDeviceGetName",
	callDeviceGetAttribute:      "cuDeviceGetAttribute",
	callDeviceTotalMem:          "cuDeviceTotalMem_v2",
	callDeviceGetUUID:           "cuDeviceGetUuid",
	callDevicePrimaryCtxRetain:  "cuDevicePrimaryCtxRetain",
	callDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	callCtxSetCurrent:           "cuCtxSetCurrent",
	callModuleLoadDataEx:        "cuModuleLoadDataEx",
	callModuleUnload:            "cuModuleUnload",
	callModuleGetFunction:       "cuModuleGetFunction",
	callModuleGetGlobal:         "cuModuleGetGlobal_v2",
	callFuncGetAttribute:        "cuFuncGetAttribute",
	callFuncSetAttribute:        "cuFuncSetAttribute",
	callMemGetInfo:              "cuMemGetInfo_v2",
	callMemAlloc:                "cuMemAlloc_v2",
	callMemFree:                 "cuMemFree_v2",
	callMemHostAlloc:            "cuMemHostAlloc",
	callMemFreeHost:             "cuMemFreeHost",
	callMemHostRegister:         "cuMemHostRegister_v2",
	callMemHostUnregister:       "cuMemHostUnregister",
	callMemcpyHtoDAsync:         "cuMemcpyHtoDAsync_v2",
	callMemcpyDtoHAsync:         "cuMemcpyDtoHAsync_v2",
	callMemcpyDtoDAsync:         "cuMemcpyDtoDAsync_v2",
	callMemsetD8Async:           "cuMemsetD8Async",
	callStreamCreate:            "cuStreamCreate",
	callStreamDestroy:           "cuStreamDestroy_v2",
	callStreamSynchronize:       "cuStreamSynchronize",
	callStreamWaitEvent:         "cuStreamWaitEvent",
	callEventCreate:             "cuEventCreate",
	callEventRecord:             "cuEventRecord",
	callEventQuery:              "cuEventQuery",
	callEventSynchronize:        "cuEventSynchronize",
	callEventElapsedTime:        "cuEventElapsedTime",
	callEventDestroy:            "cuEventDestroy_v2",
	callLaunchKernel:            "cuLaunchKernel",
	callOccupancy:               "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	callStreamBeginCapture:      "cuStreamBeginCapture_v2",
	callStreamEndCapture:        "cuStreamEndCapture",
	callGraphInstantiate:        "cuGraphInstantiateWithFlags",
	callGraphLaunch:             "cuGraphLaunch",
	callGraphExecDestroy:        "cuGraphExecDestroy",
	callGraphDestroy:            "cuGraphDestroy",
	callGetErrorName:            "cuGetErrorName",
	callGetErrorString:          "cuGetErrorString",
}
