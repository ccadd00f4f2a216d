package weights

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"hearth/kernels"
)

// tensorBytes is the size of a tensor of that type and shape, and its number of
// rows (the product of all dimensions but the last). It fails on overflow, on a
// dimension below 1 and on a row that is not whole blocks.
func tensorBytes(name string, t kernels.DType, shape []int) (size uint64, rows int, err error) {
	cols := 1
	if len(shape) > 0 {
		cols = shape[len(shape)-1]
	}
	n := uint64(1)
	for i, d := range shape {
		if d < 1 {
			return 0, 0, fmt.Errorf("tensor %q has shape %v, wanted dimensions of 1 or more", name, shape)
		}
		if i == len(shape)-1 {
			break
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt {
			return 0, 0, fmt.Errorf("tensor %q has shape %v, too large to count", name, shape)
		}
		n = lo
	}
	if cols%t.BlockValues() != 0 {
		return 0, 0, fmt.Errorf("tensor %q of type %s has rows of %d values, wanted a multiple of %d", name, t, cols, t.BlockValues())
	}
	rowHi, row := bits.Mul64(uint64(cols/t.BlockValues()), uint64(t.BlockBytes()))
	hi, size := bits.Mul64(n, row)
	if rowHi != 0 || hi != 0 || size > math.MaxInt {
		return 0, 0, fmt.Errorf("tensor %q has shape %v, too large to address", name, shape)
	}
	return size, int(n), nil
}

// byteRange is where a tensor lies in its data section.
type byteRange struct {
	start, end uint64
	name       string
}

// checkOverlap refuses tensors that share bytes: no writer makes such a file,
// and it could state far more weights than it has.
func checkOverlap(ranges []byteRange) error {
	slices.SortFunc(ranges, func(a, b byteRange) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	for i := 1; i < len(ranges); i++ {
		if a, b := ranges[i-1], ranges[i]; b.start < a.end {
			return fmt.Errorf("tensors %q and %q overlap", a.name, b.name)
		}
	}
	return nil
}
