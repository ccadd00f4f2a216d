package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// tools are the programs that are asked.
type tools struct {
	ptxas    map[string]string // by the version of CUDA
	oldest   string
	newest   string // whose machine code is read
	nvdisasm string
	every    bool  // every version is asked for every device
	answers  cache // of before
}

// asked says which devices a version of ptxas is asked for. The newest, which is
// that of current drivers, is asked for all. Whether another takes a file does not
// depend on the device: it is asked for one of each target, and the oldest, whose
// code differs most, for one of each kind of scheduler.
func (t *tools) asked(version string, p pair) bool {
	switch {
	case t.every || version == t.newest || p == pair{80, 80} || p == pair{90, 90}:
		return true
	}
	return version == t.oldest && p == pair{80, 89}
}

// measured is what a kernel costs on one device, the worst of all versions of
// ptxas for what they decide, since any of them may be in a user's driver.
type measured struct {
	entry     entry
	registers int
	static    int
	local     string // how the newest version uses local memory; empty: it does not
	oldLocal  int    // the most bytes of stack and spills that an older one has
	mix       mix
}

// result maps kernels and pairs to what was measured.
type result map[key]map[pair]*measured

// job is one run of an assembler.
type job struct {
	mod     module
	p       pair
	version string
}

// measure assembles every module with every ptxas. It returns what it measured
// and what was refused.
func measure(mods []module, t tools) (result, []string, error) {
	dir, err := os.MkdirTemp("", "checkptx")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	var jobs []job
	for _, m := range mods {
		for _, p := range pairs {
			for version := range t.ptxas {
				if p.target == m.target && t.asked(version, p) {
					jobs = append(jobs, job{m, p, version})
				}
			}
		}
	}
	all := result{}
	var faults []string
	var mu sync.Mutex // guards all and faults
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cubin := filepath.Join(dir, fmt.Sprint(i))
			defer os.Remove(cubin)
			a, err := t.ask(j, cubin)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = all.add(j, a, j.version == t.newest)
			}
			if err != nil {
				faults = append(faults, fmt.Sprintf("ptxas %s: %v", j.version, err))
			}
		})
	}
	wg.Wait()
	slices.Sort(faults)
	return all, faults, nil
}

// ask runs one job, or finds its answer.
func (t *tools) ask(j job, cubin string) (*answer, error) {
	ptx, err := os.ReadFile(j.mod.file)
	if err != nil {
		return nil, err
	}
	code := j.version == t.newest
	key, err := t.answers.key(ptx, j.version, j.p.cc, code)
	if err != nil {
		return nil, err
	}
	if a, ok := t.answers.get(key); ok {
		return a, nil
	}
	a := &answer{}
	if a.Used, err = assemble(t.ptxas[j.version], j.mod.file, j.p.cc, cubin); err != nil {
		return nil, err
	}
	if code {
		functions, err := disassemble(t.nvdisasm, cubin)
		if err != nil {
			return nil, err
		}
		a.Mix = map[string]mix{}
		for _, f := range functions {
			a.Mix[f.name] = f.mix()
		}
	}
	return a, t.answers.put(key, a)
}

// add takes in what one ptxas said of a module.
func (r result) add(j job, a *answer, newest bool) error {
	for _, e := range j.mod.entries {
		k := key{j.mod.name, e.name}
		i := slices.IndexFunc(a.Used, func(u resources) bool { return u.Name == e.name })
		if i < 0 {
			return fmt.Errorf("%v for %v: ptxas does not know it", k, j.p)
		}
		u := a.Used[i]
		if u.Registers == 0 {
			return fmt.Errorf("%v for %v: ptxas does not say its registers", k, j.p)
		}
		if r[k] == nil {
			r[k] = map[pair]*measured{}
		}
		got := r[k][j.p]
		if got == nil {
			got = &measured{entry: e}
			r[k][j.p] = got
		}
		got.registers, got.static = max(got.registers, u.Registers), max(got.static, u.Static)
		for _, f := range a.Used {
			// What was not inlined may be any entry's: it counts as everyone's.
			local := f.Stack + f.SpillStores + f.SpillLoads
			switch {
			case local == 0 || f.Name != e.name && f.Registers != 0:
			case newest:
				got.local = fmt.Sprintf("%s: %d bytes of stack, %d and %d spilled", f.Name, f.Stack, f.SpillStores, f.SpillLoads)
			default:
				got.oldLocal = max(got.oldLocal, local)
			}
		}
		if !newest {
			continue
		}
		m, ok := a.Mix[e.name]
		if !ok {
			return fmt.Errorf("%v for %v: no machine code", k, j.p)
		}
		got.mix = m
	}
	return nil
}
