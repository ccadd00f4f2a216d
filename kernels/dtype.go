package kernels

import "fmt"

// DType is the storage type of a tensor. The quantized types and their names
// are those of the GGUF format, but for the last three: what AWQ, GPTQ and FP8
// files hold, with the scale of a group brought beside every 32 values of a row.
type DType uint8

const (
	F32 DType = iota
	F16
	BF16
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	U4 // (q - zero)·scale: binary16 scale, zero, 16 bytes of nibbles as in Q4_0
	U8 // (q - zero)·scale: binary16 scale, zero, 32 bytes
	F8 // number·scale: float32 scale, 32 numbers of e4m3 (OCP 8-bit floating point, without infinities)
)

// layout is the block geometry of a type: Values numbers in Bytes bytes.
type layout struct {
	name          string
	values, bytes int
}

var layouts = [...]layout{
	F32:    {"F32", 1, 4},
	F16:    {"F16", 1, 2},
	BF16:   {"BF16", 1, 2},
	Q4_0:   {"Q4_0", 32, 18},
	Q4_1:   {"Q4_1", 32, 20},
	Q5_0:   {"Q5_0", 32, 22},
	Q5_1:   {"Q5_1", 32, 24},
	Q8_0:   {"Q8_0", 32, 34},
	Q2_K:   {"Q2_K", 256, 84},
	Q3_K:   {"Q3_K", 256, 110},
	Q4_K:   {"Q4_K", 256, 144},
	Q5_K:   {"Q5_K", 256, 176},
	Q6_K:   {"Q6_K", 256, 210},
	IQ4_NL: {"IQ4_NL", 32, 18},
	U4:     {"U4", 32, 19},
	U8:     {"U8", 32, 35},
	F8:     {"F8", 32, 36},
}

// DTypes lists all types.
func DTypes() []DType {
	all := make([]DType, len(layouts))
	for i := range all {
		all[i] = DType(i)
	}
	return all
}

// ParseDType finds a type by its name.
func ParseDType(name string) (DType, error) {
	for i, l := range layouts {
		if l.name == name {
			return DType(i), nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q", name)
}

func (t DType) String() string {
	if int(t) >= len(layouts) {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return layouts[t].name
}

// BlockValues is the number of values that a block holds.
func (t DType) BlockValues() int { return layouts[t].values }

// BlockBytes is the number of bytes of a block.
func (t DType) BlockBytes() int { return layouts[t].bytes }

// RowBytes is the size of a row of n values; n must be a multiple of BlockValues.
func (t DType) RowBytes(n int) int { return n / layouts[t].values * layouts[t].bytes }
