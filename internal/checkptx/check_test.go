package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var someKey = key{"m", "k"}

// good is a kernel on all devices with a budget that it keeps.
func good() (result, map[key]*budget) {
	all := result{someKey: {}}
	b := &budget{Module: "m", Kernel: "k", Threads: 128, Shared: 2048, Has: []string{"HMMA"}, Narrow: 1, On: map[string]limit{}}
	for _, p := range pairs {
		all[someKey][p] = &measured{
			entry: entry{name: "k", threads: 128, dynamic: true}, registers: 64, static: 2048,
			mix: mix{Narrow: 1, Has: map[string]bool{"HMMA": true}},
		}
		b.On[p.String()] = limit{Registers: 64, Dynamic: 16384, Least: 4096, Blocks: 5, MostBlocks: 8}
	}
	return all, map[key]*budget{someKey: b}
}

// asked is what launches of it ask for.
func asked() uses {
	u := uses{someKey: {}}
	for cc := range devices {
		u[someKey][cc] = use{threads: 128, least: 4096, most: 16384}
	}
	return u
}

// Each gate fails by itself, and nothing fails without cause.
func TestGates(t *testing.T) {
	all, budgets := good()
	if faults := check(all, budgets, asked()); len(faults) != 0 {
		t.Fatalf("good: %v", faults)
	}
	p := pair{80, 86}
	for what, c := range map[string]struct {
		edit func(*measured, *budget)
		want string
	}{
		"stack":     {func(m *measured, _ *budget) { m.local = "128 bytes of stack" }, "local memory: 128"},
		"old stack": {func(m *measured, _ *budget) { m.oldLocal = 8 }, "8 bytes of local memory with an older ptxas"},
		"LDL":       {func(m *measured, _ *budget) { m.mix.Local = 1 }, "1 LDL and STL"},
		"registers": {func(m *measured, _ *budget) { m.registers = 65 }, "65 registers, wanted at most 64"},
		"static":    {func(m *measured, _ *budget) { m.static = 2049 }, "2049 bytes of static shared memory"},
		"no mma":    {func(m *measured, _ *budget) { m.mix.Has = nil }, "no HMMA"},
		"narrow":    {func(m *measured, _ *budget) { m.mix.Narrow = 2 }, "2 global loads of less than 4 bytes"},
		"occupancy": {func(_ *measured, b *budget) { b.On["86"] = limit{Registers: 64, Dynamic: 16384, Blocks: 6} }, "5 blocks on an SM, wanted at least 6"},
		"light": {func(_ *measured, b *budget) {
			b.On["86"] = limit{Registers: 64, Dynamic: 16384, Least: 4096, Blocks: 5, MostBlocks: 9}
		}, "8 blocks on an SM with the least shared memory, wanted at least 9"},
		"dynamic": {func(_ *measured, b *budget) {
			b.On["86"] = limit{Registers: 64, Dynamic: 16383, Least: 4096, Blocks: 5}
		}, "4096 to 16384 bytes of dynamic shared memory, its budget is for 4096 to 16383"},
		"static by launches": {func(m *measured, _ *budget) { m.entry.dynamic = false }, "and its PTX uses none"},
		"too large":          {func(_ *measured, b *budget) { b.On["86"] = limit{Registers: 64, Dynamic: 99 << 10} }, "does not fit"},
		"no device":          {func(_ *measured, b *budget) { delete(b.On, "86") }, "no budget for this device"},
		"threads":            {func(m *measured, _ *budget) { m.entry.threads = 256 }, "blocks of 256 threads, its budget of 128"},
		"no size":            {func(m *measured, b *budget) { m.entry.threads, b.Threads = 0, 0 }, "put its block size into"},
	} {
		all, budgets := good()
		c.edit(all[someKey][p], budgets[someKey])
		faults := strings.Join(check(all, budgets, asked()), "\n")
		if !strings.Contains(faults, c.want) {
			t.Errorf("%s: got %q, wanted %q in it", what, faults, c.want)
		}
	}
	all, budgets = good()
	delete(all[someKey], p)
	if faults := check(all, budgets, asked()); len(faults) != 1 || !strings.Contains(faults[0], "not measured on 86") {
		t.Errorf("a device that was left out: got %v", faults)
	}
	all, budgets = good()
	all[key{"m", "new"}] = all[someKey]
	if faults := check(all, budgets, asked()); len(faults) != 1 || !strings.Contains(faults[0], "no budget") {
		t.Errorf("a kernel without budget: got %v", faults)
	}
	all, budgets = good()
	delete(all, someKey)
	if faults := check(all, budgets, asked()); len(faults) != 1 || !strings.Contains(faults[0], "in no PTX") {
		t.Errorf("a budget without kernel: got %v", faults)
	}
	for what, c := range map[string]struct {
		use  use
		want string
	}{
		"more threads":     {use{threads: 160, least: 4096, most: 16384}, "blocks of 160 threads, its budget is for 128"},
		"less than before": {use{threads: 128, least: 4095, most: 16384}, "4095 to 16384 bytes"},
		"none":             {use{threads: 128}, "launches ask for none"},
	} {
		all, budgets := good()
		u := asked()
		u[someKey][86] = c.use
		if faults := strings.Join(check(all, budgets, u), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: got %q, wanted %q in it", what, faults, c.want)
		}
	}
	all, budgets = good()
	if faults := check(all, budgets, uses{}); len(faults) != len(pairs) || !strings.Contains(faults[0], "launches it on no device") {
		t.Errorf("a kernel that nothing launches: got %v", faults)
	}
}

// What update writes is read back the same, passes, and has headroom that costs
// no block; what cannot be measured is kept.
func TestUpdate(t *testing.T) {
	all, _ := good()
	budgets := update(all, asked())
	if faults := check(all, budgets, asked()); len(faults) != 0 {
		t.Fatal(faults)
	}
	b := budgets[someKey]
	// 65 registers would let 7 blocks in, of those with the least shared memory.
	if l := b.On["86"]; l != (limit{Registers: 64, Dynamic: 16384, Least: 4096, Blocks: 5, MostBlocks: 8}) {
		t.Errorf("8.6: got %+v", l)
	}
	// Where shared memory allows no more blocks anyway they cost nothing.
	same := asked()
	same[someKey][86] = use{threads: 128, least: 16384, most: 16384}
	if l := update(all, same)[someKey].On["86"]; l != (limit{Registers: 68, Dynamic: 16384, Least: 16384, Blocks: 5}) {
		t.Errorf("8.6 with as much shared memory always: got %+v", l)
	}
	file := filepath.Join(t.TempDir(), "budgets.json")
	if err := writeBudgets(file, budgets); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(file)
	again, err := readBudgets(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeBudgets(file, again); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(file); string(first) != string(second) {
		t.Errorf("read and written again:\n%s\nwanted\n%s", second, first)
	}
	all[someKey][pair{90, 90}].registers += headroom + 1
	if faults := check(all, again, asked()); len(faults) == 0 {
		t.Error("five registers more passed")
	}
}

func TestReadBudgetsRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"an unknown field":       `[{"module":"m","kernel":"k","register":1}]`,
		"an unknown instruction": `[{"module":"m","kernel":"k","has":["WGMMA"]}]`,
		"a kernel twice":         `[{"module":"m","kernel":"k"},{"module":"m","kernel":"k"}]`,
		"no list":                `{}`,
	} {
		file := filepath.Join(t.TempDir(), "budgets.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readBudgets(file); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}
