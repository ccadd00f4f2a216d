package main

import "fmt"

// Go's assembler knows few of the vector instructions that are needed, so all of
// them are written as WORDs, with the usual syntax as a comment. The encodings are
// those of the Arm Architecture Reference Manual, "C7 A64 Advanced SIMD and
// Floating-point Instruction Descriptions"; the test holds them against another
// assembler's.

// v is a vector register, r a general one.
type (
	v uint32
	r uint32
)

// inst writes one instruction word.
func (f *function) inst(word uint32, format string, args ...any) {
	fmt.Fprintf(f.out, "\tWORD $0x%08X // %s\n", word, fmt.Sprintf(format, args...))
}

// must panics on an operand that the instruction cannot hold.
func must(ok bool, format string, args ...any) {
	if !ok {
		panic("cannot encode: " + fmt.Sprintf(format, args...))
	}
}

// scaled is an unsigned offset in units of size bytes, in bits 10 to 21.
func scaled(at, size int) uint32 {
	must(at >= 0 && at%size == 0 && at/size < 1<<12, "offset %d of %d bytes", at, size)
	return uint32(at/size) << 10
}

// three are the registers of most instructions: m, n, d.
func three(d, n, m v) uint32 { return uint32(m)<<16 | uint32(n)<<5 | uint32(d) }

// lane is operand m with the index of a 32-bit lane of it, in H and L.
func lane(d, n, m v, i int) uint32 {
	must(i >= 0 && i < 4, "lane %d", i)
	return three(d, n, m) | uint32(i&1)<<21 | uint32(i>>1)<<11
}

// half is operand m, one of the first 16 registers, with the index of a 16-bit lane
// in H, L and M.
func half(d, n, m v, i int) uint32 {
	must(i >= 0 && i < 8 && m < 16, "v%d.h[%d]", m, i)
	return three(d, n, m) | uint32(i>>2)<<11 | uint32(i>>1&1)<<21 | uint32(i&1)<<20
}

// imm8 is a byte in the fields abc and defgh.
func imm8(b byte) uint32 { return uint32(b>>5)<<16 | uint32(b&31)<<5 }

// Memory.
func (f *function) ldrQ(d v, n r, at int) {
	f.inst(0x3DC00000|scaled(at, 16)|uint32(n)<<5|uint32(d), "ldr q%d, [x%d, #%d]", d, n, at)
}
func (f *function) ldrD(d v, n r, at int) {
	f.inst(0xFD400000|scaled(at, 8)|uint32(n)<<5|uint32(d), "ldr d%d, [x%d, #%d]", d, n, at)
}
func (f *function) ldrS(d v, n r, at int) {
	f.inst(0xBD400000|scaled(at, 4)|uint32(n)<<5|uint32(d), "ldr s%d, [x%d, #%d]", d, n, at)
}
func (f *function) strQ(d v, n r, at int) {
	f.inst(0x3D800000|scaled(at, 16)|uint32(n)<<5|uint32(d), "str q%d, [x%d, #%d]", d, n, at)
}

// Constants and copies.
func (f *function) zero(d v) { f.inst(0x6F00E400|uint32(d), "movi v%d.2d, #0", d) }
func (f *function) moviB(d v, b byte) {
	f.inst(0x4F00E400|imm8(b)|uint32(d), "movi v%d.16b, #%d", d, b)
}
func (f *function) moviS(d v, b byte) {
	f.inst(0x4F000400|imm8(b)|uint32(d), "movi v%d.4s, #%d", d, b)
}
func (f *function) dupW(d v, n r) {
	f.inst(0x4E040C00|uint32(n)<<5|uint32(d), "dup v%d.4s, w%d", d, n)
}
func (f *function) dupS(d, n v, i int) {
	f.inst(0x4E040400|uint32(i)<<19|three(d, n, 0), "dup v%d.4s, v%d.s[%d]", d, n, i)
}
func (f *function) insS(d v, i int, n v, j int) {
	f.inst(0x6E040400|uint32(i)<<19|uint32(j)<<13|three(d, n, 0), "mov v%d.s[%d], v%d.s[%d]", d, i, n, j)
}
func (f *function) insH(d v, i int, n v, j int) {
	f.inst(0x6E020400|uint32(i)<<18|uint32(j)<<12|three(d, n, 0), "mov v%d.h[%d], v%d.h[%d]", d, i, n, j)
}

// Bits. bit takes the bits of n where m has ones.
func (f *function) and(d, n, m v) {
	f.inst(0x4E201C00|three(d, n, m), "and v%d.16b, v%d.16b, v%d.16b", d, n, m)
}
func (f *function) bit(d, n, m v) {
	f.inst(0x6EA01C00|three(d, n, m), "bit v%d.16b, v%d.16b, v%d.16b", d, n, m)
}
func (f *function) tbl(d, n, m v) {
	f.inst(0x4E000000|three(d, n, m), "tbl v%d.16b, { v%d.16b }, v%d.16b", d, n, m)
}

// Shifts of bytes, and of the four int16 of half a register.
func (f *function) shlB(d, n v, k int) {
	f.inst(0x4F005400|uint32(8+k)<<16|three(d, n, 0), "shl v%d.16b, v%d.16b, #%d", d, n, k)
}
func (f *function) ushrB(d, n v, k int) {
	f.inst(0x6F000400|uint32(16-k)<<16|three(d, n, 0), "ushr v%d.16b, v%d.16b, #%d", d, n, k)
}
func (f *function) shlH(d, n v, k int) {
	f.inst(0x0F005400|uint32(16+k)<<16|three(d, n, 0), "shl v%d.4h, v%d.4h, #%d", d, n, k)
}
func (f *function) ushrH(d, n v, k int) {
	f.inst(0x2F000400|uint32(32-k)<<16|three(d, n, 0), "ushr v%d.4h, v%d.4h, #%d", d, n, k)
}
func (f *function) sshrH(d, n v, k int) {
	f.inst(0x0F000400|uint32(32-k)<<16|three(d, n, 0), "sshr v%d.4h, v%d.4h, #%d", d, n, k)
}

// sxtlH widens four int16.
func (f *function) sxtlH(d, n v) {
	f.inst(0x0F10A400|three(d, n, 0), "sshll v%d.4s, v%d.4h, #0", d, n)
}

// Integers.
func (f *function) subB(d, n, m v) {
	f.inst(0x6E208400|three(d, n, m), "sub v%d.16b, v%d.16b, v%d.16b", d, n, m)
}
func (f *function) addS(d, n, m v) {
	f.inst(0x4EA08400|three(d, n, m), "add v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) addpS(d, n, m v) {
	f.inst(0x4EA0BC00|three(d, n, m), "addp v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) mulS(d, n, m v) {
	f.inst(0x4EA09C00|three(d, n, m), "mul v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) mlaS(d, n, m v) {
	f.inst(0x4EA09400|three(d, n, m), "mla v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) mlaLane(d, n, m v, i int) {
	f.inst(0x6F800000|lane(d, n, m, i), "mla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}
func (f *function) sdot(d, n, m v, i int) {
	f.inst(0x4F80E000|lane(d, n, m, i), "sdot v%d.4s, v%d.16b, v%d.4b[%d]", d, n, m, i)
}

// The low and high eight products of bytes, as int16: smull sets, smlal adds.
func (f *function) smull(d, n, m v) {
	f.inst(0x0E20C000|three(d, n, m), "smull v%d.8h, v%d.8b, v%d.8b", d, n, m)
}
func (f *function) smull2(d, n, m v) {
	f.inst(0x4E20C000|three(d, n, m), "smull2 v%d.8h, v%d.16b, v%d.16b", d, n, m)
}
func (f *function) smlal(d, n, m v) {
	f.inst(0x0E208000|three(d, n, m), "smlal v%d.8h, v%d.8b, v%d.8b", d, n, m)
}
func (f *function) smlal2(d, n, m v) {
	f.inst(0x4E208000|three(d, n, m), "smlal2 v%d.8h, v%d.16b, v%d.16b", d, n, m)
}

// Products of four int16 and a lane, as int32.
func (f *function) smullLane(d, n, m v, i int) {
	f.inst(0x0F40A000|half(d, n, m, i), "smull v%d.4s, v%d.4h, v%d.h[%d]", d, n, m, i)
}
func (f *function) smlalLane(d, n, m v, i int) {
	f.inst(0x0F402000|half(d, n, m, i), "smlal v%d.4s, v%d.4h, v%d.h[%d]", d, n, m, i)
}

// Sums of pairs: sadalp adds them to d; saddlvB adds 16 bytes to an int16.
func (f *function) sadalp(d, n v) {
	f.inst(0x4E606800|three(d, n, 0), "sadalp v%d.4s, v%d.8h", d, n)
}
func (f *function) saddlvB(d, n v) {
	f.inst(0x4E303800|three(d, n, 0), "saddlv h%d, v%d.16b", d, n)
}

// Narrowing that keeps the low half of each value; the second forms fill the high
// half of d.
func (f *function) xtnS(d, n v) { f.inst(0x0E612800|three(d, n, 0), "xtn v%d.4h, v%d.4s", d, n) }
func (f *function) xtn2S(d, n v) {
	f.inst(0x4E612800|three(d, n, 0), "xtn2 v%d.8h, v%d.4s", d, n)
}
func (f *function) xtnH(d, n v) { f.inst(0x0E212800|three(d, n, 0), "xtn v%d.8b, v%d.8h", d, n) }
func (f *function) xtn2H(d, n v) {
	f.inst(0x4E212800|three(d, n, 0), "xtn2 v%d.16b, v%d.8h", d, n)
}

// Floats.
func (f *function) scvtf(d, n v) {
	f.inst(0x4E21D800|three(d, n, 0), "scvtf v%d.4s, v%d.4s", d, n)
}
func (f *function) fcvtl(d, n v) {
	f.inst(0x0E217800|three(d, n, 0), "fcvtl v%d.4s, v%d.4h", d, n)
}
func (f *function) fcvtl2(d, n v) {
	f.inst(0x4E217800|three(d, n, 0), "fcvtl2 v%d.4s, v%d.8h", d, n)
}
func (f *function) shll16(d, n v) {
	f.inst(0x2E613800|three(d, n, 0), "shll v%d.4s, v%d.4h, #16", d, n)
}
func (f *function) shll216(d, n v) {
	f.inst(0x6E613800|three(d, n, 0), "shll2 v%d.4s, v%d.8h, #16", d, n)
}
func (f *function) fadd(d, n, m v) {
	f.inst(0x4E20D400|three(d, n, m), "fadd v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fmul(d, n, m v) {
	f.inst(0x6E20DC00|three(d, n, m), "fmul v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fdiv(d, n, m v) {
	f.inst(0x6E20FC00|three(d, n, m), "fdiv v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fmla(d, n, m v) {
	f.inst(0x4E20CC00|three(d, n, m), "fmla v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fmls(d, n, m v) {
	f.inst(0x4EA0CC00|three(d, n, m), "fmls v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fmulLane(d, n, m v, i int) {
	f.inst(0x4F809000|lane(d, n, m, i), "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}
func (f *function) fmlaLane(d, n, m v, i int) {
	f.inst(0x4F801000|lane(d, n, m, i), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}
func (f *function) fabs(d, n v) {
	f.inst(0x4EA0F800|three(d, n, 0), "fabs v%d.4s, v%d.4s", d, n)
}

// fmaxnm takes the number where one is a NaN.
func (f *function) fmaxnm(d, n, m v) {
	f.inst(0x4E20C400|three(d, n, m), "fmaxnm v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
func (f *function) fmaxnmv(d, n v) {
	f.inst(0x6E30C800|three(d, n, 0), "fmaxnmv s%d, v%d.4s", d, n)
}
func (f *function) fcmge(d, n, m v) {
	f.inst(0x6E20E400|three(d, n, m), "fcmge v%d.4s, v%d.4s, v%d.4s", d, n, m)
}
