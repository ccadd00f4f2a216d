package main

import "fmt"

type floatType struct {
	name string
	size int // bytes
}

var floatTypes = []floatType{{"F32", 4}, {"F16", 2}, {"BF16", 2}}

// The registers of fmat.
const (
	fDst, fLdd, fW, fStride, fX, fLdx, fK, fCount, fAlpha r = 0, 1, 2, 3, 4, 5, 6, 7, 8

	fCol   r = 9 // … 12: activations of each column
	fPanel r = 13
	fLeft  r = 14
	fOut   r = 19 // … 22: results of each column

	wX   v = 0  // … 3: activations of each column
	wAcc v = 4  // … 11: two for each column
	wW   v = 12 // … 19: weights, two for each of four columns of them
)

// fmat: acc = fma(w, x, acc), k in order; with acc, from dst·alpha.
func (f *file) fmat(t floatType, cols int, acc bool) {
	name, params := "fmat", []param{{"dst", fDst}, {"ldd", fLdd}, {"w", fW}, {"stride", fStride},
		{"x", fX}, {"ldx", fLdx}, {"k", fK}, {"count", fCount}}
	signature := "dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int"
	if acc {
		name, params, signature = "fmatAcc", append(params, param{"alpha", fAlpha}), signature+", alpha *float32"
	}
	fn := f.begin(fmt.Sprintf("%s%sx%dNeon", name, t.name, cols), signature, params)
	fn.panelsOf(t, cols, acc)
	fn.op("RET")
}

// fmatFlush is fmat with inputs that hold bf16 and a BF16 panel, and results below
// 2⁻¹²⁶ flushed to zero: by the bit FZ of FPCR.
func (f *file) fmatFlush(cols int) {
	const saved, flushing r = 23, 24
	fn := f.begin(fmt.Sprintf("fmatFlushBF16x%dNeon", cols), "dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int",
		[]param{{"dst", fDst}, {"ldd", fLdd}, {"w", fW}, {"stride", fStride}, {"x", fX}, {"ldx", fLdx}, {"k", fK}, {"count", fCount}})
	fn.op("MOVD FPCR, R%d", saved)
	fn.op("ORR $(1<<24), R%d, R%d", saved, flushing)
	fn.op("MOVD R%d, FPCR", flushing)
	fn.panelsOf(floatType{"BF16", 2}, cols, false)
	fn.op("MOVD R%d, FPCR", saved)
	fn.op("RET")
}

func (fn *function) panelsOf(t floatType, cols int, acc bool) {
	fn.label("panel")
	fn.op("MOVD R%d, R%d", fW, fPanel)
	fn.op("MOVD R%d, R%d", fX, fCol)
	fn.op("MOVD R%d, R%d", fDst, fOut)
	for c := r(1); c < r(cols); c++ {
		fn.op("ADD R%d, R%d, R%d", fLdx, fCol+c-1, fCol+c)
		fn.op("ADD R%d, R%d, R%d", fLdd, fOut+c-1, fOut+c)
	}
	for c := range v(cols) {
		if acc {
			fn.ldrS(wX+c, fAlpha, 4*int(c))
		}
		for half := range v(2) {
			a := wAcc + 2*c + half
			if !acc {
				fn.zero(a)
				continue
			}
			fn.ldrQ(a, fOut+r(c), 16*int(half))
			fn.fmulLane(a, a, wX+c, 0)
		}
	}
	fn.op("LSR $2, R%d, R%d", fK, fLeft)
	fn.op("CBZ R%d, rest", fLeft)
	fn.columns(t, cols, 4, "four")
	fn.label("rest")
	fn.op("AND $3, R%d, R%d", fK, fLeft)
	fn.op("CBZ R%d, done", fLeft)
	fn.columns(t, cols, 1, "one")
	fn.label("done")
	for c := range v(cols) {
		fn.strQ(wAcc+2*c, fOut+r(c), 0)
		fn.strQ(wAcc+2*c+1, fOut+r(c), 16)
	}
	fn.op("ADD R%d, R%d", fStride, fW)
	fn.move(fDst, vecBytes)
	fn.op("SUBS $1, R%d", fCount)
	fn.op("BNE panel")
}

// columns is a loop over n columns of the panel at a time.
func (f *function) columns(t floatType, cols, n int, loop string) {
	f.label(loop)
	for c := range v(cols) {
		if n == 4 {
			f.ldrQ(wX+c, fCol+r(c), 0)
		} else {
			f.ldrS(wX+c, fCol+r(c), 0)
		}
	}
	for i := range n {
		w := wW + 2*v(i)
		f.weights(t, w, panelRows*t.size*i)
		for c := range v(cols) {
			for half := range v(2) {
				f.fmlaLane(wAcc+2*c+half, w+half, wX+c, i)
			}
		}
	}
	f.move(fPanel, n*panelRows*t.size)
	for c := range cols {
		f.move(fCol+r(c), 4*n)
	}
	f.op("SUBS $1, R%d", fLeft)
	f.op("BNE %s", loop)
}

// weights makes the eight rows of a column float32, in d and d+1.
func (f *function) weights(t floatType, d v, at int) {
	f.ldrQ(d, fPanel, at)
	switch t.name {
	case "F32":
		f.ldrQ(d+1, fPanel, at+16)
	case "F16":
		f.fcvtl2(d+1, d)
		f.fcvtl(d, d)
	case "BF16":
		f.shll216(d+1, d)
		f.shll16(d, d)
	}
}

// less is what sums are multiplied by for a block's last 16 bytes.
func (f *file) less() {
	fmt.Fprintln(&f.asm)
	for i, n := range []int{-16, -128, -32, -32} {
		fmt.Fprintf(&f.asm, "DATA less<>+%d(SB)/4, $%d\n", 4*i, n)
	}
	fmt.Fprintln(&f.asm, "GLOBL less<>(SB), RODATA|NOPTR, $16")
}

// quantize32 rounds blocks of 32 values.
func (f *file) quantize32() {
	const dst, x, blocks, c r = 0, 1, 2, 3
	const top, tiny, toInt, less8, max, d, inv, keep, less v = 16, 17, 18, 19, 20, 21, 22, 23, 30
	fn := f.begin("quantize32Neon", "dst *byte, x *float32, blocks int", []param{{"dst", dst}, {"x", x}, {"blocks", blocks}})
	for _, k := range []struct {
		to   v
		bits uint32
	}{{top, 0x42fe0000}, {tiny, 0x0da24260}, {toInt, 0x4b400000}, {less8, 0xfffffff8}} { // 127, 1e-30, 1.5·2²³, −8
		fn.op("MOVD $0x%08x, R%d", k.bits, c)
		fn.dupW(k.to, c)
	}
	fn.op("MOVD $less<>(SB), R%d", c)
	fn.ldrQ(less, c, 0)
	fn.label("block")
	fn.zero(max)
	for i := range v(8) {
		fn.ldrQ(i, x, 16*int(i))
		fn.fabs(24+i%4, i)
		fn.fmaxnm(max, max, 24+i%4)
	}
	fn.fmaxnmv(max, max)
	fn.dupS(max, max, 0)
	fn.fcmge(keep, max, tiny)
	fn.fdiv(d, max, top)
	fn.fdiv(inv, top, max)
	fn.and(d, d, keep)
	fn.and(inv, inv, keep)
	for i := range v(8) {
		fn.fmul(i, i, inv)
		fn.fadd(i, i, toInt) // the lowest byte is the integer
	}
	for h := range v(2) {
		q := 4 * h
		fn.xtnS(24, q)
		fn.xtn2S(24, q+1)
		fn.xtnS(25, q+2)
		fn.xtn2S(25, q+3)
		fn.xtnH(26+h, 24)
		fn.xtn2H(26+h, 25)
		fn.strQ(26+h, dst, 16*int(h))
		fn.saddlvB(28+h, 26+h)
	}
	fn.sxtlH(24, 28)
	fn.sxtlH(25, 29)
	fn.insS(27, 2, 24, 0)
	fn.insS(27, 3, 25, 0)
	fn.addS(24, 24, 25)
	fn.insS(27, 0, 24, 0)
	fn.insS(27, 1, 24, 0)
	fn.mulS(27, 27, less)
	fn.strQ(27, dst, act32Less)
	fn.scvtf(25, 24)
	fn.mulS(24, 24, less8)
	fn.fmul(25, d, 25)
	fn.insS(d, 1, 25, 0)
	fn.insS(d, 2, 24, 0)
	fn.insH(d, 6, 28, 0)
	fn.insH(d, 7, 29, 0)
	fn.strQ(d, dst, act32Tail)
	fn.move(x, 4*32)
	fn.move(dst, act32Bytes)
	fn.op("SUBS $1, R%d", blocks)
	fn.op("BNE block")
	fn.op("RET")
}
