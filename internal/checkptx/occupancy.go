package main

import "fmt"

// device holds the limits of one SM and of one block ("Technical Specifications
// per Compute Capability" in the CUDA C++ programming guide). All of ours have
// 65536 registers in four partitions, which are given to warps 256 at a time.
type device struct {
	warps       int // resident at once
	blocks      int // resident at once
	shared      int // bytes an SM
	blockShared int // bytes that a block may opt in to
}

const (
	warpSize       = 32
	registers      = 65536 // of an SM, and the most of a block
	registerUnit   = 256   // allocated to a warp at a time
	partitions     = 4     // of an SM; each has its own registers
	maxRegisters   = 255   // of a thread
	maxThreads     = 1024  // of a block
	sharedUnit     = 128   // bytes
	sharedReserved = 1024  // bytes of each block that the driver keeps, from 8.0 on
)

// devices are the compute capabilities that we ship to, by ten times their number.
var devices = map[int]device{
	80: {warps: 64, blocks: 32, shared: 164 << 10, blockShared: 163 << 10}, // A100
	86: {warps: 48, blocks: 16, shared: 100 << 10, blockShared: 99 << 10},  // A10, RTX 30
	89: {warps: 48, blocks: 24, shared: 100 << 10, blockShared: 99 << 10},  // L4, L40, RTX 40
	90: {warps: 64, blocks: 32, shared: 228 << 10, blockShared: 227 << 10}, // H100, H200
}

// usage is what a block of a kernel occupies.
type usage struct {
	threads         int // of a block
	registers       int // of a thread
	static, dynamic int // bytes of shared memory of a block
}

// blocksPerSM is the number of blocks that are resident on one SM of compute
// capability cc at once; 0 if one block does not fit.
func blocksPerSM(cc int, u usage) (int, error) {
	d, ok := devices[cc]
	if !ok {
		return 0, fmt.Errorf("cannot compute occupancy: got compute capability %d, wanted 80, 86, 89 or 90", cc)
	}
	if u.threads < 1 || u.threads > maxThreads {
		return 0, fmt.Errorf("cannot compute occupancy: got %d threads a block, wanted 1 to %d", u.threads, maxThreads)
	}
	warps := ceil(u.threads, warpSize)
	blocks := min(d.blocks, d.warps/warps)
	if u.registers > 0 {
		perWarp := ceil(u.registers*warpSize, registerUnit) * registerUnit
		// The launch check takes registers from all partitions alike.
		if u.registers > maxRegisters || perWarp*ceil(warps, partitions)*partitions > registers {
			return 0, nil
		}
		blocks = min(blocks, registers/partitions/perWarp*partitions/warps)
	}
	shared := ceil(u.static+u.dynamic+sharedReserved, sharedUnit) * sharedUnit
	if shared > d.blockShared+sharedReserved {
		return 0, nil
	}
	return min(blocks, d.shared/shared), nil
}

func ceil(a, b int) int { return (a + b - 1) / b }
