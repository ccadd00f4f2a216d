// Fakecuda is libcuda.so.1 for machines without a GPU: the entry points that
// package driver binds, over the PTX interpreter, so that a program runs
// unmodified from its dlopen to its kernels. It is for tests only.
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o DIR/libcuda.so.1 ./kernels/fakecuda
//	LD_LIBRARY_PATH=DIR program
//
// Package fakecudatest does so for Go tests. Without cgo the package builds as a
// program that says this.
//
// The environment of the process says what the library is, read once at the
// first call:
//
//   - FAKECUDA_DEVICES: the GPUs, divided by ";". Each begins with its compute
//     capability and goes on with fields divided by ",": name=NVIDIA L4,
//     memory=256MiB (bytes, or with KiB, MiB, GiB), used=16MiB (by others, missing
//     in what is free), sms=8, uuid=GPU-8 hex digits-4-4-4-12, bus=1 (of PCI),
//     ecc=on. For instance "9.0,memory=1GiB;8.6,sms=4". The default is one 8.0 with
//     256 MiB and 8 multiprocessors; few of them keep grids small. "none": no GPU,
//     cuInit fails with 100.
//   - FAKECUDA_DRIVER_VERSION: as cuDriverGetVersion tells it, default 12020. Newer
//     PTX than such a driver knows is refused with 222.
//   - FAKECUDA_STREAMS: "lazy" (default) runs queued work when somebody waits for it,
//     so late that a host buffer that was used again too soon shows; "eager" runs it
//     in the call that queues it, so early that a copy queued before its data are
//     there shows.
//   - FAKECUDA_CHECKS: "1" (default) has the interpreter look for faults of kernels.
//     One is told on stderr and fails the launch (700 out of bounds, 716 misaligned,
//     719 otherwise); the context is then lost: every later call gives the same.
//     "0" is about twice as fast.
//   - FAKECUDA_ERRORS: what calls return, divided by ",": "cuMemAlloc_v2:3=2" the third
//     call, "cuMemAlloc_v2:3+=2" the third and all after it. The call then does
//     nothing. An error that destroys a context does. "launch" counts the kernels that
//     have run, those of graphs too: "launch:100=700" is found by who waits for it.
//   - FAKECUDA_HANG: what never ends: "launch:5" the fifth kernel that runs, so that
//     whoever waits for its stream waits forever; or a call, "cuStreamSynchronize:2".
//   - FAKECUDA_DELAY: a duration that every kernel takes longer, "5ms".
//   - FAKECUDA_WORKERS: goroutines of the interpreter, default 2.
//   - FAKECUDA_REGISTERS: registers that a thread of every kernel is said to have,
//     default 64: there is no compiler that could tell.
//   - FAKECUDA_TRACE: a file to which every call is added, one a line with its result,
//     and every kernel that runs.
//   - FAKECUDA_FILE: a file with such settings, "FAKECUDA_NAME=value" a line, which go
//     before the environment's: processes that one program starts one after another
//     can so be given different ones.
//
// CUDA_VISIBLE_DEVICES and CUDA_DISABLE_PTX_JIT act as they do on the driver.
// Environment that cannot be read ends the process with a message.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fakecuda: this is a library; build it with CGO_ENABLED=1 go build -buildmode=c-shared -o libcuda.so.1")
	os.Exit(2)
}
