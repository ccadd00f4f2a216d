// Checkptx asks the assemblers of five CUDA versions what they make of the PTX
// that is committed: the nearest thing to the drivers' compilers on a machine
// without a GPU. It fails on what they refuse, on local memory, and on a kernel
// that has no budget or costs more than it: registers, shared memory, blocks
// resident on an SM, instructions that should be there or should not.
//
//	go run ./internal/checkptx -ptxas 11.8=PATH -ptxas 13.0=PATH … -nvdisasm PATH [-update]
//
// .ci/ptx fetches the programs and runs it.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	t := tools{ptxas: map[string]string{}}
	dir := flag.String("dir", "kernels/cuda/ptx", "the `folder` of PTX files")
	file := flag.String("budgets", "kernels/cuda/budgets.json", "the budgets")
	write := flag.Bool("update", false, "make the budgets of what is measured")
	quiet := flag.Bool("quiet", false, "no table of what is measured")
	flag.BoolVar(&t.every, "every", false, "ask every version for every device")
	answers := flag.String("cache", "", "keep the assemblers' answers in this `folder`")
	flag.StringVar(&t.nvdisasm, "nvdisasm", "nvdisasm", "the disassembler")
	flag.Func("ptxas", "an assembler, as `VERSION=PATH`; may be given several times, from the oldest to the newest, whose code is counted", func(s string) error {
		version, path, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("got %q, wanted VERSION=PATH", s)
		}
		t.ptxas[version], t.newest, t.oldest = path, version, cmp.Or(t.oldest, version)
		return nil
	})
	flag.Parse()
	t.answers = cache(*answers)
	if err := run(t, *dir, *file, allUses(), *write, *quiet); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(t tools, dir, file string, asked uses, write, quiet bool) error {
	if len(t.ptxas) == 0 {
		return fmt.Errorf("cannot check: got no ptxas, wanted at least one -ptxas VERSION=PATH")
	}
	mods, err := readModules(dir)
	if err != nil {
		return err
	}
	if len(mods) == 0 {
		return fmt.Errorf("cannot check: got no PTX in %s", dir)
	}
	budgets, err := readBudgets(file)
	if err != nil {
		return err
	}
	all, faults, err := measure(mods, t)
	if err != nil {
		return err
	}
	if !quiet {
		table(all, budgets)
	}
	if write && len(faults) == 0 {
		budgets = update(all, asked)
		if err := writeBudgets(file, budgets); err != nil {
			return err
		}
	}
	faults = append(faults, check(all, budgets, asked)...)
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, "FAIL", f)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d faults in %d kernels", len(faults), len(all))
	}
	fmt.Printf("%d kernels of %d files: accepted by ptxas %s, within their budgets on 8.0, 8.6, 8.9 and 9.0\n",
		len(all), len(mods), strings.Join(slices.SortedFunc(maps.Keys(t.ptxas), byVersion), ", "))
	return nil
}

// table prints a line a kernel: registers and resident blocks on each device.
func table(all result, budgets map[key]*budget) {
	fmt.Printf("%-56s %8s", "registers/blocks an SM", "shared B")
	for _, p := range pairs {
		fmt.Printf(" %10s", p)
	}
	fmt.Println()
	for _, k := range sortedKeys(all) {
		shared := 0
		var cells strings.Builder
		for _, p := range pairs {
			got := all[k][p]
			if got == nil {
				fmt.Fprintf(&cells, " %10s", "-")
				continue
			}
			u := usage{threads: got.entry.threads, registers: got.registers, static: got.static}
			if b := budgets[k]; b != nil {
				u.threads, u.dynamic = b.Threads, b.On[p.String()].Dynamic
			}
			shared = max(shared, u.static+u.dynamic)
			blocks, err := blocksPerSM(p.cc, u)
			if err != nil {
				fmt.Fprintf(&cells, " %10s", fmt.Sprintf("%d/?", got.registers))
			} else {
				fmt.Fprintf(&cells, " %10s", fmt.Sprintf("%d/%d", got.registers, blocks))
			}
		}
		fmt.Printf("%-56s %8d%s\n", k, shared, &cells)
	}
}

// byVersion orders 8.9 before 12.0.
func byVersion(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
