package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one PTX file: a source compiled for one target.
type module struct {
	file    string
	name    string // of the source, without .cu
	target  int    // compute capability × 10 that it was compiled for: 80 or 90
	entries []entry
}

// entry is what a PTX file says of a kernel.
type entry struct {
	name    string
	threads int  // the most a block has, from .maxntid or .reqntid; 0 if it does not say
	dynamic bool // it names shared memory whose size the launch gives
}

var (
	entryLine   = regexp.MustCompile(`^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)`)
	threadsLine = regexp.MustCompile(`^\s*\.(?:max|req)ntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?`)
	externLine  = regexp.MustCompile(`^\s*\.extern\s+\.shared\s.*?([\w$]+)\[\]`)
	moduleName  = regexp.MustCompile(`^(\w+)\.compute_(80|90)\.ptx$`)
)

// readModules reads all PTX files of a folder, by name.
func readModules(dir string) ([]module, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.ptx"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []module
	targets := map[string]int{}
	for _, file := range files {
		m := moduleName.FindStringSubmatch(filepath.Base(file))
		if m == nil {
			return nil, fmt.Errorf("cannot check %s: got that name, wanted NAME.compute_80.ptx or NAME.compute_90.ptx", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, module{file: file, name: m[1], target: atoi(m[2]), entries: parseEntries(string(text))})
		targets[m[1]]++
	}
	for name, n := range targets {
		if n != 2 {
			return nil, fmt.Errorf("cannot check %s: got one target, wanted compute_80 and compute_90", name)
		}
	}
	return all, nil
}

func parseEntries(text string) []entry {
	var all []entry
	var extern []*regexp.Regexp
	inside := false
	for line := range strings.Lines(text) {
		if m := externLine.FindStringSubmatch(line); m != nil {
			extern = append(extern, regexp.MustCompile(`(?:^|[^\w$])`+regexp.QuoteMeta(m[1])+`(?:$|[^\w$])`))
		} else if m := entryLine.FindStringSubmatch(line); m != nil {
			all = append(all, entry{name: m[1]})
			inside = true
		} else if line == "}\n" {
			inside = false
		} else if inside {
			e := &all[len(all)-1]
			if m := threadsLine.FindStringSubmatch(line); m != nil {
				e.threads = 1
				for _, d := range m[1:] {
					if d != "" {
						e.threads *= atoi(d)
					}
				}
			}
			e.dynamic = e.dynamic || slices.ContainsFunc(extern, func(r *regexp.Regexp) bool { return r.MatchString(line) })
		}
	}
	return all
}
