package selftest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"hearth/kernels"
)

type quantCase struct {
	Name   string    `json:"name"`
	Hex    string    `json:"hex"`
	F32Hex string    `json:"f32_hex"`
	Source []float32 `json:"source"`
}

// runQuants compares dequantized blocks bit for bit, and what our quantizer
// makes of the same source where the vectors say that it should be the same.
func runQuants(_ context.Context, t *run, path string) error {
	var f struct {
		Type        string      `json:"type"`
		BlockValues int         `json:"block_values"`
		BlockBytes  int         `json:"block_bytes"`
		Cases       []quantCase `json:"cases"`
	}
	if err := readJSON(path, &f); err != nil {
		return err
	}
	typ, err := kernels.ParseDType(f.Type)
	if err != nil {
		return skipf("the type %s is not served by this build", f.Type)
	}
	if typ.BlockValues() != f.BlockValues || typ.BlockBytes() != f.BlockBytes {
		return fmt.Errorf("a block has %d values in %d bytes, wanted %d in %d", typ.BlockValues(), typ.BlockBytes(), f.BlockValues, f.BlockBytes)
	}
	for i := range f.Cases {
		t.check(f.Cases[i].Name, f.Cases[i].run(typ))
	}
	return nil
}

func (c *quantCase) run(typ kernels.DType) string {
	src, err := hex.DecodeString(c.Hex)
	if err != nil {
		return err.Error()
	}
	want, err := hex.DecodeString(c.F32Hex)
	if err != nil {
		return err.Error()
	}
	got := make([]float32, len(want)/4)
	if err := kernels.Dequantize(got, typ, src); err != nil {
		return err.Error()
	}
	for i, g := range got {
		w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
		if math.Float32bits(g) != math.Float32bits(w) && !(g != g && w != w) {
			return fmt.Sprintf("value %d is %v, wanted %v", i, g, w)
		}
	}
	exact := typ == kernels.F16 || typ == kernels.BF16 || strings.HasPrefix(c.Name, "quantized-")
	if len(c.Source) == 0 || !exact {
		return ""
	}
	back := make([]byte, len(src))
	if err := kernels.Quantize(back, typ, c.Source); err != nil {
		return err.Error()
	}
	if !bytes.Equal(back, src) {
		return "quantizing the source gives other bytes"
	}
	return ""
}
