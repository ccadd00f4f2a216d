package ptx

import (
	"fmt"
	"math"
)

// bitsAs gives a literal's bits as a value of type t.
func (o operand) bitsAs(t typ) (uint64, error) {
	mask := uint64(1)<<t.bits() - 1
	if t.size() == 8 {
		mask = math.MaxUint64
	}
	switch o.kind {
	case opInt:
		if t == tF32 || t == tF64 {
			return 0, fmt.Errorf("got a whole number, wanted a literal of type %v", t)
		}
		return o.imm & mask, nil
	case opF32:
		switch t {
		case tF32, tB32:
			return o.imm, nil
		case tF64:
			return math.Float64bits(float64(math.Float32frombits(uint32(o.imm)))), nil
		}
	case opF64:
		switch t {
		case tF64, tB64:
			return o.imm, nil
		case tF32:
			return uint64(math.Float32bits(float32(math.Float64frombits(o.imm)))), nil
		}
	}
	return 0, fmt.Errorf("got a literal that is no %v", t)
}

// special is a register that the machine provides (ISA §10).
type special uint8

const (
	spNone special = iota
	spTidX
	spTidY
	spTidZ
	spNtidX
	spNtidY
	spNtidZ
	spCtaidX
	spCtaidY
	spCtaidZ
	spNctaidX
	spNctaidY
	spNctaidZ
	spLaneid
	spWarpid
	spNwarpid
	spSmid
	spNsmid
	spGridid
	spLaneEq
	spLaneLe
	spLaneLt
	spLaneGe
	spLaneGt
	spDynShared
	spTotalShared
	spClock
	spClockHi
	spClock64
	spGlobaltimer
)

var specialNames = map[string]special{
	"%tid.x": spTidX, "%tid.y": spTidY, "%tid.z": spTidZ, "%ntid.x": spNtidX, "%ntid.y": spNtidY, "%ntid.z": spNtidZ,
	"%ctaid.x": spCtaidX, "%ctaid.y": spCtaidY, "%ctaid.z": spCtaidZ, "%nctaid.x": spNctaidX, "%nctaid.y": spNctaidY, "%nctaid.z": spNctaidZ,
	"%laneid": spLaneid, "%warpid": spWarpid, "%nwarpid": spNwarpid, "%smid": spSmid, "%nsmid": spNsmid, "%gridid": spGridid,
	"%lanemask_eq": spLaneEq, "%lanemask_le": spLaneLe, "%lanemask_lt": spLaneLt, "%lanemask_ge": spLaneGe, "%lanemask_gt": spLaneGt,
	"%dynamic_smem_size": spDynShared, "%total_smem_size": spTotalShared,
	"%clock": spClock, "%clock_hi": spClockHi, "%clock64": spClock64, "%globaltimer": spGlobaltimer,
}

// file of a special register: the clocks of 64 bits are wide.
func (s special) file() file {
	if s == spClock64 || s == spGlobaltimer || s == spGridid {
		return file64
	}
	return file32
}
