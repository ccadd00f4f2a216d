package ptx

// cp decodes cp.async, its commit and its waits (ISA §9.7.8.22).
func (d *decoder) cp(string) error {
	if !d.mod("async") {
		return d.fail("this form is not supported")
	}
	switch d.oneOf("commit_group", "wait_group", "wait_all") {
	case "commit_group":
		d.emit(cCommit)
		return d.args(0)
	case "wait_all":
		in := d.emit(cWait)
		in.off = -1
		return d.args(0)
	case "wait_group":
		n, err := d.immediate(1 << 16)
		if err != nil {
			return err
		}
		in := d.emit(cWait)
		in.off = int64(n)
		return d.args(0)
	}
	in := d.emit(cCpAsync)
	way := d.oneOf("ca", "cg")
	shared := d.oneOf("shared", "shared::cta")
	global := d.mod("global")
	hint := d.mod("L2::cache_hint")
	d.oneOf("L2::64B", "L2::128B", "L2::256B")
	if way == "" || shared == "" || !global || len(d.mods) > 0 {
		return d.fail("wanted cp.async.ca or .cg from .global to .shared")
	}
	args := d.s.args
	if hint && len(args) > 0 {
		args = args[:len(args)-1]
	}
	if len(args) < 3 || len(args) > 4 {
		return d.fail("got %d operands, wanted 3 or 4", len(args))
	}
	size := args[2].imm
	if args[2].kind != opInt || size != 16 && (way == "cg" || size != 4 && size != 8) {
		return d.fail("got a copy size other than 4, 8 and 16 (.cg: 16)")
	}
	in.n = uint8(size)
	if err := d.address(in, args[0], spaceShared); err != nil {
		return err
	}
	i, off, wide, err := d.pointer(args[1], spaceGlobal)
	if err != nil {
		return err
	}
	if !wide {
		return d.fail("wanted a 64-bit source address")
	}
	in.b, in.x.regs = i, []int32{0}
	in.x.width = int(off)
	if len(args) == 4 {
		if o := args[3]; o.kind == opReg && o.reg.typ == tPred {
			return d.fail("ignore-src is not supported")
		}
		in.flags |= flagSrcSize
		in.c, err = d.src(args[3], tU32)
	}
	return err
}

// ldmatrix decodes ldmatrix and stmatrix of 8×8 matrices of 16 bits (ISA §9.7.13.4.15).
func (d *decoder) ldmatrix(base string) error {
	sync, aligned, shape := d.mod("sync"), d.mod("aligned"), d.mod("m8n8")
	num := d.oneOf("x1", "x2", "x4")
	trans := d.mod("trans")
	sp := d.oneOf("shared", "shared::cta")
	t, err := d.typ()
	if err != nil || !sync || !aligned || !shape || num == "" || sp == "" || t != tB16 {
		return d.fail("wanted .sync.aligned.m8n8.x1, .x2 or .x4 of .shared.b16")
	}
	if err := d.args(2); err != nil {
		return err
	}
	c, regs, mem := cLdmatrix, d.s.args[0], d.s.args[1]
	if base == "stmatrix" {
		c, regs, mem = cStmatrix, mem, regs
	}
	in := d.emit(c)
	in.n = num[1] - '0'
	if trans {
		in.flags |= flagTrans
	}
	if in.x.regs, err = d.fragment(regs, int(in.n), tB32, c == cLdmatrix); err != nil {
		return err
	}
	return d.address(in, mem, spaceShared)
}

// fragment resolves a vector of n registers.
func (d *decoder) fragment(o operand, n int, t typ, dst bool) ([]int32, error) {
	elems := o.elems
	if o.kind != opVec {
		elems = []operand{o}
	}
	if len(elems) != n {
		return nil, d.fail("got %d registers in a fragment, wanted %d", len(elems), n)
	}
	regs := make([]int32, n)
	for i, e := range elems {
		var err error
		if dst {
			regs[i], err = d.dst(e, t)
		} else {
			regs[i], err = d.src(e, t)
		}
		if err != nil {
			return nil, err
		}
	}
	return regs, nil
}

// mmaShape is one form of mma: m16 n8 and k, with its operand types.
type mmaShape struct {
	k              int
	dt, at, bt, ct typ
	satfinite      bool
	na, nb, nc     int // registers of A, B, and of C and D
}

// mma decodes mma.sync.aligned.m16n8kK.row.col (ISA §9.7.13.4.14).
func (d *decoder) mma(string) error {
	sync, aligned := d.mod("sync"), d.mod("aligned")
	shape := d.oneOf("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32")
	row, col := d.mod("row"), d.mod("col")
	m := &mmaShape{satfinite: d.mod("satfinite")}
	if !sync || !aligned || shape == "" || !row || !col || len(d.mods) != 4 {
		return d.fail("wanted .sync.aligned, m16n8k4 to k32, .row.col and four types")
	}
	t := make([]typ, 4)
	for i, n := range d.mods {
		t[i] = typeNames[n]
	}
	d.mods = nil
	m.dt, m.at, m.bt, m.ct = t[0], t[1], t[2], t[3]
	for _, c := range shape[len("m16n8k"):] {
		m.k = m.k*10 + int(c-'0')
	}
	float := m.at == m.bt && !m.satfinite && m.dt == m.ct
	switch {
	case (m.at == tF16 || m.at == tBF16) && float && (m.k == 8 || m.k == 16) && (m.dt == tF32 || m.dt == tF16 && m.at == tF16):
		m.na, m.nb = m.k/4, m.k/8
	case m.at == tTF32 && float && (m.k == 4 || m.k == 8) && m.dt == tF32:
		m.na, m.nb = m.k/2, m.k/4
	case (m.at == tS8 || m.at == tU8) && (m.bt == tS8 || m.bt == tU8) && (m.k == 16 || m.k == 32) && m.dt == tS32 && m.ct == tS32:
		m.na, m.nb = m.k/8, m.k/16
	default:
		return d.fail("this form is not supported")
	}
	m.nc = 4
	ct := tB32
	if m.dt == tF16 {
		m.nc = 2
	}
	if err := d.args(4); err != nil {
		return err
	}
	in := d.emit(cMma)
	in.x.mma = m
	var all []int32
	for i, n := range []int{m.nc, m.na, m.nb, m.nc} {
		r, err := d.fragment(d.s.args[i], n, ct, i == 0)
		if err != nil {
			return err
		}
		all = append(all, r...)
	}
	in.x.regs = all
	return nil
}
