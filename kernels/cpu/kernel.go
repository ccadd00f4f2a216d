package cpu

import (
	"fmt"
	"runtime"

	"hearth/kernels"
)

// maxCols is the most activation rows that one kernel call takes.
const maxCols = 4

// maxFloatCols is the most columns of any set's fmat.
const maxFloatCols = 12

// maxTileCols and maxTilePanels are the most columns and panels of any set's tiles.
const maxTileCols, maxTilePanels = 8, 4

// Quantized activations. A row is a sequence of blocks of 32 values:
//
//	32 × int8, d float32, d·Σ float32, −8·Σ int32, sums of the halves (2 × int16),
//	−16·Σ int32, −128·Σ int32, −32 · sums of the halves (2 × int32)
//
// where value = d · int8 and Σ is the sum of the int8: what levels with an offset
// take off, for every offset there is.
const (
	act32Bytes                    = 64
	act32D, act32DSum             = 32, 36
	act32Halves                   = 44
	act32Less8, act32Less16       = 40, 48
	act32Less128, act32LessHalves = 52, 56
)

const softNegInf float32 = -3e38 // below any score

// kernelSet is one implementation of the inner loops. All sets give the same
// bits: integers are exact, and every float32 product and sum is rounded by
// itself, in the same order, but for what mat and fmat fuse. ld… are distances in bytes
// between rows.
type kernelSet struct {
	name string

	// quantize32 rounds x to blocks of activations.
	quantize32 func(dst []byte, x []float32)

	// mat multiplies cols (1…maxCols) rows of quantized activations by count
	// panels of blocks blocks each: dst[c][8p+r] = Σ value(w) · value(act).
	// The blocks are taken in order. Of 32 columns, sums are exact integers, then
	// acc = fma(float32(sum), d·da, acc), and, of types with minima,
	// acc = fma(m, da·Σa, acc).
	// Of 256, that of every 32 columns has the sub-block scales in it; these are
	// s = fma(float32(sum), da, s) in order, from 0, and with integer minima n
	// t = fma(float32(n), da·Σa, t), or fma(float32(Σ n·Σa), da, t) over the halves
	// where sub-blocks have 16 columns; then acc = fma(d, s, acc) and
	// acc = fma(−m, t, acc). fma rounds once.
	mat func(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int)

	// pair is mat for maxCols…tileRows−1 columns and count pairs of panels, stride being
	// the bytes from one panel to the next; nil where mat does as well.
	pair func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int)

	// From tileRows rows on, expand turns two panels or four, stride bytes apart, into
	// plain bytes once, in dst (expandedBytes for each block of each) unless they are
	// bytes. tile multiplies them by up to tileCols columns, at least half as many: the
	// same sums as mat. If more is not 0, it goes on from what dst holds. For every 32
	// columns 64 bytes at next, and as often as there are panels apart bytes after
	// that, may be fetched meanwhile. tileCols is 0 for as many panels as a set has no
	// tiles for; the others may be nil.
	tileRows int
	tileCols func(t kernels.DType, panels int) int
	expand   func(t kernels.DType, panels int, dst, w *byte, stride, blocks int) expanded
	tile     func(t kernels.DType, panels, cols int, dst *float32, ldd int, x expanded, act *byte, lda, blocks, more int, next *byte, apart int)

	// floats dequantizes panels: eight rows of column 0, then of column 1, …
	floats func(t kernels.DType, dst *float32, w *byte, blocks int)

	// peakInts runs only the multiply-adds of mat and returns how many operations
	// (a multiply and an add are two) that were; read only reads b. For
	// benchmarks; nil where a set has none.
	peakInts func(rounds int) int
	read     func(b []byte)

	// fmat does so with float32 activations, up to floatCols rows of them, and F32, F16 or
	// BF16 panels of k columns, one panel every stride bytes: acc = fma(w, x, acc), k in
	// order. What is ahead bytes after the panels may be fetched meanwhile. It works on
	// floatPanels panels at once where cols is floatCols.
	floatCols, floatPanels int
	fmat                   func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int)

	// fmatAcc starts from dst · alpha[c] instead of 0.
	fmatAcc func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32)

	// widen turns vecs·8 values of F32, F16 or BF16 into float32.
	widen func(t kernels.DType, dst *float32, src *byte, vecs int)

	// bf16 are the kernels for BF16 panels with inputs rounded to bf16.
	bf16 bf16Kernels

	// softmax folds scores s[lo:hi)·scale into st and turns all 8·vecs scores
	// into weights (0 outside [lo, hi)), or all keyTile that there must be, and so for
	// each of cols columns of keyTile scores. alpha becomes what earlier sums are to be
	// multiplied by.
	softmax func(s *float32, cols, vecs, lo, hi int, scale float32, st *softState, alpha *float32)

	// half rounds x to F16 or BF16.
	half func(t kernels.DType, dst []uint16, x []float32)

	// sumSquares adds x² in eight lanes, then the lanes, then the rest.
	sumSquares func(x []float32) float32
	// scaleMul: dst = (a·f)·w. add: dst += a. siluMul, geluMul: dst = act(a)·b.
	scaleMul         func(dst, a, w []float32, f float32)
	add              func(dst, a []float32)
	siluMul, geluMul func(dst, a, b []float32)

	// See pick.Loops; sums as sumSquares does.
	largest func(x []float32) float32
	powers  func(dst, x []float32, top, scale float32) float32
}

// expanded is panels as tiles take them: where the first is, and how far the next
// is from it, or the next pair of them.
type expanded struct {
	at     *byte
	stride int
}

// softState is the running softmax of one query: maximum and eight partial sums.
type softState struct {
	max float32
	_   [7]float32
	sum [8]float32
}

func (st *softState) reset() { *st = softState{max: softNegInf} }

// total is the sum of all weights so far.
func (st *softState) total() float32 { return sum8(&st.sum) }

// sum8 adds eight lanes in the order that vector code can: halves, then pairs.
func sum8(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// candidate is a set that this processor has the instructions for. Few who change a
// kernel have each processor at hand, so that some must show, once in each process,
// that they agree with the portable one.
type candidate struct {
	set    *kernelSet
	agrees func() bool // nil: it need not show that
}

func (c candidate) ok() bool { return c.agrees == nil || c.agrees() }

// Paths lists the kernel sets that this machine can run, best first.
func Paths() []string { return pathsOf(candidates()) }

func pathsOf(all []candidate) (names []string) {
	for _, c := range all {
		if c.ok() {
			names = append(names, c.set.name)
		}
	}
	return names
}

// choose finds a set by name; "" is the best.
func choose(name string) (*kernelSet, error) { return chooseOf(candidates(), name) }

func chooseOf(all []candidate, name string) (*kernelSet, error) {
	for _, c := range all {
		if (name == "" || c.set.name == name) && c.ok() {
			return c.set, nil
		}
	}
	return nil, fmt.Errorf("cpu: no kernel path %q on this %s machine, want one of %q", name, runtime.GOARCH, pathsOf(all))
}

// Refused lists the kernel sets that are better than the best of Paths and left out,
// since they did not give the bits of the portable ones when they were tried: what is
// used is slower than the processor could be.
func Refused() []string { return refusedOf(candidates()) }

func refusedOf(all []candidate) (names []string) {
	for _, c := range all {
		if c.ok() {
			break
		}
		names = append(names, c.set.name)
	}
	return names
}
