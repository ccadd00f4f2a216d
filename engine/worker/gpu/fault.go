package gpu

import (
	"errors"

	"hearth/engine"
	"hearth/engine/worker/report"
	"hearth/kernels/cuda/driver"
)

// Results of the driver that have a kind of their own; cuda.h, enum CUresult.
var byCode = map[int]struct {
	code report.Code
	fix  string
}{
	2:   {report.OutOfMemory, "unload another model, lower context or kv_memory, or use a smaller quantization"},
	34:  {report.NoDriver, "set library in [cuda] to the folder of the driver's own libcuda.so.1"},
	46:  {report.Busy, "end the process that holds the GPU exclusively, or set its compute mode to default (nvidia-smi -c 0)"},
	100: {report.NoDevice, "see that /dev/nvidia* exist and this user may use them, and that CUDA_VISIBLE_DEVICES hides nothing"},
	101: {report.NoDevice, "name a GPU that `hearth device list` shows"},
	209: {report.WrongArch, "use a release of Hearth that knows this GPU"},
	214: {report.Degraded, "drain the machine and reset the GPU (nvidia-smi -r); replace it if that comes back"},
	218: {report.PTXRefused, "update the NVIDIA driver; if it is of branch 520 or newer, report this with the text"},
	220: {report.Degraded, "reset the GPUs (nvidia-smi -r) and look at the links (nvidia-smi nvlink -s)"},
	221: {report.PTXRefused, "install all of the driver's libraries: libnvidia-ptxjitcompiler.so.1 is missing"},
	222: {report.PTXRefused, "update the NVIDIA driver to branch 520 or newer"},
	223: {report.PTXRefused, "unset CUDA_DISABLE_PTX_JIT"},
	226: {report.Degraded, "reset the GPU (nvidia-smi -r) when its work has ended"},
	304: {report.NotReady, "see that the module nvidia-uvm is loaded and /dev/nvidia-uvm exists (nvidia-modprobe -c 0 -u)"},
	802: {report.NotReady, "start the fabric manager (systemctl start nvidia-fabricmanager) of the driver's version"},
	803: {report.Mismatch, "restart the machine: the driver was updated under the running one"},
	804: {report.Mismatch, "remove the forward compatibility libraries, or update the driver"},
	999: {report.NotReady, "see the kernel's log (dmesg | grep NVRM)"},
}

// faultOf finds what kind of failure err is and what can be done about it.
func faultOf(err error) *report.Fault {
	var f *report.Fault
	var e *driver.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.As(err, new(*driver.NoDriver)):
		return report.Faultf(report.NoDriver, "install the NVIDIA driver, or set library in [cuda] to the folder of its libcuda.so.1", "%v", err)
	case errors.As(err, new(*driver.TooOld)):
		return report.Faultf(report.OldDriver, "update the NVIDIA driver to branch 520 or newer", "%v", err)
	case errors.As(err, new(*engine.NoRoom)):
		return report.Faultf(report.OutOfMemory, byCode[2].fix, "%v", err)
	case errors.As(err, new(*driver.Unsupported)):
		return report.Faultf(report.Unsupported, "use a GPU of the Ampere generation or newer", "%v", err)
	case errors.As(err, &e):
		if k, ok := byCode[e.Code]; ok {
			return report.Faultf(k.code, k.fix, "%v", err)
		}
		if e.Sticky() {
			return report.Faultf(report.DeviceFailed, "the worker is started anew; if it comes back, run `hearth device doctor`", "%v", err)
		}
	}
	return report.Faultf(report.Other, "run `hearth device doctor`", "%v", err)
}

// explain puts what keeps a model from the GPU into words with its kind in
// front; what is wrong with the model itself stays as it is.
func explain(err error) error {
	f := faultOf(err)
	if f.Code == report.Other {
		return err
	}
	return f
}
