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
	newest   string            // whose machine code is read
	nvdisasm string
}

// measured is what a kernel costs on one device, the worst of all versions of
// ptxas for what they decide, since any of them may be in a user's driver.
type measured struct {
	entry     entry
	registers int
	static    int
	stack     string // which version uses local memory, and how much; empty: none
	mix       mix
}

// result maps kernels and pairs to what was measured.
type result map[key]map[pair]*measured

// measure assembles every module with every ptxas for every device. It returns
// what it measured and what was refused.
func measure(mods []module, t tools) (result, []string, error) {
	dir, err := os.MkdirTemp("", "checkptx")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	type job struct {
		mod     module
		p       pair
		version string
	}
	var jobs []job
	for _, m := range mods {
		for _, p := range pairs {
			for version := range t.ptxas {
				if p.target == m.target {
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
			used, err := assemble(t.ptxas[j.version], j.mod.file, j.p.cc, cubin)
			var code []*function
			if err == nil && j.version == t.newest {
				code, err = disassemble(t.nvdisasm, cubin)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = all.add(j.mod, j.p, j.version, used, code)
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

// add takes in what one ptxas said of a module. code is nil but for the newest.
func (r result) add(m module, p pair, version string, used []resources, code []*function) error {
	for _, e := range m.entries {
		k := key{m.name, e.name}
		i := slices.IndexFunc(used, func(u resources) bool { return u.name == e.name })
		if i < 0 {
			return fmt.Errorf("%v for %v: ptxas does not know it", k, p)
		}
		u := used[i]
		if u.registers == 0 {
			return fmt.Errorf("%v for %v: ptxas does not say its registers", k, p)
		}
		if r[k] == nil {
			r[k] = map[pair]*measured{}
		}
		got := r[k][p]
		if got == nil {
			got = &measured{entry: e}
			r[k][p] = got
		}
		got.registers, got.static = max(got.registers, u.registers), max(got.static, u.static)
		for _, f := range used {
			// What was not inlined may be any entry's: it counts as everyone's.
			if (f.name == e.name || f.registers == 0) && f.stack+f.spillStores+f.spillLoads > 0 {
				got.stack = fmt.Sprintf("%s: ptxas %s: %d bytes of stack, %d and %d spilled", f.name, version, f.stack, f.spillStores, f.spillLoads)
			}
		}
		if code == nil {
			continue
		}
		i = slices.IndexFunc(code, func(f *function) bool { return f.name == e.name })
		if i < 0 {
			return fmt.Errorf("%v for %v: no machine code", k, p)
		}
		got.mix = code[i].mix()
	}
	return nil
}
