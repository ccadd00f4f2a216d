package ptx

import (
	"fmt"
	"strings"
)

// Module is one parsed and decoded PTX file. It does not change after Parse
// and may be loaded into any number of machines.
type Module struct {
	version, target string
	vars            []*variable // .global and .const
	shared          []*variable // .shared at module scope
	byName          map[string]*variable
	funcs           map[string]*function
	order           []string
	kernels         []*Kernel
	files           map[int]string // .file
}

// variable is one declared object in memory.
type variable struct {
	name   string
	space  space
	align  int
	size   int // bytes; of extern shared memory 0
	extern bool
	init   []byte  // nil: zero
	relocs []reloc // addresses of other variables inside init
	line   int
}

// reloc is a place of eight or four bytes that holds the address of a variable.
type reloc struct {
	at, width int
	sym       string
	add       int64
	generic   bool
}

// register is one declared register of a function.
type register struct {
	name string
	typ  typ
}

// scope is what one pair of braces declares.
type scope struct {
	up     *scope
	regs   map[string]*register
	ranges map[string]regRange // %r<10>
	vars   map[string]*variable
	labels map[string]int // index into function.body
}

type regRange struct {
	typ typ
	n   int
}

func newScope(up *scope) *scope {
	return &scope{up: up, regs: map[string]*register{}, ranges: map[string]regRange{}, vars: map[string]*variable{}, labels: map[string]int{}}
}

// reg finds a register, making one of a declared range when it is first named.
func (s *scope) reg(name string) *register {
	base := strings.TrimRight(name, "0123456789")
	for ; s != nil; s = s.up {
		if r := s.regs[name]; r != nil {
			return r
		}
		if rr, ok := s.ranges[base]; ok && len(name) > len(base) && len(name)-len(base) < 8 {
			n := 0
			for _, c := range name[len(base):] {
				n = n*10 + int(c-'0')
			}
			if n < rr.n && fmt.Sprint(n) == name[len(base):] {
				r := &register{name, rr.typ}
				s.regs[name] = r
				return r
			}
		}
	}
	return nil
}

func (s *scope) variable(name string) *variable {
	for ; s != nil; s = s.up {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *scope) label(name string) (int, bool) {
	for ; s != nil; s = s.up {
		if i, ok := s.labels[name]; ok {
			return i, true
		}
	}
	return 0, false
}

// function is one .entry or .func.
type function struct {
	name       string
	entry      bool
	line       int
	defined    bool
	params     []*variable
	rets       []*variable
	maxThreads int
	body       []stmt
	tables     map[string][]string // .branchtargets by label
	prog       *program            // decoded, of an entry
}

// stmt is one instruction of the text.
type stmt struct {
	line     int
	src      int32 // index into Module's sources, -1 for none
	op       string
	guard    *register
	guardNeg bool
	args     []operand
	scope    *scope
}

type operandKind uint8

const (
	opReg     operandKind = iota
	opInt                 // imm
	opF32                 // imm: bits of a float32
	opF64                 // imm: bits of a float64
	opSym                 // a variable's address + off, a label, or a function
	opSpecial             // %tid.x …
	opMem                 // [elems[0] + off]
	opVec                 // {elems}
	opSink                // _
	opPair                // elems[0] | elems[1]
	opList                // (elems): arguments of a call
)

type operand struct {
	kind  operandKind
	not   bool // !p
	reg   *register
	name  string
	imm   uint64
	off   int64
	elems []operand
}

// Kernel finds an entry point.
func (m *Module) Kernel(name string) (*Kernel, bool) {
	if f := m.funcs[name]; f != nil && f.entry {
		for _, k := range m.kernels {
			if k.Name == name {
				return k, true
			}
		}
	}
	return nil, false
}

// Kernels lists the entry points in the order of the text.
func (m *Module) Kernels() []*Kernel { return m.kernels }

// Version is the module's .version, such as 7.8.
func (m *Module) Version() string { return m.version }

// Target is the module's .target, such as sm_80.
func (m *Module) Target() string { return m.target }
