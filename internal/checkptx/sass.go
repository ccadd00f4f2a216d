package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// instruction is one line of machine code.
type instruction struct {
	op          string   // with its suffixes, for instance LDGSTS.E.BYPASS.128
	targets     []string // labels that it may jump to
	conditional bool     // it may also go on with the next
	ends        bool     // nothing follows: EXIT, RET, an unconditional jump
}

// function is the machine code of one entry, the slow paths that it calls included.
type function struct {
	name   string
	code   []instruction
	labels map[string]int // index of the instruction that follows the label
}

var (
	textSection   = regexp.MustCompile(`^\s*\.section\s+\.text\.([^,]+),`)
	labelLine     = regexp.MustCompile(`^([.$A-Za-z_][.$\w]*):\s*$`)
	codeLine      = regexp.MustCompile(`^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?)(U?P\w)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;`)
	switchTargets = regexp.MustCompile(`"BRANCH_TARGETS ([^"]+)"`)
	labelOf       = regexp.MustCompile("`\\(([^)]+)\\)")
)

// parseSASS reads the output of nvdisasm -c.
func parseSASS(out string) ([]*function, error) {
	var all []*function
	var f *function
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := textSection.FindStringSubmatch(line); m != nil {
			f = &function{name: m[1], labels: map[string]int{}}
			all = append(all, f)
			continue
		}
		if f == nil {
			continue
		}
		if m := labelLine.FindStringSubmatch(line); m != nil {
			f.labels[m[1]] = len(f.code)
			continue
		}
		m := codeLine.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(strings.TrimSpace(line), "/*0") {
				return nil, fmt.Errorf("cannot read machine code of %s: %q", f.name, line)
			}
			continue
		}
		never := m[1] == "!" && strings.HasSuffix(m[2], "PT") // padding of the compiler's: it never executes
		in, err := decode(m[3], m[4], m[2] != "")
		if err != nil {
			return nil, fmt.Errorf("cannot follow %s: %w", f.name, err)
		}
		if never {
			in = instruction{op: "NOP"}
		}
		f.code = append(f.code, in)
	}
	for _, f := range all {
		for _, in := range f.code {
			for _, to := range in.targets {
				if _, ok := f.labels[to]; !ok {
					return nil, fmt.Errorf("cannot follow %s: %s goes to %s, which is not in it", f.name, in.op, to)
				}
			}
		}
	}
	return all, nil
}

// decode says where an instruction may go. A call comes back: it is taken as a
// jump that may not be taken.
func decode(op, operands string, predicated bool) (instruction, error) {
	in := instruction{op: op}
	base, _, _ := strings.Cut(op, ".")
	switch base {
	case "BRA", "CALL", "JMP":
		m := labelOf.FindStringSubmatch(operands)
		if m == nil {
			return in, fmt.Errorf("%s %s has no label", op, operands)
		}
		in.targets = m[1:]
		in.conditional = predicated || base == "CALL" || !strings.HasPrefix(operands, "`") // a second predicate, or BRA.DIV's register
		in.ends = !in.conditional
	case "EXIT", "RET", "KILL":
		in.ends = !predicated
	case "BRX", "JMX", "BRXU", "JMXU": // a switch
		m := switchTargets.FindStringSubmatch(operands)
		if m == nil {
			return in, fmt.Errorf("%s %s goes to an address that is computed, and no targets are listed", op, operands)
		}
		in.targets = strings.Split(m[1], ",")
		in.conditional, in.ends = predicated, !predicated
	}
	return in, nil
}

// mix is what of a function's code is counted.
type mix struct {
	Local  int // LDL and STL: local memory
	Narrow int // global loads of less than 4 bytes within loops
	Has    map[string]bool
}

// wanted are the instructions whose presence a budget can ask for.
var wanted = []string{"HMMA", "IMMA", "IDP", "LDSM", "LDGSTS.128", "LDG.128"}

func (f *function) mix() mix {
	m := mix{Has: map[string]bool{}}
	inLoop := f.inLoops()
	for i, in := range f.code {
		parts := strings.Split(in.op, ".")
		switch base := parts[0]; base {
		case "LDL", "STL":
			m.Local++
		case "HMMA", "IMMA", "IDP", "LDSM":
			m.Has[base] = true
		case "LDGSTS", "LDG":
			if slices.Contains(parts, "128") {
				m.Has[base+".128"] = true
			}
			if inLoop[i] && slices.ContainsFunc(parts, func(p string) bool { return p == "U8" || p == "S8" || p == "U16" || p == "S16" }) {
				m.Narrow++
			}
		}
	}
	return m
}

// disassemble runs nvdisasm on a cubin.
func disassemble(nvdisasm, cubin string) ([]*function, error) {
	out, err := exec.Command(nvdisasm, "-c", cubin).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot disassemble %s: %w", cubin, err)
	}
	return parseSASS(string(out))
}
