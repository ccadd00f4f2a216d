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
	name        string
	registers   int // of a thread; 0 for what is no entry
	static      int // bytes of static shared memory
	stack       int // bytes
	spillStores int // bytes
	spillLoads  int // bytes
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
				return nil, fmt.Errorf("cannot read ptxas: no usage of %s", all[entry].name)
			}
			entry = len(all)
			all = append(all, resources{name: m[1], stack: -1})
		} else if m := functionLine.FindStringSubmatch(line); m != nil {
			function = entry
			if entry < 0 || all[entry].name != m[1] {
				function = len(all)
				all = append(all, resources{name: m[1], stack: -1})
			}
		} else if m := stackLine.FindStringSubmatch(line); m != nil {
			if function < 0 {
				return nil, fmt.Errorf("cannot read ptxas: a stack frame of no function: %q", line)
			}
			r := &all[function]
			r.stack, r.spillStores, r.spillLoads = atoi(m[1]), atoi(m[2]), atoi(m[3])
			function = -1
		} else if m := usedLine.FindStringSubmatch(line); m != nil {
			if entry < 0 {
				return nil, fmt.Errorf("cannot read ptxas: usage of no entry: %q", line)
			}
			r := &all[entry]
			r.registers = atoi(m[1])
			if m := sharedPart.FindStringSubmatch(line); m != nil {
				r.static = atoi(m[1])
			}
			if m := cumulative.FindStringSubmatch(line); m != nil && r.stack >= 0 {
				r.stack = max(r.stack, atoi(m[1]))
			}
			entry = -1
		}
	}
	if entry >= 0 {
		return nil, fmt.Errorf("cannot read ptxas: no usage of %s", all[entry].name)
	}
	for _, r := range all {
		if r.stack < 0 {
			return nil, fmt.Errorf("cannot read ptxas: no stack frame of %s", r.name)
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
