package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func functions(t *testing.T, file string) map[string]*function {
	t.Helper()
	list, err := parseSASS(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*function{}
	for _, f := range list {
		all[f.name] = f
	}
	return all
}

// The counts are those that grep finds in the text.
func TestMix(t *testing.T) {
	all := functions(t, "gate.sm_89.sass")
	if len(all) != 3 {
		t.Fatalf("got %d functions, wanted 3", len(all))
	}
	for name, want := range map[string]struct {
		local, narrow int
		has           []string
	}{
		"integer": {0, 0, []string{"IDP", "IMMA"}}, // its byte is read outside of loops
		"narrow":  {50, 5, nil},
		"tensor":  {0, 0, []string{"HMMA", "LDGSTS.128", "LDSM"}},
	} {
		m := all[name].mix()
		if has := slices.Sorted(maps.Keys(m.Has)); m.Local != want.local || m.Narrow != want.narrow || !slices.Equal(has, want.has) {
			t.Errorf("%s: got %d local, %d narrow, %v, wanted %+v", name, m.Local, m.Narrow, has, want)
		}
	}
}

// The file has two loops. From each of them divergent shuffles and a division's
// slow path, which lie behind the end, jump back and forth: these are rare paths
// within the loop's body, or of no loop.
func TestLoopsHeedDominance(t *testing.T) {
	f := functions(t, "division.sm_90.sass")["divs"]
	in := f.inLoops()
	at := func(label string) bool { return in[f.labels[label]] }
	for label, want := range map[string]bool{
		"divs":    false, // the begin
		".L_x_26": true,  // head of the loop unrolled four times
		".L_x_22": true,
		".L_x_1":  false, // between the loops
		".L_x_34": true,  // head of the loop of the rest
		".L_x_0":  false, // the store at the end
		".L_x_76": false, // jumps to itself, but nothing comes there
	} {
		if at(label) != want {
			t.Errorf("%s: in a loop: %v, wanted %v", label, at(label), want)
		}
	}
	inside := 0
	for i, yes := range in {
		if yes && strings.HasPrefix(f.code[i].op, "LDG") {
			inside++
		}
	}
	if inside != 5 {
		t.Errorf("got %d loads within loops, wanted 5", inside)
	}
}

func TestJumpBackOfNoLoop(t *testing.T) {
	list, err := parseSASS("\t.section\t.text.k,\"ax\",@progbits\n" +
		"k:\n\t/*0000*/ BRA.DIV UR4, `(.far) ;\n.back:\n\t/*0010*/ LDG.E.U8 R0, [R2.64] ;\n\t/*0020*/ EXIT ;\n" +
		".far:\n\t/*0030*/ SHFL.BFLY P0, R1, R2, R3, R4 ;\n\t/*0040*/ BRA `(.back) ;\n")
	if err != nil {
		t.Fatal(err)
	}
	if m := list[0].mix(); m.Narrow != 0 {
		t.Fatalf("got %d narrow loads in loops, wanted none", m.Narrow)
	}
}

// A switch goes to the targets that are listed: here back to a loop's head, and out.
func TestSwitch(t *testing.T) {
	list, err := parseSASS("\t.section\t.text.k,\"ax\",@progbits\nk:\n.head:\n\t/*0000*/ LDG.E.U8 R0, [R2.64] ;\n" +
		"\t/*0010*/ BRX R6 -0x360 (*\"BRANCH_TARGETS .head,.out\"*);\n\t/*0020*/ LDG.E.U16 R0, [R2.64] ;\n.out:\n\t/*0030*/ LDG.E.U8 R0, [R2.64] ;\n\t/*0040*/ EXIT ;\n")
	if err != nil {
		t.Fatal(err)
	}
	if in := list[0].inLoops(); !in[0] || !in[1] || in[2] || in[3] {
		t.Fatalf("got %v, wanted the first two in a loop", in)
	}
}

// Code that never executes is not counted: the compiler pads asynchronous copies
// with it.
func TestNeverExecuted(t *testing.T) {
	list, err := parseSASS("\t.section\t.text.k,\"ax\",@progbits\nk:\n\t/*0000*/ @!PT LDL RZ, [RZ] ;\n\t/*0010*/ @!P0 LDL R0, [R1] ;\n\t/*0020*/ EXIT ;\n")
	if err != nil {
		t.Fatal(err)
	}
	if m := list[0].mix(); m.Local != 1 {
		t.Fatalf("got %d, wanted 1", m.Local)
	}
}

func TestParseSASSRefuses(t *testing.T) {
	head := "\t.section\t.text.k,\"ax\",@progbits\nk:\n"
	for what, text := range map[string]string{
		"an indirect jump":    head + "\t/*0000*/ BRX R2 -0x10 ;\n",
		"a jump to nowhere":   head + "\t/*0000*/ BRA `(.L_x_1) ;\n",
		"a jump with no name": head + "\t/*0000*/ BRA 0x140 ;\n",
		"another form":        head + "\t/*0000*/ bra somewhere\n",
	} {
		if _, err := parseSASS(text); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}
