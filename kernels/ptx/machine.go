package ptx

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// Generic addresses: device memory lies low, and each window of another state
// space has its own top byte.
const (
	globalBase   = 0x7f0000000000
	sharedWindow = 1 << 56
	localWindow  = 2 << 56
	paramWindow  = 3 << 56
	windowMask   = 0xff << 56
)

// Layout of device memory.
const (
	allocAlign = 256 // every allocation begins at a multiple
	redZone    = 256 // at least as many bytes after each, which nobody may touch
)

// alloc is one allocation; offsets into Machine.mem.
type alloc struct {
	lo, hi   int // hi is exact: lo plus the size asked for
	end      int // of what it takes up, red zone included
	readOnly bool
	name     string
}

// Machine is one imaginary device. Its methods may not be used at the same time.
type Machine struct {
	opt    Options
	mem    []byte
	init   []uint32 // one bit a byte: written
	allocs []*alloc // by lo
	race   *raceTable
	unique [2][]uint32 // one bit a sector of the launch: read, written
	locks  [64]sync.Mutex
	launch int
	idle   []*worker // of the latest launches, to be used again
}

// Loaded is a module with its variables placed in a Machine's memory.
type Loaded struct {
	m     *Module
	owner *Machine
	addrs map[*variable]uint64
}

// NewMachine makes a device.
func NewMachine(opt Options) *Machine {
	opt.Workers = min(max(opt.Workers, 1), 256)
	if opt.Memory <= 0 {
		opt.Memory = 64 << 20
	}
	if opt.MaxSteps <= 0 {
		opt.MaxSteps = 1 << 26
	}
	if opt.MaxFindings <= 0 {
		opt.MaxFindings = 32
	}
	opt.Memory = (opt.Memory + 4095) &^ 4095
	m := &Machine{opt: opt, mem: make([]byte, opt.Memory), init: make([]uint32, opt.Memory/32)}
	if opt.Checks {
		m.race = newRaceTable(opt.Memory)
	}
	if opt.Count {
		m.unique = [2][]uint32{make([]uint32, opt.Memory/1024), make([]uint32, opt.Memory/1024)}
	}
	return m
}

// Alloc reserves n bytes at a multiple of 256. They count as unwritten.
func (m *Machine) Alloc(n int) (uint64, error) { return m.alloc(n, "") }

func (m *Machine) alloc(n int, name string) (uint64, error) {
	if n <= 0 {
		return 0, fmt.Errorf("ptx: cannot allocate %d bytes", n)
	}
	at := redZone
	i := 0
	for ; i < len(m.allocs); i++ {
		if n+redZone <= m.allocs[i].lo-at {
			break
		}
		at = m.allocs[i].end
	}
	if n > len(m.mem) || at+n+redZone > len(m.mem) {
		return 0, fmt.Errorf("ptx: cannot allocate %d bytes: out of memory (%d bytes in all)", n, len(m.mem))
	}
	a := &alloc{lo: at, hi: at + n, end: (at + n + redZone + allocAlign - 1) &^ (allocAlign - 1), name: name}
	m.allocs = slices.Insert(m.allocs, i, a)
	m.mark(a.lo, a.hi, false)
	return globalBase + uint64(at), nil
}

// Free gives an allocation back.
func (m *Machine) Free(addr uint64) error {
	for i, a := range m.allocs {
		if globalBase+uint64(a.lo) == addr {
			m.allocs = slices.Delete(m.allocs, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("ptx: cannot free %#x: no allocation begins there", addr)
}

// Used is the number of bytes that allocations hold, without red zones.
func (m *Machine) Used() int {
	n := 0
	for _, a := range m.allocs {
		n += a.hi - a.lo
	}
	return n
}

// high is the end of the highest allocation, as an offset.
func (m *Machine) high() int {
	if n := len(m.allocs); n > 0 {
		return m.allocs[n-1].end
	}
	return 0
}

// find gives the allocation that holds an offset, or nil.
func (m *Machine) find(off int) *alloc {
	i, _ := slices.BinarySearchFunc(m.allocs, off+1, func(a *alloc, v int) int { return a.lo - v })
	if i == 0 || off >= m.allocs[i-1].hi {
		return nil
	}
	return m.allocs[i-1]
}

// span checks a range of a host call and gives its offset.
func (m *Machine) span(addr uint64, n int, what string) (int, error) {
	off := addr - globalBase
	if n < 0 || off >= uint64(len(m.mem)) {
		return 0, fmt.Errorf("ptx: cannot %s %d bytes at %#x: no such device memory", what, n, addr)
	}
	if n == 0 {
		return int(off), nil
	}
	a := m.find(int(off))
	if a == nil || int(off)+n > a.hi {
		return 0, fmt.Errorf("ptx: cannot %s %d bytes at %#x: %s", what, n, addr, m.where(int(off), n))
	}
	return int(off), nil
}

// where says how far n bytes at an offset lie from the nearest allocation.
func (m *Machine) where(off, n int) string {
	i, _ := slices.BinarySearchFunc(m.allocs, off+1, func(a *alloc, v int) int { return a.lo - v })
	title := func(a *alloc) string {
		if a.name != "" {
			return fmt.Sprintf("%s (%d bytes)", a.name, a.hi-a.lo)
		}
		return fmt.Sprintf("an allocation of %d bytes", a.hi-a.lo)
	}
	if i > 0 {
		if a := m.allocs[i-1]; i == len(m.allocs) || off+n-a.hi <= m.allocs[i].lo-off {
			return fmt.Sprintf("ends %d bytes past the end of %s", off+n-a.hi, title(a))
		}
	}
	if i < len(m.allocs) {
		return fmt.Sprintf("begins %d bytes before %s", m.allocs[i].lo-off, title(m.allocs[i]))
	}
	return "nothing is allocated"
}

// mark sets or clears the written bits of [lo,hi).
func (m *Machine) mark(lo, hi int, on bool) {
	for lo < hi {
		w, b := lo/32, lo%32
		n := min(32-b, hi-lo)
		bits := uint32(uint64(1)<<n-1) << b
		if on {
			m.init[w] |= bits
		} else {
			m.init[w] &^= bits
		}
		lo += n
	}
}

// unwritten gives the first offset in [lo,hi) that nobody has written, or -1.
func (m *Machine) unwritten(lo, hi int) int {
	for lo < hi {
		w, b := lo/32, lo%32
		n := min(32-b, hi-lo)
		if bits := uint32(uint64(1)<<n-1) << b; m.init[w]&bits != bits {
			for m.init[lo/32]>>(lo%32)&1 == 1 {
				lo++
			}
			return lo
		}
		lo += n
	}
	return -1
}

// Write copies b to the device.
func (m *Machine) Write(addr uint64, b []byte) error {
	off, err := m.span(addr, len(b), "write")
	if err != nil {
		return err
	}
	copy(m.mem[off:], b)
	m.mark(off, off+len(b), true)
	return nil
}

// Read copies from the device; with Checks it refuses bytes nobody has written.
func (m *Machine) Read(addr uint64, b []byte) error {
	off, err := m.span(addr, len(b), "read")
	if err != nil {
		return err
	}
	if i := m.unwritten(off, off+len(b)); i >= 0 && m.opt.Checks {
		return fmt.Errorf("ptx: cannot read %d bytes at %#x: byte %d was never written", len(b), addr, i-off)
	}
	copy(b, m.mem[off:])
	return nil
}

// ReadRaw is Read without that refusal.
func (m *Machine) ReadRaw(addr uint64, b []byte) error {
	off, err := m.span(addr, len(b), "read")
	if err == nil {
		copy(b, m.mem[off:])
	}
	return err
}

// Fill sets n bytes.
func (m *Machine) Fill(addr uint64, v byte, n int) error {
	off, err := m.span(addr, n, "fill")
	if err != nil {
		return err
	}
	b := m.mem[off : off+n]
	for i := range b {
		b[i] = v
	}
	m.mark(off, off+n, true)
	return nil
}

// Copy moves n bytes inside the device. What was unwritten stays so.
func (m *Machine) Copy(dst, src uint64, n int) error {
	s, err := m.span(src, n, "copy")
	if err != nil {
		return err
	}
	d, err := m.span(dst, n, "copy")
	if err != nil {
		return err
	}
	written := make([]bool, n)
	for i := range written {
		written[i] = m.init[(s+i)/32]>>((s+i)%32)&1 == 1
	}
	copy(m.mem[d:d+n], m.mem[s:s+n])
	for i, on := range written {
		m.mark(d+i, d+i+1, on)
	}
	return nil
}

// Load places a module's variables in the device.
func (m *Machine) Load(mod *Module) (*Loaded, error) {
	l := &Loaded{m: mod, owner: m, addrs: map[*variable]uint64{}}
	for _, v := range mod.vars {
		if v.size == 0 {
			continue
		}
		a, err := m.alloc(v.size, v.name)
		if err != nil {
			m.Unload(l)
			return nil, fmt.Errorf("ptx: cannot place %s: %w", v.name, err)
		}
		l.addrs[v] = a
	}
	for v, a := range l.addrs {
		b := make([]byte, v.size)
		copy(b, v.init)
		for _, r := range v.relocs {
			binary.LittleEndian.PutUint64(b[r.at:], l.addrs[mod.byName[r.sym]]+uint64(r.add))
		}
		if err := m.Write(a, b); err != nil {
			return nil, err
		}
		m.find(int(a - globalBase)).readOnly = v.space == spaceConst
	}
	return l, nil
}

// Unload frees a module's variables.
func (m *Machine) Unload(l *Loaded) error {
	if l.owner != m {
		return fmt.Errorf("ptx: cannot unload a module of another machine")
	}
	for v, a := range l.addrs {
		if err := m.Free(a); err != nil {
			return err
		}
		delete(l.addrs, v)
	}
	return nil
}

// Global finds a module-scope variable.
func (l *Loaded) Global(name string) (addr uint64, size int, ok bool) {
	v := l.m.byName[name]
	if v == nil || v.space == spaceShared {
		return 0, 0, false
	}
	a, ok := l.addrs[v]
	return a, v.size, ok
}

// Module is what was loaded.
func (l *Loaded) Module() *Module { return l.m }

// Contains tells whether n bytes at an address lie in one allocation or variable.
func (m *Machine) Contains(addr uint64, n int) bool {
	_, err := m.span(addr, n, "find")
	return err == nil
}
