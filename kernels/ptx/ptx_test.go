package ptx

import (
	"errors"
	"strings"
	"testing"
)

// source wraps the body of one kernel, k(x), whose pointer is in %rd1.
func source(body string) string {
	return `.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x)
{
	.reg .pred %p<8>;
	.reg .b16 %h<8>;
	.reg .b32 %r<32>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [x];
	cvta.to.global.u64 %rd1, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
` + body + `
	ret;
}`
}

// run executes a body over words of memory and returns them.
func run(t *testing.T, body string, words []uint32, opt Options) (*Report, []uint32, error) {
	t.Helper()
	return runThreads(t, body, words, opt, 32)
}

func runThreads(t *testing.T, body string, words []uint32, opt Options, threads uint32) (*Report, []uint32, error) {
	t.Helper()
	mod, err := Parse([]byte(source(body)))
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = 1 << 16
	b := load(t, mod, opt)
	p := b.put(words)
	r, err := b.m.Launch(b.l, "k", Dim{}, Dim{X: threads}, 0, b.params("k", []any{p}))
	got := make([]uint32, len(words))
	b.get(p, got)
	return r, got, err
}

// A register that some path leaves unwritten is reported where it is used, by
// those lanes only; copying it is no use.
func TestUndefinedRegisters(t *testing.T) {
	bad := `
	setp.gt.u32 %p1, %r1, 3;
	@%p1 mov.u32 %r2, 7;
	mov.u32 %r3, %r2;
	add.s32 %r4, %r3, 1;
	st.global.u32 [%rd2], %r4;`
	r, _, err := run(t, bad, make([]uint32, 32), watched)
	if err != nil || len(r.Findings) != 1 {
		t.Fatalf("%v %v", r.Findings, err)
	}
	if f := r.Findings[0]; f.Kind != UndefinedReg || f.Thread.X != 0 || !strings.Contains(f.Detail, "lanes 0xf have not written %r3") {
		t.Errorf("%v", f)
	}
	good := strings.Replace(bad, "@%p1 mov.u32 %r2, 7;", "@%p1 mov.u32 %r2, 7;\n\t@!%p1 mov.u32 %r2, 9;", 1)
	if r, got, err := run(t, good, make([]uint32, 32), watched); err != nil || len(r.Findings) != 0 || got[3] != 10 || got[4] != 8 {
		t.Errorf("%v %v %v", r.Findings, got, err)
	}
	if r, _, _ := run(t, "@%p3 add.s32 %r2, %r1, 1;", make([]uint32, 32), watched); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Detail, "%p3") {
		t.Errorf("guard: %v", r.Findings)
	}
}

// Carry chains, jumps through tables, predicates with two results, vectors.
func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(i uint32) uint32
	}{
		{"carry", `
	mov.u32 %r2, 0xffffffff;
	add.cc.u32 %r3, %r2, %r1;
	addc.cc.u32 %r4, 0, 5;
	addc.u32 %r5, %r4, 0;
	st.global.u32 [%rd2], %r5;`, func(i uint32) uint32 { return 5 + uint32(boolInt(i > 0)) }},
		{"borrow", `
	sub.cc.u32 %r3, %r1, 7;
	subc.u32 %r4, 100, 0;
	st.global.u32 [%rd2], %r4;`, func(i uint32) uint32 { return 100 - uint32(boolInt(i < 7)) }},
		{"madc", `
	mul.hi.u32 %r2, %r1, 0x80000000;
	mad.lo.cc.u32 %r3, %r1, 0x80000000, 0x80000000;
	madc.hi.u32 %r4, %r1, 0x80000000, 0;
	sub.u32 %r5, %r4, %r2;
	st.global.u32 [%rd2], %r5;`, func(i uint32) uint32 { return i & 1 }},
		{"table", `
	and.b32 %r2, %r1, 3;
	brx.idx %r2, T;
T: .branchtargets A, B, A, C;
A:	mov.u32 %r3, 10;
	bra E;
B:	mov.u32 %r3, 20;
	bra E;
C:	mov.u32 %r3, 30;
E:	st.global.u32 [%rd2], %r3;`, func(i uint32) uint32 { return []uint32{10, 20, 10, 30}[i&3] }},
		{"setp", `
	setp.lt.u32 %p3, %r1, 20;
	setp.gt.and.u32 %p1|%p2, %r1, 9, !%p3;
	selp.u32 %r2, 1, 0, %p1;
	selp.u32 %r3, 2, 0, %p2;
	add.u32 %r2, %r2, %r3;
	st.global.u32 [%rd2], %r2;`, func(i uint32) uint32 {
			return uint32(boolInt(i > 9 && i >= 20)) + 2*uint32(boolInt(i <= 9 && i >= 20))
		}},
		{"vector", `
	{
	.reg .b16 %r<4>;
	mov.b32 {%r0, %r1}, 0x12345678;
	mov.b32 %r15, {%r1, %r0};
	}
	mov.b64 %rd3, {%r1, %r15};
	mov.b64 {%r4, %r5}, %rd3;
	add.u32 %r4, %r4, %r5;
	st.global.u32 [%rd2], %r4;`, func(i uint32) uint32 { return 0x56781234 + i }},
		{"narrow", `
	st.global.u32 [%rd2], 0xfffe80ff;
	ld.global.s8 %r2, [%rd2+1];
	ld.global.u8 %h1, [%rd2];
	ld.global.s16 %rd3, [%rd2+2];
	cvt.u32.u16 %r3, %h1;
	cvt.u32.u64 %r4, %rd3;
	add.u32 %r2, %r2, %r3;
	add.u32 %r2, %r2, %r4;
	st.global.u32 [%rd2], %r2;`, func(uint32) uint32 { return 0x7d }},
		{"lane masks", `
	mov.u32 %r2, %lanemask_le;
	mov.u32 %r3, %lanemask_gt;
	mov.u32 %r4, %lanemask_lt;
	mov.u32 %r5, %lanemask_ge;
	mov.u32 %r6, %lanemask_eq;
	not.b32 %r3, %r3;
	not.b32 %r5, %r5;
	sub.u32 %r2, %r2, %r3;
	sub.u32 %r4, %r4, %r5;
	or.b32 %r2, %r2, %r4;
	shl.b32 %r2, %r2, 8;
	mov.u32 %r7, %lanemask_le;
	popc.b32 %r7, %r7;
	bfind.u32 %r6, %r6;
	add.u32 %r7, %r7, %r6;
	mov.u32 %r8, %laneid;
	add.u32 %r7, %r7, %r8;
	mov.u32 %r8, %ntid.x;
	add.u32 %r7, %r7, %r8;
	or.b32 %r2, %r2, %r7;
	st.global.u32 [%rd2], %r2;`, func(i uint32) uint32 { return i + 1 + i + i + 32 }},
		{"bmsk", `
	bmsk.clamp.b32 %r2, %r1, 5;
	szext.wrap.s32 %r3, %r2, 8;
	xor.b32 %r2, %r2, %r3;
	st.global.u32 [%rd2], %r2;`, func(i uint32) uint32 {
			m := uint32(uint64(31) << i)
			return m ^ uint32(int32(int8(m)))
		}},
		{"bfi", `
	bfi.b32 %r2, %r1, 0xffff0000, 4, 3;
	st.global.u32 [%rd2], %r2;`, func(i uint32) uint32 { return 0xffff0000 | i&7<<4 }},
	} {
		r, got, err := run(t, c.body, make([]uint32, 32), watched)
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("%s: %v %v", c.name, r.Findings, err)
		}
		for i, v := range got {
			if w := c.want(uint32(i)); v != w {
				t.Errorf("%s: lane %d: %#x, wanted %#x", c.name, i, v, w)
				break
			}
		}
	}
}

// Every number of eight bits survives the way to f16 and back, and what lies
// between two goes to the nearer, or the even one.
func TestFP8(t *testing.T) {
	for _, f := range []fp8{fmtE4M3, fmtE5M2} {
		last := 0.0
		for b := range uint64(256) {
			x := f.value(b)
			if x != x || x-x != 0 {
				continue
			}
			if got := f.bits(x, false); got != b {
				t.Fatalf("%v of %#x comes back as %#x", x, b, got)
			}
			if b > 0 && b < 128 {
				want := b
				if b&1 == 1 {
					want = b - 1
				}
				if got := f.bits((x+last)/2, false); got != want {
					t.Fatalf("%v between %#x and %#x goes to %#x", (x+last)/2, b-1, b, got)
				}
			}
			last = x
		}
		if f.bits(1e9, false) != f.bits(f.max, false) || f.bits(-1e9, true) != 0 {
			t.Error("does not saturate")
		}
	}
	body := `
	cvt.rn.f32.u32 %f1, %r1;
	neg.f32 %f2, %f1;
	cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;
	cvt.rn.f16x2.e4m3x2 %r2, %h1;
	cvt.rn.satfinite.e4m3x2.f16x2 %h2, %r2;
	cvt.u32.u16 %r3, %h2;
	st.global.u32 [%rd2], %r3;`
	r, got, err := run(t, body, make([]uint32, 32), watched)
	if err != nil || len(r.Findings) > 0 {
		t.Fatal(r.Findings, err)
	}
	for i, v := range got {
		if w := fmtE4M3.bits(float64(i), false)<<8 | fmtE4M3.bits(-float64(i), false); uint64(v) != w {
			t.Errorf("lane %d: %#x, wanted %#x", i, v, w)
		}
	}
}

// A barrier with a count orders those who wait after those who come, and nobody
// else; results of bar.red reach all.
func TestNamedBarriers(t *testing.T) {
	const handOver = `
	.shared .b32 s[32];
	mov.u32 %r5, s;
	and.b32 %r6, %r1, 31;
	shl.b32 %r6, %r6, 2;
	add.u32 %r5, %r5, %r6;
	setp.ge.u32 %p1, %r1, 32;
	@%p1 bra TAKE;
	st.shared.u32 [%r5], %r1;
	bar.arrive 1, 64;
	// AFTER
	st.global.u32 [%rd2], %r1;
	bra END;
TAKE:
	bar.sync 1, 64;
	ld.shared.u32 %r7, [%r5];
	st.global.u32 [%rd2], %r7;
END:`
	r, got, err := runThreads(t, handOver, make([]uint32, 64), watched, 64)
	if err != nil || len(r.Findings) > 0 || got[40] != 8 {
		t.Errorf("%v %v %v", r.Findings, err, got)
	}
	late := strings.Replace(handOver, "// AFTER", "st.shared.u32 [%r5], 5;", 1)
	if r, _, err := runThreads(t, late, make([]uint32, 64), watched, 64); err != nil || len(r.Findings) != 1 || r.Findings[0].Kind != SharedRace {
		t.Errorf("a write after arriving: %v %v", r.Findings, err)
	}
	other := strings.Replace(handOver, "bar.sync 1, 64", "bar.sync 2, 32", 1)
	if r, _, _ := runThreads(t, other, make([]uint32, 64), watched, 64); len(r.Findings) != 1 || r.Findings[0].Kind != SharedRace {
		t.Errorf("another barrier: %v", r.Findings)
	}
	if r, _, _ := runThreads(t, "bar.sync 0, 48;", make([]uint32, 64), watched, 64); len(r.Findings) != 1 || r.Findings[0].Kind != BarrierCount {
		t.Errorf("a count of 48: %v", r.Findings)
	}
	reduce := `
	setp.lt.u32 %p1, %r1, 40;
	bar.red.popc.u32 %r2, 0, %p1;
	bar.red.or.pred %p2, 0, %p1;
	bar.red.and.pred %p3, 0, !%p1;
	selp.u32 %r3, 100, 0, %p2;
	selp.u32 %r4, 1000, 0, %p3;
	add.u32 %r2, %r2, %r3;
	add.u32 %r2, %r2, %r4;
	st.global.u32 [%rd2], %r2;`
	if r, got, err := runThreads(t, reduce, make([]uint32, 64), watched, 64); err != nil || len(r.Findings) > 0 || got[0] != 140 || got[63] != 140 {
		t.Errorf("reductions: %v %v %v", r.Findings, err, got)
	}
}

// A warp operation waits for the lanes its mask names, wherever they come from.
func TestLanesMeet(t *testing.T) {
	body := `
	setp.lt.u32 %p1, %r1, 7;
	mov.u32 %r2, 1;
	@%p1 bra EARLY;
	mov.u32 %r2, 2;
	bra MEET;
EARLY:
	add.u32 %r2, %r2, 10;
MEET:
	shfl.sync.bfly.b32 %r3|%p2, %r2, 31, 31, 0xffffffff;
	st.global.u32 [%rd2], %r3;`
	r, got, err := run(t, body, make([]uint32, 32), watched)
	if err != nil || len(r.Findings) > 0 || got[31] != 11 || got[0] != 2 {
		t.Errorf("%v %v %v", r.Findings, err, got)
	}
	back := `
	setp.lt.u32 %p1, %r1, 7;
	@%p1 bra LATE;
MEET:
	vote.sync.ballot.b32 %r3, %p1, 0xffffffff;
	st.global.u32 [%rd2], %r3;
	bra END;
LATE:
	mov.u32 %r4, 3;
	bra MEET;
END:`
	if r, got, err := run(t, back, make([]uint32, 32), watched); err != nil || len(r.Findings) > 0 || got[31] != 127 || got[0] != 127 {
		t.Errorf("lanes that come from below: %v %v %v", r.Findings, err, got)
	}
}

// Writes to what may only be read.
func TestReadOnly(t *testing.T) {
	text := strings.Replace(source("mov.u64 %rd3, c;\n\tcvta.const.u64 %rd3, %rd3;\n\tst.u32 [%rd3], %r1;"), ".visible .entry", ".const .align 4 .b8 c[8] = {1, 2, 3};\n.visible .entry", 1)
	mod, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	load(t, mod, watched).faulty("k", ReadOnly, "which is constant", Dim{}, Dim{X: 1}, uint64(0))
}

// What is not supported is refused when it is read, by opcode and line.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"griddepcontrol.wait;", "ptx line 16: griddepcontrol.wait: this instruction is not supported"},
		{"tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [x, {%r1}];", "tex.1d"},
		{"add.s32.foo %r1, %r1, %r1;", "cannot use .foo here"},
		{"add.s32 %r1, %r1;", "got 2 operands, wanted 3"},
		{"add.s32 %r1, %rd1, %r1;", "got register %rd1 of type b64"},
		{"add.s32 %r1, %r99, %r1;", "%r99"},
		{"bra nowhere;", `no label "nowhere"`},
		{"ld.global.v4.f64 {%rd1,%rd2,%rd3,%rd4}, [%rd1];", "cannot access"},
		{"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd1}, {%rd1}, {%rd1}, {%rd1};", "mma.sync"},
		{"mov.u32 %r1, %pm0;", "%pm0"},
		{"cp.async.bulk.commit_group;", "cp.async"},
		{"call printf, (%r1);", "printf"},
		{"shfl.up.b32 %r1, %r1, 1, 0;", "wanted .sync"},
		{"cvt.rn.satfinite.e3m2x2.f32 %h1, %f1, %f2;", "cvt.rn"},
	} {
		_, err := Parse([]byte(source(c.body)))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Line < 1 {
			t.Errorf("%s: %v, wanted %q", c.body, err, c.want)
		}
	}
}

// Host calls are judged as kernels are.
func TestMemory(t *testing.T) {
	m := NewMachine(Options{Checks: true, Memory: 1 << 16})
	a, err := m.Alloc(100)
	if err != nil || a%256 != 0 {
		t.Fatal(a, err)
	}
	b, _ := m.Alloc(100)
	want := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, wanted %q", err, text)
		}
	}
	want(m.Write(a, make([]byte, 101)), "ends 1 bytes past the end")
	want(m.Write(a-1, make([]byte, 1)), "begins 1 bytes before")
	want(m.Read(a, make([]byte, 1)), "byte 0 was never written")
	if err := m.ReadRaw(a, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if err := m.Write(a+10, []byte{1, 2, 3}); err != nil {
		t.Error(err)
	}
	if err := m.Copy(b, a, 100); err != nil {
		t.Error(err)
	}
	got := make([]byte, 3)
	if err := m.Read(b+10, got); err != nil || got[2] != 3 {
		t.Error(got, err)
	}
	want(m.Read(b+10, make([]byte, 4)), "byte 3 was never written")
	want(m.Free(a+1), "no allocation begins there")
	if err := errors.Join(m.Fill(a, 7, 100), m.Free(a), m.Free(b)); err != nil || m.Used() != 0 {
		t.Error(err, m.Used())
	}
	_, err = m.Alloc(1 << 16)
	want(err, "out of memory")
	_, err = m.Alloc(-1)
	want(err, "cannot allocate -1")
}

// Text that is no PTX gives errors; PTX that parses gives results, findings or
// errors. Nothing panics.
func FuzzParse(f *testing.F) {
	f.Add(source("add.s32 %r1, %r1, %r1;"))
	f.Add(source("T: .branchtargets A, B;\nA: B: brx.idx %r1, T;\nst.shared.u32 [%r1], %r1;\nbar.sync 0;\ncp.async.wait_all;"))
	f.Add(source("shfl.sync.bfly.b32 %r1|%p1, %r1, 1, 31, -1;\natom.global.add.u32 %r1, [%rd1], 1;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4};"))
	f.Add(".version 7.8\n.target sm_80\n.global .align 4 .b8 t[8] = {1, 2};\n.const .u64 p = generic(t)+4;\n.func (.param .b32 r) g(.param .b32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; st.param.u32 [r], %r; ret; }\n.entry k() { .local .b8 l[16]; .shared .f32 s[3]; .reg .b32 %r<3>; { .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), g, (a); ld.param.b32 %r1, [b]; } trap; }")
	f.Fuzz(func(t *testing.T, src string) {
		mod, err := Parse([]byte(src))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, checks := range []bool{true, false} {
			m := NewMachine(Options{Checks: checks, Count: checks, Memory: 1 << 16, MaxSteps: 2000})
			l, err := m.Load(mod)
			if err != nil {
				return
			}
			for _, k := range mod.Kernels() {
				if k.ParamBytes > 4096 {
					continue
				}
				if _, err := m.Launch(l, k.Name, Dim{X: 2}, Dim{X: 48}, 64, make([]byte, k.ParamBytes)); err != nil && strings.Contains(err.Error(), "BUG") {
					t.Fatal(err)
				}
			}
		}
	})
}
