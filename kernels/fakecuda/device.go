//go:build linux

package main

// arch is what GPUs of a compute capability have (CUDA C++ Programming Guide,
// compute capabilities) and the data sheet of a usual one.
type arch struct {
	sharedSM    int // KiB of a multiprocessor
	sharedBlock int // KiB that a block may opt in to
	threadsSM   int
	blocksSM    int
	clock       int // MHz
	memoryClock int // MHz
	busBits     int
	l2          int // MiB
}

var archs = map[int]arch{
	70:  {96, 96, 2048, 32, 1530, 877, 4096, 6},
	75:  {64, 64, 1024, 16, 1590, 5001, 256, 4},
	80:  {164, 163, 2048, 32, 1410, 1593, 5120, 40},
	86:  {100, 99, 1536, 16, 1800, 8001, 384, 6},
	89:  {100, 99, 1536, 24, 2040, 6251, 192, 48},
	90:  {228, 227, 2048, 32, 1980, 3201, 6144, 60},
	100: {228, 227, 2048, 32, 1965, 3996, 8192, 126},
	120: {100, 99, 1536, 24, 2407, 14001, 512, 96},
}

// archOf is the newest that is not newer than a compute capability.
func archOf(compute int) arch {
	best := 0
	for c := range archs {
		if c <= compute && c > best {
			best = c
		}
	}
	if best == 0 {
		return arch{64, 48, 2048, 32, 1000, 1000, 256, 2}
	}
	return archs[best]
}

// freeShared is the shared memory that a block may have without being asked for.
const freeShared = 48 << 10

// attribute is cuDeviceGetAttribute; numbers are of cuda.h, CUdevice_attribute.
func (d *device) attribute(n int32) (int, bool) {
	a := archOf(d.Compute)
	switch n {
	case 1, 2, 3: // threads of a block, along x, along y
		return 1024, true
	case 4: // along z
		return 64, true
	case 5: // blocks of a grid along x
		return 1<<31 - 1, true
	case 6, 7: // along y, z
		return 65535, true
	case 8: // shared memory of a block
		return freeShared, true
	case 9: // constant memory
		return 64 << 10, true
	case 10: // warp size
		return 32, true
	case 12, 82: // registers of a block, of a multiprocessor
		return 65536, true
	case 13: // clock, kHz
		return a.clock * 1000, true
	case 15, 19, 31, 41, 78, 79, 80, 99: // copies overlap, maps host memory, concurrent kernels, unified addresses, priorities, L1 of global and local, registers host memory
		return 1, true
	case 16: // multiprocessors
		return d.SMs, true
	case 17, 18, 20, 34, 35, 50, 84: // timeout, integrated, compute mode, PCI device and domain, TCC, multi-GPU board
		return 0, true
	case 32: // ECC
		if d.ECC {
			return 1, true
		}
		return 0, true
	case 33: // PCI bus
		return d.Bus, true
	case 36: // memory clock, kHz
		return a.memoryClock * 1000, true
	case 37: // memory bus, bits
		return a.busBits, true
	case 38: // L2, bytes
		return a.l2 << 20, true
	case 39: // threads of a multiprocessor
		return a.threadsSM, true
	case 40: // copy engines
		return 2, true
	case 75:
		return d.Compute / 10, true
	case 76:
		return d.Compute % 10, true
	case 81: // shared memory of a multiprocessor
		return a.sharedSM << 10, true
	case 97: // shared memory that a block may opt in to
		return a.sharedBlock << 10, true
	case 106: // blocks of a multiprocessor
		return a.blocksSM, true
	case 111: // shared memory of each block that the driver keeps
		return 1024, true
	}
	return 0, false
}

// blocksPerSM is how many blocks of a kernel run on a multiprocessor at once.
func (d *device) blocksPerSM(threads, registers, shared int) int {
	a := archOf(d.Compute)
	warps := (threads + 31) / 32
	// Registers are given to warps in units of 256, shared memory to blocks in units
	// of 128 bytes with 1 KiB for the driver.
	perWarp := (registers*32 + 255) &^ 255
	n := min(a.blocksSM, a.threadsSM/32/warps, 65536/perWarp/4*4/warps)
	return max(0, min(n, a.sharedSM<<10/((shared+127)&^127+1024)))
}
