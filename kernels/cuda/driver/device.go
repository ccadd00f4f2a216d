package driver

import (
	"bytes"
	"fmt"
	"unsafe"
)

// MinCompute is the least compute capability that the kernels are made for.
const MinCompute = 80

// Device is one GPU that the driver shows to this process.
type Device struct {
	Ordinal     int
	Name        string // as the vendor calls it
	UUID        string // "GPU-" and 32 digits, as nvidia-smi writes it
	Compute     int    // compute capability × 10: 80, 86, 89, 90
	SMs         int    // streaming multiprocessors
	Shared      int    // bytes of shared memory that a block may opt in to
	SharedPerSM int    // bytes
	L2          int    // bytes
	Memory      int64  // bytes, all of it
	ClockKHz    int    // of the multiprocessors
	MemoryKHz   int
	BusBits     int // width of the memory's bus
	ECC         bool
	Bus         int // of PCI

	handle int32
}

// Attributes; cuda.h, enum CUdevice_attribute.
const (
	attrClockRate   = 13
	attrSMs         = 16
	attrECC         = 32
	attrBus         = 33
	attrMemoryClock = 36
	attrBusWidth    = 37
	attrL2          = 38
	attrMajor       = 75
	attrMinor       = 76
	attrSharedSM    = 81
	attrSharedOptIn = 97
)

// Unsupported says that a GPU is older than the kernels are made for.
type Unsupported struct{ Device Device }

func (e *Unsupported) Error() string {
	return fmt.Sprintf("cannot use %s: its compute capability is %d.%d, wanted %d.%d or newer (Ampere)",
		e.Device.Name, e.Device.Compute/10, e.Device.Compute%10, MinCompute/10, MinCompute%10)
}

// Supported is nil, or an *Unsupported.
func (g *Device) Supported() error {
	if g.Compute < MinCompute {
		return &Unsupported{*g}
	}
	return nil
}

// Devices lists the GPUs, also those that Supported refuses.
func (d *Driver) Devices() ([]Device, error) {
	var n int32
	if err := d.call(callDeviceGetCount, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	devices := make([]Device, n)
	for i := range devices {
		if err := d.read(&devices[i], i); err != nil {
			return nil, fmt.Errorf("cannot read GPU %d: %w", i, err)
		}
	}
	return devices, nil
}

func (d *Driver) read(g *Device, ordinal int) error {
	g.Ordinal = ordinal
	if err := d.call(callDeviceGet, uintptr(unsafe.Pointer(&g.handle)), uintptr(ordinal)); err != nil {
		return err
	}
	dev := uintptr(g.handle)
	name := make([]byte, 256)
	if err := d.call(callDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), dev); err != nil {
		return err
	}
	text, _, _ := bytes.Cut(name, []byte{0})
	g.Name = string(text)
	var id [16]byte
	if err := d.call(callDeviceGetUUID, uintptr(unsafe.Pointer(&id)), dev); err != nil {
		return err
	}
	g.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	var size uint64
	if err := d.call(callDeviceTotalMem, uintptr(unsafe.Pointer(&size)), dev); err != nil {
		return err
	}
	g.Memory = int64(size)
	var major, minor, ecc int
	for _, a := range []struct {
		to   *int
		attr int
	}{
		{&major, attrMajor}, {&minor, attrMinor}, {&g.SMs, attrSMs}, {&g.Shared, attrSharedOptIn}, {&g.SharedPerSM, attrSharedSM},
		{&g.L2, attrL2}, {&g.ClockKHz, attrClockRate}, {&g.MemoryKHz, attrMemoryClock}, {&g.BusBits, attrBusWidth}, {&ecc, attrECC}, {&g.Bus, attrBus},
	} {
		var v int32
		if err := d.call(callDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a.attr), dev); err != nil {
			return detail(err, "attribute %d", a.attr)
		}
		*a.to = int(v)
	}
	g.Compute, g.ECC = 10*major+minor, ecc != 0
	return nil
}
