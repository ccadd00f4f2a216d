//go:build linux

package main

// result is CUresult; cuda.h.
type result int32

// Results that the library gives of itself.
const (
	success            result = 0
	invalidValue       result = 1
	outOfMemory        result = 2
	notInitialized     result = 3
	noDevice           result = 100
	invalidDevice      result = 101
	invalidImage       result = 200
	invalidContext     result = 201
	invalidPTX         result = 218
	unsupportedPTX     result = 222
	jitDisabled        result = 223
	invalidHandle      result = 400
	illegalState       result = 401
	notFound           result = 500
	notReady           result = 600
	illegalAddress     result = 700
	outOfResources     result = 701
	launchTimeout      result = 702
	alreadyRegistered  result = 712
	notRegistered      result = 713
	misaligned         result = 716
	launchFailed       result = 719
	captureUnsupported result = 900
	captureInvalidated result = 901
	captureMerge       result = 902
	captureUnmatched   result = 903
	captureUnjoined    result = 904
	captureIsolation   result = 905
	captureImplicit    result = 906
	capturedEvent      result = 907
	captureWrongThread result = 908
	unknown            result = 999
)

// sticky tells whether a result destroys the context.
func (r result) sticky() bool {
	switch r {
	case 214, 220, 226, illegalAddress, launchTimeout, 710, 714, 715, misaligned, 717, 718, launchFailed, 721, unknown:
		return true
	}
	return false
}

// resultTexts are the names and descriptions, as cuGetErrorName and
// cuGetErrorString give them.
var resultTexts = map[result][2]string{
	success:            {"CUDA_SUCCESS", "no error"},
	invalidValue:       {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	outOfMemory:        {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	notInitialized:     {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	4:                  {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	34:                 {"CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
	46:                 {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	noDevice:           {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	invalidDevice:      {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	invalidImage:       {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	invalidContext:     {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	209:                {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	214:                {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	invalidPTX:         {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	220:                {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution"},
	221:                {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
	unsupportedPTX:     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	jitDisabled:        {"CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled"},
	226:                {"CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"},
	304:                {"CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
	invalidHandle:      {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	illegalState:       {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
	notFound:           {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	notReady:           {"CUDA_ERROR_NOT_READY", "device not ready"},
	illegalAddress:     {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	outOfResources:     {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	launchTimeout:      {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	709:                {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	710:                {"CUDA_ERROR_ASSERT", "device-side assert triggered"},
	alreadyRegistered:  {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
	notRegistered:      {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
	714:                {"CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
	715:                {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	misaligned:         {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	717:                {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"},
	718:                {"CUDA_ERROR_INVALID_PC", "invalid program counter"},
	launchFailed:       {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	721:                {"CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory not completely freed"},
	800:                {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	801:                {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	802:                {"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	803:                {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	804:                {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
	captureUnsupported: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	captureInvalidated: {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	captureMerge:       {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
	captureUnmatched:   {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
	captureUnjoined:    {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	captureIsolation:   {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
	captureImplicit:    {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
	capturedEvent:      {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
	captureWrongThread: {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
	unknown:            {"CUDA_ERROR_UNKNOWN", "unknown error"},
}
