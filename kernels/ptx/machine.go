package ptx

import "errors"

// Machine is one imaginary device. Its methods may not be used at the same time.
type Machine struct{ opt Options }

// Loaded is a module with its variables placed in a Machine's memory.
type Loaded struct{ m *Module }

// Module is one parsed PTX file.
type Module struct{}

type function struct{}

var errSoon = errors.New("ptx: not there yet")

// Parse reads and decodes one module. The error names the line.
func Parse(src []byte) (*Module, error) { return nil, errSoon }

// Kernel finds an entry point.
func (m *Module) Kernel(name string) (*Kernel, bool) { return nil, false }

// Kernels lists the entry points in the order of the text.
func (m *Module) Kernels() []*Kernel { return nil }

// NewMachine makes a device.
func NewMachine(opt Options) *Machine { return &Machine{opt} }

// Alloc reserves n bytes at a multiple of 256.
func (m *Machine) Alloc(n int) (uint64, error) { return 0, errSoon }

// Free gives an allocation back.
func (m *Machine) Free(addr uint64) error { return errSoon }

// Write copies b to the device.
func (m *Machine) Write(addr uint64, b []byte) error { return errSoon }

// Read copies from the device; with Checks it refuses bytes nobody has written.
func (m *Machine) Read(addr uint64, b []byte) error { return errSoon }

// ReadRaw is Read without that refusal.
func (m *Machine) ReadRaw(addr uint64, b []byte) error { return errSoon }

// Fill sets n bytes.
func (m *Machine) Fill(addr uint64, v byte, n int) error { return errSoon }

// Copy moves n bytes inside the device.
func (m *Machine) Copy(dst, src uint64, n int) error { return errSoon }

// Load places a module's variables in the device.
func (m *Machine) Load(mod *Module) (*Loaded, error) { return nil, errSoon }

// Unload frees them.
func (m *Machine) Unload(l *Loaded) error { return errSoon }

// Global finds a module-scope variable.
func (l *Loaded) Global(name string) (addr uint64, size int, ok bool) { return 0, 0, false }

// Launch runs a kernel to its end.
func (m *Machine) Launch(l *Loaded, name string, grid, block Dim, shared uint32, params []byte) (*Report, error) {
	return nil, errSoon
}
