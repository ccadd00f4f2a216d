package derive

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// access is a load's or a store's shape: so many elements of a kind.
type access struct {
	form string
	n    int
	k    kind
}

// parse reads a form's end: .v4.f32 or .u8.
func parse(form string) access {
	parts := strings.Split(form, ".")
	a := access{form: form, n: 1, k: kind(parts[len(parts)-1])}
	switch parts[len(parts)-2] {
	case "v2":
		a.n = 2
	case "v4":
		a.n = 4
	}
	return a
}

// registers are those of the elements: of 32 bits at least, so that extension
// shows.
func (a access) registers() string {
	var names []string
	for i := range a.n {
		if a.k.width() == 64 {
			names = append(names, fmt.Sprintf("%%d%d", i))
		} else {
			names = append(names, fmt.Sprintf("%%r%d", i))
		}
	}
	if a.n == 1 {
		return names[0]
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// register32 is the kind of those registers.
func (a access) register() kind {
	if a.k.width() == 64 {
		return "b64"
	}
	return "b32"
}

// elements are what a load of 16 bytes gives: sign-extended where the kind says so.
func (a access) elements(row []uint64) (out []uint64) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], row[0])
	binary.LittleEndian.PutUint64(b[8:], row[1])
	w := a.k.width() / 8
	for i := range a.n {
		var v uint64
		for j := range w {
			v |= uint64(b[i*w+j]) << (8 * j)
		}
		if a.k[0] == 's' {
			v = uint64(a.k.sext(v))
		}
		out = append(out, a.register().trunc(v))
	}
	return out
}

// bytes is what a store of a row's elements leaves in 16 zero bytes.
func (a access) bytes(row []uint64) []uint64 {
	var b [16]byte
	w := a.k.width() / 8
	for i := range a.n {
		for j := range w {
			b[i*w+j] = byte(row[i] >> (8 * j))
		}
	}
	return []uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

func (a access) storeAll() (body []string) {
	for i := range a.n {
		body = append(body, a.register().store(i, i)...)
	}
	return body
}

// Shared memory of 16 bytes for each of 64 threads; %r20 is this thread's, %r21
// that of its neighbour.
var (
	sharedLocals = []string{".shared .align 16 .b8 memory[1024];"}
	sharedBegin  = []string{"mov.u32 %r20, memory;", "mad.lo.u32 %r20, %t, 16, %r20;", "xor.b32 %r21, %r20, 16;"}
)

func rows(name string, threads, slots int) (in [][]uint64) {
	rng := random(name)
	for range threads {
		var row []uint64
		for range slots {
			row = append(row, rng.Uint64())
		}
		in = append(in, row)
	}
	return in
}

// memory are loads, stores and moves (PTX ISA 9.7.8).
func memory() *set {
	s := &set{}
	loads(s)
	stores(s)
	generic(s)
	constants(s)
	moves(s)
	asynchronous(s)
	return s
}

func loads(s *set) {
	var forms []string
	for _, space := range []string{"ld.global", "ld.global.nc", "ld.global.cg"} {
		for _, t := range []string{"u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "b64", "v2.u32", "v2.s32", "v2.b32", "v2.f32", "v4.u32", "v4.s32", "v4.b32", "v4.f32", "v2.u64", "v2.b64"} {
			forms = append(forms, space+"."+t)
		}
	}
	for _, form := range forms {
		a := parse(form)
		in := rows(form, 32, 2)
		var out [][]uint64
		for _, r := range in {
			out = append(out, a.elements(r))
		}
		s.custom(form, []string{form}, 80, nil, nil, append([]string{form + " " + a.registers() + ", [%src];"}, a.storeAll()...), in, out, "bits")
	}
	for _, t := range []string{"u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "b64", "v2.u32", "v2.b32", "v2.f32", "v2.u64", "v2.b64", "v4.u32", "v4.b32", "v4.f32"} {
		form := "ld.shared." + t
		a := parse(form)
		in := rows(form, 64, 2)
		var out [][]uint64
		for t := range in {
			out = append(out, a.elements(in[t^1]))
		}
		body := append(append([]string{}, sharedBegin...), "ld.global.b64 %d10, [%src];", "ld.global.b64 %d11, [%src+8];", "st.shared.b64 [%r20], %d10;", "st.shared.b64 [%r20+8], %d11;", "bar.sync 0;",
			form+" "+a.registers()+", [%r21];")
		s.custom(form, []string{form}, 80, nil, sharedLocals, append(body, a.storeAll()...), in, out, "bits")
	}
}

func stores(s *set) {
	fill := func(a access) (body []string) {
		for i := range a.n {
			body = append(body, a.register().load(i, i)...)
		}
		return body
	}
	for _, space := range []string{"st.global", "st.global.cg"} {
		for _, t := range []string{"u8", "b8", "u16", "b16", "b32", "u32", "f32", "u64", "b64", "v2.u32", "v2.b32", "v2.f32", "v2.u64", "v2.b64", "v4.u32", "v4.b32", "v4.f32"} {
			a := parse(space + "." + t)
			in := rows(a.form, 32, a.n)
			var out [][]uint64
			for _, r := range in {
				out = append(out, a.bytes(r))
			}
			s.custom(a.form, []string{a.form}, 80, nil, nil, append(fill(a), a.form+" [%dst], "+a.registers()+";"), in, out, "bits")
		}
	}
	for _, t := range []string{"u8", "b8", "u16", "b16", "b32", "u32", "f32", "u64", "b64", "v2.u32", "v2.b32", "v2.f32", "v2.u64", "v2.b64", "v4.u32", "v4.b32", "v4.f32"} {
		a := parse("st.shared." + t)
		in := rows(a.form, 64, a.n)
		var out [][]uint64
		for t := range in {
			out = append(out, a.bytes(in[t^1]))
		}
		body := append(append([]string{}, sharedBegin...), "mov.b64 %d10, 0;", "st.shared.b64 [%r20], %d10;", "st.shared.b64 [%r20+8], %d10;")
		body = append(append(body, fill(a)...), a.form+" [%r20], "+a.registers()+";", "bar.sync 0;",
			"ld.shared.b64 %d10, [%r21];", "ld.shared.b64 %d11, [%r21+8];", "st.global.b64 [%dst], %d10;", "st.global.b64 [%dst+8], %d11;")
		s.custom(a.form, []string{a.form}, 80, nil, sharedLocals, body, in, out, "bits")
	}
}

// generic addresses reach every space (PTX ISA 6.4.1.1).
func generic(s *set) {
	in := rows("generic", 64, 2)
	var out [][]uint64
	for t := range in {
		out = append(out, []uint64{in[t][0] & 0xffffffff, in[t^1][1] & 0xffffffff, in[t][1]})
	}
	body := append(append([]string{}, sharedBegin...), "ld.global.b64 %d1, [%src+8];", "st.shared.b64 [%r20+8], %d1;", "bar.sync 0;",
		"cvta.global.u64 %d2, %src;", "ld.s32 %r1, [%d2];", "cvt.u64.u32 %d3, %r21;", "cvta.shared.u64 %d3, %d3;", "ld.s32 %r2, [%d3+8];",
		"cvta.to.global.u64 %d4, %d2;", "ld.global.b64 %d5, [%d4+8];", "st.global.b32 [%dst], %r1;", "st.global.b32 [%dst+8], %r2;", "st.global.b64 [%dst+16], %d5;")
	s.custom("generic addresses", []string{"ld.s32", "cvta.to.global.u64", "cvta.global.u64", "cvta.shared.u64"}, 80, nil, sharedLocals, body, in, out, "bits")
}

func constants(s *set) {
	values := []int8{0, 1, -1, 127, -128, 5, -7, 100}
	var text []string
	var out [][]uint64
	for i, v := range values {
		text = append(text, fmt.Sprint(uint8(v)))
		out = append(out, []uint64{uint64(uint32(int32(v))), uint64(uint8(v)), uint64(uint32(3*i + 1))})
	}
	globals := []string{".const .align 4 .b8 bytes[8] = {" + strings.Join(text, ", ") + "};", ".global .align 4 .u32 words[8] = {1, 4, 7, 10, 13, 16, 19, 22};"}
	s.custom("constants", []string{"ld.const.s8", "ld.const.u8", "mov.u64"}, 80, globals, nil, []string{
		"mov.u64 %d1, bytes;", "cvt.u64.u32 %d2, %t;", "add.s64 %d1, %d1, %d2;", "ld.const.s8 %r1, [%d1];", "ld.const.u8 %r2, [%d1];",
		"mov.u64 %d3, words;", "mad.wide.u32 %d3, %t, 4, %d3;", "ld.global.u32 %r3, [%d3];",
		"st.global.b32 [%dst], %r1;", "st.global.b32 [%dst+8], %r2;", "st.global.b32 [%dst+16], %r3;"}, nil, out, "bits")
	// Parameters are bytes too: parts of one are compared with the whole.
	s.custom("parameters", []string{"ld.param.u64", "ld.param.u32", "ld.param.s32", "ld.param.f32"}, 80, nil, nil, []string{
		"ld.param.u64 %d1, [input];", "mov.b64 {%r1, %r2}, %d1;", "ld.param.u32 %r3, [input];", "ld.param.s32 %r4, [input+4];", "ld.param.f32 %r5, [input];",
		"setp.eq.b32 %p1, %r1, %r3;", "setp.eq.b32 %p2, %r2, %r4;", "setp.eq.b32 %p3, %r1, %r5;",
		"selp.u32 %r6, 1, 0, %p1;", "selp.u32 %r7, 1, 0, %p2;", "selp.u32 %r8, 1, 0, %p3;",
		"st.global.b32 [%dst], %r6;", "st.global.b32 [%dst+8], %r7;", "st.global.b32 [%dst+16], %r8;"}, nil, [][]uint64{{1, 1, 1}}, "bits")
}

func moves(s *set) {
	for _, k := range []kind{"b32", "u32", "f32", "b64", "u64", "u16", "pred"} {
		form := "mov." + string(k)
		s.plain(plain{form: form, dst: k, src: []kind{k}, vectors: vectors(form, 16, k), eval: func(a []uint64) uint64 { return a[0] }})
	}
	const one = 0x3f800000
	s.plain(plain{form: "mov.f32", dst: "f32", operands: "%0, 0f3F800000", src: []kind{"f32"}, vectors: [][]uint64{{0}}, eval: func([]uint64) uint64 { return one }})
	in := rows("mov pack", 32, 2)
	var out [][]uint64
	for _, r := range in {
		w := r[0] & 0xffffffff
		out = append(out, []uint64{w>>16 | w<<16&0xffff0000, r[1]>>32 | r[1]<<32})
	}
	s.custom("mov of parts", []string{"mov.b32", "mov.b64"}, 80, nil, nil, []string{
		"ld.global.b32 %r1, [%src];", "mov.b32 {%h1, %h2}, %r1;", "mov.b32 %r2, {%h2, %h1};", "st.global.b32 [%dst], %r2;",
		"ld.global.b64 %d1, [%src+8];", "mov.b64 {%r3, %r4}, %d1;", "mov.b64 %d2, {%r4, %r3};", "st.global.b64 [%dst+8], %d2;"}, in, out, "bits")
	out = nil
	var body []string
	specials := []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%lanemask_lt"}
	for i, name := range specials {
		body = append(body, fmt.Sprintf("mov.u32 %%r1, %s;", name), fmt.Sprintf("st.global.b32 [%%dst+%d], %%r1;", 8*i))
	}
	for t := range uint64(70) {
		out = append(out, []uint64{t, 0, 0, 70, 1, 1, 0, 0, 0, 1, 1, 1, t % 32, 1<<(t%32) - 1})
	}
	s.custom("special registers", []string{"mov.u32"}, 80, nil, nil, body, nil, out, "bits")
}

// asynchronous copies land when they are waited for; bytes beyond the source's size
// are zeros (PTX ISA 9.7.8.22).
func asynchronous(s *set) {
	read := []string{"ld.shared.b64 %d10, [%r21];", "ld.shared.b64 %d11, [%r21+8];", "st.global.b64 [%dst], %d10;", "st.global.b64 [%dst+8], %d11;"}
	ones := []string{"mov.b64 %d10, -1;", "st.shared.b64 [%r20], %d10;", "st.shared.b64 [%r20+8], %d10;", "bar.sync 0;"}
	// The third slot is the size; the fourth keeps rows aligned.
	sized := func(cp string, size int) {
		in := rows(cp, 64, 4)
		var out [][]uint64
		for t := range in {
			in[t][2] = uint64(t % (size + 1))
		}
		for t := range in {
			n := int(in[t^1][2])
			var b [16]byte
			for i := range b {
				switch {
				case i >= size:
					b[i] = 0xff
				case i < n:
					b[i] = byte(in[t^1][i/8] >> (8 * (i % 8)))
				}
			}
			out = append(out, []uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])})
		}
		body := append(append(append([]string{}, sharedBegin...), ones...), "ld.global.u32 %r1, [%src+16];", fmt.Sprintf("%s [%%r20], [%%src], %d, %%r1;", cp, size), "cp.async.commit_group;", "cp.async.wait_group 0;", "bar.sync 0;")
		s.custom(fmt.Sprintf("%s %d with a size", cp, size), []string{cp, "cp.async.commit_group", "cp.async.wait_group"}, 80, nil, sharedLocals, append(body, read...), in, out, "bits")
	}
	sized("cp.async.cg.shared.global", 16)
	sized("cp.async.ca.shared.global", 16)
	sized("cp.async.ca.shared.global", 8)
	sized("cp.async.ca.shared.global", 4)
	// Two groups: the older has landed when one may be under way.
	in := rows("cp.async groups", 64, 2)
	var out [][]uint64
	for t := range in {
		out = append(out, append([]uint64{in[t][1]}, in[t^1]...))
	}
	locals := []string{".shared .align 16 .b8 memory[1024];", ".shared .align 16 .b8 second[1024];"}
	body := append(append([]string{}, sharedBegin...), "mov.u32 %r22, second;", "mad.lo.u32 %r22, %t, 16, %r22;",
		"cp.async.cg.shared.global [%r20], [%src], 16;", "cp.async.commit_group;", "cp.async.ca.shared.global [%r22], [%src+8], 8;", "cp.async.commit_group;",
		"cp.async.wait_group 1;", "bar.sync 0;", "ld.shared.b64 %d10, [%r21];", "ld.shared.b64 %d11, [%r21+8];", "cp.async.wait_all;", "ld.shared.b64 %d12, [%r22];",
		"st.global.b64 [%dst], %d12;", "st.global.b64 [%dst+8], %d10;", "st.global.b64 [%dst+16], %d11;")
	s.custom("cp.async groups", []string{"cp.async.cg.shared.global", "cp.async.wait_group", "cp.async.wait_all", "cp.async.commit_group"}, 80, nil, locals, body, in, out, "bits")
}
