package main

import (
	"fmt"
	"maps"
	"slices"
)

// check holds what was measured, and what launches may ask for, against the
// budgets. Every line it returns is a reason to fail.
func check(all result, budgets map[key]*budget, asked uses) []string {
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
			got := all[k][p]
			if got == nil {
				fail(k, "not measured on %v", p)
				continue
			}
			for _, fault := range append(checkOne(got, b, p), checkUse(asked, k, got.entry, b, p)...) {
				fail(k, "on %v: %s", p, fault)
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
	u := usage{threads: b.Threads, registers: got.registers, static: got.static, dynamic: l.Dynamic}
	light := u
	light.dynamic = l.Least
	blocks, err := blocksPerSM(p.cc, u)
	most, _ := blocksPerSM(p.cc, light)
	switch {
	case err != nil:
		fail("%v: put its block size into \"threads\"", err)
	case blocks == 0:
		fail("a block of it does not fit on an SM")
	case blocks < l.Blocks:
		fail("%d blocks on an SM, wanted at least %d", blocks, l.Blocks)
	case most < l.MostBlocks:
		fail("%d blocks on an SM with the least shared memory, wanted at least %d", most, l.MostBlocks)
	}
	return faults
}

// checkUse holds what launches may ask for against the PTX and the budget.
func checkUse(asked uses, k key, e entry, b *budget, p pair) (faults []string) {
	fail := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	u, err := asked.of(k, p.cc)
	if err != nil {
		return []string{err.Error()}
	}
	if l := b.On[p.String()]; u.most > l.Dynamic || u.least < l.Least {
		fail("launches ask for %d to %d bytes of dynamic shared memory, its budget is for %d to %d", u.least, u.most, l.Least, l.Dynamic)
	}
	if u.most > 0 && !e.dynamic {
		fail("launches ask for %d bytes of dynamic shared memory, and its PTX uses none", u.most)
	}
	if e.dynamic && u.least == 0 {
		fail("its PTX uses dynamic shared memory, and launches ask for none")
	}
	if u.threads > b.Threads {
		fail("launches have blocks of %d threads, its budget is for %d", u.threads, b.Threads)
	}
	return faults
}

// headroom is how many registers more than measured a budget allows, as far as
// they cost no block.
const headroom = 4

// update makes budgets of what was measured, and of what launches may ask for:
// dynamic shared memory, and the threads of a block where the PTX has no bound.
func update(all result, asked uses) map[key]*budget {
	budgets := map[key]*budget{}
	for k, on := range all {
		b := &budget{Module: k.module, Kernel: k.kernel, On: map[string]limit{}, Has: []string{}}
		has := map[string]int{}
		for p, got := range on {
			u, _ := asked.of(k, p.cc) // check says what is not asked
			if b.Threads = got.entry.threads; b.Threads == 0 {
				b.Threads = u.threads
			}
			b.Shared, b.Narrow, b.OldLocal = max(b.Shared, got.static), max(b.Narrow, got.mix.Narrow), max(b.OldLocal, got.oldLocal)
			for h := range got.mix.Has {
				has[h]++
			}
			b.On[p.String()] = limitOf(got, b.Threads, u, p)
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

// limitOf is what a kernel costs on a device, with headroom.
func limitOf(got *measured, threads int, asked use, p pair) limit {
	l := limit{Registers: got.registers, Dynamic: asked.most, Least: asked.least}
	resident := func(registers, dynamic int) int {
		n, _ := blocksPerSM(p.cc, usage{threads: threads, registers: registers, static: got.static, dynamic: dynamic}) // check says what is wrong
		return n
	}
	l.Blocks, l.MostBlocks = resident(l.Registers, l.Dynamic), resident(l.Registers, l.Least)
	for range headroom {
		if resident(l.Registers+1, l.Dynamic) < max(l.Blocks, 1) || resident(l.Registers+1, l.Least) < l.MostBlocks {
			break
		}
		l.Registers++
	}
	if l.Least == l.Dynamic {
		l.MostBlocks = 0 // the same
	}
	return l
}
