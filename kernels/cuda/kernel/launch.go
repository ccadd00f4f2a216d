// Package kernel says what the CUDA kernels take: for every op of a
// kernels.Program the launches that compute it, and the layouts in which weights
// lie in device memory. It knows neither the driver nor the interpreter that
// stands in for it in tests; both run a Launch.
package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Addr is an address in device memory; 0 is none.
type Addr uint64

// Dim is an extent in blocks or threads.
type Dim struct{ X, Y, Z uint32 }

// Launch is one launch of a kernel. All that changes from step to step lies in
// device memory, so that a launch may be captured once and replayed.
type Launch struct {
	Module string // the source file without .cu, which is the name of its PTX
	Name   string // the entry
	Grid   Dim
	Block  Dim
	Shared uint32 // bytes of dynamic shared memory
	Params Params
}

// Target is what launches depend on beside shapes. Results do not.
type Target struct {
	Compute int // compute capability × 10: 80, 86, 89, 90
	SMs     int // streaming multiprocessors
	Shared  int // bytes of shared memory that a block may opt in to
}

// Params are the parameters of an entry, packed as the driver wants them: each
// aligned to its size.
type Params struct {
	Data    []byte
	Offsets []int
}

// Pack lays out parameters of the types Addr, int32, uint32, float32 and int64.
// Another type is a fault of the caller and panics.
func Pack(args ...any) Params {
	var p Params
	for _, a := range args {
		switch v := a.(type) {
		case Addr:
			p.align(8)
			p.Data = binary.LittleEndian.AppendUint64(p.Data, uint64(v))
		case int64:
			p.align(8)
			p.Data = binary.LittleEndian.AppendUint64(p.Data, uint64(v))
		case int32:
			p.align(4)
			p.Data = binary.LittleEndian.AppendUint32(p.Data, uint32(v))
		case uint32:
			p.align(4)
			p.Data = binary.LittleEndian.AppendUint32(p.Data, v)
		case float32:
			p.align(4)
			p.Data = binary.LittleEndian.AppendUint32(p.Data, math.Float32bits(v))
		default:
			panic(fmt.Sprintf("kernel parameter of type %T", a))
		}
	}
	return p
}

func (p *Params) align(n int) {
	for len(p.Data)%n != 0 {
		p.Data = append(p.Data, 0)
	}
	p.Offsets = append(p.Offsets, len(p.Data))
}
