package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"hearth/kernels"
	"hearth/kernels/pick"
)

// portable is the set without assembly.
var portable = kernelSet{
	name:        "portable",
	quantize32:  quantize32,
	mat:         portableMat,
	floats:      portableFloats,
	floatCols:   maxCols,
	floatPanels: 2,
	fmat: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, _ int) {
		portableFmat(t, cols, dst, ldd, w, stride, x, ldx, k, count, 0, nil)
	},
	fmatAcc:    portableFmat,
	widen:      portableWiden,
	softmax:    portableSoftmax,
	half:       half,
	sumSquares: sumSquares,
	scaleMul:   scaleMul,
	largest:    pick.Plain.Largest,
	powers:     powers,
	add:        add,
	siluMul:    siluMul,
	geluMul:    geluMul,
	bf16:       bf16Kernels{pairs: true, cols: maxCols, round: roundPairs, mat: portablePairs},
}

// toInt is 1.5·2²³: adding it rounds a float32 below 2²² to an integer, to even.
const toInt float32 = 12582912

// tiny is the least maximum that is quantized; below it a block is zero. (127
// divided by anything smaller could overflow.)
const tiny float32 = 1e-30

func absMax(x []float32) float32 {
	var m float32
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > m {
			m = v
		}
	}
	return m
}

// scales are the scale of a block whose largest magnitude is m, and its inverse.
func scales(m float32) (d, inv float32) {
	if m < tiny {
		return 0, 0
	}
	return m / 127, 127 / m
}

// quantizeInts rounds x·inv to bytes and returns their sum.
func quantizeInts(dst []byte, x []float32, inv float32) (sum int32) {
	for i, v := range x {
		r := float32(v*inv) + toInt
		q := int8(int32(math.Float32bits(r)) - int32(math.Float32bits(toInt)))
		dst[i] = byte(q)
		sum += int32(q)
	}
	return sum
}

// quantize32: len(x) is a multiple of 32.
func quantize32(dst []byte, x []float32) {
	for ; len(x) > 0; dst, x = dst[act32Bytes:], x[32:] {
		d, inv := scales(absMax(x[:32]))
		low, high := quantizeInts(dst[:16], x[:16], inv), quantizeInts(dst[16:32], x[16:32], inv)
		sum := low + high
		binary.LittleEndian.PutUint32(dst[act32D:], math.Float32bits(d))
		binary.LittleEndian.PutUint32(dst[act32DSum:], math.Float32bits(d*float32(sum)))
		binary.LittleEndian.PutUint16(dst[act32Halves:], uint16(low))
		binary.LittleEndian.PutUint16(dst[act32Halves+2:], uint16(high))
		binary.LittleEndian.PutUint32(dst[act32Less8:], uint32(-8*sum))
		binary.LittleEndian.PutUint32(dst[act32Less16:], uint32(-16*sum))
		binary.LittleEndian.PutUint32(dst[act32Less128:], uint32(-128*sum))
		binary.LittleEndian.PutUint32(dst[act32LessHalves:], uint32(-32*low))
		binary.LittleEndian.PutUint32(dst[act32LessHalves+4:], uint32(-32*high))
	}
}

// rowAt is row c of a matrix with rows of n values, ld bytes apart.
func rowAt[T float32 | byte](base *T, c, ld, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(base), c*ld)), n)
}

func f32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// intBlock is a block of a panel with its levels made into values.
type intBlock struct {
	q      [panelRows][256]int8
	sc, mn [panelRows][16]int32 // by 16 columns
	d, m   [panelRows]float32
	l      levels
}

func (ib *intBlock) read(t kernels.DType, s *panelSpec, block []byte) {
	for r := range panelRows {
		l := &ib.l
		s.unpack(block, r, l)
		ib.d[r], ib.m[r] = kernels.FromF16(l.d), kernels.FromF16(l.m)
		q, off := ib.q[r][:s.values], int8(s.offset)
		for j, w := range l.q[:s.values/4] {
			v := (*[4]int8)(q[4*j:])
			if t == kernels.IQ4_NL {
				v[0], v[1] = kernels.IQ4NLValues[w&15], kernels.IQ4NLValues[w>>8&15]
				v[2], v[3] = kernels.IQ4NLValues[w>>16&15], kernels.IQ4NLValues[w>>24&15]
				continue
			}
			v[0], v[1], v[2], v[3] = int8(w)-off, int8(w>>8)-off, int8(w>>16)-off, int8(w>>24)-off
		}
		for i := range s.values / max(s.sub, 16) * min(s.sub, 1) {
			n := s.sub / 16
			for j := range n {
				ib.sc[r][i*n+j], ib.mn[r][i*n+j] = int32(l.sc[i]), int32(l.mn[i])
				if t == kernels.Q6_K || t == kernels.Q3_K {
					ib.sc[r][i*n+j] = int32(int8(l.sc[i]))
				}
			}
		}
	}
}

func portableMat(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int) {
	s := spec(t)
	size := s.blockBytes()
	panel := unsafe.Slice(w, count*blocks*size)
	var ib intBlock
	for p := range count {
		var acc [maxCols][panelRows]float32
		for b := range blocks {
			ib.read(t, s, panel[(p*blocks+b)*size:][:size])
			for c := range cols {
				n := s.values / 32 * act32Bytes
				a := rowAt(act, c, lda, (b+1)*n)[b*n:]
				if s.values == 32 {
					ib.dot32(s.min, a, &acc[c])
				} else {
					ib.dot256(s, a, &acc[c])
				}
			}
		}
		for c := range cols {
			copy(rowAt(dst, c, ldd, (p+1)*panelRows)[p*panelRows:], acc[c][:])
		}
	}
}

func (ib *intBlock) dot32(hasMin bool, a []byte, acc *[panelRows]float32) {
	da, dsum := f32At(a[act32D:]), f32At(a[act32DSum:])
	for r := range panelRows {
		acc[r] = fma32(float32(dotInt8(ib.q[r][:32], a[:32])), float32(ib.d[r]*da), acc[r])
		if hasMin {
			acc[r] = fma32(ib.m[r], dsum, acc[r])
		}
	}
}

func (ib *intBlock) dot256(s *panelSpec, a []byte, acc *[panelRows]float32) {
	for r := range panelRows {
		var sum, mins float32
		for g := range 8 {
			x := a[g*act32Bytes:][:act32Bytes]
			da, sc, mn := f32At(x[act32D:]), ib.sc[r][2*g:], ib.mn[r][2*g:]
			v := sc[0]*dotInt8(ib.q[r][32*g:32*g+16], x[:16]) + sc[1]*dotInt8(ib.q[r][32*g+16:32*g+32], x[16:32])
			sum = fma32(float32(v), da, sum)
			switch {
			case s.min && s.sub == 32:
				mins = fma32(float32(mn[0]), f32At(x[act32DSum:]), mins)
			case s.min:
				v := mn[0]*int32(int16(u16(x[act32Halves:]))) + mn[1]*int32(int16(u16(x[act32Halves+2:])))
				mins = fma32(float32(v), da, mins)
			}
		}
		acc[r] = fma32(ib.d[r], sum, acc[r])
		if s.min {
			acc[r] = fma32(-ib.m[r], mins, acc[r])
		}
	}
}

// fma32 is x·y + z, rounded once. (In float64 the product is exact; the sum, if it
// is not, is made odd, on the side where the exact one lies, so that rounding it
// again gives what rounding that does.)
func fma32(x, y, z float32) float32 { return float32(fmaOdd(x, y, z)) }

// fmaFlush is fma32, but a result that is below 2⁻¹²⁶ once it is rounded to 24 bits
// is zero, of its sign.
func fmaFlush(x, y, z float32) float32 {
	const least = 0x1p-126 - 0x1p-151 // a tie, which goes up to 2⁻¹²⁶
	sum := fmaOdd(x, y, z)
	if -least < sum && sum < least {
		return float32(math.Copysign(0, sum))
	}
	return float32(sum)
}

// fmaOdd is x·y + z rounded to odd in float64.
func fmaOdd(x, y, z float32) float64 {
	p, c := float64(x)*float64(y), float64(z)
	sum := float64(p + c)
	back := float64(sum - p)
	off := float64(p-float64(sum-back)) + float64(c-back)
	if bits := math.Float64bits(sum); bits&1 == 0 && (off > 0 || off < 0) {
		if (off > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return sum
}

func dotInt8(q []int8, a []byte) (sum int32) {
	for len(q) >= 8 && len(a) >= 8 {
		sum += int32(q[0])*int32(int8(a[0])) + int32(q[1])*int32(int8(a[1])) +
			int32(q[2])*int32(int8(a[2])) + int32(q[3])*int32(int8(a[3])) +
			int32(q[4])*int32(int8(a[4])) + int32(q[5])*int32(int8(a[5])) +
			int32(q[6])*int32(int8(a[6])) + int32(q[7])*int32(int8(a[7]))
		q, a = q[8:], a[8:]
	}
	return sum
}

func portableFloats(t kernels.DType, dst *float32, w *byte, blocks int) {
	s := spec(t)
	size := s.blockBytes()
	var ib intBlock
	for b := range blocks {
		ib.read(t, s, unsafe.Slice(w, blocks*size)[b*size:][:size])
		out := unsafe.Slice(dst, blocks*s.values*panelRows)[b*s.values*panelRows:]
		for k := range s.values {
			for r := range panelRows {
				d, m := ib.d[r], ib.m[r]
				if s.sub > 0 {
					d, m = d*float32(ib.sc[r][k/16]), -m*float32(ib.mn[r][k/16])
				}
				v := float32(d * float32(ib.q[r][k]))
				if s.min {
					v += m
				}
				out[k*panelRows+r] = v
			}
		}
	}
}
