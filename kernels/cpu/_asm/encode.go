package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Instructions that the Go assembler does not know are written as bytes, once the
// library has given them registers: EVEX, 512 bits, no mask (Intel SDM vol. 2, 2.7).
// The operands are those of Go: a register or the memory of a dword that is broadcast,
// a register if there are three, the destination.
var evexOpcodes = map[string]struct{ prefix, opcode byte }{
	"VDPBF16PS":     {0xf3, 0x52}, // EVEX.512.F3.0F38.W0 52 /r
	"VCVTNEPS2BF16": {0xf3, 0x72}, // EVEX.512.F3.0F38.W0 72 /r
}

// vexDot is VPDPBUSD of 256 bits between registers, as AVX-VNNI has it: the Go
// assembler knows only that of AVX-512.
const vexDot, vexDotOpcode = "VEX_VPDPBUSD", 0x50 // VEX.256.66.0F38.W0 50 /r

// encodeFile replaces those instructions in the file that -out names.
func encodeFile() {
	i := slices.Index(os.Args, "-out")
	if i < 0 {
		return
	}
	src, err := os.ReadFile(os.Args[i+1])
	if err != nil {
		log.Fatal(err)
	}
	lines := strings.Split(string(src), "\n")
	for n, line := range lines {
		name, operands, _ := strings.Cut(strings.TrimSpace(line), " ")
		regs := strings.Split(strings.TrimSpace(operands), ", ")
		var code []byte
		if op, ok := evexOpcodes[strings.TrimSuffix(name, ".BCST")]; ok {
			code = evex512(op.prefix, op.opcode, regs)
		} else if name == vexDot {
			code = vex256(vexDotOpcode, regs)
		} else {
			continue
		}
		var text []string
		for _, b := range code {
			text = append(text, fmt.Sprintf("BYTE $0x%02x", b))
		}
		lines[n] = "\t" + strings.Join(text, "; ") + " // " + strings.Join(strings.Fields(line), " ")
	}
	if err := os.WriteFile(os.Args[i+1], []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		log.Fatal(err)
	}
}

// gp numbers the general registers.
var gp = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}

// evex512 encodes one instruction of the map 0F38.
func evex512(prefix, opcode byte, operands []string) []byte {
	dst, vvvv := vector(operands[len(operands)-1]), byte(0)
	if len(operands) == 3 {
		vvvv = vector(operands[1])
	}
	var x, b, broadcast byte // x, b: the fourth and, of a register, the fifth bit of what ModRM and SIB name
	var rest []byte
	if strings.HasPrefix(operands[0], "Z") {
		src := vector(operands[0])
		b, x = src>>3&1, src>>4
		rest = []byte{0xc0 | dst&7<<3 | src&7}
	} else {
		rest, x, b = memory(operands[0], dst&7)
		broadcast = 1
	}
	p0 := (dst>>3&1^1)<<7 | (x^1)<<6 | (b^1)<<5 | (dst>>4^1)<<4 | 2
	p1 := (vvvv&15^15)<<3 | 1<<2 | map[byte]byte{0x66: 1, 0xf3: 2, 0xf2: 3}[prefix]
	p2 := byte(2<<5) | broadcast<<4 | (vvvv>>4^1)<<3
	return append([]byte{0x62, p0, p1, p2, opcode}, rest...)
}

// vex256 encodes one instruction of the map 0F38 with the prefix 66, of three
// registers (SDM vol. 2, 2.3.5).
func vex256(opcode byte, operands []string) []byte {
	src, vvvv, dst := vector(operands[0]), vector(operands[1]), vector(operands[2])
	if src > 15 || vvvv > 15 || dst > 15 {
		log.Fatalf("cannot encode %q: AVX-VNNI has sixteen registers", operands)
	}
	return []byte{0xc4, (dst>>3^1)<<7 | 1<<6 | (src>>3^1)<<5 | 2, (vvvv^15)<<3 | 1<<2 | 1, opcode, 0xc0 | dst&7<<3 | src&7}
}

// vector numbers Z0 to Z31, or Y.
func vector(s string) byte {
	n, err := strconv.Atoi(strings.TrimLeft(s, "YZ"))
	if err != nil || n > 31 {
		log.Fatalf("cannot encode the operand %q: wanted Z0 to Z31", s)
	}
	return byte(n)
}

var memoryForm = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)\*([1248])\))?$`)

// memory encodes ModRM, SIB and displacement, which counts dwords where it fits a byte.
func memory(s string, reg byte) (code []byte, x, b byte) {
	m := memoryForm.FindStringSubmatch(s)
	if m == nil {
		log.Fatalf("cannot encode the operand %q", s)
	}
	disp, _ := strconv.Atoi(m[1])
	base := number(m[2])
	b = base >> 3
	var mod byte
	var tail []byte
	switch {
	case disp == 0 && base&7 != 5:
	case disp%4 == 0 && disp/4 >= -128 && disp/4 < 128:
		mod, tail = 1, []byte{byte(disp / 4)}
	default:
		mod, tail = 2, []byte{byte(disp), byte(disp >> 8), byte(disp >> 16), byte(disp >> 24)}
	}
	if m[3] == "" && base&7 != 4 {
		return append([]byte{mod<<6 | reg<<3 | base&7}, tail...), 0, b
	}
	index, scale := byte(4), 1 // none
	if m[3] != "" {
		index = number(m[3])
		scale, _ = strconv.Atoi(m[4])
	}
	sib := byte(log2(scale))<<6 | index&7<<3 | base&7
	return append([]byte{mod<<6 | reg<<3 | 4, sib}, tail...), index >> 3, b
}

func number(name string) byte {
	n := slices.Index(gp, name)
	if n < 0 {
		log.Fatalf("cannot encode the register %q", name)
	}
	return byte(n)
}
