package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What ptxas of several versions printed for testdata/gate.cu and two more.
func TestParseVerbose(t *testing.T) {
	gate := []resources{{Name: "integer", Registers: 18}, {Name: "narrow", Registers: 32, Stack: 128}, {Name: "tensor", Registers: 27, Static: 2048}}
	for file, want := range map[string][]resources{
		"gate.sm_90.11.8.txt":  gate,
		"gate.sm_90.12.4.txt":  gate,
		"gate.sm_90.13.0.txt":  gate,
		"gate.sm_89.13.0.txt":  {{Name: "integer", Registers: 16}, {Name: "narrow", Registers: 40, Stack: 128}, {Name: "tensor", Registers: 28, Static: 2048}},
		"spill.sm_80.13.0.txt": {{Name: "spilly", Registers: 32, Stack: 720, SpillStores: 1556, SpillLoads: 1588}},
		"call.sm_80.13.0.txt":  {{Name: "f", Registers: 26, Stack: 80}, {Name: "_ZN28_INTERNAL_00000000_4_c_cu_cc30_GLOBAL__N__00000000_4_c_cu_cc1gEf"}},
	} {
		arch := strings.Split(file, ".")[1]
		got, err := parseVerbose([]byte(read(t, file)), arch)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, %v, wanted %+v", file, got, err, want)
		}
	}
}

func TestParseVerboseRefuses(t *testing.T) {
	good := read(t, "gate.sm_89.13.0.txt")
	for what, text := range map[string]string{
		"another architecture": strings.ReplaceAll(good, "sm_89", "sm_86"),
		"no usage":             strings.Replace(good, "Used 40", "used 40", 1),
		"no usage at the end":  strings.Replace(good, "Used 28", "used 28", 1),
		"no stack frame":       strings.Replace(good, "128 bytes stack frame", "128 bytes frame", 1), // though its cumulative size is there,
		"a frame of nobody":    strings.Replace(good, "Function properties for narrow", "", 1),
		"usage of no entry":    strings.Replace(good, "Compiling entry function 'narrow'", "", 1),
	} {
		if got, err := parseVerbose([]byte(text), "sm_89"); err == nil {
			t.Errorf("%s: accepted as %+v", what, got)
		}
	}
}

func TestParseEntries(t *testing.T) {
	got := parseEntries(`
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b8 dynamics[4];
.visible .entry one(
	.param .u64 one_param_0
)
.maxntid 16, 8, 1
.minnctapersm 2
{
	ld.shared.u8 	%r17, [dynamic+4];
}
.weak .entry two(
)
.reqntid 96
{
	ld.global.u8 	%r17, [dynamics];
	{
	}
}
.func three(
)
{
	mov.u64 %rd1, dynamic;
}
.entry four()
{
	mov.u32 %r1, dynamic;
}
`)
	want := []entry{{"one", 128, true}, {"two", 96, false}, {"four", 0, true}}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v, wanted %+v", got, want)
	}
}
