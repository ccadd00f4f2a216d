package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// resources is what ptxas -v says of one function.
type resources struct {
	Name        string
	Registers   int // of a thread; 0 for what is no entry
	Static      int // bytes of static shared memory
	Stack       int // bytes
	SpillStores int // bytes
	SpillLoads  int // bytes
}

var (
	compilingLine = regexp.MustCompile(`Compiling entry function '([^']+)' for '([^']+)'`)
	functionLine  = regexp.MustCompile(`Function properties for (\S+)`)
	stackLine     = regexp.MustCompile(`^\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine      = regexp.MustCompile(`: Used (\d+) registers`)
	sharedPart    = regexp.MustCompile(`[ ,](\d+)(?:\+\d+)? bytes smem`)
	cumulative    = regexp.MustCompile(`[ ,](\d+) bytes cumulative stack size`)
)

// parseVerbose reads the output of ptxas -v for architecture arch. Of an entry
// it says: compiling, properties, used; of a function that was not inlined, the
// properties alone, and that comes back among the entries, with no registers.
func parseVerbose(out []byte, arch string) ([]resources, error) {
	var all []resources
	entry := -1    // index of the entry whose usage is awaited
	function := -1 // index of that whose properties come next
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		line := s.Text()
		if m := compilingLine.FindStringSubmatch(line); m != nil {
			if m[2] != arch {
				return nil, fmt.Errorf("cannot read ptxas: got %s, wanted %s", m[2], arch)
			}
			if entry >= 0 {
				return nil, fmt.Errorf("cannot read ptxas: no usage of %s", all[entry].Name)
			}
			entry = len(all)
			all = append(all, resources{Name: m[1], Stack: -1})
		} else if m := functionLine.FindStringSubmatch(line); m != nil {
			function = entry
			if entry < 0 || all[entry].Name != m[1] {
				function = len(all)
				all = append(all, resources{Name: m[1], Stack: -1})
			}
		} else if m := stackLine.FindStringSubmatch(line); m != nil {
			if function < 0 {
				return nil, fmt.Errorf("cannot read ptxas: a stack frame of no function: %q", line)
			}
			r := &all[function]
			r.Stack, r.SpillStores, r.SpillLoads = atoi(m[1]), atoi(m[2]), atoi(m[3])
			function = -1
		} else if m := usedLine.FindStringSubmatch(line); m != nil {
			if entry < 0 {
				return nil, fmt.Errorf("cannot read ptxas: usage of no entry: %q", line)
			}
			r := &all[entry]
			r.Registers = atoi(m[1])
			if m := sharedPart.FindStringSubmatch(line); m != nil {
				r.Static = atoi(m[1])
			}
			if m := cumulative.FindStringSubmatch(line); m != nil && r.Stack >= 0 {
				r.Stack = max(r.Stack, atoi(m[1]))
			}
			entry = -1
		}
	}
	if entry >= 0 {
		return nil, fmt.Errorf("cannot read ptxas: no usage of %s", all[entry].Name)
	}
	for _, r := range all {
		if r.Stack < 0 {
			return nil, fmt.Errorf("cannot read ptxas: no stack frame of %s", r.Name)
		}
	}
	return all, nil
}

// atoi takes digits that a pattern has matched.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return n
}

// assemble runs a ptxas on a PTX file for a compute capability; cubin is written.
func assemble(ptxas, file string, cc int, cubin string) ([]resources, error) {
	arch := fmt.Sprintf("sm_%d", cc)
	out, err := exec.Command(ptxas, "-O3", "-v", "-arch="+arch, file, "-o", cubin).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("cannot assemble %s for %s: %w\n%s", file, arch, err, out)
	}
	all, err := parseVerbose(out, arch)
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w", file, arch, err)
	}
	return all, nil
}
