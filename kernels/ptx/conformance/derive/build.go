// Package derive makes the data of package conformance: kernels, inputs and what
// the PTX ISA manual (version 7.8) says that they give. The arithmetic is exact,
// by math/big, and rounded once; layouts of fragments are written down from the
// manual's tables. It shares no code with the interpreter.
package derive

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"hearth/kernels/ptx/conformance"
)

// kind is the type of an operand of a plain instruction.
type kind string

func (k kind) width() int {
	switch k {
	case "u8", "s8", "b8":
		return 8
	case "u16", "s16", "b16", "f16", "bf16":
		return 16
	case "u64", "s64", "b64", "f64":
		return 64
	}
	return 32 // also pred, which lies in memory as 0 or 1
}

// register is the name of the nth register that can hold the kind.
func (k kind) register(n int) string {
	switch w := k.width(); {
	case k == "pred":
		return fmt.Sprintf("%%p%d", n)
	case w <= 16:
		return fmt.Sprintf("%%h%d", n)
	case w == 64:
		return fmt.Sprintf("%%d%d", n)
	}
	return fmt.Sprintf("%%r%d", n)
}

// sext reads a value of the kind with its sign.
func (k kind) sext(v uint64) int64 {
	s := 64 - k.width()
	return int64(v<<s) >> s
}

func (k kind) trunc(v uint64) uint64 { return v & (^uint64(0) >> (64 - k.width())) }

// load and store are the instructions between a slot and registers.
func (k kind) load(n, slot int) []string {
	if k == "pred" {
		return []string{fmt.Sprintf("ld.global.u32 %%r%d, [%%src+%d];", 40+n, 8*slot), fmt.Sprintf("setp.ne.u32 %%p%d, %%r%d, 0;", n, 40+n)}
	}
	return []string{fmt.Sprintf("ld.global.b%d %s, [%%src+%d];", k.width(), k.register(n), 8*slot)}
}

func (k kind) store(n, slot int) []string {
	if k == "pred" {
		return []string{fmt.Sprintf("selp.u32 %%r%d, 1, 0, %%p%d;", 40+n, n), fmt.Sprintf("st.global.u32 [%%dst+%d], %%r%d;", 8*slot, 40+n)}
	}
	return []string{fmt.Sprintf("st.global.b%d [%%dst+%d], %s;", k.width(), 8*slot, k.register(n))}
}

// kernelText is a case's kernel around its body. globals are declared before it,
// locals inside.
func kernelText(target, in, out int, globals, locals, body []string) []string {
	lines := []string{".version 7.8", fmt.Sprintf(".target sm_%d", target), ".address_size 64"}
	lines = append(lines, globals...)
	lines = append(lines, ".visible .entry test(.param .u64 input, .param .u64 output)", "{",
		"\t.reg .pred %p<16>;", "\t.reg .b16 %h<32>;", "\t.reg .b32 %r<64>, %t;", "\t.reg .b64 %d<32>, %src, %dst;")
	for _, l := range locals {
		lines = append(lines, "\t"+l)
	}
	for _, l := range append([]string{"ld.param.u64 %d30, [input];", "cvta.to.global.u64 %d30, %d30;", "ld.param.u64 %d31, [output];", "cvta.to.global.u64 %d31, %d31;", "mov.u32 %t, %tid.x;",
		fmt.Sprintf("mad.wide.u32 %%src, %%t, %d, %%d30;", 8*in), fmt.Sprintf("mad.wide.u32 %%dst, %%t, %d, %%d31;", 8*out)}, body...) {
		lines = append(lines, "\t"+l)
	}
	return append(lines, "\tret;", "}")
}

func hex(rows [][]uint64) (out [][]string) {
	for _, r := range rows {
		var s []string
		for _, v := range r {
			s = append(s, strconv.FormatUint(v, 16))
		}
		out = append(out, s)
	}
	return out
}

// set collects the cases of a family.
type set struct{ cases []conformance.Case }

// custom adds a case with a body of its own. in is by thread; so is out.
func (s *set) custom(name string, forms []string, target int, globals, locals, body []string, in, out [][]uint64, typ string) {
	slots := 1
	if len(in) > 0 {
		slots = len(in[0])
	}
	s.cases = append(s.cases, conformance.Case{Name: name, Forms: forms, Target: target, PTX: kernelText(target, slots, len(out[0]), globals, locals, body), In: hex(in), Out: hex(out), Type: typ})
}

// plain is an instruction without memory or neighbours.
type plain struct {
	form   string
	target int // 0: 80
	dst    kind
	src    []kind
	// operands, if set, is the text of the operands instead of the plain list; %0 is
	// the destination, %1 the first source.
	operands string
	vectors  [][]uint64
	eval     func(a []uint64) uint64
	// exact is instead of eval for approximations, of the kind and bound given.
	exact func(a []uint64) float64
	near  string
	bound float64
}

// plain adds a case with a thread a vector.
func (s *set) plain(p plain) {
	if p.target == 0 {
		p.target = 80
	}
	var body []string
	names := []string{p.dst.register(0)}
	for i, k := range p.src {
		body = append(body, k.load(i+1, i)...)
		names = append(names, k.register(i+1))
	}
	text := strings.Join(names, ", ")
	name := p.form
	if p.operands != "" {
		text = p.operands
		for i := len(names) - 1; i >= 0; i-- {
			text = strings.ReplaceAll(text, "%"+strconv.Itoa(i), names[i])
		}
		name += " " + p.operands
	}
	body = append(body, p.form+" "+text+";")
	body = append(body, p.dst.store(0, 0)...)
	c := conformance.Case{Name: name, Forms: []string{p.form}, Target: p.target, PTX: kernelText(p.target, len(p.src), 1, nil, nil, body), In: hex(p.vectors), Type: "bits"}
	if p.exact != nil {
		c.Type, c.Bound = p.near, p.bound
	}
	for _, v := range p.vectors {
		if p.exact != nil {
			c.Out = append(c.Out, []string{strconv.FormatFloat(p.exact(v), 'g', -1, 64)})
			continue
		}
		c.Out = append(c.Out, []string{strconv.FormatUint(p.dst.trunc(p.eval(v)), 16)})
	}
	switch p.dst {
	case "f32", "f16", "bf16", "f16x2", "bf16x2":
		if p.exact == nil {
			c.Type = string(p.dst)
		}
	}
	s.cases = append(s.cases, c)
}

// random is a source of numbers that is always the same for a name.
func random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 7))
}

// values are the numbers at which a kind may go wrong.
func (k kind) values() []uint64 {
	switch k {
	case "pred":
		return []uint64{0, 1}
	case "f32":
		return []uint64{0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0xbf800000, 0x3f000000, 0x40400000, 0xc0490fdb, 0x3dcccccd, 0x4b000001, 0x4f000000, 0x5f000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x33800000, 0x477fe000}
	case "f16":
		return []uint64{0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3bff, 0x3c00, 0x3c01, 0xbc00, 0x3800, 0x4200, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x2e66, 0x1001}
	case "bf16":
		return []uint64{0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x3f80, 0x3f81, 0xbf80, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x3dcd, 0x4049}
	case "f16x2", "bf16x2":
		var out []uint64
		list := (k[:len(k)-2]).values()
		for i, v := range list {
			out = append(out, v<<16|list[(i*7+3)%len(list)])
		}
		return out
	}
	w := k.width()
	top := uint64(1) << (w - 1)
	out := []uint64{0, 1, 2, 3, top - 1, top, top + 1, top - 1 + top, top - 2 + top, 7, 0x55, 1 << (w / 2), 1<<(w/2) - 1}
	for i, v := range out {
		out[i] = k.trunc(v)
	}
	return out
}

// vectors mixes such numbers with others.
func vectors(name string, n int, kinds ...kind) [][]uint64 {
	rng := random(name)
	var all [][]uint64
	for i := range n {
		v := make([]uint64, len(kinds))
		for j, k := range kinds {
			special := k.values()
			switch {
			case len(kinds) == 1 && i < len(special):
				v[j] = special[i]
			case k == "pred" || rng.IntN(3) > 0 && i < n*2/3:
				v[j] = special[rng.IntN(len(special))]
			case k == "f32" && rng.IntN(2) == 0: // of middle size
				v[j] = uint64(rng.Uint32()&0x807fffff | (115+rng.Uint32N(24))<<23)
			case k == "f16x2" && rng.IntN(2) == 0:
				v[j] = uint64(rng.Uint32()&0x83ff83ff | (12+rng.Uint32N(6))<<10 | (12+rng.Uint32N(6))<<26)
			default:
				v[j] = k.trunc(rng.Uint64())
			}
		}
		all = append(all, v)
	}
	return all
}

// count is how many threads a plain case has.
const count = 64
