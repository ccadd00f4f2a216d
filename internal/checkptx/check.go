package main

import (
	"fmt"
	"maps"
	"slices"
)

// check holds what was measured against the budgets. Every line it returns is a
// reason to fail.
func check(all result, budgets map[key]*budget) []string {
	var faults []string
	fail := func(k key, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%v: %s", k, fmt.Sprintf(format, args...)))
	}
	for _, k := range sortedKeys(budgets) {
		if all[k] == nil {
			fail(k, "it has a budget and is in no PTX")
		}
	}
	for _, k := range sortedKeys(all) {
		b := budgets[k]
		if b == nil {
			fail(k, "it has no budget")
			continue
		}
		for _, p := range pairs {
			if got := all[k][p]; got == nil {
				fail(k, "not measured on %v", p)
			} else {
				for _, fault := range checkOne(got, b, p) {
					fail(k, "on %v: %s", p, fault)
				}
			}
		}
	}
	return faults
}

func checkOne(got *measured, b *budget, p pair) (faults []string) {
	fail := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if got.local != "" {
		fail("local memory: %s", got.local)
	}
	if got.oldLocal > b.OldLocal {
		fail("%d bytes of local memory with an older ptxas, wanted at most %d", got.oldLocal, b.OldLocal)
	}
	if got.mix.Local > 0 {
		fail("%d LDL and STL", got.mix.Local)
	}
	for _, h := range b.Has {
		if !got.mix.Has[h] {
			fail("no %s in its machine code", h)
		}
	}
	if got.mix.Narrow > b.Narrow {
		fail("%d global loads of less than 4 bytes within loops, wanted at most %d", got.mix.Narrow, b.Narrow)
	}
	if got.static > b.Shared {
		fail("%d bytes of static shared memory, wanted at most %d", got.static, b.Shared)
	}
	if got.entry.threads != 0 && got.entry.threads != b.Threads {
		fail("its PTX has blocks of %d threads, its budget of %d", got.entry.threads, b.Threads)
	}
	l, ok := b.On[p.String()]
	if !ok {
		fail("no budget for this device")
		return faults
	}
	if got.registers > l.Registers {
		fail("%d registers, wanted at most %d", got.registers, l.Registers)
	}
	if got.entry.dynamic && l.Dynamic == 0 {
		fail("it uses dynamic shared memory and its budget has none: put the most that a launch gives it into \"dynamic\"")
	}
	blocks, err := blocksPerSM(p.cc, usage{threads: b.Threads, registers: got.registers, static: got.static, dynamic: l.Dynamic})
	switch {
	case err != nil:
		fail("%v: put its block size into \"threads\"", err)
	case blocks == 0:
		fail("a block of it does not fit on an SM")
	case blocks < l.Blocks:
		fail("%d blocks on an SM, wanted at least %d", blocks, l.Blocks)
	}
	return faults
}

// headroom is how many registers more than measured a budget allows, as far as
// they cost no block.
const headroom = 4

// update makes budgets of what was measured, and of what launches ask for:
// dynamic shared memory, and the threads of a block where the PTX has no bound.
// Where no launch is known both stay as they were.
func update(all result, old map[key]*budget, asked uses) map[key]*budget {
	budgets := map[key]*budget{}
	for k, on := range all {
		b := &budget{Module: k.module, Kernel: k.kernel, On: map[string]limit{}, Has: []string{}}
		was := old[k]
		if was == nil {
			was = &budget{}
		}
		b.Threads = was.Threads
		has := map[string]int{}
		for p, got := range on {
			if got.entry.threads != 0 {
				b.Threads = got.entry.threads
			}
			b.Shared, b.Narrow, b.OldLocal = max(b.Shared, got.static), max(b.Narrow, got.mix.Narrow), max(b.OldLocal, got.oldLocal)
			for h := range got.mix.Has {
				has[h]++
			}
			l := limit{Registers: got.registers, Dynamic: was.On[p.String()].Dynamic}
			if u, ok := asked.of(k, p); ok {
				l.Dynamic = u.Dynamic
				if got.entry.threads == 0 {
					b.Threads = u.Threads
				}
			}
			u := usage{threads: b.Threads, registers: l.Registers, static: got.static, dynamic: l.Dynamic}
			l.Blocks, _ = blocksPerSM(p.cc, u) // unknown threads: check says it
			for range headroom {
				u.registers = l.Registers + 1
				if n, err := blocksPerSM(p.cc, u); err != nil || n < l.Blocks || n == 0 {
					break
				}
				l.Registers++
			}
			b.On[p.String()] = l
		}
		for _, h := range slices.Sorted(maps.Keys(has)) {
			if has[h] == len(on) { // on every device
				b.Has = append(b.Has, h)
			}
		}
		budgets[k] = b
	}
	return budgets
}
