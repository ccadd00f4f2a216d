// Fakenvml is libnvidia-ml.so.1 for machines without a GPU: what package nvml and
// the usual monitors read, with values from the environment. It is for tests only.
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o DIR/libnvidia-ml.so.1 ./kernels/fakenvml
//
// Package fakecudatest does so for Go tests. The GPUs are those of
// FAKECUDA_DEVICES, see package fakecuda, all of them: NVML does not heed
// CUDA_VISIBLE_DEVICES. What is read of them:
//
//   - FAKENVML: settings divided by ",", for all GPUs or, with the number of one and
//     a dot before, for that: "temperature=45,1.mig=on". Names and defaults:
//     temperature=40 (°C), power=75, limit=300 (W), used (size, default what
//     FAKECUDA_DEVICES says), utilization=0, memoryutilization=0 (%), clock=1410,
//     maxclock=1980, memoryclock=2619 (MHz), throttle=0 (bits of
//     nvmlClocksEventReasons, 0x for hexadecimal), ecc=on|off|none, corrected=0,
//     uncorrected=0, mig=on|off|none, xid=0 (reported once each time that it changes to
//     another than 0), pciegen=4, pciewidth=16, driver=580.95.05. A setting
//     error.CALL=CODE has a function return that.
//   - FAKENVML_FILE: a file with settings, one a line or divided by ",", over those of
//     FAKENVML. It is read at every call, so that a test can change a GPU while a
//     program runs. It need not be there.
//   - FAKENVML_ERRORS: "nvmlDeviceGetTemperature:3=15" what the third call returns,
//     "nvmlInit_v2:1+=9" the first and all after.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fakenvml: this is a library; build it with CGO_ENABLED=1 go build -buildmode=c-shared -o libnvidia-ml.so.1")
	os.Exit(2)
}
