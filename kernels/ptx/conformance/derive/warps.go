package derive

import (
	"fmt"
	"math/bits"
)

// warps are what lanes do together: shuffles, votes, barriers, atomics, branches
// (PTX ISA 9.7.9, 9.7.11, 9.7.12).
func warps() *set {
	s := &set{}
	shuffles(s)
	votes(s)
	reductions(s)
	barriers(s)
	atomics(s)
	branches(s)
	return s
}

// source is the lane that a shuffle reads, by the manual's pseudocode (9.7.8.6).
func source(mode string, lane, b, c int) (from int, valid bool) {
	bval, cval, mask := b&31, c&31, c>>8&31
	maxLane := lane&mask | cval&^mask
	minLane := lane & mask
	j := 0
	switch mode {
	case "up":
		j = lane - bval
		valid = j >= maxLane
	case "down":
		j = lane + bval
		valid = j <= maxLane
	case "bfly":
		j = lane ^ bval
		valid = j <= maxLane
	case "idx":
		j = minLane | bval&^mask
		valid = j <= maxLane
	}
	if !valid {
		j = lane
	}
	return j, valid
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func shuffles(s *set) {
	for _, mode := range []string{"up", "down", "bfly", "idx"} {
		form := "shfl.sync." + mode + ".b32"
		clamps := []int{0x1f, 0x101f, 0x181f, 0x1c1f, 0x1e07, 0x0f}
		if mode == "up" {
			clamps = []int{0, 0x1000, 0x1800, 0x1c00, 0x1e00, 0x03}
		}
		for _, c := range clamps {
			for _, b := range []int{1, 2, 5, 16, 31} {
				in := rows(fmt.Sprint(form, c, b), 64, 1)
				var out [][]uint64
				for t := range in {
					in[t][0] &= 0xffffffff
				}
				for t := range in {
					j, ok := source(mode, t%32, b, c)
					out = append(out, []uint64{in[t&^31|j][0], one(ok)})
				}
				body := []string{"ld.global.b32 %r1, [%src];", fmt.Sprintf("%s %%r2|%%p1, %%r1, %d, %d, -1;", form, b, c), "selp.u32 %r3, 1, 0, %p1;", "st.global.b32 [%dst], %r2;", "st.global.b32 [%dst+8], %r3;"}
				s.custom(fmt.Sprintf("%s %d 0x%x", form, b, c), []string{form}, 80, nil, nil, body, in, out, "bits")
			}
		}
	}
	// A lane of each thread's own, and half a warp.
	in := rows("shfl by lane", 32, 2)
	var out [][]uint64
	for t := range in {
		in[t][0] &= 0xffffffff
		in[t][1] = uint64((t*7 + 3) % 48)
	}
	for t := range in {
		b := in[t][1]
		row := []uint64{in[b&31][0], 0}
		if t < 16 {
			j, _ := source("bfly", t, 8, 0x1f)
			row[1] = in[j][0]
		}
		out = append(out, row)
	}
	s.custom("shfl by lane, in half a warp", []string{"shfl.sync.idx.b32", "shfl.sync.bfly.b32"}, 80, nil, nil, []string{
		"ld.global.b32 %r1, [%src];", "ld.global.b32 %r2, [%src+8];", "shfl.sync.idx.b32 %r3, %r1, %r2, 31, -1;", "st.global.b32 [%dst], %r3;",
		"setp.lt.u32 %p1, %t, 16;", "@!%p1 bra done;", "shfl.sync.bfly.b32 %r4, %r1, 8, 31, 0xffff;", "st.global.b32 [%dst+8], %r4;", "done:"}, in, out, "bits")
}

// reductions over the lanes of a mask (9.7.13, redux.sync): all lanes of two warps, then every other lane alone.
func reductions(s *set) {
	for _, o := range []struct {
		form string
		fold func(a, b uint32) uint32
	}{
		{"redux.sync.add.u32", func(a, b uint32) uint32 { return a + b }},
		{"redux.sync.add.s32", func(a, b uint32) uint32 { return a + b }},
		{"redux.sync.min.u32", func(a, b uint32) uint32 { return min(a, b) }},
		{"redux.sync.min.s32", func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }},
		{"redux.sync.max.u32", func(a, b uint32) uint32 { return max(a, b) }},
		{"redux.sync.max.s32", func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }},
		{"redux.sync.and.b32", func(a, b uint32) uint32 { return a & b }},
		{"redux.sync.or.b32", func(a, b uint32) uint32 { return a | b }},
		{"redux.sync.xor.b32", func(a, b uint32) uint32 { return a ^ b }},
	} {
		in := rows(o.form, 64, 1)
		for t := range in {
			in[t][0] &= 0xffffffff
		}
		var out [][]uint64
		for t := range in {
			all, odd := uint32(in[t&^31][0]), uint32(in[t&^31|1][0])
			for l := 1; l < 32; l++ {
				v := uint32(in[t&^31|l][0])
				if all = o.fold(all, v); l%2 == 1 && l > 1 {
					odd = o.fold(odd, v)
				}
			}
			if t%2 == 0 {
				odd = 7
			}
			out = append(out, []uint64{uint64(all), uint64(odd)})
		}
		s.custom(o.form, []string{o.form}, 80, nil, nil, []string{"ld.global.b32 %r1, [%src];", o.form + " %r2, %r1, -1;", "st.global.b32 [%dst], %r2;",
			"and.b32 %r3, %t, 1;", "setp.ne.u32 %p1, %r3, 0;", "mov.u32 %r4, 7;", "@%p1 " + o.form + " %r4, %r1, 0xaaaaaaaa;", "st.global.b32 [%dst+8], %r4;"}, in, out, "bits")
	}
}

func votes(s *set) {
	in := rows("vote", 64, 2)
	for t := range in {
		in[t][0] = in[t][0] & 1 // mixed
		in[t][1] = one(t < 32)  // the same in a warp
	}
	var out [][]uint64
	for t := range in {
		var ballot uint64
		all := uint64(1)
		for l := range 32 {
			v := in[t&^31|l][0]
			ballot |= v << l
			all &= v
		}
		u := in[t][1]
		out = append(out, []uint64{ballot, ballot ^ 0xffffffff, one(ballot != 0), all, one(ballot == 0 || all == 1), u, u, 1, ballot & 0xf0f0})
	}
	store := func(n int, p string) []string {
		return []string{fmt.Sprintf("selp.u32 %%r9, 1, 0, %s;", p), fmt.Sprintf("st.global.b32 [%%dst+%d], %%r9;", 8*n)}
	}
	body := []string{"ld.global.b32 %r1, [%src];", "ld.global.b32 %r2, [%src+8];", "setp.ne.u32 %p1, %r1, 0;", "setp.ne.u32 %p2, %r2, 0;",
		"vote.sync.ballot.b32 %r3, %p1, -1;", "st.global.b32 [%dst], %r3;", "vote.sync.ballot.b32 %r3, !%p1, -1;", "st.global.b32 [%dst+8], %r3;",
		"vote.sync.any.pred %p3, %p1, -1;"}
	body = append(body, store(2, "%p3")...)
	for i, v := range []struct{ op, p string }{{"all", "%p1"}, {"uni", "%p1"}, {"any", "%p2"}, {"all", "%p2"}, {"uni", "%p2"}} {
		body = append(append(body, fmt.Sprintf("vote.sync.%s.pred %%p3, %s, -1;", v.op, v.p)), store(3+i, "%p3")...)
	}
	// Lanes of a mask only, in code that only they reach.
	body = append(body, "mov.u32 %r5, %laneid;", "shl.b32 %r6, 1, %r5;", "and.b32 %r6, %r6, 0xf0f0;", "setp.ne.u32 %p4, %r6, 0;", "mov.u32 %r7, 0;",
		"@%p4 vote.sync.ballot.b32 %r7, %p1, 0xf0f0;", "shfl.sync.idx.b32 %r7, %r7, 4, 31, -1;", "st.global.b32 [%dst+64], %r7;")
	s.custom("vote", []string{"vote.sync.ballot.b32", "vote.sync.any.pred", "vote.sync.all.pred", "vote.sync.uni.pred"}, 80, nil, nil, body, in, out, "bits")
	in = rows("match", 32, 2)
	for t := range in {
		in[t][0] %= 5
		in[t][1] = 9
	}
	out = nil
	for t := range in {
		var same uint64
		for l := range in {
			same |= one(in[l][0] == in[t][0]) << l
		}
		out = append(out, []uint64{same, 0, 0, 0xffffffff, 1})
	}
	s.custom("match", []string{"match.any.sync.b32", "match.all.sync.b32"}, 80, nil, nil, []string{"ld.global.b32 %r1, [%src];", "ld.global.b32 %r2, [%src+8];", "match.any.sync.b32 %r3, %r1, -1;", "st.global.b32 [%dst], %r3;",
		"match.all.sync.b32 %r4|%p1, %r1, -1;", "selp.u32 %r5, 1, 0, %p1;", "st.global.b32 [%dst+8], %r4;", "st.global.b32 [%dst+16], %r5;",
		"match.all.sync.b32 %r4|%p1, %r2, -1;", "selp.u32 %r5, 1, 0, %p1;", "st.global.b32 [%dst+24], %r4;", "st.global.b32 [%dst+32], %r5;"}, in, out, "bits")
}

func barriers(s *set) {
	const threads = 96
	in := rows("bar", threads, 1)
	var out [][]uint64
	for t := range in {
		in[t][0] &= 0xffffffff
	}
	for t := range in {
		out = append(out, []uint64{in[threads-1-t][0], in[t^1][0] + in[(t+32)%threads][0]&0xffffffff})
		out[t][1] &= 0xffffffff
	}
	locals := []string{".shared .align 4 .b8 memory[384];"}
	s.custom("bar.sync", []string{"bar.sync", "bar.warp.sync"}, 80, nil, locals, []string{
		"ld.global.b32 %r1, [%src];", "mov.u32 %r2, memory;", "mad.lo.u32 %r3, %t, 4, %r2;", "st.shared.b32 [%r3], %r1;", "bar.sync 0;",
		"sub.u32 %r4, 95, %t;", "mad.lo.u32 %r4, %r4, 4, %r2;", "ld.shared.b32 %r5, [%r4];", "st.global.b32 [%dst], %r5;", "bar.sync 1, 96;",
		"st.shared.b32 [%r3], %r1;", "bar.warp.sync -1;", "xor.b32 %r6, %r3, 4;", "ld.shared.b32 %r7, [%r6];", "bar.sync 0;",
		"add.u32 %r8, %t, 32;", "rem.u32 %r8, %r8, 96;", "mad.lo.u32 %r8, %r8, 4, %r2;", "ld.shared.b32 %r9, [%r8];", "add.u32 %r7, %r7, %r9;", "st.global.b32 [%dst+8], %r7;"}, in, out, "bits")
	s.custom("membar", []string{"membar.gl"}, 80, nil, nil, []string{"ld.global.b32 %r1, [%src];", "st.global.b32 [%dst], %r1;", "membar.gl;", "membar.cta;", "ld.global.b32 %r2, [%dst];", "st.global.b32 [%dst+8], %r2;"},
		[][]uint64{{7}, {9}}, [][]uint64{{7, 7}, {9, 9}}, "bits")
}

// atomics give the old value. Where threads share a word, order shows only in what
// each got, so that is written to a place by its value.
func atomics(s *set) {
	word := func(v uint64) uint64 { return v & 0xffffffff }
	ops := []struct {
		op, typ string
		f       func(old, a uint64) uint64
	}{
		{"add", "u32", func(old, a uint64) uint64 { return word(old + a) }},
		{"inc", "u32", func(old, a uint64) uint64 {
			if old >= a {
				return 0
			}
			return old + 1
		}},
		{"exch", "b32", func(_, a uint64) uint64 { return a }},
		{"max", "u32", func(old, a uint64) uint64 { return max(old, a) }},
		{"min", "s32", func(old, a uint64) uint64 {
			if int32(a) < int32(old) {
				return a
			}
			return old
		}},
		{"and", "b32", func(old, a uint64) uint64 { return old & a }},
		{"or", "b32", func(old, a uint64) uint64 { return old | a }},
		{"add", "u64", func(old, a uint64) uint64 { return old + a }},
	}
	for _, o := range ops {
		k := kind(o.typ)
		form := "atom.global." + o.op + "." + o.typ
		in := vectors(form, 64, k, k)
		for i := range in {
			if i%3 == 0 {
				in[i][1] = in[i][0]
			}
		}
		var out [][]uint64
		for _, v := range in {
			out = append(out, []uint64{v[0], k.trunc(o.f(v[0], v[1])), k.trunc(o.f(v[0], v[1]))})
		}
		reg := func(n int) string { return k.register(n) }
		w := k.width()
		body := append(k.load(1, 0), k.load(2, 1)...)
		body = append(body, fmt.Sprintf("st.global.b%d [%%dst+8], %s;", w, reg(1)), fmt.Sprintf("%s %s, [%%dst+8], %s;", form, reg(3), reg(2)), fmt.Sprintf("st.global.b%d [%%dst], %s;", w, reg(3)))
		shared := "atom.shared." + o.op + "." + o.typ
		body = append(append(body, sharedBegin...), fmt.Sprintf("st.shared.b%d [%%r20], %s;", w, reg(1)), fmt.Sprintf("%s %s, [%%r20], %s;", shared, reg(4), reg(2)), fmt.Sprintf("ld.shared.b%d %s, [%%r20];", w, reg(5)), fmt.Sprintf("st.global.b%d [%%dst+16], %s;", w, reg(5)))
		s.custom(form, []string{form, shared}, 80, nil, sharedLocals, body, in, out, "bits")
	}
	in := vectors("cas", 64, "b32", "b32", "b32")
	var out [][]uint64
	for i := range in {
		if i%2 == 0 {
			in[i][1] = in[i][0]
		}
		now := in[i][0]
		if in[i][0] == in[i][1] {
			now = in[i][2]
		}
		out = append(out, []uint64{in[i][0], now})
	}
	s.custom("atom.global.cas.b32", []string{"atom.global.cas.b32"}, 80, nil, nil, []string{"ld.global.b32 %r1, [%src];", "ld.global.b32 %r2, [%src+8];", "ld.global.b32 %r3, [%src+16];", "st.global.b32 [%dst+8], %r1;",
		"atom.global.cas.b32 %r4, [%dst+8], %r2, %r3;", "st.global.b32 [%dst], %r4;"}, in, out, "bits")
	// 64 threads at one word. inc wraps at 15: each value of 0 to 15 is seen 4 times.
	out = nil
	for t := range uint64(64) {
		row := []uint64{1, 64*5 + 1000, 0, 4}
		if t >= 16 {
			row[3] = 0
		}
		out = append(out, row)
	}
	globals := []string{".global .align 4 .u32 counter = 0;", ".global .align 4 .u32 wheel = 0;"}
	locals := []string{".shared .align 8 .b8 sum[8];"}
	s.custom("atomics on one word", []string{"atom.global.add.u32", "atom.global.inc.u32", "atom.shared.add.u32", "red.shared.add.u32"}, 80, globals, locals, []string{
		"mov.u32 %r1, sum;", "setp.eq.u32 %p1, %t, 0;", "@%p1 st.shared.u32 [%r1], 1000;", "bar.sync 0;", "red.shared.add.u32 [%r1], 2;", "atom.shared.add.u32 %r2, [%r1], 3;", "bar.sync 0;",
		"ld.shared.u32 %r3, [%r1];", "st.global.b32 [%dst+8], %r3;",
		"mov.u64 %d1, counter;", "atom.global.add.u32 %r4, [%d1], 1;", "mad.wide.u32 %d2, %r4, 32, %d31;", "red.global.add.u32 [%d2], 1;",
		"mov.u64 %d3, wheel;", "atom.global.inc.u32 %r5, [%d3], 15;", "mad.wide.u32 %d4, %r5, 32, %d31;", "red.global.add.u32 [%d4+24], 1;"}, nil, out, "bits")
}

// branches: lanes leave loops at their own times and early; guards of both signs.
func branches(s *set) {
	in := rows("bra", 64, 1)
	var out [][]uint64
	for i := range in {
		in[i][0] = in[i][0]%90 + 1
		n, steps := in[i][0], uint64(0)
		for n != 1 { // the Collatz sequence
			if n%2 == 0 {
				n /= 2
			} else {
				n = 3*n + 1
			}
			steps++
		}
		row := []uint64{steps, 0, 0}
		if in[i][0]%3 != 0 {
			row[1] = uint64(bits.OnesCount64(in[i][0]))
			row[2] = 1
		}
		out = append(out, row)
	}
	s.custom("branches", []string{"bra", "bra.uni", "ret"}, 80, nil, nil, []string{
		"ld.global.u32 %r1, [%src];", "mov.u32 %r2, %r1;", "mov.u32 %r3, 0;",
		"again:", "setp.eq.u32 %p1, %r2, 1;", "@%p1 bra out;", "add.u32 %r3, %r3, 1;", "and.b32 %r4, %r2, 1;", "setp.eq.u32 %p2, %r4, 0;", "@!%p2 bra odd;",
		"shr.u32 %r2, %r2, 1;", "bra.uni again;", "odd:", "mad.lo.u32 %r2, %r2, 3, 1;", "bra.uni again;", "out:", "st.global.u32 [%dst], %r3;",
		"rem.u32 %r5, %r1, 3;", "setp.eq.u32 %p3, %r5, 0;", "@%p3 ret;", "popc.b32 %r6, %r1;", "st.global.u32 [%dst+8], %r6;", "@!%p3 st.global.u32 [%dst+16], 1;"}, in, out, "bits")
}
