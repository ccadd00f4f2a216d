package ptx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads and decodes one module. The error, an *Error, names the line.
func Parse(src []byte) (*Module, error) {
	if len(src) > maxSource {
		return nil, &Error{0, fmt.Sprintf("cannot parse %d bytes: at most %d", len(src), maxSource)}
	}
	m := &Module{byName: map[string]*variable{}, funcs: map[string]*function{}, files: map[int]string{}}
	p := &parser{lex: lexer{src: string(src), line: 1}, m: m, src: -1, locs: map[[2]int]int32{}}
	if err := p.module(); err != nil {
		return nil, err
	}
	sources := make([]string, len(p.locs))
	for at, i := range p.locs { // .file may follow what refers to it
		sources[i] = fmt.Sprintf("%s:%d", m.files[at[0]], at[1])
	}
	if err := decodeModule(m, sources); err != nil {
		return nil, err
	}
	return m, nil
}

// parser reads statements; the first error ends it.
type parser struct {
	lex   lexer
	tok   token
	m     *Module
	src   int32            // the .loc in force
	locs  map[[2]int]int32 // numbers of the places that .loc names, by file and line
	depth int
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{p.tok.line, fmt.Sprintf(format, args...)}
}

func (p *parser) next() (err error) {
	p.tok, err = p.lex.next()
	return err
}

func (p *parser) is(s string) bool { return p.tok.text == s && p.tok.kind != tokString }

// take passes a token if it is s.
func (p *parser) take(s string) (bool, error) {
	if !p.is(s) {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) want(s string) error {
	if !p.is(s) {
		return p.fail("got %q, wanted %q", p.tok.text, s)
	}
	return p.next()
}

func (p *parser) word() (string, error) {
	if p.tok.kind != tokWord {
		return "", p.fail("got %q, wanted a name", p.tok.text)
	}
	s := p.tok.text
	return s, p.next()
}

func (p *parser) number() (int, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(p.tok.text, "U"), 0, 64)
	if p.tok.kind != tokNumber || err != nil || n < 0 || n > 1<<31 {
		return 0, p.fail("got %q, wanted a whole number", p.tok.text)
	}
	return int(n), p.next()
}

// module reads directives to the end of the text.
func (p *parser) module() error {
	if err := p.next(); err != nil {
		return err
	}
	for p.tok.kind != tokEOF {
		if p.tok.kind != tokWord {
			return p.fail("got %q, wanted a directive", p.tok.text)
		}
		if err := p.directive(); err != nil {
			return err
		}
	}
	if p.m.version == "" || p.m.target == "" {
		return p.fail("no .version and .target: this is not PTX")
	}
	return nil
}

func (p *parser) directive() (err error) {
	switch p.tok.text {
	case ".version":
		line := p.tok.line
		if err := p.next(); err != nil {
			return err
		}
		p.m.version = p.tok.text
		if major, _, ok := strings.Cut(p.m.version, "."); !ok || p.tok.kind != tokNumber || len(major) > 2 {
			return &Error{line, fmt.Sprintf("got .version %q, wanted such as 7.8", p.m.version)}
		}
		return p.next()
	case ".target":
		if err := p.next(); err != nil {
			return err
		}
		if p.m.target, err = p.word(); err != nil {
			return err
		}
		for p.is(",") {
			if err := p.next(); err != nil {
				return err
			}
			if _, err := p.word(); err != nil {
				return err
			}
		}
		return nil
	case ".address_size":
		if err := p.next(); err != nil {
			return err
		}
		n, err := p.number()
		if err == nil && n != 64 {
			err = p.fail("got .address_size %d, wanted 64", n)
		}
		return err
	case ".file":
		return p.fileDirective()
	case ".section":
		return p.section()
	case ".pragma":
		return p.upTo(";")
	case ".alias":
		return p.fail("cannot use .alias")
	}
	return p.declaration()
}

func (p *parser) upTo(end string) error {
	for p.tok.kind != tokEOF && !p.is(end) {
		if err := p.next(); err != nil {
			return err
		}
	}
	return p.want(end)
}

// fileDirective reads .file N "name" {, time, size}.
func (p *parser) fileDirective() error {
	if err := p.next(); err != nil {
		return err
	}
	n, err := p.number()
	if err != nil {
		return err
	}
	if p.tok.kind != tokString {
		return p.fail("got %q, wanted the name of a file", p.tok.text)
	}
	name := p.tok.text
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	p.m.files[n] = name
	if err := p.next(); err != nil {
		return err
	}
	for p.is(",") {
		if err := p.next(); err != nil {
			return err
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

// section passes a debug section.
func (p *parser) section() error {
	for !p.is("{") {
		if p.tok.kind == tokEOF {
			return p.fail("got the end of the text in a .section")
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return p.upTo("}")
}

// loc reads .loc file line column {, function_at …}.
func (p *parser) loc() error {
	line := p.tok.line
	var n [3]int
	if err := p.next(); err != nil {
		return err
	}
	for i := range n {
		var err error
		if n[i], err = p.number(); err != nil {
			return err
		}
	}
	for p.is(",") || p.tok.line == line && p.tok.kind != tokEOF && !p.is("}") {
		if err := p.next(); err != nil {
			return err
		}
	}
	at := [2]int{n[0], n[1]}
	i, ok := p.locs[at]
	if !ok {
		i = int32(len(p.locs))
		p.locs[at] = i
	}
	p.src = i
	return nil
}

// declaration reads a variable or a function at module scope.
func (p *parser) declaration() error {
	extern := false
	for p.is(".visible") || p.is(".extern") || p.is(".weak") || p.is(".common") {
		extern = extern || p.is(".extern")
		if err := p.next(); err != nil {
			return err
		}
	}
	switch p.tok.text {
	case ".entry", ".func":
		return p.function()
	case ".global", ".const", ".shared":
		vs, err := p.variables(extern)
		if err != nil {
			return err
		}
		for _, v := range vs {
			if p.m.byName[v.name] != nil {
				return p.fail("%s is declared twice", v.name)
			}
			p.m.byName[v.name] = v
			if v.space == spaceShared {
				p.m.shared = append(p.m.shared, v)
			} else {
				if v.extern {
					return p.fail("cannot use .extern %s: there is no linker", v.name)
				}
				p.m.vars = append(p.m.vars, v)
			}
		}
		return nil
	}
	return p.fail("cannot use directive %q", p.tok.text)
}

// function reads a prototype and its body.
func (p *parser) function() (err error) {
	f := &function{entry: p.is(".entry"), line: p.tok.line, tables: map[string][]string{}}
	if err := p.next(); err != nil {
		return err
	}
	if p.is("(") {
		if f.rets, err = p.params(); err != nil {
			return err
		}
	}
	if f.name, err = p.word(); err != nil {
		return err
	}
	if p.is("(") {
		if f.params, err = p.params(); err != nil {
			return err
		}
	}
	if err := p.tuning(f); err != nil {
		return err
	}
	if ok, err := p.take(";"); ok || err != nil { // a prototype
		if err == nil && p.m.funcs[f.name] == nil {
			p.m.funcs[f.name] = f
		}
		return err
	}
	if old := p.m.funcs[f.name]; old != nil && old.defined {
		return p.fail("%s is defined twice", f.name)
	}
	f.defined = true
	p.m.funcs[f.name] = f
	p.m.order = append(p.m.order, f.name)
	sc := newScope(nil)
	for _, v := range slices.Concat(f.params, f.rets) {
		sc.vars[v.name] = v
	}
	p.src = -1
	return p.block(f, sc)
}

// tuning reads the directives between a prototype and its body.
func (p *parser) tuning(f *function) error {
	for p.tok.kind == tokWord {
		switch p.tok.text {
		case ".maxntid", ".reqntid":
			n := 1
			for {
				if err := p.next(); err != nil {
					return err
				}
				k, err := p.number()
				if err != nil {
					return err
				}
				if n *= k; k == 0 || n > 1024 {
					return p.fail("got a block of %d threads, wanted 1 to 1024", n)
				}
				if !p.is(",") {
					break
				}
			}
			f.maxThreads = n
		case ".minnctapersm", ".maxnreg", ".maxnctapersm":
			if err := p.next(); err != nil {
				return err
			}
			if _, err := p.number(); err != nil {
				return err
			}
		case ".noreturn":
			if err := p.next(); err != nil {
				return err
			}
		case ".pragma":
			if err := p.upTo(";"); err != nil {
				return err
			}
		default:
			return p.fail("cannot use directive %q", p.tok.text)
		}
	}
	return nil
}

// params reads a list of parameters in parentheses.
func (p *parser) params() ([]*variable, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	var vs []*variable
	for !p.is(")") {
		if !p.is(".param") {
			return nil, p.fail("got %q, wanted .param", p.tok.text)
		}
		v, err := p.variable(false)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
		if p.is(",") {
			if err := p.next(); err != nil {
				return nil, err
			}
		} else if !p.is(")") {
			return nil, p.fail("got %q, wanted , or )", p.tok.text)
		}
	}
	return vs, p.next()
}

// block reads { statements }.
func (p *parser) block(f *function, sc *scope) error {
	if p.depth++; p.depth > maxNesting {
		return p.fail("braces nest deeper than %d", maxNesting)
	}
	defer func() { p.depth-- }()
	if err := p.want("{"); err != nil {
		return err
	}
	for !p.is("}") {
		if p.tok.kind == tokEOF {
			return p.fail("got the end of the text, wanted } of %s", f.name)
		}
		if err := p.statement(f, sc); err != nil {
			return err
		}
	}
	return p.next()
}
