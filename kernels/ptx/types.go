package ptx

// typ is a fundamental or packed type of an instruction (ISA §5.2).
type typ uint8

const (
	tNone typ = iota
	tPred
	tB8
	tB16
	tB32
	tB64
	tU8
	tU16
	tU32
	tU64
	tS8
	tS16
	tS32
	tS64
	tF16
	tF16x2
	tBF16
	tBF16x2
	tF32
	tF64
	tTF32
	tU16x2
	tS16x2
)

var typeNames = map[string]typ{
	"pred": tPred, "b8": tB8, "b16": tB16, "b32": tB32, "b64": tB64,
	"u8": tU8, "u16": tU16, "u32": tU32, "u64": tU64, "s8": tS8, "s16": tS16, "s32": tS32, "s64": tS64,
	"f16": tF16, "f16x2": tF16x2, "bf16": tBF16, "bf16x2": tBF16x2, "f32": tF32, "f64": tF64, "tf32": tTF32,
	"u16x2": tU16x2, "s16x2": tS16x2,
}

var typeSizes = [...]int{
	tB8: 1, tU8: 1, tS8: 1, tB16: 2, tU16: 2, tS16: 2, tF16: 2, tBF16: 2,
	tB32: 4, tU32: 4, tS32: 4, tF32: 4, tF16x2: 4, tBF16x2: 4, tTF32: 4, tU16x2: 4, tS16x2: 4,
	tB64: 8, tU64: 8, tS64: 8, tF64: 8,
}

func (t typ) String() string {
	for n, v := range typeNames {
		if v == t {
			return n
		}
	}
	return "none"
}

// size in bytes; 0 for a predicate.
func (t typ) size() int { return typeSizes[t] }

func (t typ) bits() uint { return uint(t.size()) * 8 }

func (t typ) signed() bool { return t >= tS8 && t <= tS64 }

func (t typ) integer() bool { return t >= tU8 && t <= tS64 }

func (t typ) untyped() bool { return t >= tB8 && t <= tB64 }

func (t typ) float() bool { return t >= tF16 && t <= tTF32 }

// file is the register file that holds a value of the type.
func (t typ) file() file {
	switch {
	case t == tPred:
		return filePred
	case t.size() == 8:
		return file64
	}
	return file32
}

// file is one of the three register files of a warp.
type file uint8

const (
	file32   file = iota // 8, 16 and 32 bits; narrow values keep the bits above them zero
	file64               // 64 bits
	filePred             // one bit a lane
)

// space is a state space (ISA §5.1).
type space uint8

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceLocal
	spaceParam
	spaceConst
	spaceReg
)

var spaceNames = map[string]space{
	"global": spaceGlobal, "shared": spaceShared, "shared::cta": spaceShared, "local": spaceLocal, "param": spaceParam, "const": spaceConst,
}

func (s space) String() string {
	return [...]string{"generic", "global", "shared", "local", "param", "const", "reg"}[s]
}
