package ptx

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Every atomic gives the old value and leaves the new one, in device and in
// shared memory, as does red.
func TestAtomics(t *testing.T) {
	f := func(x float64) uint64 { return uint64(math.Float32bits(float32(x))) }
	for _, c := range []struct {
		op           string
		old, b, c    uint64
		want         uint64
		bits, noRed  int
		extraOperand bool
	}{
		{op: "add.u32", old: 0xffffffff, b: 2, want: 1},
		{op: "add.s32", old: 5, b: 0xfffffffe, want: 3},
		{op: "add.f32", old: f(1.5), b: f(2.25), want: f(3.75)},
		{op: "add.u64", old: 0xffffffff, b: 2, want: 0x100000001, bits: 64},
		{op: "add.f64", old: math.Float64bits(1), b: math.Float64bits(2), want: math.Float64bits(3), bits: 64},
		{op: "add.noftz.f16x2", old: 0x3c004000, b: 0x3c003c00, want: 0x40004200},
		{op: "add.noftz.bf16x2", old: 0x3f804000, b: 0x3f803f80, want: 0x40004040},
		{op: "add.noftz.f16", old: 0x3c00, b: 0x3c00, want: 0x4000, bits: 16},
		{op: "min.s32", old: 5, b: 0xffffffff, want: 0xffffffff},
		{op: "min.u32", old: 5, b: 0xffffffff, want: 5},
		{op: "max.s64", old: 5, b: 1 << 63, want: 5, bits: 64},
		{op: "max.u64", old: 5, b: 1 << 63, want: 1 << 63, bits: 64},
		{op: "and.b32", old: 0xff0, b: 0x0ff, want: 0x0f0},
		{op: "or.b64", old: 0xff0, b: 1 << 40, want: 1<<40 | 0xff0, bits: 64},
		{op: "xor.b32", old: 0xff0, b: 0x0ff, want: 0xf0f},
		{op: "inc.u32", old: 7, b: 7, want: 0},
		{op: "inc.u32", old: 6, b: 7, want: 7},
		{op: "dec.u32", old: 0, b: 7, want: 7},
		{op: "dec.u32", old: 9, b: 7, want: 7},
		{op: "dec.u32", old: 3, b: 7, want: 2},
		{op: "exch.b32", old: 3, b: 7, want: 7, noRed: 1},
		{op: "exch.b64", old: 3, b: 1 << 50, want: 1 << 50, bits: 64, noRed: 1},
		{op: "cas.b32", old: 3, b: 3, c: 9, want: 9, noRed: 1, extraOperand: true},
		{op: "cas.b32", old: 3, b: 4, c: 9, want: 3, noRed: 1, extraOperand: true},
		{op: "cas.b64", old: 1 << 40, b: 1 << 40, c: 9, want: 9, bits: 64, noRed: 1, extraOperand: true},
	} {
		if c.bits == 0 {
			c.bits = 32
		}
		r := map[int]string{16: "%h", 32: "%r", 64: "%rd"}[c.bits]
		for _, space := range []string{"global", "shared", ""} {
			for red := range 2 - c.noRed {
				extra := ""
				if c.extraOperand {
					extra = ", " + r + "5"
				}
				insn := fmt.Sprintf("atom.%s.%s %s3, [%%rd6], %s4%s;", space, c.op, r, r, extra)
				if red == 1 {
					insn = fmt.Sprintf("mov.b%d %s3, 0;\n\tred.%s.%s [%%rd6], %s4;", c.bits, r, space, c.op, r)
				}
				insn = strings.Replace(insn, "..", ".", 1)
				base := "mov.u64 %rd6, %rd1;"
				if space == "shared" {
					base = ".shared .b64 s;\n\tmov.u64 %rd6, s;"
				}
				ty := fmt.Sprintf("b%d", c.bits)
				gen := "." + space
				if space == "" {
					gen = ""
				}
				body := fmt.Sprintf(`
	setp.ne.u32 %%p1, %%r1, 0;
	@%%p1 ret;
	%s
	ld.global.%s %s2, [%%rd1+16];
	ld.global.%s %s4, [%%rd1+24];
	ld.global.%s %s5, [%%rd1+32];
	st%s.%s [%%rd6], %s2;
	%s
	ld%s.%s %s2, [%%rd6];
	st.global.%s [%%rd1], %s2;
	st.global.%s [%%rd1+8], %s3;`, base, ty, r, ty, r, ty, r, gen, ty, r, insn, gen, ty, r, ty, r, ty, r)
				words := []uint32{0, 0, 0, 0, uint32(c.old), uint32(c.old >> 32), uint32(c.b), uint32(c.b >> 32), uint32(c.c), uint32(c.c >> 32)}
				rep, got, err := run(t, body, words, watched)
				if err != nil || len(rep.Findings) > 0 {
					t.Fatalf("%s: %v %v", insn, rep.Findings, err)
				}
				m := mask(uint(c.bits))
				now, was := (uint64(got[0])|uint64(got[1])<<32)&m, (uint64(got[2])|uint64(got[3])<<32)&m
				if now != c.want || red == 0 && was != c.old {
					t.Errorf("%s of %#x with %#x: %#x and gave %#x, wanted %#x", insn, c.old, c.b, now, was, c.want)
				}
			}
		}
	}
}

// Special registers of blocks and grids of three dimensions.
func TestIndices(t *testing.T) {
	text := source(`
	mov.u32 %r2, %tid.y;
	mov.u32 %r3, %tid.z;
	mov.u32 %r4, %ctaid.x;
	mov.u32 %r5, %ctaid.y;
	mov.u32 %r6, %ctaid.z;
	mov.u32 %r7, %ntid.x;
	mov.u32 %r8, %ntid.y;
	mov.u32 %r9, %ntid.z;
	mov.u32 %r10, %nctaid.x;
	mov.u32 %r11, %nctaid.y;
	mov.u32 %r12, %nctaid.z;
	mad.lo.u32 %r13, %r6, %r11, %r5;
	mad.lo.u32 %r13, %r13, %r10, %r4;
	mad.lo.u32 %r13, %r13, %r9, %r3;
	mad.lo.u32 %r13, %r13, %r8, %r2;
	mad.lo.u32 %r13, %r13, %r7, %r1;
	mul.wide.u32 %rd3, %r13, 4;
	add.u64 %rd3, %rd3, %rd1;
	mad.lo.u32 %r13, %r12, 1000, %r13;
	st.global.u32 [%rd3], %r13;`)
	mod, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b := load(t, mod, watched)
	grid, block := Dim{3, 2, 4}, Dim{5, 4, 2}
	n := int(grid.count() * block.count())
	p := b.room(4 * n)
	b.clean("k", grid, block, 0, p)
	got := make([]uint32, n)
	b.get(p, got)
	for i, v := range got {
		if v != uint32(4000+i) {
			t.Fatalf("thread %d wrote %d", i, v)
		}
	}
}
