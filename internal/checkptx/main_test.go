package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script writes a program that stands in for one of the toolkit's.
func script(t *testing.T, name, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// From PTX files to the verdict, with programs that print what the real ones
// printed: first no budgets, then those that update makes, then a device
// compiler that refuses.
func TestRun(t *testing.T) {
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const ptx = ".visible .entry tensor(\n)\n.maxntid 128\n{\n}\n"
	for _, target := range []int{80, 90} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("gate.compute_%d.ptx", target)), []byte(ptx), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ptxas := script(t, "ptxas", `for a; do case $a in -arch=*) sm=${a#-arch=};; esac; done; sed "s/sm_89/$sm/" `+here+`/gate.sm_89.13.0.txt`)
	tl := tools{ptxas: map[string]string{"11.8": ptxas, "13.0": ptxas}, oldest: "11.8", newest: "13.0", nvdisasm: script(t, "nvdisasm", "cat "+here+"/gate.sm_89.sass")}
	file := filepath.Join(dir, "budgets.json")
	launched := uses{key{"gate", "tensor"}: {}}
	for cc := range devices {
		launched[key{"gate", "tensor"}][cc] = use{threads: 128}
	}
	if err := run(tl, dir, file, launched, false, true); err == nil || !strings.Contains(err.Error(), "1 faults in 1 kernels") {
		t.Fatalf("without budgets: got %v", err)
	}
	if err := run(tl, dir, file, launched, true, false); err != nil {
		t.Fatalf("update: %v", err)
	}
	if err := run(tl, dir, file, launched, false, true); err != nil {
		t.Fatalf("with budgets: %v", err)
	}
	// What was answered is not asked again.
	tl.answers = cache(filepath.Join(dir, "answers"))
	for range 2 {
		if err := run(tl, dir, file, launched, false, true); err != nil {
			t.Fatalf("with answers: %v", err)
		}
		tl.ptxas["11.8"], tl.ptxas["13.0"] = "/nowhere", "/nowhere"
	}
	tl.answers = ""
	tl.ptxas["13.0"] = ptxas
	tl.ptxas["11.8"] = script(t, "refuses", "echo 'Unsupported .version' >&2; exit 255")
	if err := run(tl, dir, file, launched, false, true); err == nil || !strings.Contains(err.Error(), "3 faults") {
		t.Fatalf("one refuses: got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "gate.compute_90.ptx")); err != nil {
		t.Fatal(err)
	}
	if err := run(tl, dir, file, launched, false, true); err == nil || !strings.Contains(err.Error(), "compute_90") {
		t.Fatalf("one target: got %v", err)
	}
}

// Every kernel of the committed PTX has a budget for what package kernel launches,
// and every budget a kernel: this much needs no toolkit.
func TestEveryKernelHasABudget(t *testing.T) {
	mods, err := readModules("../../kernels/cuda/ptx")
	if err != nil {
		t.Fatal(err)
	}
	budgets, err := readBudgets("../../kernels/cuda/budgets.json")
	if err != nil {
		t.Fatal(err)
	}
	asked, kernels := allUses(), map[key]bool{}
	for _, m := range mods {
		for _, e := range m.entries {
			k := key{m.name, e.name}
			kernels[k] = true
			b := budgets[k]
			if asked[k] == nil {
				t.Errorf("package kernel launches %v for no shape of launches.go", k)
			}
			if b == nil {
				t.Errorf("%v has no budget: .ci/ptx --update", k)
				continue
			}
			if e.threads != 0 && e.threads != b.Threads {
				t.Errorf("%v: its PTX has blocks of %d threads, its budget of %d: .ci/ptx --update", k, e.threads, b.Threads)
			}
			for _, p := range pairs {
				for _, fault := range checkUse(asked, k, e, b, p) {
					t.Errorf("%v on %v: %s: .ci/ptx --update", k, p, fault)
				}
			}
		}
	}
	for k := range budgets {
		if !kernels[k] {
			t.Errorf("%v has a budget and is in no PTX", k)
		}
	}
	for k := range asked {
		if !kernels[k] {
			t.Errorf("package kernel launches %v, which is in no PTX", k)
		}
	}
	if len(kernels) == 0 {
		t.Error("no PTX is committed")
	}
}
