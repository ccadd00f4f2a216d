package kernel

import "fmt"

// blockPart is what one thread block copies or zeroes of a cache block, in bytes.
const blockPart = 16 * 256 * 4

// CopyBlocks gives the launch that copies blocks of blockBytes within a cache of
// one layer: pairs is int32 ×2 (from, to) in device memory, a negative one is
// padding. No pair writes what another one reads or writes.
func CopyBlocks(_ Target, cache Addr, blockBytes int64, pairs Addr, n int) ([]Launch, error) {
	if err := checkBlocks("copy", cache, blockBytes, n); err != nil {
		return nil, err
	}
	return blockLaunch("blocks_copy", cache, blockBytes, pairs, n), nil
}

// ZeroBlocks gives the launch that zeroes blocks of a cache of one layer: list is
// int32 (n) in device memory, a negative one is padding.
func ZeroBlocks(_ Target, cache Addr, blockBytes int64, list Addr, n int) ([]Launch, error) {
	if err := checkBlocks("zero", cache, blockBytes, n); err != nil {
		return nil, err
	}
	return blockLaunch("blocks_zero", cache, blockBytes, list, n), nil
}

func checkBlocks(what string, cache Addr, blockBytes int64, n int) error {
	if n < 1 || n > maxRows || blockBytes < 16 || blockBytes%16 != 0 || cache%16 != 0 {
		return fmt.Errorf("cannot %s: got %d blocks of %d bytes at %#x, wanted 1 to %d and multiples of 16", what, n, blockBytes, uint64(cache), maxRows)
	}
	return nil
}

func blockLaunch(name string, cache Addr, blockBytes int64, list Addr, n int) []Launch {
	return []Launch{{Module: "blocks", Name: name, Grid: Dim{uint32((blockBytes + blockPart - 1) / blockPart), uint32(n), 1},
		Block: Dim{256, 1, 1}, Params: Pack(cache, blockBytes/16, list)}}
}
