package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/ptx"
)

func cases(t *testing.T) []Case {
	t.Helper()
	all, err := Cases()
	if err != nil || len(all) == 0 {
		t.Fatalf("got %d cases: %v", len(all), err)
	}
	return all
}

// The interpreter conforms.
func TestInterpreter(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			g := cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Checks: true, Memory: 1 << 20}})
			r, err := Run(g, &c)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range r.Wrong {
				if i == 6 {
					t.Errorf("and %d more", len(r.Wrong)-i)
					break
				}
				t.Error(w)
			}
		})
	}
}

// instruction finds an instruction's full name in a line of PTX.
var instruction = regexp.MustCompile(`(?:^|[{;])\s*(?:@!?%[\w$]+\s+)?([a-z][a-z0-9_]*(?:(?:\.|::)[a-zA-Z0-9_]+)*)(?:\s|;)`)

// forms are the full names of the instructions in a text.
func forms(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		for _, m := range instruction.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
			all[m[1]] = true
		}
	}
	return all
}

// Every instruction of the kernels that ship has a case.
func TestEveryInstruction(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range cases(t) {
		text := forms(strings.Join(c.PTX, "\n"))
		for _, f := range c.Forms {
			if !text[f] {
				t.Errorf("case %s does not use %s", c.Name, f)
			}
			covered[f] = true
		}
	}
	files, err := filepath.Glob("../../cuda/ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files of PTX: %v", len(files), err)
	}
	missing := map[string][]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for form := range forms(string(b)) {
			if !covered[form] {
				missing[form] = append(missing[form], filepath.Base(f))
			}
		}
	}
	for form, in := range missing {
		t.Errorf("%s has no case; it is in %s", form, strings.Join(in, ", "))
	}
}

// The comparison sees what differs.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		typ, want, got string
		bound          float64
		ok             bool
	}{
		{"bits", "7fffffff", "7fc00000", 0, false},
		{"f32", "7fffffff", "ffc00001", 0, true},
		{"f32", "7fffffff", "7f800000", 0, false},
		{"f32", "0", "80000000", 0, false},
		{"f16", "7fff", "7e00", 0, true},
		{"f16x2", "7fff0001", "7e000001", 0, true},
		{"f16x2", "7fff0001", "7e000002", 0, false},
		{"bf16x2", "17fff", "17f80", 0, false},
		{"relative", "1", "3f800001", 0x1p-22, true},
		{"relative", "1", "3f800004", 0x1p-22, false},
		{"relative", "0", "80000000", 0x1p-22, false},
		{"relative", "NaN", "7fffffff", 0x1p-22, true},
		{"relative", "+Inf", "7f7fffff", 0x1p-22, false},
		{"ulp", "3", "40400001", 1, true},
		{"ulp", "3", "40400002", 1, false},
		{"absolute", "0.5", "3f000010", 0x1p-20, true},
		{"absolute", "0.5", "3f000020", 0x1p-20, false},
	} {
		x := Case{Out: [][]string{{c.want}}, Type: c.typ, Bound: c.bound}
		if wrong := Compare(&x, [][]string{{c.got}}); (len(wrong) == 0) != c.ok {
			t.Errorf("%s: %s for %s: got %v, wanted agreement %v", c.typ, c.got, c.want, wrong, c.ok)
		}
	}
}

// siblings are instructions that are easily taken for one another.
var siblings = [][2]string{
	{"atom.global.add", "atom.global.exch"}, {"atom.global.and", "atom.global.or"}, {"atom.global.or", "atom.global.xor"}, {"add.", "sub."}, {"sub.", "add."}, {"fma.rn.", "fma.rz."}, {"fma.rz.", "fma.rm."}, {"fma.rm.", "fma.rp."}, {"fma.rp.", "fma.rn."},
	{"mul.rn.f32", "mul.rz.f32"}, {"mul.f32", "mul.rp.f32"}, {"mul.rz.f32", "mul.rn.f32"}, {"mul.rm.f32", "mul.rp.f32"}, {"mul.rp.f32", "mul.rm.f32"},
	{"mul.lo.", "mul.hi."}, {"mul.hi.s32", "mul.hi.u32"}, {"mul.hi.u32", "mul.hi.s32"}, {"mul.hi.u64", "mul.hi.s64"}, {"mul.wide.s", "mul.wide.u"}, {"mul.wide.u", "mul.wide.s"},
	{"mad.lo.s32 %r0", "mad.hi.s32 %r0"}, {"div.rn.f32", "mul.rn.f32"}, {"div.s", "div.u"}, {"div.u", "div.s"}, {"rem.s", "rem.u"}, {"rem.u", "rem.s"},
	{"max.NaN", "max"}, {"min.NaN", "min"}, {"max.s32", "max.u32"}, {"max.u32", "max.s32"}, {"min.s32", "min.u32"}, {"min.u32", "min.s32"}, {"max.f32", "min.f32"}, {"min.f32", "max.f32"},
	{"abs.f32", "neg.f32"}, {"neg.f32", "abs.f32"}, {"copysign.f32 %r0, %r1, %r2", "copysign.f32 %r0, %r2, %r1"}, {".ftz.f32", ".f32"},
	{"and.", "or."}, {"xor.", "or."}, {"or.", "xor."}, {"not.", "mov."}, {"dp4a.s32.s32", "dp4a.u32.s32"}, {"dp4a.u32.u32", "dp4a.s32.u32"}, {"dp4a.s32.u32", "dp4a.s32.s32"},
	{"shl.b", "shr.u"}, {"shr.s", "shr.u"}, {"shr.u", "shr.s"}, {".wrap", ".clamp"}, {".clamp", ".wrap"}, {"bfe.u32", "bfe.s32"}, {"bfe.s32", "bfe.u32"},
	{"prmt.b32.f4e", "prmt.b32.b4e"}, {"prmt.b32.b4e", "prmt.b32.f4e"}, {"prmt.b32.ecl", "prmt.b32.ecr"}, {"prmt.b32.ecr", "prmt.b32.ecl"}, {"prmt.b32.rc8", "prmt.b32.rc16"}, {"prmt.b32.rc16", "prmt.b32.rc8"}, {"prmt.b32 %r0", "prmt.b32.f4e %r0"},
	{"setp.lt.f", "setp.ltu.f"}, {"setp.ltu", "setp.lt"}, {"setp.leu", "setp.le"}, {"setp.gtu", "setp.gt"}, {"setp.geu", "setp.ge"}, {"setp.equ", "setp.eq"}, {"setp.neu", "setp.ne"}, {"setp.num", "setp.nan"}, {"setp.nan", "setp.num"},
	{"setp.lt.s", "setp.lt.u"}, {"setp.lt.u", "setp.le.u"}, {"setp.le.", "setp.lt."}, {"setp.gt.s", "setp.gt.u"}, {"setp.gt.u", "setp.ge.u"}, {"setp.gt.f", "setp.ge.f"}, {"setp.ge.", "setp.gt."}, {"setp.eq.", "setp.ne."},
	{"cvt.rn.f16.", "cvt.rz.f16."}, {"cvt.rz.f16.", "cvt.rn.f16."}, {"cvt.rn.bf16.", "cvt.rz.bf16."}, {"cvt.rn.f16x2.f32 ", "cvt.rz.f16x2.f32 "}, {"cvt.rn.bf16x2.f32 ", "cvt.rz.bf16x2.f32 "}, {"cvt.rn.f32.s", "cvt.rn.f32.u"}, {"cvt.rn.f32.u", "cvt.rn.f32.s"},
	{"cvt.rni.", "cvt.rzi."}, {"cvt.rzi.", "cvt.rni."}, {"cvt.rmi.", "cvt.rpi."}, {"cvt.rpi.", "cvt.rmi."}, {"cvt.sat.", "cvt."}, {"cvt.s16.s8", "cvt.s16.u8"}, {"cvt.s64.s32", "cvt.s64.u32"}, {"cvt.s32.s8", "cvt.s32.u8"}, {"cvt.s32.s16", "cvt.s32.u16"}, {"cvt.u32.u16", "cvt.u32.s16"}, {"cvt.u64.u32", "cvt.u64.s32"}, {"e4m3", "e5m2"}, {"e5m2", "e4m3"},
	{".bfly.", ".down."}, {".down.", ".up."}, {".up.", ".down."}, {".idx.", ".bfly."}, {".trans.", "."}, {".m8n8.x4.shared", ".m8n8.x4.trans.shared"}, {".m8n8.x2.shared", ".m8n8.x2.trans.shared"}, {".m8n8.x1.shared", ".m8n8.x1.trans.shared"},
	{"bf16.bf16", "f16.f16"}, {".f16.f16.f32", ".bf16.bf16.f32"}, {".s8.s8", ".u8.s8"}, {"match.any", "match.all"}, {"vote.sync.any", "vote.sync.all"},
	{"16, %r1;", "16;"}, {"8, %r1;", "8;"}, {"4, %r1;", "4;"},
}

// mutant gives a case's kernel with an instruction taken for its sibling.
func mutant(c *Case) (lines []string, ok bool) {
	pairs := slices.Clone(siblings)
	for _, space := range []string{"global", "global.nc", "global.cg", "shared", "const"} {
		for _, w := range []string{"8 ", "16 "} {
			pairs = append(pairs, [2]string{"ld." + space + ".u" + w, "ld." + space + ".s" + w}, [2]string{"ld." + space + ".s" + w, "ld." + space + ".u" + w})
		}
	}
	for _, s := range pairs {
		for i, l := range c.PTX {
			if slices.ContainsFunc(c.Forms, func(f string) bool { return strings.Contains(l, f) }) && strings.Contains(l, s[0]) {
				lines = slices.Clone(c.PTX)
				lines[i] = strings.Replace(l, s[0], s[1], 1)
				return lines, true
			}
		}
	}
	return nil, false
}

// A machine that takes an instruction for another is found out.
func TestCasesCanFail(t *testing.T) {
	told := map[string]bool{} // by instruction: whether a case of it did
	for _, c := range cases(t) {
		lines, ok := mutant(&c)
		if !ok {
			continue
		}
		c.PTX = lines
		r, err := Run(cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Memory: 1 << 20}}), &c)
		if err != nil {
			continue // the sibling does not exist with these types, or is noticed at once
		}
		told[c.Forms[0]] = told[c.Forms[0]] || len(r.Wrong) > 0
	}
	for form, ok := range told {
		if !ok {
			t.Errorf("no case of %s tells it from its sibling", form)
		}
	}
	if len(told) < 150 {
		t.Errorf("only %d instructions had a sibling", len(told))
	}
	t.Logf("%d instructions were told from their siblings", len(told))
}

// Results are kept in a form that can be read.
func TestGoldenForm(t *testing.T) {
	want := []Result{{Case: "add.s32", Out: [][]string{{"1"}, {"ffffffff"}}, Wrong: []string{"not kept"}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Golden(b)
	if want[0].Wrong = nil; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Golden(b[:len(b)-5]); err == nil {
		t.Error("a file that breaks off was read")
	}
}

// Where a GPU has been asked, the cases and the interpreter say what it said.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("golden/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("SKIPPED: no GPU's outputs are kept in golden/ yet")
	}
	byName := map[string]Case{}
	for _, c := range cases(t) {
		byName[c.Name] = c
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Golden(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			c, ok := byName[r.Case]
			if !ok {
				continue // a case that has gone
			}
			if wrong := Compare(&c, r.Out); len(wrong) > 0 {
				t.Errorf("%s: %s: the GPU differs: %s", f, r.Case, wrong[0])
			}
			if c.Bound > 0 {
				continue
			}
			c.Out = r.Out
			got, err := Run(cudatest.New(cudatest.Options{Compute: 90, Machine: ptx.Options{Memory: 1 << 20}}), &c)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Wrong) > 0 {
				t.Errorf("%s: %s: the interpreter differs from the GPU: %s", f, r.Case, got.Wrong[0])
			}
		}
	}
}
